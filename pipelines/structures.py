"""What structures are called, coded and coloured: one table for pictures, pages and DICOM.

`structure` finds a class by its name as people have it in `dataset.json`: `kidney_left`, `Left kidney`, `kidney_l`,
`vertebrae_L5`, `rib_right_7`, `liver_tumor`. Codes are SNOMED CT as DICOM lists them (PS3.16, CID 7151 where it has the
structure); where it has none, a code that is right but wider (a gluteus is skeletal muscle, any rib is a rib). Nothing
is guessed: a name that the table does not know is "Tissue" with a colour made from the name, and so is a name with a
side that cannot be (a left liver, a left middle lobe).

A colour belongs to a name for good. Both sides of a pair share a hue: the left one darker, the right one lighter.
"""

import colorsys
import re
import zlib
from dataclasses import dataclass
from typing import Literal

Side = Literal["left", "right"]


@dataclass(frozen=True)
class Code:
    """A concept, of SNOMED CT (scheme SCT) unless it says another."""

    value: str
    meaning: str
    scheme: str = "SCT"


@dataclass(frozen=True)
class Structure:
    """What is known of a class from its name.

    Args:
        name: As given.
        type: What it is.
        category: What kind of thing that is, of DICOM's CID 7150.
        colour: `#rrggbb`, light enough to be seen on a dark scan.
        side: What has to be said beside `type`; None where there is no side or `type` tells it.
        region: Where it lies, for a finding or a part; None where `type` tells it.
        known: The table has it; otherwise `type` and `category` say "Tissue".
    """

    name: str
    type: Code
    category: Code
    colour: str
    side: Side | None = None
    region: Code | None = None
    known: bool = True

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour as red, green and blue from 0 to 255."""
        return _rgb(self.colour)


ANATOMY = Code("91723000", "Anatomical Structure")
TISSUE = Code("85756007", "Tissue")
ABNORMAL = Code("49755003", "Morphologically Abnormal Structure")
SIDES: dict[Side, Code] = {"left": Code("7771000", "Left"), "right": Code("24028007", "Right")}


def structure(name: str) -> Structure:
    """Look a class up; a name that the table does not know gives "Tissue" and a colour of its own."""
    stem, side = stem_and_side(name)
    found = (side and _find(f"{stem} {side}", None)) or _find(stem, side) or _finding_in_an_organ(stem, side)
    kind, side, region = found or (_Kind(TISSUE, TISSUE, _colour_of(name.lower())), None, None)
    return Structure(name, kind.type, kind.category, _shaded(kind.colour, side), side, region, known=found is not None)


@dataclass(frozen=True)
class _Kind:
    type: Code
    category: Code
    colour: str
    paired: bool = False
    region: Code | None = None


_Found = tuple[_Kind, Side | None, Code | None]

_VERTEBRAE = {
    "C1": ("14806007", "#cedb64"), "C2": ("39976000", "#d69239"), "C3": ("113205007", "#8d9c67"),
    "C4": ("5329002", "#ff9f5f"), "C5": ("36978003", "#dcce66"), "C6": ("36054005", "#e3ecc5"),
    "C7": ("87391001", "#ecc358"), "T1": ("64864005", "#99b856"), "T2": ("53733008", "#fdae5b"),
    "T3": ("1626008", "#e8ee89"), "T4": ("73071006", "#d2a643"), "T5": ("56401006", "#c3e47b"),
    "T6": ("45296009", "#dc853a"), "T7": ("62487009", "#999c35"), "T8": ("11068009", "#f5e0b9"),
    "T9": ("82687006", "#b3b642"), "T10": ("7610001", "#b79260"), "T11": ("12989004", "#b0c67e"),
    "T12": ("23215003", "#af9726"), "L1": ("66794005", "#aeba8d"), "L2": ("14293000", "#ebca70"),
    "L3": ("36470004", "#a9cb5a"), "L4": ("11994002", "#ffc15d"), "L5": ("49668003", "#deda82"),
}  # fmt: skip
_RIBS = (
    "#ffc4aa", "#a2957a", "#ffa87f", "#b29384", "#e9cd8a", "#e29976",
    "#c2bd5e", "#fec99c", "#a4973c", "#eab780", "#9b9c5b", "#cc8a48",
)  # fmt: skip

# Each row: the names it goes by, without side and in lower case; SCT code; its meaning in DICOM; colour.
_SINGLE = (
    ("spleen", "78961009", "Spleen", "#a06bd6"),
    ("liver", "10200004", "Liver", "#c8793e"),
    ("gallbladder/gall bladder", "28231008", "Gallbladder", "#3ddc97"),
    ("stomach", "69695003", "Stomach", "#ff85c0"),
    ("pancreas", "15776009", "Pancreas", "#ffe066"),
    ("esophagus/oesophagus", "32849002", "Esophagus", "#d9a0ff"),
    ("small bowel/small intestine", "30315005", "Small intestine", "#009f8e"),
    ("duodenum", "38848004", "Duodenum", "#d4817d"),
    ("jejunum", "21306003", "Jejunum", "#8dc08a"),
    ("ileum", "34516001", "Ileum", "#37f0e0"),
    ("large bowel/large intestine", "14742008", "Large intestine", "#9e8f4e"),
    ("colon", "71854001", "Colon", "#8886c6"),
    ("cecum/caecum", "32713005", "Cecum", "#009ebf"),
    ("appendix", "66754008", "Appendix", "#fb42a9"),
    ("ascending colon/colon ascending", "9040008", "Ascending colon", "#e76420"),
    ("transverse colon/colon transverse", "485005", "Transverse colon", "#f6b38a"),
    ("descending colon/colon descending", "32622004", "Descending colon", "#de6754"),
    ("sigmoid colon/sigmoid/colon sigmoid", "60184004", "Sigmoid colon", "#42a662"),
    ("rectum", "34402009", "Rectum", "#d8befe"),
    ("anus", "53505006", "Anus", "#bc79bb"),
    ("bile duct", "28273000", "Bile duct", "#f1b966"),
    ("common bile duct", "79741001", "Common bile duct", "#99e995"),
    ("pancreatic duct/pancreas duct", "69930009", "Pancreatic duct", "#bfcd73"),
    ("urinary bladder/bladder", "89837001", "Bladder", "#ffd23f"),
    ("urethra", "13648007", "Urethra", "#93eec2"),
    ("prostate/prostate gland", "41216001", "Prostate", "#829d4e"),
    ("penis", "18911002", "Penis", "#fe5c96"),
    ("uterus", "35039007", "Uterus", "#cc66ec"),
    ("vagina", "76784001", "Vagina", "#fe8297"),
    (
        "lung middle lobe right/lung middle lobe/middle lobe lung right/middle lobe lung",
        "72481006",
        "Middle lobe of right lung",
        "#c28760",
    ),
    ("trachea", "44567001", "Trachea", "#7fe7ff"),
    ("airways/airway", "89187006", "Airway structure", "#00bcc6"),
    ("larynx", "4596009", "Larynx", "#28c8fe"),
    ("pharynx", "54066008", "Pharynx", "#a1a3ff"),
    ("tongue", "21974007", "Tongue", "#df5cb9"),
    ("thyroid gland/thyroid", "69748006", "Thyroid", "#b6f04c"),
    ("thymus", "9875009", "Thymus", "#bfac46"),
    ("mediastinum", "72410000", "Mediastinum", "#31be94"),
    ("diaphragm", "5798000", "Diaphragm", "#ff9670"),
    ("heart", "80891009", "Heart", "#ff5d73"),
    ("heart atrium left/atrium left", "82471001", "Left atrium", "#ffa8b4"),
    ("heart atrium right/atrium right", "73829009", "Right atrium", "#dd628e"),
    ("heart ventricle left", "87878005", "Left ventricle", "#ff8982"),
    ("heart ventricle right", "53085002", "Right ventricle", "#d06aaa"),
    ("atrial appendage left", "33626005", "Left auricular appendage", "#fa93b5"),
    ("pericardium", "76848001", "Pericardium", "#e758a2"),
    ("heart myocardium/myocardium", "122448007", "Cardiac muscle", "#e4636b"),
    ("brain", "12738006", "Brain", "#f2a6d0"),
    ("brainstem/brain stem", "119238007", "Brain Stem", "#ac8daa"),
    ("cerebellum", "113305005", "Cerebellum", "#edc9e6"),
    ("spinal cord", "2748008", "Spinal cord", "#fff07a"),
    ("spinal canal/vertebral canal", "61853006", "Vertebral canal", "#bcb3db"),
    ("optic chiasm", "244453006", "Optic chiasm", "#a680d4"),
    ("aorta", "15825003", "Aorta", "#ff4d4d"),
    ("aortic arch", "57034009", "Aortic arch", "#ff1c68"),
    ("brachiocephalic trunk", "12691009", "Innominate artery", "#f54b27"),
    ("pulmonary artery/pulmonary arteries", "81040000", "Pulmonary artery", "#f66747"),
    ("celiac trunk/celiac artery/coeliac trunk", "57850000", "Celiac Axis", "#ff2651"),
    ("superior mesenteric artery", "42258001", "Superior mesenteric artery", "#e15075"),
    ("inferior mesenteric artery", "33795007", "Inferior mesenteric artery", "#d36779"),
    ("hepatic artery", "76015000", "Hepatic artery", "#ca7052"),
    ("splenic artery", "22083002", "Splenic artery", "#fe6863"),
    ("coronary arteries/coronary artery", "41801008", "Coronary artery", "#cc6760"),
    ("superior vena cava", "48345005", "Superior vena cava", "#528cbe"),
    ("inferior vena cava/postcava/ivc", "64131007", "Inferior vena cava", "#5f8dff"),
    ("pulmonary vein/pulmonary veins", "122972007", "Pulmonary vein", "#71b5e6"),
    ("portal vein", "32764006", "Portal vein", "#7a7fdc"),
    ("splenic vein", "35819009", "Splenic vein", "#009fd6"),
    ("portal vein and splenic vein", "29092000", "Vein", "#1297ff"),
    ("hepatic vein/hepatic veins", "8993003", "Hepatic vein", "#188dd5"),
    ("superior mesenteric vein", "90771006", "Superior Mesenteric Vein", "#9d8fff"),
    ("spine/vertebral column", "421060004", "Spine", "#e8d9a0"),
    ("vertebrae/vertebra", "51282000", "Vertebra", "#a9a988"),
    ("vertebrae s1/vertebra s1", "51282000", "Vertebra", "#fbdfcb"),
    ("sacrum", "54735007", "Sacrum", "#fee38e"),
    ("coccyx", "64688005", "Coccyx", "#b3b679"),
    ("sternum", "56873002", "Sternum", "#fece90"),
    ("costal cartilages/costal cartilage", "50016007", "Costal Cartilage", "#d1cfae"),
    ("skull/cranium", "89546000", "Skull", "#e8c59f"),
    ("mandible", "91609006", "Mandible", "#cebc6e"),
    ("hyoid bone/hyoid", "21387005", "Hyoid bone", "#e5ea9e"),
    ("bone/bones", "272673000", "Bone", "#c8af9a"),
    *(
        (f"vertebrae {level.lower()}/vertebra {level.lower()}", code, f"{level} vertebra", colour)
        for level, (code, colour) in _VERTEBRAE.items()
    ),
)
_PAIRED = (
    ("kidney/kidneys", "64033007", "Kidney", "#37d5f7"),
    ("adrenal gland/adrenal glands/adrenal/adrenals", "23451007", "Adrenal gland", "#8ee86a"),
    ("lung/lungs", "39607008", "Lung", "#4fb3ff"),
    ("lung upper lobe/upper lobe lung", "45653009", "Upper lobe of lung", "#ce779a"),
    ("lung lower lobe/lower lobe lung", "90572001", "Lower lobe of lung", "#a0bafa"),
    ("bronchus/bronchi", "955009", "Bronchus", "#63cebb"),
    ("ureter/ureters", "87953007", "Ureter", "#5c92e6"),
    ("ovary/ovaries", "15497006", "Ovary", "#fdb333"),
    ("testis/testes/testicle/testicles", "40689003", "Testis", "#f497e2"),
    ("seminal vesicle/seminal vesicles", "64739004", "Seminal Vesicle", "#ce74d3"),
    ("breast/breasts", "76752008", "Breast", "#b88e3d"),
    ("eye/eyes/eyeball/eyeballs", "79652003", "Eyeball", "#a8d551"),
    ("eye lens/lens", "78076003", "Lens", "#cfab71"),
    ("optic nerve/optic nerves", "18234004", "optic nerve", "#9e9601"),
    ("parotid gland/parotid glands/parotid", "45289007", "Parotid gland", "#9a7dff"),
    ("submandibular gland/submandibular glands/submandibular", "54019009", "Submandibular gland", "#ff884c"),
    ("subclavian artery", "36765005", "Subclavian artery", "#e2784c"),
    ("common carotid artery", "32062004", "Common carotid artery", "#ff497b"),
    ("internal carotid artery", "86117002", "Internal carotid artery", "#ff7f62"),
    ("vertebral artery", "85234005", "Vertebral artery", "#e06836"),
    ("renal artery", "2841007", "Renal artery", "#f75c1a"),
    ("iliac artery", "10293006", "Iliac artery", "#ea846d"),
    ("common iliac artery", "73634005", "Common iliac artery", "#ff4b60"),
    ("external iliac artery", "113269004", "External iliac artery", "#ff6e8b"),
    ("internal iliac artery", "90024005", "Internal iliac artery", "#fc6737"),
    ("femoral artery", "7657000", "Femoral artery", "#e87a80"),
    ("brachiocephalic vein", "8887007", "Innominate vein", "#ada3df"),
    ("subclavian vein", "9454009", "Subclavian vein", "#829ad1"),
    ("internal jugular vein", "12123001", "Internal jugular vein", "#8fa1ec"),
    ("renal vein", "56400007", "Renal vein", "#6fcbf4"),
    ("iliac vena/iliac vein", "244411005", "Iliac vein", "#1aa2fb"),
    ("common iliac vein", "46027005", "Common iliac vein", "#61a3e1"),
    ("external iliac vein", "63507001", "External iliac vein", "#bbadfb"),
    ("clavicula/clavicle", "51299004", "Clavicle", "#a6aa58"),
    ("scapula", "79601000", "Scapula", "#b19f70"),
    ("humerus", "85050009", "Humerus", "#d89f5d"),
    ("radius", "62413002", "Radius", "#feba7c"),
    ("ulna", "23416004", "Ulna", "#cdbc8a"),
    ("hip/hips", "118645006", "Pelvis", "#bba152"),
    ("femur/femurs", "71341001", "Femur", "#d2cf89"),
    ("femoral head/femoral heads", "2812003", "Femoral head", "#e3bb72"),
    ("patella", "64234005", "Patella", "#bb9c7d"),
    ("tibia", "12611008", "Tibia", "#d69e6e"),
    ("fibula", "87342007", "Fibula", "#e6c5b0"),
    ("maxilla", "70925003", "Maxilla", "#b8a766"),
    ("ribs/rib", "113197003", "Rib", "#ced09e"),
    ("gluteus maximus", "127954009", "Skeletal muscle", "#dea89c"),
    ("gluteus medius", "127954009", "Skeletal muscle", "#b18173"),
    ("gluteus minimus", "127954009", "Skeletal muscle", "#f4a090"),
    ("autochthon", "127954009", "Skeletal muscle", "#e39664"),
    ("iliopsoas", "127954009", "Skeletal muscle", "#d4a281"),
    ("skeletal muscle/muscle/muscles", "127954009", "Skeletal muscle", "#bf7a65"),
    *((f"rib {number}", "113197003", "Rib", colour) for number, colour in enumerate(_RIBS, 1)),
)
_TISSUES = (
    ("skin", "39937001", "Skin", "#72a087"),
    ("blood vessel/blood vessels/vessels", "59820001", "Blood Vessel", "#a9d5bc"),
    ("bone marrow", "14016003", "Bone Marrow", "#bfeeaf"),
    ("fat/adipose tissue/torso fat/visceral fat/subcutaneous fat", "55603005", "Fat", "#53a073"),
    ("subcutaneous tissue", "71966008", "Subcutaneous tissue", "#9bb0a4"),
    ("lymph node/lymph nodes", "59441001", "Lymph Node", "#d0e6d9"),
)
_FINDINGS = (
    ("tumor/tumors/tumour/tumours/neoplasm/gtv", "108369006", "Neoplasm", "#f4ff52"),
    ("metastasis/metastases", "14799000", "Neoplasm, Secondary", "#ff5dff"),
    ("lesion/lesions", "52988006", "Lesion", "#40f728"),
    ("mass/masses", "4147007", "Mass", "#93aa31"),
    ("nodule/nodules", "27925004", "Nodule", "#32bb00"),
    ("cyst/cysts", "367643001", "Cyst", "#17f586"),
    ("abscess", "44132006", "Abscess", "#ff85f6"),
    ("edema/oedema", "79654002", "Edema", "#c79719"),
    ("hemorrhage/haemorrhage/bleed", "50960005", "Hemorrhage", "#1fb952"),
    ("hematoma/haematoma", "35566002", "Hematoma", "#d6fd85"),
    ("necrosis", "6574001", "Necrosis", "#9bfd28"),
    ("embolus/embolism", "55584005", "Embolus", "#c0bf19"),
    ("thrombus", "396339007", "Thrombus", "#d7ff04"),
    ("pleural effusion", "60046008", "Pleural effusion", "#7bbb14"),
    ("pericardial effusion", "373945007", "Pericardial effusion", "#73b74b"),
)
# What has no code of its own is said by the organ that it is part of.
_PARTS = (
    ("pancreas head", "85756007", "Tissue", "#ffd588", "pancreas"),
    ("pancreas body", "85756007", "Tissue", "#e2b42e", "pancreas"),
    ("pancreas tail", "85756007", "Tissue", "#fff4b8", "pancreas"),
    ("lung vessels/pulmonary vessels", "59820001", "Blood Vessel", "#769fcd", "lung"),
    ("liver vessels/hepatic vessels", "59820001", "Blood Vessel", "#6e7fff", "liver"),
)
_ADJECTIVES = {
    "hepatic": "liver",
    "pancreatic": "pancreas",
    "pulmonary": "lung",
    "renal": "kidney",
    "splenic": "spleen",
}


def _kinds() -> dict[str, _Kind]:
    """All rows by each of their names."""
    kinds: dict[str, _Kind] = {}
    groups = ((_SINGLE, ANATOMY, False), (_PAIRED, ANATOMY, True), (_TISSUES, TISSUE, False))
    for rows, category, paired in (*groups, (_FINDINGS, ABNORMAL, False)):
        for names, value, meaning, colour in rows:
            kinds |= dict.fromkeys(names.split("/"), _Kind(Code(value, meaning), category, colour, paired))
    for names, value, meaning, colour, whole in _PARTS:
        part = _Kind(Code(value, meaning), TISSUE, colour, region=kinds[whole].type)
        kinds |= dict.fromkeys(names.split("/"), part)
    return kinds


_KINDS = _kinds()


def stem_and_side(name: str) -> tuple[str, Side | None]:
    """The words of a name in lower case, without the one that says the side."""
    words = [word for word in re.findall(r"[^\W_]+", name.lower()) if word != "of"]
    ends = (0, len(words) - 1)  # a single letter says a side only there
    sides: dict[int, Side] = {}
    for at, word in enumerate(words):
        for side in SIDES:
            if word == side or (at in ends and word in (side[0], side[0] + "t")):
                sides[at] = side
    if len(sides) != 1:
        return " ".join(words), None
    ((at, side),) = sides.items()
    return " ".join(words[:at] + words[at + 1 :]), side


def _find(stem: str, side: Side | None) -> _Found | None:
    kind = _KINDS.get(stem)
    return (kind, side, kind.region) if kind and (kind.paired or not side) else None


def _finding_in_an_organ(stem: str, side: Side | None) -> _Found | None:
    """`liver tumor` is a tumor whose region is the liver."""
    organ, _, last = stem.rpartition(" ")
    finding, where = _KINDS.get(last), _find(_ADJECTIVES.get(organ, organ), side)
    if finding is None or finding.category != ABNORMAL or where is None or where[0].category == ABNORMAL:
        return None
    return finding, side, where[0].type


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _shaded(colour: str, side: Side | None) -> str:
    if side is None:
        return colour
    goal, share = {"left": (0, 0.16), "right": (255, 0.3)}[side]
    return "#" + "".join(f"{round(part + share * (goal - part)):02x}" for part in _rgb(colour))


def _colour_of(name: str) -> str:
    """A colour that is the same wherever and whenever it is made."""
    number = zlib.crc32(name.encode())
    hue, lightness = number % 360 / 360, (0.62, 0.7, 0.78)[number // 360 % 3]
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lightness, 0.75))
