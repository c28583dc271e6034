"""A whole CT, file to label map: our prediction against MONAI's `sliding_window_inference`, seconds and peak memory.

Both sides have the same HyenaNDUNETR weights (HHAA, random), the same window, overlap and Gaussian weights, work on the
scan's own grid, and write a NIfTI label map, each in a process of its own. Seconds are those from the file to the label
map, without interpreter and imports; peak memory is the process's own (ru_maxrss), with them. MONAI's side runs as
shipped, in float32; ours as `segment predict` does it. The share of labels that differ from those of the first side
stands beside each line. "zero boundary" is the network that `segment train` builds, with kernels twice as long; its
weights and so its labels are others.

Needs fredholm, monai and nvsubquadratic in one environment (see README.md beside this file).

    python tests/benchmarks/segment_case.py CT.nii.gz
    python tests/benchmarks/segment_case.py CT.nii.gz --slab 96    the middle 96 slices only
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from fredholm.backbones import MixerUNETR, from_monai
from fredholm.kernels import reuse_host_memory
from fredholm.pipelines.nifti import read_labels, read_volume, write_labels, write_volume
from fredholm.pipelines.plan import Network, Plan, Preparation
from fredholm.pipelines.predict import Predictor
from fredholm.pipelines.volume import canonical
from safetensors.torch import load_file, save_file

SIDES = ["monai float32", "ours float32", "ours bfloat16", "ours float32, zero boundary"]
LOW, HIGH = -1000.0, 1000.0  # HU


def main() -> None:
    """Measure every side and print the table."""
    arguments = parse()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.folder = Path(folder)
        shape = write_inputs(arguments)
        print(f"# {' x '.join(map(str, shape))} voxels, window {arguments.window}^3, overlap {arguments.overlap:g},")
        print(f"# feature size {arguments.feature_size}, {arguments.classes} classes, HHAA")
        print(
            f"# {torch.cpu.get_capabilities().get('cpu_name')}, {arguments.threads} threads, torch {torch.__version__}"
        )
        print(f"# {' '.join(sys.argv)}")
        print(f"{'side':32}{'seconds':>9}{'faster':>8}{'peak GB':>9}{'share':>8}{'labels unlike':>15}")
        first = None
        for side in arguments.sides:
            row = in_own_process(side, arguments.folder)
            first = first or row
            faster, share = first["seconds"] / row["seconds"], row["peak"] / first["peak"]
            unlike = f"{100 * difference(arguments, side):.3f} %"
            print(f"{side:32}{row['seconds']:9.1f}{faster:8.2f}{row['peak']:9.2f}{share:8.2f}{unlike:>15}", flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ct", type=Path, help="a NIfTI scan in HU")
    parser.add_argument("--slab", type=int, help="slices of it that are used, from its middle; all without")
    parser.add_argument("--window", type=int, default=96)
    parser.add_argument("--overlap", type=float, default=0.5)
    parser.add_argument("--feature-size", type=int, default=48)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=[SIDES[0], SIDES[1]])
    parser.add_argument("--worker", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def write_inputs(arguments: argparse.Namespace) -> tuple[int, int, int]:
    """Write the part of the scan that is used, and MONAI's weights; the shape of the part."""
    scan = canonical(read_volume(arguments.ct))
    slices = scan.shape[2]
    depth = min(arguments.slab or slices, slices)
    first = (slices - depth) // 2
    part = replace(scan, array=np.ascontiguousarray(scan.array[:, :, first : first + depth]))
    write_volume(arguments.folder / "ct.nii.gz", part)
    torch.manual_seed(0)
    weights = their_network(arguments).state_dict()
    save_file({name: value.contiguous() for name, value in weights.items()}, arguments.folder / "weights.safetensors")
    return part.shape


def their_network(arguments: argparse.Namespace) -> torch.nn.Module:
    """MONAI's network with new weights."""
    from monai.networks.nets import HyenaNDUNETR

    return HyenaNDUNETR.get_variant(
        "HHAA", in_channels=1, out_channels=arguments.classes, feature_size=arguments.feature_size
    )


def in_own_process(side: str, folder: Path) -> dict[str, float]:
    """One side's row."""
    command = [sys.executable, "-W", "ignore", *sys.argv, "--worker", side, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def work(arguments: argparse.Namespace) -> dict[str, float]:
    """Measure one side in this process."""
    torch.set_num_threads(arguments.threads)
    measure = theirs if arguments.worker.startswith("monai") else ours
    seconds = measure(arguments)
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


def theirs(arguments: argparse.Namespace) -> float:
    """Seconds of MONAI's way, in its own parts."""
    import nibabel
    from monai.data.meta_tensor import MetaTensor
    from monai.inferers.utils import sliding_window_inference
    from monai.transforms import Compose, EnsureChannelFirst, LoadImage, ScaleIntensityRange

    model = their_network(arguments).eval()
    model.load_state_dict(load_file(arguments.folder / "weights.safetensors"))
    read = Compose(
        [LoadImage(image_only=True), EnsureChannelFirst(), ScaleIntensityRange(LOW, HIGH, -1.0, 1.0, clip=True)]
    )
    start = time.perf_counter()
    image = cast("MetaTensor", read(str(arguments.folder / "ct.nii.gz")))
    with torch.inference_mode():
        logits = sliding_window_inference(
            image.as_tensor()[None], (arguments.window,) * 3, 1, model, arguments.overlap, mode="gaussian", cval=-1.0
        )
        labels = cast("torch.Tensor", logits).argmax(1)[0].to(torch.uint8)
    nibabel.save(nibabel.Nifti1Image(labels.numpy(), image.affine.numpy()), target(arguments, arguments.worker))
    return time.perf_counter() - start


def ours(arguments: argparse.Namespace) -> float:
    """Seconds of our way, as `segment predict` goes it."""
    import monai.data.utils  # noqa: F401  # loaded on first use, and imports are in nobody's seconds

    reuse_host_memory()
    if "zero" in arguments.worker:
        model = MixerUNETR(1, arguments.classes, "HHAA", arguments.feature_size)
    else:
        model = from_monai(load_file(arguments.folder / "weights.safetensors"))
    start = time.perf_counter()
    scan = read_volume(arguments.folder / "ct.nii.gz")
    plan = Plan(
        names={index: f"class {index}" for index in range(arguments.classes)},
        preparation=Preparation(spacing_mm=canonical(scan).spacing_mm, window_hu=(LOW, HIGH)),
        network=Network(feature_size=arguments.feature_size),
        window=(arguments.window,) * 3,
    )
    precision = "bf16-mixed" if "bfloat16" in arguments.worker else "32-true"
    labels = Predictor(plan, model, torch.device("cpu"), precision, arguments.overlap).label(scan)
    write_labels(target(arguments, arguments.worker), labels, like=scan)
    return time.perf_counter() - start


def target(arguments: argparse.Namespace, side: str) -> Path:
    """A side's label map."""
    return arguments.folder / f"{SIDES.index(side)}.nii.gz"


def difference(arguments: argparse.Namespace, side: str) -> float:
    """Share of voxels that a side labels unlike the first one."""
    own, first = (read_labels(target(arguments, one)).array for one in (side, arguments.sides[0]))
    return float((own != first).mean())


if __name__ == "__main__":
    main()
