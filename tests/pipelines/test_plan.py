"""A plan says the same after a round trip through its file, and a slip of the pen in the file is named."""

import dataclasses
from pathlib import Path

import pytest
import torch
import yaml
from fredholm.backbones import Interpolation, MonaiOptions
from fredholm.pipelines.phases import AnchorPhases
from fredholm.pipelines.plan import Network, Plan, Preparation, Recipe
from fredholm.pipelines.postprocess import Step

PREPARATION = Preparation(spacing_mm=(1.5, 1.5, 2.0), window_hu=(-175.0, 250.0), range=(0.0, 1.0))


def plan(**changes: object) -> Plan:
    given = {"names": {0: "background", 1: "spleen"}, "preparation": PREPARATION, "network": Network()}
    return Plan(**{**given, **changes})  # pyright: ignore[reportArgumentType]


FULL = plan(
    names={0: "background", 1: "yes", 2: "1", 3: "Leber, \u00fcbrig: 'links' #1\n", 4: "null"},
    network=Network(
        stages="HAHA",
        feature_size=24,
        boundary="periodic",
        registers=4,
        deep_supervision=2,
        interpolation=Interpolation(),
    ),
    recipe=Recipe(
        window=(64, 32, 96),
        minutes=0.1,
        learning_rate=1e-5,
        weight_decay=3e-17,
        ema=0.999,
        precision="bf16-mixed",
        class_weights={0: 0.5, 3: 2.0},
        phases=AnchorPhases(activation=10, joint=20),
    ),
    window=(64, 32, 96),
    postprocessing=(
        Step(step="smallest volume", classes=("yes", "null"), ml=0.5),
        Step(step="fill holes"),
    ),
    data={"folder": "Task09", "training": ["a", "1e5"], "validation": []},
    mirrored=("head",),
    regions={1: [1, 2, 3], 4: [2, 3]},
    notes=("one sentence.", "another: with a colon"),
)
PLANS = {
    "full": FULL,
    "least": plan(),
    "monai": plan(network=Network(monai=MonaiOptions(padding="zero", grid="double", cache=17, merging="mergingv2"))),
}


@pytest.mark.parametrize("given", PLANS.values(), ids=PLANS)
def test_a_plan_comes_back_from_its_file_unchanged(tmp_path: Path, given: Plan) -> None:
    given.write(tmp_path / "plan.yaml")
    assert Plan.read(tmp_path / "plan.yaml") == given
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_the_file_is_plain_yaml_with_a_key_for_each_field(tmp_path: Path) -> None:
    FULL.write(tmp_path / "plan.yaml")
    content = yaml.safe_load((tmp_path / "plan.yaml").read_text(encoding="utf-8"))
    assert list(content) == [field.name for field in dataclasses.fields(Plan)]
    assert list(content["recipe"]) == [field.name for field in dataclasses.fields(Recipe)]
    assert "\u00fcbrig" in (tmp_path / "plan.yaml").read_text(encoding="utf-8")


def test_remarks_stand_above_their_fields_and_change_nothing(tmp_path: Path) -> None:
    remarks = {"": "at the top", "names": "one\ntwo", "recipe.window": "why " * 60, "regions": "last"}
    FULL.write(tmp_path / "plan.yaml", remarks)
    assert Plan.read(tmp_path / "plan.yaml") == FULL
    lines = (tmp_path / "plan.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[:4] == ["# at the top", "# one", "# two", "names:"]
    above = lines[: lines.index("  window:")][::-1]
    assert all(line.startswith("  # why") for line in above[:2])
    assert max(map(len, lines)) < 120


@pytest.mark.parametrize("weights", [{1: 0.0}, {1: "much"}, [1.0, 2.0]])
def test_class_weights_that_are_none_are_refused(weights: object) -> None:
    with pytest.raises(ValueError, match="class_weights are positive numbers by class index"):
        Recipe(class_weights=weights)  # pyright: ignore[reportArgumentType]


def test_class_weights_of_a_class_that_is_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match=r"class_weights has \[7\], the classes are \[0, 1\]"):
        plan(recipe=Recipe(class_weights={7: 2.0}))


