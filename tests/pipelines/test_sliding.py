"""Windows cover the volume, their blend is the plain one, and memory holds a window's height of it."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from fredholm.pipelines import sliding
from fredholm.pipelines.resample import axis_matrix
from fredholm.pipelines.sliding import Tiling, importance, label_volume
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

CLASSES = 5
# larger than the window, smaller along one axis or all, equal, one voxel, thin windows
CASES = [
    ((20, 17, 23), (8, 8, 8)),
    ((5, 17, 9), (8, 8, 8)),
    ((3, 4, 5), (8, 6, 7)),
    ((8, 8, 8), (8, 8, 8)),
    ((1, 1, 1), (4, 4, 4)),
    ((12, 9, 7), (6, 6, 1)),
    ((12, 9, 7), (1, 6, 6)),
    ((9, 9, 9), (1, 1, 1)),
    ((9, 10, 11), (5, 7, 3)),
]
OVERLAPS = [0.0, 0.25, 0.5, 0.75, 0.99]


def one_hot(window: Tensor) -> Tensor:
    """The identity as a network: the image holds class numbers."""
    classes = torch.arange(CLASSES).view(1, -1, 1, 1, 1)
    return (window == classes).float()


def scene(shape: tuple[int, ...]) -> Tensor:
    return torch.randint(CLASSES, (1, *shape)).float()


class Uneven:
    """Logits that depend on where a voxel lies in its window, so that blending matters."""

    def __init__(self, window: tuple[int, ...], classes: int = CLASSES) -> None:
        generator = torch.Generator().manual_seed(1)
        self.bias = torch.randn(1, classes, *window, generator=generator)
        self.slope = torch.randn(1, classes, 1, 1, 1, generator=generator)
        self.windows: list[Tensor] = []

    def __call__(self, window: Tensor) -> Tensor:
        self.windows.append(window.clone())
        return self.bias + self.slope * window


def plain_blend(image: Tensor, model: Callable[[Tensor], Tensor], tiling: Tiling, air: float) -> Tensor:
    """Blended logits `(classes, *grid)` with everything in memory at once, float64."""
    before = [max(0, w - n) // 2 for n, w in zip(image.shape[1:], tiling.window, strict=True)]
    padded = torch.full((1, *(max(n, w) for n, w in zip(image.shape[1:], tiling.window, strict=True))), air)
    inside = tuple(slice(b, b + n) for b, n in zip(before, image.shape[1:], strict=True))
    padded[(slice(None), *inside)] = image
    weight = importance(tiling.window).double()
    total: Tensor | None = None
    weights = torch.zeros(padded.shape[1:], dtype=torch.float64)
    for start in itertools.product(*tiling.starts(padded.shape[1:])):
        box = tuple(slice(s, s + w) for s, w in zip(start, tiling.window, strict=True))
        logits = model(padded[(None, slice(None), *box)])[0].double()
        if total is None:
            total = torch.zeros(logits.shape[0], *padded.shape[1:], dtype=torch.float64)
        total[(slice(None), *box)] += weight * logits
        weights[box] += weight
    assert total is not None
    return (total / weights)[(slice(None), *inside)]


def clear(logits: Tensor, margin: float = 1e-4) -> np.ndarray:
    """Voxels whose largest logit leads by more than float32 can blur."""
    first, second = logits.topk(2, dim=0).values
    return (first - second > margin).numpy()


@pytest.mark.parametrize(("shape", "window"), CASES)
@pytest.mark.parametrize("overlap", OVERLAPS)
def test_the_identity_gives_back_the_labels(shape, window, overlap: float) -> None:
    image, ticks = scene(shape), []
    tiling = Tiling(window=window, overlap=overlap)
    found = label_volume(image, one_hot, tiling, air=0.0, tick=lambda: ticks.append(1))
    assert (found.shape, found.dtype) == (shape, np.uint8)
    np.testing.assert_array_equal(found, image[0].numpy())
    assert len(ticks) == tiling.count(shape)


@pytest.mark.parametrize(("shape", "window"), CASES)
@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.6])
def test_the_blend_is_that_of_the_whole_volume_at_once(shape, window, overlap: float) -> None:
    image, tiling = torch.randn(1, *shape), Tiling(window=window, overlap=overlap)
    expected = plain_blend(image, Uneven(window), tiling, air=-1.0)
    found = label_volume(image, Uneven(window), tiling, air=-1.0)
    known = clear(expected)
    assert known.mean() > 0.95
    np.testing.assert_array_equal(found[known], expected.argmax(0).numpy()[known])


@pytest.mark.parametrize(("shape", "window"), CASES)
@pytest.mark.parametrize("target", [(7, 11, 9), (30, 3, 23), (1, 1, 1), (40, 40, 40)])
def test_on_another_grid_it_is_the_largest_of_the_interpolated_logits(shape, window, target) -> None:
    image, tiling = torch.randn(1, *shape) + 1, Tiling(window=window, overlap=0.5)  # no mean near 0: few ties
    logits = plain_blend(image, Uneven(window), tiling, air=-1.0)
    for axis, (n, m) in enumerate(zip(shape, target, strict=True)):
        matrix = torch.from_numpy(axis_matrix(n, m)).double()
        logits = torch.tensordot(matrix, logits, dims=([1], [axis + 1])).movedim(0, axis + 1)
    found = label_volume(image, Uneven(window), tiling, air=-1.0, shape=target)
    assert found.shape == target
    known = clear(logits)
    np.testing.assert_array_equal(found[known], logits.argmax(0).numpy()[known])
    assert known.mean() > 0.95


def test_on_a_finer_grid_it_is_torchs_interpolation() -> None:
    image, tiling = torch.randn(1, 12, 13, 14), Tiling(window=(8, 8, 8))
    logits = plain_blend(image, Uneven((8, 8, 8)), tiling, air=-1.0)
    finer = torch.nn.functional.interpolate(logits[None], (20, 30, 15), mode="trilinear")[0]
    found = label_volume(image, Uneven((8, 8, 8)), tiling, air=-1.0, shape=(20, 30, 15))
    known = clear(finer)
    np.testing.assert_array_equal(found[known], finer.argmax(0).numpy()[known])


@pytest.mark.parametrize("air", [-1.0, 0.0, 0.25])
def test_a_scan_smaller_than_the_window_is_padded_with_air(air: float) -> None:  # D7
    model = Uneven((8, 8, 8))
    label_volume(torch.full((1, 4, 4, 4), air), model, Tiling(window=(8, 8, 8)), air=air)
    (window,) = model.windows
    assert window.shape == (1, 1, 8, 8, 8)
    assert float(window.min()) == float(window.max()) == air


def test_padding_lies_on_both_sides() -> None:
    model = Uneven((8, 8, 8))
    label_volume(torch.ones(1, 4, 6, 8), model, Tiling(window=(8, 8, 8)), air=-1.0)
    (window,) = model.windows
    assert (window[0, 0, 2:6, 1:7] == 1).all()
    assert int((window == 1).sum()) == 4 * 6 * 8


def test_windows_of_thickness_1_are_as_many_as_slices() -> None:  # D3
    tiling = Tiling(window=(96, 96, 1), overlap=0.25)
    assert [len(each) for each in tiling.starts((450, 344, 450))] == [6, 5, 450]
    assert tiling.count((450, 344, 450)) == 30 * 450
    assert tiling.starts((450, 344, 450))[2] == list(range(450))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [None, (60, 33, 40)])
def test_large_logits_in_half_precision_stay_finite_and_equal(monkeypatch, dtype, shape) -> None:  # D4
    value = float(torch.tensor(60_000.0, dtype=dtype))
    planes = []
    push = sliding._Labels.push
    monkeypatch.setattr(sliding._Labels, "push", lambda self, plane: (planes.append(plane.clone()), push(self, plane)))

    def model(window: Tensor) -> Tensor:
        return torch.full((1, 2, *window.shape[2:]), value, dtype=dtype)

    found = label_volume(
        torch.zeros(1, 40, 40, 40), model, Tiling(window=(32, 32, 32), overlap=0.75), air=0.0, shape=shape
    )
    logits = torch.stack(planes)
    assert logits.dtype == torch.float32
    assert logits.shape == (40, 2, 40, 40)
    torch.testing.assert_close(logits, torch.full_like(logits, value), rtol=1e-6, atol=0)
    assert (found == 0).all()  # where two are equal the first wins


class Peak(TorchDispatchMode):
    """Remembers the most numbers that one tensor held."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, Tensor):
                self.largest = max(self.largest, one.numel())
        return result


