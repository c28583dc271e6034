"""From a scanner through the gateway to a real PACS, through kills and broken peers, and nothing is lost."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import yaml
from fredholm.apps.cli import main
from helpers import serving
from helpers.gateway import SECRETS, ct, on_disk, uid
from helpers.pacs import WITHOUT_PROXY, Orthanc, Wire, free_port
from helpers.scanner import call, program, send, send_series, until, with_meta
from pydicom import dcmread

SUCCESS = 0


class Served:
    """A gateway's process, its configuration and its log."""

    def __init__(self, folder: Path, pacs: Orthanc | None, **options: object) -> None:
        self.folder, self.spool, self.port, self.page = folder, folder / "spool", free_port(), free_port()
        self.process: BaseProcess | None = None
        folder.mkdir()
        stored = {"name": "pacs", "ae_title": "TESTPACS", "host": "127.0.0.1", "port": pacs.dicom if pacs else 1}
        self.content = {
            "folder": str(self.spool),
            "run": "RUN",
            "listen": {"calling": ["CT1"], "port": self.port, "free_gb": 0.001, "timeout_s": 20},
            "c_store": [stored] if pacs else [],
            "quiet_s": 0.2,
            "page_port": self.page,
            "ready_mb": 1,
            "retries": {"attempts": 40, "first_s": 0.2, "longest_s": 0.5},
            **options,
        }
        self.config = folder / "gateway.yaml"

    def start(self, **changes: object) -> None:
        self.config.write_text(yaml.safe_dump({**self.content, **changes}))
        (self.folder / "log").touch()
        count = self.log.count("serves on")
        self.process = serving.process(self.config, self.folder / "log")
        self.process.start()
        until(lambda: self.alive and self.log.count("serves on") > count, "the gateway serves", 60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.join()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        self.process.join(60)
        assert self.process.exitcode is not None, self.log
        return self.process.exitcode

    @property
    def alive(self) -> bool:
        assert self.process is not None
        assert self.process.is_alive(), self.log
        return True

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def get(self, path: str = "/status.json") -> str:
        with WITHOUT_PROXY.open(f"http://127.0.0.1:{self.page}{path}", timeout=20) as answer:
            return answer.read().decode()

    def states(self) -> dict[str, str]:
        return {one["uid"]: one["state"] for one in json.loads(self.get())["series"]}

    def reason(self, series: int) -> str:
        (found,) = [one["reason"] for one in json.loads(self.get())["series"] if one["uid"] == uid(series)]
        return found

    def wait(self, state: str, *series: int) -> None:
        until(lambda: all(self.states().get(uid(one)) == state for one in series), f"{series} are {state}", 60)


@contextmanager
def served(folder: Path, pacs: Orthanc | None = None, **options: object) -> Iterator[Served]:
    made = Served(folder, pacs, **options)
    try:
        yield made
    finally:
        if made.process is not None and made.process.is_alive():
            made.kill()


def references(segmentations: list[bytes]) -> list[str]:
    """The series that each SEG is of, in order."""
    return sorted(dcmread(BytesIO(one)).ReferencedSeriesSequence[0].SeriesInstanceUID for one in segmentations)


def test_a_series_comes_in_and_one_segmentation_goes_out(tmp_path: Path, pacs: Orthanc) -> None:
    web = [{"name": "web", "url": pacs.web}]
    with served(tmp_path / "gateway", pacs, stow_rs=web) as here:
        here.start()
        assert send_series(here.port, 1, range(5)) == [SUCCESS] * 5
        here.wait("done", 1)
        assert references(pacs.segmentations()) == [uid(1)]
        (found,) = [dcmread(BytesIO(one)) for one in pacs.segmentations()]
        assert found.PatientID == SECRETS[3]
        assert found.NumberOfFrames == 2  # 3 and 4 HU are above the threshold
        assert here.log.count("to pacs: sent") == here.log.count("to web: sent") == 1
        # the same series again is nothing new
        send_series(here.port, 1, range(5))
        until(lambda: here.log.count("whole") == 2, "it is judged again")
        assert len(pacs.segmentations()) == 1
        assert 'fredholm_gateway_objects_total{outcome="repeated"} 5' in here.get("/metrics")
        assert 'fredholm_gateway_deliveries_total{outcome="web_sent"} 1' in here.get("/metrics")
        assert here.stop() == 0
        assert here.log.endswith("stopping\nstopped\n")
        assert not any(secret in here.log for secret in SECRETS)


def kill_while_receiving(here: Served) -> None:
    here.start()
    send_series(here.port, 2, range(4))
    here.wait("done", 2)
    association = call(here.port)
    assert send(association, [ct(1, number) for number in range(3)]) == [SUCCESS] * 3
    here.kill()
    here.start()
    here.wait("held", 1)
    assert "an association broke" in here.reason(1)
    send_series(here.port, 1, range(5))


def kill_between_spool_and_job(here: Served) -> None:
    here.start(quiet_s=600)
    for series in (1, 2):
        send_series(here.port, series, range(5))
    until(lambda: set(here.states().values()) == {"waiting"}, "both wait")
    here.kill()
    here.start()


def kill_during_inference(here: Served) -> None:
    here.spool.mkdir()
    (here.spool / "slow").touch()
    here.start()
    for series in (1, 2):
        send_series(here.port, series, range(5))
    until((here.spool / "begun").exists, "the network runs")
    here.kill()
    (here.spool / "slow").unlink()
    here.start()


def kill_during_send(here: Served, wire: Wire) -> None:
    wire.withhold.set()
    here.start()
    for series in (1, 2):
        send_series(here.port, series, range(5))
    assert wire.withheld.wait(60)  # the PACS has it, and the gateway will not hear of that
    here.kill()
    wire.withhold.clear()
    here.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    "story", [kill_while_receiving, kill_between_spool_and_job, kill_during_inference, kill_during_send]
)
def test_after_a_kill_every_whole_series_ends_with_one_segmentation(
    tmp_path: Path, pacs: Orthanc, story: Callable[..., None]
) -> None:
    wire = Wire(pacs.dicom)
    with served(tmp_path / "gateway", pacs) as here:
        here.content["c_store"] = [{"name": "pacs", "ae_title": "TESTPACS", "host": "127.0.0.1", "port": wire.port}]
        story(here, wire) if story is kill_during_send else story(here)
        here.wait("done", 1, 2)
        assert references(pacs.segmentations()) == [uid(1), uid(2)]
        assert here.stop() == 0
    wire.close()


