"""Pictures follow the radiologist's convention, whatever the voxels' size, and never disturb a caller."""

import io
import math
import threading

import numpy as np
import pytest
from fredholm.pipelines.pictures import contact_figure, label_colours, overlay_figure, png_bytes, training_figure
from matplotlib.figure import Figure
from matplotlib.image import imread

SHAPE, SPACING = (10, 12, 14), (1.0, 2.0, 3.0)
AXIAL, CORONAL, SAGITTAL = range(3)


def right_anterior_superior() -> np.ndarray:
    """A block at the patient's right, front and head: the high end of all three RAS+ axes."""
    block = np.zeros(SHAPE, np.uint8)
    block[-3:, -4:, -5:] = 1
    return block


def panels(figure: Figure, row: int = 0) -> list[np.ndarray]:
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes[3 * row : 3 * row + 3]]


def test_each_axis_lands_where_a_radiologist_expects_it() -> None:
    block = right_anterior_superior()
    axial, coronal, sagittal = panels(overlay_figure(block * 1000.0 - 500, block, SPACING, {1: "block"}))
    expected = {
        "axial": (axial, (12, 10), (4, 3)),
        "coronal": (coronal, (14, 10), (5, 3)),
        "sagittal": (sagittal, (14, 12), (5, 4)),
    }
    for name, (picture, shape, (rows, columns)) in expected.items():
        assert picture.shape == shape, name
        truth = np.full(shape, -500.0)
        truth[:rows, :columns] = 500  # right, or front in the sagittal slice, is left; front or head is up
        np.testing.assert_array_equal(picture, truth, err_msg=name)


def test_rendered_pixels_agree_with_the_arrays() -> None:
    block = right_anterior_superior()
    figure = overlay_figure(block * 1000.0 - 500, block, SPACING, {1: "block"})
    page = imread(io.BytesIO(png_bytes(figure, dpi=50)))[..., :3].mean(axis=-1)
    height, width = page.shape
    for axes in figure.axes:
        box = axes.get_position()
        rows = slice(round((1 - box.y1) * height), round((1 - box.y0) * height))
        panel = page[rows, round(box.x0 * width) : round(box.x1 * width)]
        y, x = panel.shape[0] // 6, panel.shape[1] // 6
        assert panel[y, x] > 0.6
        assert max(panel[-y, x], panel[y, -x], panel[-y, -x]) < 0.1


def test_letters_stand_at_the_right_edges() -> None:
    figure = overlay_figure(np.zeros(SHAPE), None, SPACING, {})
    letters = []
    for axes in figure.axes:
        at = {text.get_text(): text.get_position() for text in axes.texts}
        by_x, by_y = sorted(at, key=lambda k: at[k][0]), sorted(at, key=lambda k: at[k][1])
        letters.append(by_x[0] + by_x[-1] + by_y[-1] + by_y[0])
    assert letters == ["RLAP", "RLSI", "APSI"]


def test_panels_have_the_proportions_of_the_body() -> None:
    figure = overlay_figure(np.zeros(SHAPE), None, SPACING, {})
    sizes_mm = [(10.0, 24.0), (10.0, 42.0), (24.0, 42.0)]
    width, height = figure.get_size_inches()
    for axes, (across, down) in zip(figure.axes, sizes_mm, strict=True):
        left, right, bottom, top = axes.images[0].get_extent()
        assert (right - left, bottom - top) == (across, down)
        box = axes.get_position(original=True)
        assert box.width * width / (box.height * height) == pytest.approx(across / down)


def test_slices_go_through_the_labels_and_else_through_the_middle() -> None:
    place = np.arange(np.prod(SHAPE), dtype=float).reshape(SHAPE)
    labels = np.zeros(SHAPE, np.int64)
    labels[2, 3, 4] = 7
    for volume, (x, y, z) in ((labels, (2, 3, 4)), (labels * 0, (5, 6, 7)), (None, (5, 6, 7))):
        axial, coronal, sagittal = panels(overlay_figure(place, volume, SPACING, {}))
        assert place[x, y, z] in axial
        assert place[x, y, z] in coronal
        assert place[x, y, z] in sagittal
        assert axial[-1, -1] == place[0, 0, z]


def test_many_labels_count_more_than_one_that_is_large() -> None:
    labels = np.zeros(SHAPE, np.uint8)
    labels[:4, :4, 2] = 1
    labels[:2, :3, 9] = 1
    labels[:2, 3:6, 9] = 2
    labels[:2, 6:9, 9] = 3
    figure = overlay_figure(np.zeros(SHAPE), labels, SPACING, {})
    assert figure.axes[AXIAL].get_title() == "axial  10 / 14"


def test_reference_is_a_second_row_through_the_same_slices() -> None:
    rng = np.random.default_rng(0)
    ct, block = rng.normal(size=SHAPE), right_anterior_superior()
    figure = overlay_figure(ct, block, SPACING, {1: "block"}, reference=2 * block)
    assert len(figure.axes) == 6
    for above, below in zip(panels(figure), panels(figure, row=1), strict=True):
        np.testing.assert_array_equal(above, below)
    assert [figure.axes[i].get_ylabel() for i in (0, 3)] == ["prediction", "reference"]


def test_legend_names_the_classes_that_are_seen() -> None:
    figure = overlay_figure(np.zeros(SHAPE), right_anterior_superior() * 3, SPACING, {1: "absent", 3: "kidney"})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["kidney"]
    nameless = overlay_figure(np.zeros(SHAPE), right_anterior_superior() * 5, SPACING, {})
    assert [text.get_text() for text in nameless.legends[0].get_texts()] == ["5"]
    assert overlay_figure(np.zeros(SHAPE), None, SPACING, {}).legends == []