@pytest.mark.parametrize("depth", [24, 96])
@pytest.mark.parametrize("finer", [1, 2])
def test_memory_holds_one_windows_height_of_logits(monkeypatch, depth: int, finer: int) -> None:  # D5
    waiting = []
    push = sliding._Labels.push
    monkeypatch.setattr(
        sliding._Labels, "push", lambda self, plane: (push(self, plane), waiting.append(len(self.waiting)))
    )
    peak, classes = Peak(), 30
    with peak:
        label_volume(
            torch.zeros(1, depth, 10, 10),
            Uneven((8, 8, 8), classes),
            Tiling(window=(8, 8, 8)),
            air=0.0,
            shape=(depth * finer, 10 * finer, 10 * finer),
        )
    assert peak.largest <= classes * 8 * 10 * 10
    assert max(waiting) <= 3  # slices that await their neighbour


@pytest.mark.parametrize("shape", [None, (30, 25, 19), (6, 9, 8)])
def test_a_linear_head_may_wait_until_the_windows_are_blended(shape) -> None:
    torch.manual_seed(2)
    channels, classes, image = 3, 30, torch.randn(1, 14, 11, 17)
    body, weight = Uneven((8, 8, 8), channels), torch.randn(classes, channels)

    def head(x: Tensor) -> Tensor:
        return torch.einsum("kc,bc...->bk...", weight, x)

    tiling, peak = Tiling(window=(8, 8, 8)), Peak()
    expected = label_volume(image, lambda window: head(body(window)), tiling, air=-1.0, shape=shape)
    with peak:
        found = label_volume(image, body, tiling, air=-1.0, shape=shape, head=head)
    assert np.mean(found == expected) > 0.999  # where two logits are all but equal, rounding decides
    assert peak.largest <= max(channels * 8 * 11 * 17, classes * np.prod((shape or image.shape[1:])[1:]))