@pytest.mark.slow
def test_a_kill_at_any_moment_of_receiving_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with served(tmp_path / "gateway") as here:
        for moment in range(3):
            here.start()
            association, acknowledged = call(here.port), []
            for number in range(400):
                if number == 5 + 7 * moment:
                    killer = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.0{moment}; kill -9 {here.process.pid}"])  # pyright: ignore
                answer = association.send_c_store(with_meta(ct(10 + moment, number, side=64)))
                if answer.get("Status") != SUCCESS:
                    break
                acknowledged.append(number)
            killer.wait()
            here.process.join()  # pyright: ignore
            assert len(acknowledged) < 400
            found = on_disk(here.spool)
            for number in acknowledged:
                assert found[uid(10 + moment, number)] == ct(10 + moment, number, side=64)
        here.start()
        here.wait("held", 10, 11, 12)


@pytest.mark.slow
def test_a_pacs_that_is_down_for_a_while_gets_everything_when_it_is_back(tmp_path: Path, pacs: Orthanc) -> None:
    with served(tmp_path / "gateway", pacs, stow_rs=[{"name": "web", "url": pacs.web}]) as here:
        here.start()
        pacs.stop()
        for series in (1, 2):
            send_series(here.port, series, range(5))
        until(lambda: here.log.count("nobody answers") >= 4, "both receivers were tried")
        assert set(here.states().values()) <= {"sending", "queued", "running"}
        pacs.start()
        here.wait("done", 1, 2)
        assert references(pacs.segmentations()) == [uid(1), uid(2)]


def test_a_receiver_that_refuses_is_given_up_and_tried_again_when_asked(
    tmp_path: Path, pacs: Orthanc, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"name": "pacs", "ae_title": "OTHER", "host": "127.0.0.1", "port": pacs.dicom}
    with served(tmp_path / "gateway", pacs) as here:
        here.start(c_store=[wrong], retries={"attempts": 2, "first_s": 0.1})
        send_series(here.port, 1, range(5))
        here.wait("undelivered", 1)
        # a receiver may close before its refusal was read
        assert here.reason(1) in ("the association was refused", "nobody answers")
        here.stop()
        here.start()
        assert main(["scanner", "retry", uid(1), "--config", str(here.config)]) == 0
        here.wait("done", 1)
        assert len(pacs.segmentations()) == 1