def test_labels_are_tinted_with_their_own_colour_only() -> None:
    block = right_anterior_superior()
    figure = overlay_figure(np.zeros(SHAPE), 2 * block, SPACING, {})
    tint = np.asarray(figure.axes[CORONAL].images[1].get_array())
    assert np.count_nonzero(tint[..., 3]) == 15
    np.testing.assert_array_equal(tint[0, 0, :3], label_colours({}, 3)[2])


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 6), (4, 1, 3)])
def test_thin_volumes_full_of_labels_are_drawn(shape: tuple[int, int, int]) -> None:
    assert png_bytes(overlay_figure(np.zeros(shape), np.ones(shape, int), SPACING, {1: "all"}), dpi=20)


def test_a_hundred_long_names_fit_the_page() -> None:
    labels = np.arange(10 * 12 * 14).reshape(SHAPE) % 118
    figure = overlay_figure(np.zeros(SHAPE), labels, SPACING, {i: f"a rather long name {i}" for i in range(118)})
    png_bytes(figure, dpi=30)
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width
    assert legend.y1 <= min(axes.get_window_extent().y0 for axes in figure.axes)


def test_a_contact_sheet_goes_from_the_feet_up_through_what_is_labelled() -> None:
    place = np.broadcast_to(np.arange(60.0), (10, 12, 60))
    labels = np.zeros(place.shape, np.uint8)
    labels[2:4, 3:5, 10:50] = 1
    figure = contact_figure(place, labels, SPACING, {1: "spleen"})
    heights = [float(np.asarray(axes.images[0].get_array())[0, 0]) for axes in figure.axes]
    assert len(heights) == 12
    assert heights == sorted(heights)
    assert 10 < heights[0] < 15
    assert 44 < heights[-1] < 49
    tint = np.asarray(figure.axes[0].images[1].get_array())
    np.testing.assert_array_equal(tint[8, 7, :3], label_colours({1: "spleen"}, 2)[1])
    assert np.count_nonzero(tint[..., 3]) == 4


@pytest.mark.parametrize("depth", [1, 5])
def test_a_contact_sheet_of_a_thin_scan_shows_each_slice_once(depth: int) -> None:
    figure = contact_figure(np.zeros((4, 5, depth)), np.zeros((4, 5, depth), int), SPACING, {})
    assert sum(bool(axes.images) for axes in figure.axes) == depth
    assert png_bytes(figure, dpi=20)


def test_a_name_has_one_colour_whatever_its_number() -> None:
    colours = label_colours({1: "spleen", 2: "class 2"}, 4)
    assert colours.shape == (4, 3)
    assert colours[0].tolist() == [0, 0, 0]
    other = label_colours({7: "spleen", 3: "class 2", 5: "3"}, 8)
    np.testing.assert_array_equal(colours[1:], other[[7, 3, 5]])
    assert label_colours({}, 0).shape == (0, 3)


@pytest.mark.parametrize(
    ("ct", "labels", "spacing", "words"),
    [
        (np.zeros((3, 4)), None, SPACING, r"three axes .* not the shape \(3, 4\)"),
        (np.zeros(SHAPE), np.zeros((10, 12, 13), int), SPACING, r"\(10, 12, 13\) do not fit .*\(10, 12, 14\)"),
        (np.zeros(SHAPE), np.zeros(SHAPE), SPACING, "integers from zero up, not float64"),
        (np.zeros(SHAPE), np.full(SHAPE, -1), SPACING, "from -1"),
        (np.zeros(SHAPE), None, (1.0, 0.0, 1.0), "three positive numbers"),
    ],
)
def test_says_what_does_not_fit(ct, labels, spacing, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        overlay_figure(ct, labels, spacing, {})


def test_training_shows_each_curve_that_was_logged() -> None:
    rows = [
        {"step": i, "loss": 1 / (1 + i), "lr": 1e-3} | ({"dice": i / 100} if i % 20 == 0 else {}) for i in range(100)
    ]
    loss, dice, lr = training_figure(rows).axes
    assert [axes.get_title(loc="left") for axes in (loss, dice, lr)] == ["loss", "validation Dice", "learning rate"]
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), [row["loss"] for row in rows])
    np.testing.assert_array_equal(dice.lines[0].get_xdata(), [0, 20, 40, 60, 80])
    assert dice.get_title(loc="right") == "best 0.8 at step 80"
    assert lr.get_position().height < loss.get_position().height


def test_training_leaves_out_what_was_not_logged() -> None:
    rows = [{"step": 1, "loss": 2.0, "dice": math.nan}, {"step": 2, "loss": math.nan}, {"step": 3, "loss": 1.0}]
    (loss,) = training_figure(rows).axes
    np.testing.assert_array_equal(loss.lines[0].get_xdata(), [1, 3])
    assert [text.get_text() for text in training_figure([]).axes[0].texts] == ["nothing logged yet"]


def test_smoothing_keeps_a_constant_and_the_length() -> None:
    rows = [{"step": i, "loss": 0.5} for i in range(333)]
    raw, smooth = training_figure(rows).axes[0].lines
    assert len(smooth.get_ydata()) == len(raw.get_ydata()) == 333
    np.testing.assert_allclose(smooth.get_ydata(), 0.5)


def test_png_has_the_size_asked_for() -> None:
    figure = training_figure([{"step": 0, "loss": 1.0}])
    image = imread(io.BytesIO(png_bytes(figure, dpi=40)))
    assert image.shape[:2] == tuple(int(side * 40) for side in figure.get_size_inches()[::-1])


def test_pictures_can_be_made_in_threads() -> None:
    done: list[bytes] = []
    block = right_anterior_superior()
    make = lambda: done.append(png_bytes(overlay_figure(block * 1.0, block, SPACING, {}), dpi=30))  # noqa: E731
    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 2
    assert done[0] == done[1]
