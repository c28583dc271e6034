"""The page shows what the label map holds, on the right side, without asking anybody, whatever the names contain."""

import base64
import functools
import gzip
import http.server
import io
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from fredholm.apps import viewer
from fredholm.apps.viewer import PREVIEW_VOXELS, LabelledScan, write_contact_sheet, write_page, write_views
from fredholm.pipelines.structures import structure
from fredholm.pipelines.volume import Volume, restore
from helpers.browser import started_chromium, strict_tab
from matplotlib.image import imread

EVIL = "</script><script>alert('1')</script><img src=x onerror=alert(2)>&amp;\"'${x}$title"
NAMES = {1: "liver", 2: "spleen", 5: EVIL}
RAS = np.array([[2.0, 0, 0, -40], [0, 2, 0, -30], [0, 0, 3, 10], [0, 0, 0, 1]])


def case(title: str = "case 7") -> LabelledScan:
    """A body with a liver at its right front, high up; a spleen at its left; and one voxel of something else."""
    array, labels = np.full((40, 30, 20), -1000.0, np.float32), np.zeros((40, 30, 20), np.uint8)
    array[3:37, 3:27] = 40
    labels[24:34, 16:24, 10:18] = 1
    labels[6:12, 6:12, 4:8] = 2
    labels[20, 15, 2] = 5
    array[labels > 0] = 120
    return LabelledScan(title, Volume(array, RAS), labels, NAMES)


