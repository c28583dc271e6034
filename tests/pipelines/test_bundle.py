"""A bundle is a run that tells others all they need, and that says when it was damaged."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fredholm.pipelines.bundle import SUMS, Imprint, open_run, pack
from fredholm.pipelines.bundle_configs import cleaned
from fredholm.pipelines.postprocess import Step, postprocess
from fredholm.pipelines.run import Run
from fredholm.pipelines.scores import Scores, evaluate_pair
from fredholm.pipelines.volume import Volume
from helpers.segment import AFFINE, PLAN, body
from monai.bundle import ConfigParser, verify_net_in_out
from monai.bundle.properties import InferProperties, MetaProperties
from monai.data.meta_tensor import MetaTensor

# MONAI warns of what configs may do, and of readers that are not installed
pytestmark = pytest.mark.filterwarnings("default")

DATA = {"folder": "ward_7", "training": ["Smith_John", "case_2"], "validation": ["Doe_Jane"]}
FILES = ["configs/inference.json", "configs/metadata.json", "docs/README.md", "docs/license.txt", "docs/scores.json"]
FILES += ["models/model.pt", "plan.yaml"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(tmp_path_factory.mktemp("runs") / "run", replace(PLAN, data=DATA))
    made.save_weights(PLAN.network.build(3).state_dict())
    for step, dice in ((10, 0.5), (20, 0.75), (30, 0.625)):
        made.log({"step": step, "dice": dice})
    return made


@pytest.fixture(scope="module")
def scores() -> dict:
    volume, labels = body(0)
    one = evaluate_pair(Volume(labels, volume.affine), Volume(labels, volume.affine), PLAN.names)
    return Scores({"Doe_Jane": one}, PLAN.names, ["dice"]).as_dict()


@pytest.fixture
def bundle(run: Run, scores: dict, tmp_path: Path) -> Path:
    imprint = Imprint(authors="A. Turing", license="CC-BY-4.0", data_license="CC0", scores=scores)
    pack(run, run.weights_file, tmp_path / "bundle", imprint)
    return tmp_path / "bundle"


def metadata(bundle: Path) -> dict:
    return json.loads((bundle / "configs" / "metadata.json").read_text())


def test_its_network_is_the_runs(run: Run, bundle: Path) -> None:
    ours, theirs = run.load_model().state_dict(), open_run(bundle).load_model().state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.load(bundle / "models" / "model.pt", weights_only=True).keys() == ours.keys()


def test_its_plan_is_the_runs_but_for_names_of_cases(bundle: Path) -> None:
    plan = open_run(bundle).plan
    assert replace(plan, data={}, notes=()) == PLAN
    assert plan.data == {"training": 2, "validation": 1}
    assert plan.notes == ("licence of the weights: CC-BY-4.0",)
    text = "".join((bundle / name).read_text() for name in FILES if not name.endswith(".pt"))
    assert not any(name in text for name in ("Smith_John", "Doe_Jane", "ward_7"))


def test_the_sums_are_of_every_file(bundle: Path) -> None:  # I2
    lines = [line.split("  ") for line in (bundle / SUMS).read_text().splitlines()]
    assert [name for _, name in lines] == FILES
    found = sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
    assert found == sorted([*FILES, SUMS])


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_damage(bundle: Path, name: str) -> None:
    content = bytearray((bundle / name).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"damaged: {name} is not the file that was packed"):
        open_run(bundle)
    (bundle / name).unlink()
    with pytest.raises(ValueError, match=f"damaged: {name} is missing"):
        open_run(bundle)


def test_it_tells_scores_licences_and_where_it_learned(bundle: Path) -> None:  # I6
    facts = metadata(bundle)
    expected = {"validation_dice_last": 0.625, "validation_dice_best": 0.75, "dice": 1.0}
    assert (facts["eval_metrics"], facts["data"]) == (expected, {"training": 2, "validation": 1})
    assert facts["network_data_format"]["outputs"]["pred"]["channel_def"]["2"] == "liver"
    license = (bundle / "docs" / "license.txt").read_text()
    assert all(words in license for words in ("Apache-2.0", "model.pt): CC-BY-4.0", "trained on: CC0"))
    scores = json.loads((bundle / "docs" / "scores.json").read_text())
    assert scores["dice"]["mean_per_class"]["spleen"] == 1.0


def test_without_scores_none_are_told(run: Run, tmp_path: Path) -> None:
    pack(run, run.weights_file, tmp_path / "bundle", Imprint())
    assert not (tmp_path / "bundle" / "docs" / "scores.json").exists()
    with pytest.raises(ValueError, match="what segment evaluate --json writes, 'tolerance_mm' is missing"):
        pack(run, run.weights_file, tmp_path / "bundle", Imprint(scores={"1": "spleen"}))


def test_monai_finds_all_that_a_bundle_must_have(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle)
    parser = ConfigParser()
    parser.read_config("configs/inference.json")
    parser.read_meta("configs/metadata.json")
    properties = {**InferProperties, **MetaProperties}.values()
    assert [one["id"] for one in properties if one["required"] and one["id"] not in parser] == []
    needed = {"required_packages_version", "task", "description", "authors", "copyright", "network_data_format"}
    assert needed <= metadata(bundle).keys()
    verify_net_in_out("network_def", meta_file="configs/metadata.json", config_file="configs/inference.json")


def test_labels_of_monai_are_cleaned_as_ours() -> None:
    labels = np.random.default_rng(0).integers(0, 3, (6, 7, 8))
    steps = (Step(step="smallest volume", ml=0.004, classes=("spleen",)), Step(step="fill holes"))
    found = cleaned(
        MetaTensor(torch.from_numpy(labels[None]).float(), affine=AFFINE), replace(PLAN, postprocessing=steps)
    )
    expected = postprocess(labels, steps, PLAN.names, 0.001)
    assert (expected != labels).any()
    assert (found.shape, found.dtype) == ((1, 6, 7, 8), torch.float32)
    np.testing.assert_array_equal(found[0].numpy(), expected)
    np.testing.assert_array_equal(found.affine, AFFINE)


def test_several_channels_are_refused(run: Run, tmp_path: Path) -> None:
    preparation = replace(PLAN.preparation, windows_of_others=((0.0, 1.0),))
    plan = replace(PLAN, channels=("CT", "PET"), network=replace(PLAN.network, channels=2), preparation=preparation)
    with pytest.raises(ValueError, match="only a network of one channel is packed"):
        pack(Run(run.folder, plan), run.weights_file, tmp_path / "bundle", Imprint())
    assert list(tmp_path.iterdir()) == []
