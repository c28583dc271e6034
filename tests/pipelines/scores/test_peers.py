"""What other packages say of the same masks: equal where they are right, and where they are not.

Every sentence of `docs/scores.md` on MONAI, SimpleITK and surface-distance is held here.
"""

import itertools
import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import SimpleITK
import torch
from fredholm.pipelines.scores import ScoreTable, dice, evaluate_pair, surface_distances
from fredholm.pipelines.volume import Volume
from monai.losses.dice import DiceLoss
from monai.metrics.hausdorff_distance import compute_hausdorff_distance
from monai.metrics.meandice import DiceMetric, compute_dice
from monai.metrics.surface_dice import compute_surface_dice
from scipy.ndimage import gaussian_filter

surface_distance = pytest.importorskip("surface_distance.metrics", reason="pip install surface-distance")

SPACINGS = [(1.0, 1.0, 1.0), (0.7, 0.7, 5.0), (1.0, 2.0, 3.0)]
CASES = list(itertools.product(SPACINGS, range(3)))
NAMES = {0: "background", 1: "organ"}
BOX = (slice(2, 8), slice(3, 8), slice(1, 5))


@pytest.fixture(autouse=True)
def _their_own_warnings() -> Iterator[None]:
    """Of old names in SciPy, of arguments of MONAI, of empty masks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def organs(seed: int, shape=(24, 28, 20)) -> tuple[np.ndarray, np.ndarray]:
    """Two smooth bodies of many bumps that nearly agree."""
    rng = np.random.default_rng(seed)
    first = gaussian_filter(rng.normal(size=shape), 3)
    return first > 0, gaussian_filter(first + 0.03 * rng.normal(size=shape), 1) > 0


def box(*where: slice, shape=(12, 12, 8)) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[where] = True
    return mask


def monai(mask: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(mask)[None, None].float()


def monai_hd(prediction: np.ndarray, reference: np.ndarray, spacing, percentile=None) -> float:
    pair = (monai(prediction), monai(reference))
    return compute_hausdorff_distance(*pair, True, percentile=percentile, spacing=spacing).item()


def monai_nsd(prediction: np.ndarray, reference: np.ndarray, spacing, tolerance: float, by_area: bool) -> float:
    pair = (monai(prediction), monai(reference))
    return compute_surface_dice(*pair, [tolerance], True, spacing=spacing, use_subvoxels=by_area).item()


def itk(mask: np.ndarray, spacing=(1.0, 1.0, 1.0)) -> SimpleITK.Image:
    image = SimpleITK.GetImageFromArray(mask.astype(np.uint8).T)
    image.SetSpacing(spacing)
    return image


def itk_hd(prediction: np.ndarray, reference: np.ndarray, spacing=(1.0, 1.0, 1.0)) -> float:
    measure = SimpleITK.HausdorffDistanceImageFilter()
    measure.Execute(itk(prediction, spacing), itk(reference, spacing))
    return measure.GetHausdorffDistance()


def itk_overlap(prediction: np.ndarray, reference: np.ndarray) -> SimpleITK.LabelOverlapMeasuresImageFilter:
    measure = SimpleITK.LabelOverlapMeasuresImageFilter()
    measure.Execute(itk(reference), itk(prediction))
    return measure


def ours(prediction: np.ndarray, reference: np.ndarray, spacing=(1.0, 1.0, 1.0), tolerance: float = 2.0):
    volumes = [Volume(mask.astype(np.uint8), np.diag((*spacing, 1.0))) for mask in (prediction, reference)]
    return evaluate_pair(*volumes, NAMES, tolerance)[1]


# where they are right


@pytest.mark.parametrize(("spacing", "seed"), CASES)
def test_surface_distance_agrees_in_all_that_it_measures(spacing, seed: int) -> None:
    p, r = organs(seed)
    theirs = surface_distance.compute_surface_distances(r, p, spacing)
    found = surface_distances(p, r, np.diag(spacing))
    for q in (50, 95, 100):
        expected = surface_distance.compute_robust_hausdorff(theirs, q)
        assert found.hausdorff_mm(q) == pytest.approx(expected, rel=1e-12)
    for tolerance in (0.5, 1.0, 2.5):
        expected = surface_distance.compute_surface_dice_at_tolerance(theirs, tolerance)
        assert found.surface_dice(tolerance) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("spacing", "seed"), CASES)
def test_monai_agrees_in_the_surface_dice_by_area_and_in_dice(spacing, seed: int) -> None:
    p, r = organs(seed)
    for tolerance in (0.5, 1.0, 2.5):
        expected = monai_nsd(p, r, spacing, tolerance, by_area=True)
        assert ours(p, r, spacing, tolerance).surface_dice == pytest.approx(expected, rel=1e-5)
    assert ours(p, r).dice == pytest.approx(compute_dice(monai(p), monai(r)).item(), rel=1e-6)


@pytest.mark.parametrize(("spacing", "seed"), CASES)
def test_monai_agrees_in_the_hausdorff_distance_up_to_a_voxel(spacing, seed: int) -> None:
    p, r = organs(seed)  # it measures between centres of voxels: half a diagonal of one at either end
    assert abs(ours(p, r, spacing).hd_mm - monai_hd(p, r, spacing)) <= math.hypot(*spacing)


def test_monai_and_simpleitk_agree_in_the_hausdorff_distance_of_boxes() -> None:
    other = box(slice(4, 11), slice(3, 8), slice(1, 6))
    for spacing in SPACINGS:
        expected = monai_hd(box(*BOX), other, spacing)
        assert ours(box(*BOX), other, spacing).hd_mm == pytest.approx(expected, rel=1e-6)
        assert itk_hd(box(*BOX), other, spacing) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_simpleitk_agrees_in_dice(seed: int) -> None:
    p, r = organs(seed)
    assert ours(p, r).dice == pytest.approx(itk_overlap(p, r).GetDiceCoefficient(), rel=1e-12)


@pytest.mark.parametrize("spacing", SPACINGS)
def test_simpleitk_agrees_in_volumes(spacing) -> None:
    volumes_mm3 = []
    for mask in organs(0):
        measure = SimpleITK.LabelShapeStatisticsImageFilter()
        measure.Execute(itk(mask, spacing))
        volumes_mm3.append(measure.GetPhysicalSize(1))
    found, expected = ours(*organs(0), spacing), (volumes_mm3[0] - volumes_mm3[1]) / 1000
    assert found.volume_difference_ml == pytest.approx(expected, rel=1e-9)
    assert found.volume_difference_percent == pytest.approx(100_000 * expected / volumes_mm3[1], rel=1e-9)


# where they are not


def test_monai_takes_percentile_0_for_none() -> None:  # C2
    p, r = box(slice(2, 8), slice(0, 6)), box(slice(6, 12), slice(0, 6))
    assert monai_hd(p, r, (1.0, 1.0, 1.0), percentile=0) == 4.0
    assert surface_distances(p, r, np.eye(3)).hausdorff_mm(0) == 0.0


def test_monai_lets_false_positives_in_empty_cases_go_free() -> None:  # C4
    found, empty = monai(box(*BOX)), monai(box(slice(0)))
    metric = DiceMetric(include_background=True)
    metric(torch.cat((found, found)), torch.cat((empty, found)))
    assert metric.aggregate().item() == 1.0  # pyright: ignore[reportAttributeAccessIssue]
    rows = {n: dice(box(*BOX), truth, [1]) for n, truth in {"a": box(slice(0)), "b": box(*BOX)}.items()}
    assert ScoreTable(rows, NAMES).casewise == 0.5


def test_monai_gives_nan_for_the_dice_loss_in_half_precision() -> None:  # C9
    ones = torch.ones(1, 1, 512, 512, dtype=torch.float16)
    assert DiceLoss()(ones, ones).isnan()
    assert dice(ones[0].numpy(), ones[0].numpy(), [1]) == {1: 1.0}


@pytest.mark.parametrize(("prediction", "reference"), [(box(*BOX), box(slice(0))), (box(slice(0)), box(*BOX))])
def test_what_is_missing_is_infinitely_far_in_monai_and_an_error_elsewhere(prediction, reference) -> None:
    assert monai_hd(prediction, reference, (1.0, 1.0, 1.0)) == math.inf
    with pytest.raises(RuntimeError, match="pixelcount is equal to 0"):
        itk_hd(prediction, reference)
    with pytest.raises(AttributeError, match=r"np\.Inf"):
        surface_distance.compute_surface_distances(reference, prediction, (1.0, 1.0, 1.0))
    assert ours(prediction, reference).hd_mm == math.hypot(12, 12, 8)


def test_simpleitk_scores_a_class_that_nobody_has() -> None:
    assert itk_overlap(box(slice(0)), box(slice(0))).GetDiceCoefficient() == math.inf
    assert math.isnan(ours(box(slice(0)), box(slice(0))).dice)


def test_simpleitk_measures_sets_so_a_cavity_is_as_deep_as_its_middle() -> None:
    full = np.ones((13, 13, 13), bool)
    hollow = full.copy()
    hollow[5:8, 5:8, 5:8] = False  # its wall is five voxels from the outer surface, its middle two from its wall
    assert itk_hd(full, hollow) == 2.0
    assert ours(full, hollow).hd_mm == 5.0


def test_monai_counts_voxels_so_that_slices_decide_what_95_percent_is() -> None:
    # The same slab twice, in slices of 5 mm and of 1 mm; the same 8 % of its surface is 4 mm too far.
    thick, thin = (np.zeros((48, 40, n), bool) for n in (2, 10))
    found = {}
    for mask, spacing in ((thick, (1.0, 1.0, 5.0)), (thin, (1.0, 1.0, 1.0))):
        mask[4:40] = True
        longer = mask.copy()
        longer[40:44] = True
        found[spacing] = (monai_hd(longer, mask, spacing, 95), ours(longer, mask, spacing).hd95_mm)
    (monai_thick, mine_thick), (monai_thin, mine_thin) = found.values()
    assert mine_thick == mine_thin == monai_thin == 4.0
    assert monai_thick < 2.1


def test_monai_counts_voxels_in_the_surface_dice_unless_told_otherwise() -> None:
    body = box(slice(1, 11), slice(1, 11), slice(1, 3))
    taller = box(slice(1, 11), slice(1, 11), slice(1, 4))  # 5 mm: one of two flat sides, not one of all voxels
    spacing = (1.0, 1.0, 5.0)
    by_voxels, by_area = (monai_nsd(taller, body, spacing, 2.0, by_area) for by_area in (False, True))
    assert ours(taller, body, spacing).surface_dice == pytest.approx(by_area, rel=1e-5)
    assert by_voxels < by_area - 0.1


def test_monai_finds_a_gap_between_masks_that_touch() -> None:
    left, right = box(slice(0, 6)), box(slice(6, 12))
    assert monai_nsd(left, right, (1.0, 1.0, 1.0), 0.5, by_area=False) == 0.0
    assert monai_nsd(left, right, (1.0, 1.0, 1.0), 0.5, by_area=True) > 0.2
    assert ours(left, right, tolerance=0.5).surface_dice > 0.2
