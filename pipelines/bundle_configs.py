"""What stands in a bundle's files, made from the plan: its facts, MONAI's inference and words for people.

`inference` is this project's prediction in MONAI's own transforms and sliding window, with the network alone from here.
Where its labels may differ stands in `AGREEMENT`.
"""

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .plan import Plan
from .postprocess import postprocess
from .sliding import SIGMA
from .volume import Volume

if TYPE_CHECKING:
    from monai.data.meta_tensor import MetaTensor

OVERLAP = 0.5  # of windows, as `Predictor` has it
VERSION = "1.0.0"

AGREEMENT = """\
MONAI gives the very labels of `fredholm segment predict --precision 32-true` where a scan has the network's spacing and
its sides, in voxels, are at most one and a half of the window's or whole multiples of half of it; where there are more
classes than channels, but for ties to within rounding. Elsewhere they differ at some voxels on the borders of
structures: MONAI lays windows from one end, fredholm spreads them evenly; MONAI
resamples between the centres of the outermost voxels, fredholm between their outer faces, averaging where an axis
becomes coarser by more than 1.5 times. fredholm refuses scans that do not state their orientation, and gives voxels
that are no number the smallest value of the scan; MONAI does neither.
"""


def metadata(plan: Plan, log: Sequence[Mapping[str, float]], scores: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of `metadata.json`, but for who made it.

    Args:
        plan: Of the network.
        log: The run's.
        scores: Of an evaluation; may be empty.
    """
    classes = {str(index): name for index, name in plan.names.items()}
    organs = ", ".join(name for index, name in plan.names.items() if index)
    validation = [row["dice"] for row in log if "dice" in row]
    spacing = " x ".join(f"{mm:g}" for mm in plan.preparation.spacing_mm)
    tensor = {"type": "image", "spatial_shape": list(plan.window), "dtype": "float32", "is_patch_data": True}
    (channel,) = plan.channels
    return {
        "version": VERSION,
        "changelog": {VERSION: f"packed by fredholm {_version('fredholm')}"},
        "monai_version": _version("monai"),
        "pytorch_version": _version("torch").partition("+")[0],
        "numpy_version": _version("numpy"),
        "required_packages_version": {name: _version(name) for name in ("fredholm", "nibabel")},
        "task": f"Segmentation of {organs} in {channel}",
        "description": f"MixerUNETR {plan.network.stages}, feature size {plan.network.feature_size}, at {spacing} mm",
        "intended_use": "Research; not validated for clinical use",
        "data": dict(plan.data),
        "eval_metrics": {
            **({"validation_dice_last": validation[-1], "validation_dice_best": max(validation)} if validation else {}),
            **{metric: table["casewise"] for metric, table in scores.items() if isinstance(table, Mapping)},
        },
        "network_data_format": {
            "inputs": {
                "image": {
                    **tensor,
                    "format": "hounsfield" if channel == "CT" else "magnitude",
                    "modality": channel,
                    "num_channels": 1,
                    "value_range": sorted(plan.preparation.range),
                    "channel_def": {"0": channel},
                }
            },
            "outputs": {
                "pred": {
                    **tensor,
                    "format": "labels",
                    "num_channels": len(classes),
                    "value_range": [],
                    "channel_def": classes,
                }
            },
        },
    }


def inference(plan: Plan) -> dict[str, Any]:
    """MONAI's inference, as `inference.json` has it."""
    (low, high), (first, last) = plan.preparation.window_hu, plan.preparation.range
    before = [
        {"_target_": "LoadImaged", "keys": "image", "reader": "NibabelReader", "ensure_channel_first": True},
        {"_target_": "Orientationd", "keys": "image", "axcodes": "RAS", "labels": None},
        {
            "_target_": "Spacingd",
            "keys": "image",
            **{"pixdim": list(plan.preparation.spacing_mm), "padding_mode": "border"},
        },
        {
            "_target_": "ScaleIntensityRanged",
            "keys": "image",
            **{"a_min": low, "a_max": high, "b_min": first, "b_max": last, "clip": True},
        },
    ]
    after = [
        {
            "_target_": "Invertd",
            "keys": "pred",
            **{"transform": "@preprocessing", "orig_keys": "image", "nearest_interp": False},
        },
        {"_target_": "AsDiscreted", "keys": "pred", "argmax": True},
        {"_target_": "Lambdad", "keys": "pred", "func": "$lambda labels: cleaned(labels, @opened.plan)"},
        {
            "_target_": "SaveImaged",
            "keys": "pred",
            "output_dir": "@output_dir",
            **{"output_postfix": "", "separate_folder": False, "resample": False, "output_dtype": "$numpy.int16"},
        },
    ]
    return {
        "imports": [
            *("$import glob", "$import numpy", "$from pathlib import Path"),
            *(
                "$from fredholm.pipelines.bundle import open_run",
                "$from fredholm.pipelines.bundle_configs import cleaned",
            ),
        ],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/scans'",
        "output_dir": "$@bundle_root + '/labels'",
        "device": "$torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "opened": "$open_run(Path(@bundle_root))",
        "network_def": "$@opened.load_model()",
        "network": "$@network_def.to(@device)",
        "preprocessing": {"_target_": "Compose", "transforms": before},
        "dataset": {
            "_target_": "Dataset",
            "data": "$[{'image': scan} for scan in sorted(glob.glob(@dataset_dir + '/*.nii.gz'))]",
            "transform": "@preprocessing",
        },
        "dataloader": {"_target_": "DataLoader", "dataset": "@dataset", "batch_size": 1},
        "inferer": {
            "_target_": "SlidingWindowInferer",
            "roi_size": list(plan.window),
            **{"overlap": OVERLAP, "mode": "gaussian", "sigma_scale": SIGMA, "padding_mode": "constant", "cval": first},
        },
        "postprocessing": {"_target_": "Compose", "transforms": after},
        "evaluator": {
            "_target_": "SupervisedEvaluator",
            "device": "@device",
            "val_data_loader": "@dataloader",
            "network": "@network",
            "inferer": "@inferer",
            "postprocessing": "@postprocessing",
        },
        "run": ["$@evaluator.run()"],
    }


def cleaned(labels: "MetaTensor", plan: Plan) -> "MetaTensor":
    """A label map `(1, i, j, k)` of MONAI after the plan's post-processing."""
    from monai.utils.type_conversion import convert_to_dst_type

    volume = Volume(labels[0].numpy().astype(np.int16), labels.affine.numpy())
    result = postprocess(volume.array, plan.postprocessing, plan.names, volume.voxel_ml)
    return convert_to_dst_type(result[None], dst=labels)[0]


def readme(plan: Plan) -> str:
    """Words for people."""
    classes = "\n".join(f"- {index}: {name}" for index, name in plan.names.items())
    notes = "\n".join(f"- {note}" for note in plan.notes)
    return f"""\
# How to use this bundle

    sha256sum -c SHA256SUMS
    fredholm segment predict -i SCANS -o LABELS --run BUNDLE

or, in the bundle's folder, with `pip install 'fredholm[bundle]'`:

    python -m monai.bundle run --config_file configs/inference.json --dataset_dir SCANS --output_dir LABELS

Nothing is fetched. Whoever changes a file of the bundle must write SHA256SUMS anew, or it counts as damaged; settings
are better overridden on the command line.

## Labels

{classes}

## Where MONAI's labels are those of fredholm

{AGREEMENT}
## Notes

{notes}
"""


def _version(name: str) -> str:
    return importlib.metadata.version(name)
