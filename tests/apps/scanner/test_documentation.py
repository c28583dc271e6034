"""What docs/scanner.md says can be typed in as it stands there, and leaves nothing out."""

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from fredholm.apps.cli import main
from fredholm.apps.scanner.config import Config, Listen, Store, Tls, Web
from fredholm.apps.scanner.page import as_prometheus
from fredholm.apps.scanner.receiver import NOT_UNDERSTOOD, STATUS
from fredholm.pipelines.gateway.outbox import Retries
from fredholm.pipelines.gateway.states import STATES, snapshot
from helpers.gateway import brought, ct, kept, spool, uid
from helpers.pacs import Orthanc
from helpers.scanner import gate, program, with_meta

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "scanner.md").read_text(encoding="utf-8")
SERIES = "1.2.840.113619.2.5"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


def commands(program: str) -> list[str]:
    return re.findall(rf"^    ({program} .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text(block("yaml").replace("/var/lib/fredholm/gateway", str(tmp_path / "spool")))
    return path


def test_the_configuration_is_taken_as_it_stands(config: Path) -> None:
    read = Config.read(config)
    assert read.listen.tls == read.c_store[0].tls == read.stow_rs[0].tls
    assert read.run == "/opt/fredholm-runs/liver"


def test_the_configuration_has_every_key(config: Path) -> None:
    content = yaml.safe_load(config.read_text())
    listen, store, web = content["listen"], content["c_store"][0], content["stow_rs"][0]
    found = [content, listen, store, web, content["retries"], *(one["tls"] for one in (listen, store, web))]
    for given, kind in zip(found, [Config, Listen, Store, Web, Retries, Tls, Tls, Tls], strict=True):
        assert set(given) == {field.name for field in dataclasses.fields(kind)}, kind


def test_values_are_the_defaults_unless_the_page_says_otherwise(config: Path) -> None:
    least = {"folder": "x", "run": "x", "listen": {"calling": ["CT1"]}}
    config.with_name("least.yaml").write_text(yaml.safe_dump(least))
    default, read = Config.read(config.with_name("least.yaml")), Config.read(config)
    for record, given, said in (
        (default, read, {"folder", "run", "listen", "c_store", "stow_rs"}),
        (default.listen, read.listen, {"calling", "host", "tls"}),
    ):
        for field in dataclasses.fields(record):
            if field.name not in said:
                assert getattr(record, field.name) == getattr(given, field.name), field.name


def test_every_command_is_one(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = commands("fredholm")
    assert {line.split()[2] for line in found} == {"status", "fetch", "retry", "delete"}
    here = spool(tmp_path)
    brought(here, 1, range(3))
    for line in [line for line in found if line.split()[2] != "fetch"]:
        line = line.replace("/etc/fredholm/gateway.yaml", str(config)).replace(SERIES, uid(1))
        assert main(shlex.split(line)[1:]) == 0, line
    assert "fredholm_gateway_free_bytes" in capsys.readouterr().out
    here.close()


def test_every_way_of_fetching_is_one(tmp_path: Path, pacs: Orthanc) -> None:
    image = ct(1, 1)
    image.StudyInstanceUID = "1.2.840.113619.2.1"
    with_meta(image).save_as(tmp_path / "image.dcm", enforce_file_format=True)
    pacs.store((tmp_path / "image.dcm").read_bytes())
    with gate(tmp_path / "spool", calling=("TESTPACS",)) as here:
        pacs.know("gateway", "FREDHOLM", here.port)
        listen = {"calling": ["TESTPACS"], "free_gb": 1e-6}
        archive = {"name": "pacs", "ae_title": "TESTPACS", "host": "127.0.0.1", "port": pacs.dicom}
        web = {"name": "web", "url": pacs.web}
        content = {"folder": str(tmp_path / "spool"), "run": "RUN", "listen": listen}
        (tmp_path / "gateway.yaml").write_text(yaml.safe_dump({**content, "c_store": [archive], "stow_rs": [web]}))
        for line in [line for line in commands("fredholm") if line.split()[2] == "fetch"]:
            line = line.replace("/etc/fredholm", str(tmp_path)).replace("/tmp/scan", str(tmp_path / "scan"))
            assert main(shlex.split(line)[1:]) == 0, line
        assert kept(here.spool) == [uid(1, 1)]
    assert [path.stem for path in (tmp_path / "scan").rglob("*.dcm")] == [uid(1, 1)]


def test_the_service_starts_a_command_that_there_is(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (start,) = re.findall(r"^ExecStart=/opt/fredholm/bin/fredholm (.*)$", block("ini"), re.MULTILINE)
    assert main(start.replace("/etc/fredholm/gateway.yaml", str(config)).split()) == 1
    assert "no run at /opt/fredholm-runs/liver" in capsys.readouterr().err


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "fredholm.service"
    unit.write_text(block("ini").replace("/opt/fredholm/bin/fredholm", program("true")))
    checked = subprocess.run(
        [program("systemd-analyze"), "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert "fredholm.service" not in checked.stderr


def test_the_certificates_serve_the_gateway_and_a_scanner(tmp_path: Path) -> None:
    program("openssl")
    subprocess.run(["/bin/sh", "-e", "-c", block("sh")], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert (tmp_path / "gateway.key").stat().st_mode & 0o077 == 0
    authorities, certificate, key = (str(tmp_path / name) for name in ("ca.pem", "gateway.pem", "gateway.key"))
    tls = Tls(authorities=authorities, certificate=certificate, key=key)
    with_meta(ct(1, 1)).save_as(tmp_path / "image.dcm", enforce_file_format=True)
    (line,) = commands("storescu")
    with gate(tmp_path / "spool", tls=tls) as here:
        line = line.replace("gateway.hospital.example 11112", f"127.0.0.1 {here.port}")
        _, *arguments = shlex.split(line)
        subprocess.run([program("storescu"), *arguments], cwd=tmp_path, check=True, timeout=60)
        assert here.receiver.counts == {"new": 1}


def test_every_state_status_and_metric_is_explained(tmp_path: Path) -> None:
    assert all(f"`{state}`" in PAGE for state in STATES)
    assert all(f"0x{status:04X}" in PAGE for status in {NOT_UNDERSTOOD, *STATUS.values()})
    here = spool(tmp_path)
    shown = as_prometheus(snapshot(here.index, here.root), {"objects": {"new": 1}, "deliveries": {"pacs_sent": 1}})
    here.close()
    assert set(re.findall(r"fredholm_gateway_\w+", PAGE)) == set(re.findall(r"fredholm_gateway_\w+", shown))


def test_what_the_page_says_is_kept_is_what_lies_there(tmp_path: Path) -> None:
    here = spool(tmp_path)
    here.close()
    names = {path.name for path in here.root.iterdir() if not path.name.endswith(("-wal", "-shm"))}
    assert all(f"`{name}" in PAGE for name in names), names