def test_an_edit_by_hand_is_taken(tmp_path: Path) -> None:
    FULL.write(tmp_path / "plan.yaml")
    text = (tmp_path / "plan.yaml").read_text(encoding="utf-8").replace("accumulate: 1", "accumulate: 3  # more")
    (tmp_path / "plan.yaml").write_text(text, encoding="utf-8")
    found = Plan.read(tmp_path / "plan.yaml").recipe
    assert found is not None
    assert found.accumulate == 3


def test_keys_with_defaults_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "names: {0: background, 1: spleen}\nnetwork: {}\n"
        "preparation: {spacing_mm: [1.5, 1.5, 2.0], window_hu: [-175.0, 250.0], range: [0.0, 1.0]}\n"
    )
    assert Plan.read(tmp_path / "plan.yaml") == plan()


def test_each_channel_has_a_name_and_a_window(tmp_path: Path) -> None:
    preparation = dataclasses.replace(PREPARATION, windows_of_others=((0.0, 20.0),))
    two = dataclasses.replace(plan(), channels=("CT", "PET"), preparation=preparation, network=Network(channels=2))
    two.write(tmp_path / "plan.yaml")
    assert Plan.read(tmp_path / "plan.yaml") == two
    with pytest.raises(ValueError, match="channels: 1 names, 2 of the network, 2 windows"):
        dataclasses.replace(two, channels=("CT",))
    with pytest.raises(ValueError, match="windows_of_others is 2 numbers"):
        dataclasses.replace(preparation, windows_of_others=(0.0, 20.0))


def says(folder: Path, content: object, words: str) -> None:
    path = folder / "plan.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ValueError, match=words) as caught:
        Plan.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def content_of(folder: Path, given: Plan = FULL) -> dict:
    given.write(folder / "plan.yaml")
    return yaml.safe_load((folder / "plan.yaml").read_text(encoding="utf-8"))


def test_an_unknown_key_is_named_with_the_known_ones(tmp_path: Path) -> None:
    says(tmp_path, {**content_of(tmp_path), "nmaes": 1}, r"unknown key 'nmaes'; known are names, preparation")


@pytest.mark.parametrize(
    ("record", "words"),
    [("recipe", "known are steps, minutes"), ("network", "known are stages"), ("preparation", "known are spacing_mm")],
)
def test_an_unknown_key_of_a_record_is_named_with_its_record(tmp_path: Path, record: str, words: str) -> None:
    content = content_of(tmp_path)
    content[record]["sedd"] = 1
    says(tmp_path, content, rf"{record}: unknown key 'sedd'; {words}")


def test_an_unknown_key_of_the_monai_options_is_named(tmp_path: Path) -> None:
    content = content_of(tmp_path, PLANS["monai"])
    content["network"]["monai"]["paddling"] = "zero"
    says(tmp_path, content, "network: monai: unknown key 'paddling'; known are padding")


