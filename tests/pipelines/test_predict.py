"""A prediction belongs to the body, not to its file: axis orders, grids and neighbours in a queue do not change it."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.pipelines.nifti import read_volume, write_labels
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.postprocess import Step, postprocess
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.prepare import prepare_image
from fredholm.pipelines.run import Run
from fredholm.pipelines.sliding import Tiling, label_volume
from fredholm.pipelines.volume import Volume, canonical, restore
from helpers.orders import ORDERS, in_order
from nibabel.orientations import apply_orientation
from torch import Tensor, nn

CPU = torch.device("cpu")
NETWORK = Network(stages="HHAA", feature_size=12)
PLAN = Plan(
    names={0: "background", 1: "spleen", 2: "liver"},
    preparation=Preparation(spacing_mm=(1.0, 1.0, 2.0), window_hu=(-150.0, 250.0)),
    network=NETWORK,
    window=(32, 32, 32),
)


def scan(shape=(34, 20, 13), spacing=(1.0, 1.3, 2.1)) -> Volume:
    """A coarse pattern in soft tissue, and air about it."""
    rng = np.random.default_rng(3)
    blocks = rng.uniform(-200, 300, [n // 4 + 1 for n in shape])
    array = blocks.repeat(4, 0).repeat(4, 1).repeat(4, 2)[tuple(slice(n) for n in shape)].astype(np.float32)
    array[:2] = -1000
    affine = np.diag((*spacing, 1.0))
    affine[:3, 3] = (-17.0, 40.5, 900.25)
    return Volume(array, affine)


def untrained(plan: Plan = PLAN) -> nn.Module:
    """A network with random weights, its head made even so that every class wins somewhere."""
    torch.manual_seed(1)
    model = plan.network.build(len(plan.names)).eval()
    with torch.inference_mode():
        logits = model(prepare_image(scan((32, 32, 32), (1, 1, 2)), plan.preparation)[None])
        bias = next(
            weight
            for name, weight in reversed(list(model.named_parameters()))
            if name.startswith("head") and weight.ndim == 1
        )
        bias -= logits.mean((0, 2, 3, 4))
    return model


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(PLAN, untrained(), CPU, "32-true")


class Greater(nn.Module):
    """Class 1 where the image is above the middle of its range, class 2 at its very end; counts its windows."""

    def __init__(self) -> None:
        super().__init__()
        self.windows = 0

    def forward(self, x: Tensor) -> Tensor:
        self.windows += 1
        return torch.cat([-x, x, 40 * (x - 0.95)], 1)


def test_the_network_answers_with_every_class(predictor: Predictor) -> None:
    found = predictor.label(scan())
    assert set(np.unique(found)) == {0, 1, 2}  # or the laws below would say little


def test_labels_have_the_scans_shape_and_are_bytes(predictor: Predictor) -> None:
    found = predictor.label(scan())
    assert found.shape == scan().shape
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous


def test_prediction_commutes_exactly_with_axis_orders_and_flips(predictor: Predictor) -> None:
    expected = predictor.label(scan())
    for order in ORDERS[::5]:  # every order of axes and every flip is among them
        found = predictor.label(in_order(scan(), order))
        np.testing.assert_array_equal(found, apply_orientation(expected, order))


def test_it_commutes_with_all_48_of_them_where_the_network_is_a_threshold() -> None:
    simple = Predictor(PLAN, Greater(), CPU, "32-true")
    expected = simple.label(scan())
    assert set(np.unique(expected)) == {0, 1, 2}
    for order in ORDERS:
        np.testing.assert_array_equal(simple.label(in_order(scan(), order)), apply_orientation(expected, order))


def test_the_plans_postprocessing_is_done_in_any_axis_order() -> None:
    steps = (
        Step(step="smallest volume", classes=("spleen",), ml=0.2),
        Step(step="largest component", classes=("liver",)),
    )
    raw = Predictor(PLAN, Greater(), CPU, "32-true").label(scan())
    expected = postprocess(raw, steps, PLAN.names, scan().voxel_ml)
    assert not np.array_equal(raw, expected)
    assert set(np.unique(expected)) == {0, 1, 2}
    cleaning = Predictor(replace(PLAN, postprocessing=steps), Greater(), CPU, "32-true")
    for order in ORDERS:
        np.testing.assert_array_equal(cleaning.label(in_order(scan(), order)), apply_orientation(expected, order))


def test_it_is_the_sliding_window_over_the_prepared_scan(predictor: Predictor) -> None:
    given = in_order(scan(), ORDERS[29])
    image = prepare_image(given, PLAN.preparation)
    tiling = Tiling(window=PLAN.window, overlap=0.5)
    with torch.inference_mode():
        labels = label_volume(image, predictor.model, tiling, air=-1.0, shape=canonical(given).shape)
    np.testing.assert_array_equal(predictor.label(given), restore(labels, given))


def test_it_is_the_same_twice_and_after_another_scan(predictor: Predictor) -> None:
    first = predictor.label(scan())
    predictor.label(scan((9, 11, 10)))
    np.testing.assert_array_equal(predictor.label(scan()), first)


@pytest.mark.parametrize("shape", [(34, 20, 13), (70, 40, 50), (5, 4, 3), (1, 1, 1), (33, 1, 64)])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.8])
def test_there_is_a_tick_for_each_window(shape, overlap: float) -> None:
    model, ticks = Greater(), []
    predictor = Predictor(PLAN, model, CPU, "32-true", overlap)
    given = in_order(scan(shape), ORDERS[17])
    predictor.label(given, lambda: ticks.append(1))
    assert len(ticks) == model.windows == predictor.windows(given)


@pytest.mark.parametrize("shape", [(5, 4, 3), (1, 1, 1), (40, 2, 7)])
def test_scans_smaller_than_the_window_work(predictor: Predictor, shape) -> None:
    assert predictor.label(scan(shape)).shape == shape


def test_where_nothing_is_resampled_a_threshold_stays_where_it_was() -> None:
    given = Volume(np.where(scan().array > 60, 260, -160).astype(np.float32), np.diag((1.0, 1.0, 2.0, 1.0)))
    found = Predictor(PLAN, Greater(), CPU, "32-true").label(given)
    np.testing.assert_array_equal(found, np.where(given.array > 0, 2, 0))


def test_the_overlap_is_a_share_of_a_window() -> None:
    few, many = (Predictor(PLAN, Greater(), CPU, "32-true", overlap) for overlap in (0.0, 0.75))
    assert few.windows(scan((64, 32, 16), (1, 1, 2))) == 2
    assert many.windows(scan((64, 32, 16), (1, 1, 2))) == 5


def test_the_network_leaves_training_mode() -> None:
    model = NETWORK.build(3)
    assert model.training
    assert not Predictor(PLAN, model, CPU, "32-true").model.training


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_precision_is_that_of_the_arithmetic(precision) -> None:
    seen = []

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv3d(1, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            assert torch.is_inference_mode_enabled()
            y = self.layer(x)
            seen.append(y.dtype)
            return y

    Predictor(PLAN, Layer(), CPU, precision).label(scan())
    assert set(seen) == {torch.float32 if precision == "32-true" else torch.bfloat16}


def test_bfloat16_says_nearly_the_same(predictor: Predictor) -> None:
    found = Predictor(PLAN, untrained(), CPU, "bf16-mixed").label(scan())
    assert np.mean(found == predictor.label(scan())) > 0.9


def test_the_precision_is_the_best_of_the_device_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    assert Predictor(PLAN, Greater(), CPU).precision == "bf16-mixed"
    assert Predictor(PLAN, Greater(), CPU, "32-true").precision == "32-true"


def test_a_finished_run_gives_its_predictor_and_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predictor: Predictor
) -> None:
    run = Run.create(tmp_path / "run", PLAN)
    run.save_weights(predictor.model.state_dict())
    loads = []
    load = Run.load_model
    monkeypatch.setattr(Run, "load_model", lambda *given: (loads.append(1), load(*given))[1])
    found = Predictor.of(Run.open(run.folder), device="cpu", precision="32-true")
    for given in (scan(), scan((8, 9, 10))):
        np.testing.assert_array_equal(found.label(given), predictor.label(given))
    assert loads == [1]


def test_a_run_without_weights_gives_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"weights.safetensors is missing"):
        Predictor.of(Run.create(tmp_path / "run", PLAN))


def test_with_more_classes_than_channels_the_last_layer_is_done_once_for_each_slice() -> None:
    names = {0: "background", **{index: f"class {index}" for index in range(1, 20)}}
    plan = replace(PLAN, names=names)
    model = untrained(plan)
    given = scan((40, 20, 13))
    predictor = Predictor(plan, model, CPU, "32-true")
    image = prepare_image(given, plan.preparation)
    with torch.inference_mode():
        assert predictor.model(image.new_zeros(1, 1, 32, 32, 32)).shape[1] == NETWORK.feature_size
        expected = label_volume(image, model, predictor.tiling, air=-1.0, shape=given.shape)
    found = predictor.label(given)
    assert len(np.unique(expected)) > 10
    assert np.mean(found == expected) > 0.999  # where two logits are all but equal, rounding decides


def test_a_scan_is_not_overwritten_by_a_network_that_returns_its_input() -> None:
    given = Volume(scan().array, np.diag((1.0, 1.0, 2.0, 1.0)))  # neither turned nor resampled
    before = given.array.copy()
    Predictor(PLAN, nn.Identity(), CPU, "32-true").label(given)
    np.testing.assert_array_equal(given.array, before)


def test_a_scan_that_does_not_fit_into_memory_is_refused_before_the_work(  # D5
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak = predictor.check_memory(scan())
    larger = predictor.peak_bytes(Volume(np.zeros((300, 200, 100), np.float32), np.eye(4)))
    assert larger - peak > 4 * 300 * 200 * 100  # the prepared scan at least
    monkeypatch.setattr("fredholm.pipelines.predict.available_bytes", lambda: 1_000_000)
    with pytest.raises(ValueError, match=r"34 x 20 x 13 voxels takes about .* GB, and .* GB are there: free some"):
        predictor.check_memory(scan())


def test_memory_is_told_without_a_change_to_the_network(predictor: Predictor) -> None:
    expected = predictor.label(scan())
    predictor.check_memory(scan())
    np.testing.assert_array_equal(predictor.label(scan()), expected)


def test_compiling_replaces_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Greater()
    monkeypatch.setattr(torch, "compile", lambda model: compiled)
    predictor = Predictor(PLAN, Greater(), CPU, "32-true")
    predictor.compile()
    predictor.label(scan())
    assert compiled.windows == predictor.windows(scan())


def read_quietly(path: Path) -> Volume:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_volume(path)


@pytest.fixture(scope="module")
def coarse(predictor: Predictor) -> Predictor:
    """At 12 mm one window holds a body."""
    preparation = replace(PLAN.preparation, spacing_mm=(12.0, 12.0, 12.0))
    return Predictor(replace(PLAN, preparation=preparation), predictor.model, CPU, "32-true")


def test_a_real_scan_stored_in_other_axis_orders_gives_the_same_labels_in_the_world(
    medical: Path, tmp_path: Path, coarse: Predictor
) -> None:
    given = read_volume(medical / "torso" / "ct.nii.gz")
    expected = coarse.label(given)
    assert len(np.unique(expected)) > 1
    for number in (5, 22, 47):
        turned = in_order(given, ORDERS[number])
        found = coarse.label(turned)
        write_labels(tmp_path / "labels.nii.gz", found, like=turned)
        back = canonical(read_volume(tmp_path / "labels.nii.gz"))
        np.testing.assert_array_equal(back.array, canonical(Volume(expected, given.affine)).array)
        np.testing.assert_allclose(back.affine, canonical(given).affine, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["CT_pitch", "AICHAmc", "anatomical", "resampled_anat_moved", "with_extension"])
def test_awkward_images_are_labelled(medical: Path, coarse: Predictor, name: str) -> None:
    given = read_quietly(next((medical / "awkward_nifti").glob(f"{name}.nii*")))
    found = coarse.label(given)
    assert found.shape == given.shape
    assert set(np.unique(found)) <= {0, 1, 2}
