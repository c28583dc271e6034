"""The report of an evaluation shows the same scores as the command, the worst first, and never half of itself."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fredholm.apps.segment import cohort
from fredholm.pipelines.nifti import write_labels, write_volume
from fredholm.pipelines.volume import Volume, canonical
from helpers.browser import started_chromium
from helpers.segment import body, fredholm, names, says

pytestmark = pytest.mark.filterwarnings("default::UserWarning")
EVIL = "a&b <i>'x' #1?"  # a name that a file may have


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cases, of which the first is right, the second misses its liver, and the third has a part of both."""
    folder = tmp_path_factory.mktemp("data")
    for number, case in enumerate(("good", "bad", EVIL)):
        scan, truth = body(number)
        found = truth.copy()
        found[:: (1, 1, 2)[number]] *= (1, np.uint8(1), 0)[number]
        if case == "bad":
            found[found == 2] = 0
        for kind in ("scans", "truth", "found"):
            (folder / kind).mkdir(exist_ok=True)
        write_volume(folder / f"scans/{case}_0000.nii.gz", scan)
        write_labels(folder / f"truth/{case}.nii.gz", truth, like=scan)
        turned = canonical(Volume(found, scan.affine))  # predictions may be in another axis order
        write_labels(folder / f"found/{case}.nii.gz", turned.array, like=turned)
    (folder / "names.json").write_text('{"1": "spleen", "2": "liver", "3": "pancreas"}')
    return folder


def evaluate(data: Path, report: Path, *options: object) -> int:
    command = ("segment", "evaluate", data / "found", data / "truth", "--names", data / "names.json")
    return fredholm(*command, "--metrics", "dice", "hd_mm", "--report", report, *options)


@pytest.fixture(scope="module")
def pages(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    assert evaluate(data, folder / "report.html", "--scans", data / "scans") == 0
    return folder


def rows(page: str, table: int = 0) -> list[list[str]]:
    body = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)[table]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.splitlines() if row]


def test_there_is_a_page_for_all_and_one_for_each_case(pages: Path) -> None:
    assert names(pages) == sorted(["report.html", *(f"report_{case}.html" for case in ("good", "bad", EVIL))])


def test_the_scores_are_those_of_the_command(data: Path, pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("segment", "evaluate", data / "found", data / "truth", "--names", data / "names.json")
    assert fredholm(*command, "--metrics", "dice", "hd_mm") == 0
    lines = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()[2:5]]
    shown = rows((pages / "report.html").read_text())
    plain = [[re.sub("<.*?>", "", cell).replace("–", "-") for cell in row] for row in shown]
    assert [[row[0], row[1], row[3]] for row in plain] == lines
    assert re.fullmatch(r"0\.\d{3} to 1\.000", plain[0][2])
    case = rows((pages / "report_bad.html").read_text())
    assert case[1][:2] == ["liver", "0.000"]
    assert case[1][3:] == ["0.00", "0.64"]


def test_the_worst_cases_are_shown_first_with_what_is_wrong_with_them(pages: Path) -> None:
    page = (pages / "report.html").read_text()
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert [caption.split(":")[0] for caption in captions] == ["bad", "a&amp;b &lt;i&gt;&#x27;x&#x27; #1?", "good"]
    assert captions[0] == "bad: mean Dice 0.500; lowest: liver 0.000, spleen 1.000."
    assert page.count("data:image/png;base64,") == 3


def test_only_the_worst_are_kept(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cohort, "WORST", 1)
    assert evaluate(data, tmp_path / "r.html") == 0
    assert re.findall("<figcaption>(.*?):", (tmp_path / "r.html").read_text()) == ["bad"]
    assert "shown on black" in (tmp_path / "r_bad.html").read_text()


@pytest.fixture(scope="module")
def tab(pages: Path) -> Iterator:
    with started_chromium() as browser:
        tab = browser.new_page()
        tab.asked, tab.said = [], []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.goto((pages / "report.html").as_uri())
        yield tab


def column(tab, table: int, at: int) -> list[str]:
    found = tab.locator("table").nth(table).locator(f"tbody tr > :nth-child({at + 1})")
    return found.all_inner_texts()


def test_a_press_on_a_heading_sorts_and_another_turns_it_round(tab) -> None:
    for way, expected in (("ascending", ["liver", "spleen"]), ("descending", ["spleen", "liver"])):
        tab.locator("table").nth(0).get_by_role("button", name="Dice").click()
        order = column(tab, 0, 0)
        assert order == [*expected, "pancreas"]  # what nobody has is last either way
        assert tab.locator("th[aria-sort]").get_attribute("aria-sort") == way
    tab.locator("table").nth(1).get_by_role("button", name="HD mm").click()
    assert column(tab, 1, 2) == sorted(column(tab, 1, 2), key=float)
    tab.locator("table").nth(1).get_by_role("button", name="case").click()
    assert column(tab, 1, 0) == [EVIL, "bad", "good"]


def test_a_cases_name_leads_to_its_page_and_nothing_else_is_asked_for(tab, pages: Path) -> None:
    tab.get_by_role("link", name=EVIL).click()
    assert tab.locator("h1").inner_text() == EVIL
    tab.get_by_role("button", name="Dice").click()
    assert {url.split(":")[0] for url in tab.asked} <= {"file", "data"}
    assert tab.said == []


def test_pages_come_together_or_not_at_all(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.html").write_text("an earlier report")

    def broken(*_: object) -> None:
        raise OSError("broken disk")

    with monkeypatch.context() as patched:
        patched.setattr(cohort.CohortReport, "write", broken)
        assert evaluate(data, tmp_path / "r.html") == 1
    assert names(tmp_path) == ["r.html"]
    assert (tmp_path / "r.html").read_text() == "an earlier report"


def test_mistakes_are_told_before_the_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fredholm.apps.segment.evaluate.read_labels", None)  # nothing may be read
    says(capsys, "r.pdf", ".html", code=evaluate(data, tmp_path / "r.pdf"))
    says(capsys, "no such folder", code=evaluate(data, tmp_path / "absent/r.html"))
    says(capsys, "no such file", code=evaluate(data, tmp_path / "r.html", "--scans", tmp_path / "absent"))
    one = data / "scans/good_0000.nii.gz"
    says(capsys, "give a folder", code=evaluate(data, tmp_path / "r.html", "--scans", one))
    code = fredholm("segment", "evaluate", data / "found", data / "truth", "--scans", data / "scans")
    says(capsys, "give --report too", code=code)
    assert names(tmp_path) == []


def test_a_scan_on_another_grid_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(data / "scans", tmp_path / "scans")
    write_volume(tmp_path / "scans/good_0000.nii.gz", body(0, (24, 20, 27))[0])
    code = evaluate(data, tmp_path / "r.html", "--scans", tmp_path / "scans")
    says(capsys, "not on one grid", "good.nii.gz", code=code)
    assert names(tmp_path) == ["scans"]
