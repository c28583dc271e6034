"""A slip of the pen in the gateway's file is one line that names it, and nothing is open to the network by accident."""

from pathlib import Path

import pytest
import yaml
from fredholm.apps.scanner.config import CT, Config, Store, Tls, Web, is_loopback
from fredholm.pipelines.gateway.outbox import Retries
from fredholm.pipelines.gateway.spool import Limits

LEAST = {"folder": "SPOOL", "run": "RUN", "listen": {"calling": ["CT1"]}}
TLS = {"authorities": "ca.pem", "certificate": "own.pem", "key": "own.key"}
FULL = {
    "folder": "/var/lib/gateway",
    "run": "/opt/run",
    "listen": {
        "calling": ["CT1", "CT2"],
        "ae_title": "SEG",
        "host": "10.0.0.5",
        "port": 104,
        "tls": TLS,
        "sop_classes": ["1.2.840.10008.5.1.4.1.1.2"],
        "timeout_s": 30,
        "associations": 4,
        "object_mb": 100,
        "free_gb": 10,
    },
    "c_store": [
        {"name": "pacs", "ae_title": "PACS", "host": "pacs.hospital", "port": 104, "tls": TLS, "results": False}
    ],
    "stow_rs": [{"name": "web", "url": "https://pacs.hospital/dicom-web", "authorization": "token", "tls": TLS}],
    "quiet_s": 120,
    "keep_days": 30,
    "retries": {"attempts": 5, "first_s": 1, "longest_s": 60},
    "page_port": 0,
    "device": "cpu",
}


def read(folder: Path, content: object) -> Config:
    path = folder / "gateway.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return Config.read(path)


def says(folder: Path, content: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read(folder, content)
    assert "\n" not in str(caught.value)
    assert str(folder / "gateway.yaml") in str(caught.value)


def listening(**changes: object) -> dict:
    return {**LEAST, "listen": {**LEAST["listen"], **changes}}


def test_three_keys_are_enough_and_serve_this_machine_alone(tmp_path: Path) -> None:
    config = read(tmp_path, LEAST)
    assert (config.listen.host, config.listen.ae_title, config.listen.calling) == ("127.0.0.1", "FREDHOLM", ("CT1",))
    assert config.listen.sop_classes == CT
    assert config.quiet_s == 60
    assert config.spool_folder == Path("SPOOL")


def test_every_key_is_taken(tmp_path: Path) -> None:
    config = read(tmp_path, FULL)
    tls = Tls(**TLS)
    assert config.c_store == (
        Store(name="pacs", ae_title="PACS", host="pacs.hospital", port=104, tls=tls, results=False),
    )
    url = "https://pacs.hospital/dicom-web"
    assert config.stow_rs == (Web(name="web", url=url, authorization="token", tls=tls),)
    assert config.retries == Retries(attempts=5, first_s=1, longest_s=60)
    assert config.listen.limits == Limits(100 << 20, 10 << 30)
    assert config.archive("web") == config.stow_rs[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "is no YAML file"),
        ("- a", "expected keys and values, got list"),
        ({**LEAST, "fodler": "x"}, "unknown key 'fodler'; known are folder, run, listen"),
        ({"folder": "x"}, "missing key 'run', missing key 'listen'"),
        ({**LEAST, "folder": ""}, "folder is a text, not ''"),
        ({**LEAST, "listen": None}, "listen is missing"),
        ({**LEAST, "listen": []}, "listen is missing"),
        (listening(calling=[]), "listen: calling is a list of AE titles that may send"),
        (listening(calling="CT1"), "listen: calling is a list"),
        (listening(calling=["A_TITLE_OF_17_CHR"]), "1 to 16 ASCII characters, not 'A_TITLE_OF_17_CHR'"),
        (listening(calling=[7]), "1 to 16 ASCII characters, not 7"),
        (listening(port=0), "listen: port is a whole number from 1 to 65535, not 0"),
        (listening(port="104"), "port is a whole number from 1 to 65535, not '104'"),
        (listening(port=True), "port is a whole number"),
        (listening(timeout_s=0), "timeout_s is a number"),
        (listening(sop_classes=["CT"]), "sop_classes is a list of UIDs"),
        (listening(plain_network="yes"), "plain_network is true or false, not 'yes'"),
        (listening(tls={"key": "x"}), "listen: tls: missing key 'authorities', missing key 'certificate'"),
        ({**LEAST, "c_store": [{"name": "a"}]}, "c_store: 1: missing key 'ae_title', missing key 'host'"),
        ({**LEAST, "c_store": ["pacs"]}, "c_store: 1: expected keys and values, got str"),
        ({**LEAST, "c_store": FULL["c_store"][0]}, "c_store is a list of archives"),
        ({**LEAST, "stow_rs": [{"name": "a", "url": "pacs"}]}, "stow_rs: 1: url starts with https:// or http://"),
        ({**LEAST, "stow_rs": [{"name": "a", "url": "http://a"}] * 2}, "each archive needs a name of its own"),
        ({**LEAST, "retries": None}, "retries is empty"),
        ({**LEAST, "retries": {"attempts": 0}}, "retries: attempts is a whole number of 1 or more, not 0"),
        ({**LEAST, "retries": {"first_s": "1"}}, "retries: first_s is a number"),
        ({**LEAST, "keep_days": -1}, "keep_days is a number"),
        ({**LEAST, "quiet_s": float("nan")}, "quiet_s is a number"),
    ],
)
def test_a_slip_is_named(tmp_path: Path, content: object, words: str) -> None:
    says(tmp_path, content, words)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "gateway.hospital", ""])
def test_the_network_is_not_served_without_tls_unless_somebody_says_so(tmp_path: Path, host: str) -> None:
    says(tmp_path, listening(host=host), "can be reached from other machines" if host else "host is a text")
    if host:
        assert read(tmp_path, listening(host=host, plain_network=True)).listen.host == host
        assert read(tmp_path, listening(host=host, tls=TLS)).listen.tls == Tls(**TLS)


def test_this_machines_own_addresses_are_known() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "localhost.evil.example", "128.0.0.1"))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Config.read(tmp_path / "absent.yaml")


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tls: cannot read these as PEM files \(ca\.pem, own\.pem, own\.key\)"):
        Tls(**TLS).server()
    (tmp_path / "x").write_text("no certificate")
    with pytest.raises(ValueError, match="tls: cannot read these as PEM files"):
        Tls(**dict.fromkeys(TLS, str(tmp_path / "x"))).client()


def test_an_unknown_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no archive 'x' in the configuration, known are: pacs, web"):
        read(tmp_path, FULL).archive("x")