def test_when_slices_are_averaged_only_those_in_reach_are_kept(monkeypatch) -> None:
    waiting = []
    push = sliding._Labels.push
    monkeypatch.setattr(
        sliding._Labels, "push", lambda self, plane: (push(self, plane), waiting.append(len(self.waiting)))
    )
    label_volume(torch.zeros(1, 90, 9, 9), one_hot, Tiling(window=(8, 8, 8)), air=0.0, shape=(10, 9, 9))
    assert max(waiting) <= 2 * (9 + 1)  # those of one slice of the result, and of the next


@given(st.tuples(*[st.integers(1, 90)] * 3), st.tuples(*[st.integers(1, 40)] * 3), st.floats(0, 1, exclude_max=True))
@settings(max_examples=300, deadline=None)
def test_windows_cover_every_voxel_and_do_not_leave_the_volume(shape, window, overlap) -> None:
    padded = [max(n, w) for n, w in zip(shape, window, strict=True)]
    starts = Tiling(window=window, overlap=overlap).starts(padded)
    for own, n, w in zip(starts, padded, window, strict=True):
        assert own == sorted(set(own))
        assert own[0] == 0
        assert own[-1] == n - w
        assert all(after - before <= w for before, after in itertools.pairwise(own))


@given(st.integers(2, 40), st.integers(1, 200), st.floats(0, 0.9))
@settings(max_examples=300, deadline=None)
def test_neighbours_overlap_by_what_was_asked_for(window: int, more: int, overlap: float) -> None:
    (starts, *_) = Tiling(window=(window, 1, 1), overlap=overlap).starts((window + more, 1, 1))
    widest = max(after - before for before, after in itertools.pairwise(starts))
    assert widest <= max(1, round(window * (1 - overlap)))


@pytest.mark.parametrize("window", [(8, 8, 8), (1, 1, 1), (5, 6, 7), (1, 9, 2)])
def test_importance_is_largest_in_the_middle_even_and_never_nothing(window) -> None:
    weight = importance(window)
    assert weight.shape == window
    assert float(weight.min()) >= sliding.LEAST_WEIGHT
    for axis in range(3):
        torch.testing.assert_close(weight, weight.flip(axis))
    assert weight[tuple(n // 2 for n in window)] == weight.max() <= 1


@pytest.mark.parametrize(("classes", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.int16), (300, np.int16)])
def test_the_type_of_the_labels_holds_every_class(classes: int, dtype) -> None:
    def last(window: Tensor) -> Tensor:
        return torch.arange(classes).view(1, -1, 1, 1, 1).expand(1, -1, *window.shape[2:]).float()

    found = label_volume(torch.zeros(1, 3, 3, 3), last, Tiling(window=(2, 2, 2)), air=0.0)
    assert found.dtype == dtype
    assert (found == classes - 1).all()


def test_the_image_is_not_changed() -> None:
    image = scene((9, 9, 9))
    before = image.clone()
    label_volume(image, one_hot, Tiling(window=(9, 9, 9)), air=0.0)
    label_volume(image, one_hot, Tiling(window=(4, 4, 4)), air=0.0)
    label_volume(image, lambda window: window, Tiling(window=(4, 4, 4)), air=0.0)  # a model that returns its input
    assert torch.equal(image, before)


@pytest.mark.parametrize("overlap", [-0.1, 1.0, 1.5, float("nan")])
def test_an_overlap_that_is_none_is_refused(overlap: float) -> None:
    with pytest.raises(ValueError, match=r"an overlap in \[0, 1\), got"):
        Tiling(window=(8, 8, 8), overlap=overlap)


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(ValueError, match="a window of 1 or more"):
        Tiling(window=(8, 0, 8))
