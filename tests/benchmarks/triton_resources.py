"""What each Triton kernel takes on each chip, at every shape of `kernels/launches.py`, compiled on this machine.

No GPU is needed and nothing runs. Usage, `TRITON_INTERPRET` unset::

    python tests/benchmarks/triton_resources.py
"""

import torch
from fredholm.kernels.ahead_of_time import CHIPS, compile_launches
from fredholm.kernels.launches import LAUNCHES, STAGES

HEADINGS = ("network", "channels", "side", "type", "chip", "kernel", "registers", "stack", "shared")
LINE = "{:<16}  {:>8}  {:>4}  {:<8}  {:<6}  {:<24}  {:>9}  {:>5}  {:>6}"


def main() -> None:
    """Print the table, row by row as they come."""
    print(LINE.format(*HEADINGS))
    for room, launch in LAUNCHES.items():
        for stage in STAGES:
            for dtype in (torch.float32, torch.bfloat16):
                for chip in CHIPS:
                    for each in compile_launches(lambda: launch(stage, dtype), chip):  # noqa: B023
                        where = (stage.network, stage.channels, stage.side, str(dtype).removeprefix("torch."), chip)
                        used = (each.registers, each.stack_bytes, each.shared_bytes)
                        print(LINE.format(*where, f"{room}.{each.kernel.lstrip('_')}", *used), flush=True)


if __name__ == "__main__":
    main()