def test_what_cannot_be_labelled_is_held_or_fails_by_name_and_others_go_on(tmp_path: Path) -> None:
    broken = ct(2, 3)
    broken.PixelData = broken.PixelData[:10]
    with served(tmp_path / "gateway") as here:
        here.start()
        send_series(here.port, 1, [0, 1, 2, 4, 5])
        association = call(here.port)
        send(association, [ct(2, 1), ct(2, 2), broken])
        association.release()
        send_series(here.port, 3, range(4))
        here.wait("held", 1)
        assert here.reason(1).startswith("MISSING_SLICES")
        until(lambda: here.states()[uid(2)] in ("held", "failed"), "the damaged one is found")
        assert here.reason(2).startswith("DAMAGED_FILE")
        here.wait("done", 3)


def test_a_person_sees_the_states_and_can_delete(
    tmp_path: Path, pacs: Orthanc, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "gateway", pacs) as here:
        here.start()
        send_series(here.port, 1, range(5))
        here.wait("done", 1)
        command = ["scanner", "status", "--config", str(here.config)]
        assert main(command) == 0
        assert capsys.readouterr().out.splitlines()[2].split()[:3] == [uid(1), "done", "5"]
        assert main([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["counts"]["done"] == 1
        assert main([*command, "--prometheus"]) == 0
        assert 'fredholm_gateway_series{state="done"} 1' in capsys.readouterr().out
        assert uid(1) in here.get("/")
        assert main(["scanner", "delete", uid(1), "--config", str(here.config)]) == 0
        assert here.states() == {}
        assert not list((here.spool / "results").iterdir())
        assert main(["scanner", "delete", uid(1), "--config", str(here.config)]) == 1
        assert "is known here" in capsys.readouterr().err


def test_a_second_gateway_on_the_same_folder_is_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "gateway") as here:
        here.start()
        (tmp_path / "other.yaml").write_text(
            yaml.safe_dump({**here.content, "page_port": 0, "listen": {"calling": ["CT1"], "port": free_port()}})
        )
        other = subprocess.run(
            [sys.executable, serving.__file__, str(tmp_path / "other.yaml")], capture_output=True, text=True, timeout=60
        )
        assert other.returncode != 0
        assert "another gateway serves from" in other.stderr


@pytest.mark.slow
def test_ten_series_from_four_associations_all_end_right(tmp_path: Path, pacs: Orthanc) -> None:
    with served(tmp_path / "gateway", pacs, quiet_s=1.0) as here:
        here.start()
        associations = [call(here.port) for _ in range(4)]
        for number in range(6):
            for series in range(1, 11):
                assert send(associations[series % 4], [ct(series, number)]) == [SUCCESS]
        for association in associations:
            association.release()
        here.wait("done", *range(1, 11))
        assert references(pacs.segmentations()) == sorted(uid(series) for series in range(1, 11))


def test_the_page_is_for_this_machine_and_for_looking_only(tmp_path: Path) -> None:
    with served(tmp_path / "gateway") as here:
        here.start()
        for path, host, code in (("/", "evil.example", 403), ("/../etc/passwd", None, 404), ("/series", None, 404)):
            request = urllib.request.Request(f"http://127.0.0.1:{here.page}{path}")
            if host:
                request.add_header("Host", host)
            with pytest.raises(urllib.error.HTTPError) as caught:
                WITHOUT_PROXY.open(request, timeout=20)
            assert caught.value.code == code
            caught.value.close()
        with pytest.raises(urllib.error.HTTPError) as caught:
            WITHOUT_PROXY.open(urllib.request.Request(f"http://127.0.0.1:{here.page}/", b"x"), timeout=20)
        assert caught.value.code == 501
        caught.value.close()


def test_dcmtk_as_the_scanner_and_as_the_pacs(tmp_path: Path) -> None:
    (tmp_path / "scan").mkdir()
    (tmp_path / "received").mkdir()
    for number in range(4):
        with_meta(ct(1, number)).save_as(tmp_path / "scan" / f"{number}.dcm", enforce_file_format=True)
    port = free_port()
    taking = subprocess.Popen([program("storescp"), "-aet", "STORE", "-od", str(tmp_path / "received"), str(port)])
    try:
        store = [{"name": "dcmtk", "ae_title": "STORE", "host": "127.0.0.1", "port": port}]
        with served(tmp_path / "gateway", c_store=store) as here:
            here.start()
            command = [program("storescu"), "-aet", "CT1", "-aec", "FREDHOLM", "127.0.0.1", str(here.port)]
            subprocess.run([*command, "+sd", str(tmp_path / "scan")], check=True, timeout=60)
            here.wait("done", 1)
        (received,) = (tmp_path / "received").iterdir()
        assert dcmread(received).Modality == "SEG"
    finally:
        taking.terminate()
        taking.wait(20)