def content(path: Path) -> dict:
    found = re.search(r'<script id="case" type="application/json">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


def volume(data: str) -> nib.Nifti1Image:
    return nib.Nifti1Image.from_bytes(gzip.decompress(base64.b64decode(data)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("viewer") / "page.html"
    write_page(path, case(EVIL))
    return path


def test_volumes_are_those_of_the_full_label_map(page: Path) -> None:
    shown = {entry["name"]: entry["ml"] for entry in content(page)["structures"]}
    assert shown == pytest.approx({"liver": 640 * 0.012, "spleen": 144 * 0.012, EVIL: 0.012})


def test_a_small_scan_is_shown_voxel_by_voxel(page: Path) -> None:
    shown, truth = content(page), case()
    np.testing.assert_array_equal(volume(shown["scan"]).get_fdata(), truth.scan.array)
    np.testing.assert_array_equal(volume(shown["labels"]).get_fdata(), np.array([0, 1, 2, 0, 0, 3])[truth.labels])
    np.testing.assert_array_equal(volume(shown["scan"]).affine, RAS)


def test_each_structure_has_its_own_colour_and_a_place_inside(page: Path) -> None:
    shown = content(page)
    labels = np.asanyarray(volume(shown["labels"]).dataobj)
    for at, entry in enumerate(shown["structures"], 1):
        assert tuple(entry["rgb"]) == structure(entry["name"]).rgb
        i, j, k = np.linalg.solve(RAS, [*entry["place"], 1])[:3].round().astype(int)
        assert labels[i, j, k] == at


@pytest.mark.parametrize("axes", ["LPS", "PIR", "RSA"])
def test_the_stored_axis_order_does_not_matter(axes: str, page: Path, tmp_path: Path) -> None:
    truth = case(EVIL)
    like = nib.Nifti1Image(truth.scan.array, RAS)
    turned = like.as_reoriented(
        nib.orientations.ornt_transform(nib.orientations.io_orientation(RAS), nib.orientations.axcodes2ornt(axes))
    )
    scan = Volume(np.asarray(turned.dataobj), turned.affine)
    write_page(tmp_path / "turned.html", replace(truth, scan=scan, labels=restore(truth.labels, scan)))
    assert (tmp_path / "turned.html").read_bytes() == page.read_bytes()


def test_a_fine_scan_becomes_a_preview_of_the_same_box(tmp_path: Path) -> None:
    shape = (210, 200, 90)
    labels = np.zeros(shape, np.uint16)
    labels[30:100, 30:100, 20:60] = 300
    labels[150, 150, 70] = 301
    scan = Volume(np.zeros(shape, np.float32), np.diag((-0.5, -0.5, 1.0, 1)))
    write_page(tmp_path / "page.html", LabelledScan("fine", scan, labels, {}))
    shown = content(tmp_path / "page.html")
    preview = volume(shown["scan"])
    assert np.prod(preview.shape) <= PREVIEW_VOXELS < np.prod(shape)
    np.testing.assert_allclose(nib.affines.voxel_sizes(preview.affine) * preview.shape, (105, 100, 90))
    np.testing.assert_allclose(
        nib.affines.apply_affine(preview.affine, np.array(preview.shape) / 2 - 0.5), (-52.25, -49.75, 44.5)
    )
    big, tiny = shown["structures"]
    assert [big["name"], tiny["name"]] == ["300", "301"]
    seen = np.count_nonzero(volume(shown["labels"]).get_fdata() == 1) * np.prod(nib.affines.voxel_sizes(preview.affine))
    assert seen / 1000 == pytest.approx(big["ml"], rel=0.05)
    assert (np.abs(np.array(tiny["place"]) - (-75, -75, 70)) <= nib.affines.voxel_sizes(preview.affine)).all()


def test_an_empty_finding_says_so(tmp_path: Path) -> None:
    empty = replace(case(), labels=np.zeros((40, 30, 20), np.uint8))
    for path in write_views(tmp_path, "empty", empty):
        assert "No structure was found." in path.read_text()


def test_labels_must_lie_on_the_scan() -> None:
    with pytest.raises(ValueError, match=r"\(40, 30, 19\) do not fit a scan of shape \(40, 30, 20\)"):
        replace(case(), labels=np.zeros((40, 30, 19), np.uint8))


def test_the_contact_sheet_needs_no_script_and_escapes_names(tmp_path: Path) -> None:
    write_contact_sheet(tmp_path / "sheet.html", case(EVIL))
    text = (tmp_path / "sheet.html").read_text()
    assert "<script" not in text
    assert "<img src=x" not in text
    assert '<td class="number">7.7</td>' in text


def test_niivues_licence_comes_with_it() -> None:
    folder = Path(viewer.__file__).parent
    assert "Copyright (c) 2021, Niivue" in (folder / "niivue.LICENSE.txt").read_text()


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with started_chromium() as browser:
        yield browser


@pytest.fixture
def tab(chromium) -> Iterator:
    with strict_tab(chromium) as tab:
        yield tab


def opened(tab, address: str):
    tab.goto(address)
    tab.wait_for_selector("body[data-state=ready]", timeout=120_000)
    return tab


def where(tab) -> str:
    return tab.inner_text("#where")


def place(tab) -> np.ndarray:
    """Millimetres to the right, front and top, all of them positive in the liver."""
    return np.array([int(number) for number in re.findall(r"(\d+) mm", where(tab))])


def coloured(tab) -> np.ndarray:
    """Where the picture of the slices is not grey."""
    tab.wait_for_timeout(200)  # the next frame
    picture = imread(io.BytesIO(tab.locator("#slices").screenshot()))[..., :3]
    return np.ptp(picture, axis=-1) > 0.1


def test_names_and_titles_are_words_and_not_code(tab, page: Path) -> None:
    opened(tab, page.as_uri())
    assert tab.inner_text("h1") == " ".join(EVIL.split())
    assert tab.title() == EVIL
    assert tab.locator("td button").all_inner_texts() == ["liver", "spleen", EVIL]
    assert tab.locator("td:last-child").all_inner_texts() == ["7.68", "1.73", "0.01"]


def test_the_patients_right_is_on_the_left_and_the_front_on_top(tab, page: Path) -> None:
    opened(tab, page.as_uri())
    tab.keyboard.press("1")
    tab.locator("td input").nth(1).uncheck()
    rows, columns = np.nonzero(coloured(tab))
    height, width = coloured(tab).shape
    assert columns.max() < width / 2  # the liver: right
    assert rows.max() < height / 2  # and in front


def test_keys_move_the_slices_and_choose_what_is_seen(tab, page: Path) -> None:
    opened(tab, page.as_uri())
    assert where(tab).endswith("120 HU · liver")
    before = place(tab)
    for key, step in {"ArrowLeft": (2, 0, 0), "ArrowUp": (0, 0, 3), "PageUp": (0, 2, 0)}.items():
        tab.keyboard.press(key)
        np.testing.assert_array_equal(place(tab) - before, step)
        before = place(tab)
    assert coloured(tab).any()
    tab.keyboard.press("l")
    assert not coloured(tab).any()
    tab.keyboard.press("l")
    assert coloured(tab).any()
    for number, view in enumerate(("0", "1", "2", "3", "4"), 1):
        tab.keyboard.press(str(number))
        assert tab.input_value("#view") == view
    tab.keyboard.press("w")
    assert tab.input_value("#window") == "lung"


def test_a_name_leads_to_its_structure_in_all_three_planes(tab, page: Path) -> None:
    opened(tab, page.as_uri())
    for name in ("spleen", EVIL, "liver"):
        tab.locator("td button").nth(list(NAMES.values()).index(name)).click()
        assert where(tab).endswith(f"120 HU · {name}")


def test_a_structure_can_be_hidden(tab, page: Path) -> None:
    opened(tab, page.as_uri())
    before = np.count_nonzero(coloured(tab))
    for box in tab.locator("td input").all():
        box.uncheck()
    assert before > 0
    assert not coloured(tab).any()


def test_it_works_from_a_server_too(tab, page: Path) -> None:
    serve = functools.partial(Quiet, directory=str(page.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opened(tab, f"http://127.0.0.1:{server.server_port}/page.html")
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...
