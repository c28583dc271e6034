"""Names of classes find their SNOMED codes and colours, and nothing is ever given a wrong one."""

import json
from pathlib import Path

import numpy as np
import pytest
from fredholm.pipelines import structures
from fredholm.pipelines.phantom import LABELS
from fredholm.pipelines.structures import ABNORMAL, ANATOMY, SIDES, TISSUE, Code, structure
from pydicom.sr._cid_dict import cid_concepts
from pydicom.sr._concepts_dict import concepts
from skimage.color import rgb2lab

NAMES = sorted(structures._KINDS)
PAIRED = [name for name in NAMES if structures._KINDS[name].paired]
# The names of three data sets, in their own spelling: BTCV and AMOS, FLARE, PanTS.
AMOS = [
    *("spleen", "right kidney", "left kidney", "gall bladder", "esophagus", "liver", "stomach", "aorta", "postcava"),
    *("pancreas", "right adrenal gland", "left adrenal gland", "duodenum", "bladder"),
]
PANTS = [
    *("aorta", "adrenal_gland_left", "adrenal_gland_right", "bladder", "celiac_artery", "colon", "common_bile_duct"),
    *("duodenum", "femur_left", "femur_right", "gall_bladder", "kidney_left", "kidney_right", "liver", "lung_left"),
    *("lung_right", "pancreas", "pancreas_body", "pancreas_head", "pancreas_tail", "pancreatic_duct"),
    *("pancreatic_lesion", "postcava", "prostate", "spleen", "stomach", "superior_mesenteric_artery"),
]


MEANINGS: dict[str, set[str]] = {}  # of each SCT code that pydicom's copy of the standard holds
for codes in concepts["SCT"].values():
    for value, (meaning, _) in codes.items():
        MEANINGS.setdefault(value, set()).add(meaning)


@pytest.mark.parametrize("name", [*NAMES, "class 1"])
def test_every_code_stands_in_the_standard_with_this_meaning(name: str) -> None:
    found = structure(name)
    for code in (found.type, found.category, found.region or TISSUE):
        assert code.meaning in MEANINGS[code.value], code


def test_categories_and_sides_are_those_of_the_standard() -> None:
    allowed = {"category": (7150, (ANATOMY, TISSUE, ABNORMAL)), "side": (244, SIDES.values())}
    for cid, codes in allowed.values():
        listed = {value for name in cid_concepts[cid]["SCT"] for value in concepts["SCT"][name]}
        assert {code.value for code in codes} <= listed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spleen", "78961009"),
        ("Liver", "10200004"),
        ("kidney_left", "64033007"),
        ("lung_upper_lobe_right", "45653009"),
        ("vertebrae_L5", "49668003"),
        ("vertebrae_T12", "23215003"),
        ("vertebra C1", "14806007"),
        ("aorta", "15825003"),
        ("inferior_vena_cava", "64131007"),
        ("oesophagus", "32849002"),
        ("heart_ventricle_left", "87878005"),
        ("GTV", "108369006"),
    ],
)
def test_what_one_knows_by_heart_has_its_code(name: str, value: str) -> None:
    assert structure(name).type.value == value


def test_totalsegmentators_classes_are_all_known(medical: Path) -> None:
    names = json.loads((medical / "torso/label_names.json").read_text()).values()
    assert len(names) == 117
    assert [name for name in names if not structure(name).known] == []
    colours = [structure(name).colour for name in names]
    assert len(set(colours)) == 117


@pytest.mark.parametrize("name", [*AMOS, *PANTS, *LABELS[1:]])
def test_other_data_sets_are_known(name: str) -> None:
    assert structure(name).known


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("side", SIDES)
def test_the_side_may_stand_anywhere(name: str, side: str) -> None:
    expected = structure(f"{name}_{side}")
    assert (expected.side, expected.known) == (side, True)
    first, *rest = name.split()
    letter = side[0]
    for spelling in (
        f"{side} {name}",
        f"{name.upper()}-{letter}",
        f"{first}_{side}_{'_'.join(rest)}",
        f"{letter}. {name}",
    ):
        other = structure(spelling)
        assert (other.type, other.side, other.colour) == (expected.type, expected.side, expected.colour)


def test_a_side_in_the_code_is_not_said_again() -> None:
    for name in ("heart_atrium_left", "left atrium", "lung_middle_lobe_right", "lung_middle_lobe"):
        assert structure(name).known
        assert structure(name).side is None


def test_a_finding_lies_in_its_organ() -> None:
    cyst = structure("kidney_cyst_left")
    assert (cyst.category, cyst.type, cyst.side) == (ABNORMAL, Code("367643001", "Cyst"), "left")
    assert cyst.region == structure("kidney").type
    assert structure("liver_tumor").region == structure("hepatic tumour").region == structure("liver").type
    assert structure("tumor").region is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "-",
            "left",
            "l",
            "class 1",
            "left_liver",
            "lung_middle_lobe_left",
            "rib_13",
            "vertebrae_L7",
            "left right",
        ),
        *("kidney left right", "tumor tumor", "liver spleen", "left_liver_tumor", "prostate/uterus", "肝"),
    ],
)
def test_what_the_table_does_not_know_is_tissue(name: str) -> None:
    found = structure(name)
    assert (found.known, found.type, found.category, found.side, found.region) == (False, TISSUE, TISSUE, None, None)
    assert found.name == name


def test_a_name_stands_for_one_row_only() -> None:
    rows = [*structures._SINGLE, *structures._PAIRED, *structures._TISSUES, *structures._FINDINGS, *structures._PARTS]
    names = [name for row in rows for name in row[0].split("/")]
    assert len(names) == len(set(names)) == len(NAMES)


def test_colours_of_the_table_differ_as_the_eye_sees_it() -> None:
    rows = {structures._KINDS[name].colour for name in NAMES}
    lab = rgb2lab(np.array([structures._rgb(colour) for colour in sorted(rows)])[None] / 255)[0]
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1) + 100 * np.eye(len(lab))
    assert apart.min() > 5  # CIE76: 2.3 is just noticeable
    assert lab[:, 0].min() > 50


def test_both_sides_of_a_pair_can_be_told_apart() -> None:
    for name in PAIRED:
        left, right, both = (structure(f"{name} {side}".strip()).rgb for side in ("left", "right", ""))
        lab = rgb2lab(np.array([left, both, right])[None] / 255)[0]
        assert np.all(np.diff(lab[:, 0]) > 2.3)
        assert lab[0, 0] > 45


def test_unknown_names_have_a_colour_of_their_own_that_stays() -> None:
    assert structure("class 1").colour == structure("CLASS 1").colour == "#e755c7"
    colours = [structure(f"class {number}").rgb for number in range(300)]
    assert len(set(colours)) > 200
    assert rgb2lab(np.array(colours)[None] / 255)[0, :, 0].min() > 45
