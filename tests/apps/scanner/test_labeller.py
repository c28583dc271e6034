"""The gateway's labels are those of the trained network, on the very slices that came, and can be looked at."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from fredholm.apps.scanner.faults import StoppedError
from fredholm.apps.scanner.labeller import Labeller
from fredholm.apps.scanner.page import StatusPage
from fredholm.pipelines.dicom import SeriesError, find_series, read_series
from fredholm.pipelines.dicom.frames import from_frames
from fredholm.pipelines.dicom.segments import read_segmentation
from fredholm.pipelines.dicom.source import source_headers
from fredholm.pipelines.gateway.completeness import Arrivals
from fredholm.pipelines.gateway.jobs import Jobs
from fredholm.pipelines.gateway.spool import Limits
from fredholm.pipelines.gateway.states import snapshot
from fredholm.pipelines.run import Run
from helpers.browser import started_chromium, strict_tab
from helpers.dicom import ct_series, save
from helpers.gateway import arrival, spool
from helpers.pacs import Orthanc, free_port
from helpers.scanner import call, send, until
from helpers.segment import PLAN, says
from helpers.segment import fredholm as command
from helpers.serving import environment

SHAPE = (24, 20, 16)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with new weights, which finds something of everything."""
    torch.manual_seed(1)
    made = Run.create(tmp_path_factory.mktemp("run") / "organs", PLAN)
    made.save_weights(PLAN.network.build(len(PLAN.names)).state_dict())
    return made.folder


def test_what_is_sent_is_what_the_network_says(tmp_path: Path, run: Path) -> None:
    save(ct_series(shape=SHAPE), tmp_path / "scan")
    (tmp_path / "out").mkdir()
    labeller = Labeller(run, "cpu", threading.Event())
    (path,) = labeller(tmp_path / "scan", tmp_path / "out")
    series = find_series(tmp_path / "scan").only()
    expected, source = labeller.predictor.label(read_series(series)), source_headers(series)
    found = read_segmentation(path, source)
    assert len(np.unique(expected)) > 1
    numbers = {name: label for label, name in PLAN.names.items()}
    labels = np.zeros_like(found.labels)
    for number, segment in found.segments.items():
        labels[found.labels == number] = numbers[segment.label]
    np.testing.assert_array_equal(from_frames(labels, series, source), expected)


def test_the_status_page_leads_to_a_view_of_what_was_labelled(tmp_path: Path, run: Path) -> None:
    here = spool(tmp_path, Limits(free_bytes=1))
    for image in ct_series(shape=SHAPE):
        here.keep(arrival(image), "a", 0.0)
    Arrivals(here).released("a")
    labeller = Labeller(run, "cpu", threading.Event(), view=True)
    Arrivals(here).judge(image.SeriesInstanceUID, labeller.check, 0.0)
    job = Jobs(here).next(0.0)
    assert job is not None
    assert [path.suffix for path in Jobs(here).run(job, labeller, lambda: 0.0)] == [".dcm"]
    page = StatusPage(0, lambda: snapshot(here.index, here.root), dict)
    page.start()
    with started_chromium() as browser, strict_tab(browser) as tab:
        tab.goto(f"http://127.0.0.1:{page.port}/")
        tab.get_by_role("link", name="view").click()
        tab.wait_for_selector("body[data-state=ready]", timeout=120_000)
        assert tab.inner_text("h1") == image.SeriesInstanceUID
        assert tab.locator("td button").count() > 0
        tab.go_back()
        tab.get_by_role("link", name="slices").click()
        assert tab.locator("img").count() == 1
    page.stop()


def test_a_series_with_a_gap_is_found_out_before_anything_is_done(tmp_path: Path, run: Path) -> None:
    slices = ct_series(shape=SHAPE)
    save([*slices[:5], *slices[6:]], tmp_path / "scan")
    with pytest.raises(SeriesError, match="MISSING_SLICES"):
        Labeller(run, "cpu", threading.Event()).check(tmp_path / "scan")


def test_it_gives_up_at_the_next_window_when_the_gateway_stops(tmp_path: Path, run: Path) -> None:
    save(ct_series(shape=SHAPE), tmp_path / "scan")
    (tmp_path / "out").mkdir()
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        Labeller(run, "cpu", stop)(tmp_path / "scan", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.slow
def test_the_command_serves_and_ends_at_a_polite_kill(tmp_path: Path, run: Path, pacs: Orthanc) -> None:
    port = free_port()
    store = {"name": "pacs", "ae_title": "TESTPACS", "host": "127.0.0.1", "port": pacs.dicom}
    (tmp_path / "gateway.yaml").write_text(
        yaml.safe_dump(
            {
                "folder": str(tmp_path / "spool"),
                "run": str(run),
                "listen": {"calling": ["CT1"], "port": port, "free_gb": 0.001},
                "c_store": [store],
                "quiet_s": 0.2,
                "page_port": 0,
                "device": "cpu",
            }
        )
    )
    arguments = [sys.executable, "-m", "fredholm.apps.cli", "scanner", "serve", "--config"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*arguments, str(tmp_path / "gateway.yaml")], stdout=log, stderr=log, env=environment(), cwd=os.sep
        )
    try:
        until(lambda: "serves on" in (tmp_path / "log").read_text() or process.poll(), "it serves", 120)
        association = call(port)
        assert association.is_established, (tmp_path / "log").read_text()
        send(association, ct_series(shape=SHAPE))
        association.release()
        until(pacs.segmentations, "the PACS has it", 120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
    told = (tmp_path / "log").read_text()
    assert "stopping" in told.splitlines()
    assert told.endswith("stopped\n")
    assert "Traceback" not in told
    assert "warning" not in told


def test_a_users_mistakes_are_one_line(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gateway.yaml"
    says(capsys, str(path), code=command("scanner", "serve", "--config", path))
    path.write_text("folder: x\n")
    says(capsys, "missing key 'run', missing key 'listen'", code=command("scanner", "serve", "--config", path))
    content = {"folder": str(tmp_path / "spool"), "run": str(tmp_path / "absent"), "listen": {"calling": ["CT1"]}}
    path.write_text(yaml.safe_dump(content))
    says(capsys, "no run at", code=command("scanner", "serve", "--config", path))
    says(capsys, "no gateway has served from", code=command("scanner", "status", "--config", path))
    assert not (tmp_path / "spool").exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path.write_text(yaml.safe_dump({**content, "run": str(run), "listen": {"calling": ["CT1"], "port": port}}))
        says(capsys, f"cannot serve on 127.0.0.1 port {port}", code=command("scanner", "serve", "--config", path))