def test_missing_keys_are_all_named(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    del content["names"], content["network"]
    says(tmp_path, content, "missing key 'names', missing key 'network'")
    content = content_of(tmp_path)
    del content["preparation"]["window_hu"]
    says(tmp_path, content, "preparation: missing key 'window_hu'")


@pytest.mark.parametrize("text", ["", "just words", "- a\n- list\n", "7"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    says(tmp_path, text, "expected keys and values, got")


@pytest.mark.parametrize("text", ["names: {0: a", "a: b: c", "\t- x", "!!python/object/apply:os.getcwd []"])
def test_what_is_no_yaml_is_refused_on_one_line(tmp_path: Path, text: str) -> None:
    says(tmp_path, text, "is no YAML file")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_bytes(b"\xff\xfe\x00\x80names")
    with pytest.raises(ValueError, match="is no YAML file"):
        Plan.read(tmp_path / "plan.yaml")


def test_a_missing_file_is_told_from_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Plan.read(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        ("recipe", "steps", "many"),
        ("recipe", "learning_rate", "4e-4"),  # what YAML makes of 4e-4 written by hand: a string
        ("recipe", "window", 96),
        ("preparation", "spacing_mm", 1.5),
        ("preparation", "window_hu", [-175]),
        ("network", "boundary", "cyclic"),
        (None, "names", ["background", "spleen"]),
        (None, "preparation", None),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(tmp_path: Path, record: str | None, key: str, value: object) -> None:
    content = content_of(tmp_path)
    (content[record] if record else content)[key] = value
    says(tmp_path, content, key)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ([{"step": "biggest"}], "postprocessing: 1: step is one of largest component"),
        ([{"step": "fill holes"}, {"step": "fill holes", "class": ["yes"]}], "postprocessing: 2: unknown key 'class'"),
        ([{"step": "fill holes", "classes": ["spleen"]}], "postprocessing: fill holes: no class is named 'spleen'"),
        ([{"step": "fill holes", "classes": "yes"}], "classes is a list of names"),
        ([{"step": "smallest volume", "ml": "5e-1"}], "ml is a positive number"),
        (["fill holes"], "postprocessing: 1: expected keys and values"),
        ({"step": "fill holes"}, "postprocessing is a list of steps"),
        (None, "postprocessing is a list of steps"),
    ],
)
def test_a_slip_in_the_postprocessing_is_named(tmp_path: Path, written: object, words: str) -> None:
    says(tmp_path, {**content_of(tmp_path), "postprocessing": written}, words)


@pytest.mark.parametrize("window_hu", [(250.0, -175.0), (100.0, 100.0)])
def test_a_window_that_tells_nothing_apart_is_refused(window_hu: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="window"):
        Preparation(spacing_mm=(1.0, 1.0, 1.0), window_hu=window_hu)


def test_a_network_is_built_as_planned() -> None:
    model = Network(stages="HHAA", feature_size=12, deep_supervision=1).build(3)
    assert (model.in_channels, model.out_channels) == (1, 3)
    assert (model.stage_letters, model.feature_size) == ("HHAA", 12)
    assert len(model.coarse_heads) == 1


def test_a_network_with_loaded_weights_gives_the_same_logits_in_evaluation_mode() -> None:
    network = Network(stages="AAAA", feature_size=12)
    model = network.build(2).eval()
    torch.nn.init.normal_(next(model.parameters()))
    again = network.load(model.state_dict(), 2)
    assert not again.training
    x = torch.randn(1, 1, 32, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(again(x), model(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Network(stages="HHXA"), "unknown letter 'X'; known are A"),
        (Network(stages="HHA"), "four stages"),
        (Network(feature_size=20), "multiple of 12, got 20"),
        (Network(deep_supervision=4), "0 to 3, got 4"),
    ],
)
def test_a_network_that_cannot_be_built_says_why(network: Network, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        network.build(2)


@pytest.mark.parametrize("regions", ["3", "{1: 2}", "{1: [7]}", "{7: [1]}", "[1]"])
def test_regions_of_classes_that_are_not_there_are_refused(tmp_path: Path, regions: str) -> None:
    plan().write(tmp_path / "plan.yaml")
    text = (tmp_path / "plan.yaml").read_text().replace("regions: {}", f"regions: {regions}")
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"plan\.yaml: regions are lists of classes by class"):
        Plan.read(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("mirrored", "words"),
    [
        (("left",), r"mirrored is a list of right, front, head, not \('left',\)"),
        ("front", "mirrored is a list"),
        (("front", "right"), "kidney_left has a side"),
    ],
)
def test_directions_of_mirrored_patches_are_checked(mirrored, words: str) -> None:
    names = {0: "background", 1: "liver", 2: "kidney_left", 3: "kidney_right"}
    with pytest.raises(ValueError, match=words):
        plan(names=names, mirrored=mirrored)
    assert plan(names=names, mirrored=("front", "head")).mirrored == ("front", "head")
    assert plan(names={0: "background", 1: "liver"}, mirrored=("right",)).mirrored == ("right",)
