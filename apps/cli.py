"""The command `fredholm`."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import torch
import tyro

from ..kernels import reuse_host_memory
from ..pipelines.tensors import first_line
from .bench import Bench
from .bundle import Bundle
from .console import note, quieten_libraries, show_warnings_as_lines
from .convert import Convert
from .demo import Demo
from .info import Info
from .inspect import Inspect
from .pde import Pde
from .points import Points
from .scanner import Scanner
from .segment import Segment

Commands = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Segment, tyro.conf.subcommand("segment")]
    | Annotated[Pde, tyro.conf.subcommand("pde")]
    | Annotated[Points, tyro.conf.subcommand("points")]
    | Annotated[Scanner, tyro.conf.subcommand("scanner")]
    | Annotated[Convert, tyro.conf.subcommand("convert")]
    | Annotated[Bundle, tyro.conf.subcommand("bundle")]
    | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
    | Annotated[Info, tyro.conf.subcommand("info")]
)
DESCRIPTION = "Learned integral operators for three-dimensional medicine and science."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what a user can mend is one line on stderr and exit code 1, Ctrl-C is exit code 130."""
    reuse_host_memory()
    quieten_libraries()
    show_warnings_as_lines()
    wanted = tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Commands]]
    command = tyro.cli(wanted, args=argv, prog="fredholm", description=DESCRIPTION)
    try:
        with _terminated_like_ctrl_c():
            command.run()
    except KeyboardInterrupt:
        note("fredholm: stopped; what was finished is kept")
        return 130
    except (OSError, ValueError, FloatingPointError) as error:
        note(f"fredholm: {' '.join(str(error).split())}")
        return 1
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        note(f"fredholm: out of memory: {first_line(error) if str(error) else 'try a smaller --window'}")
        return 1
    return 0


def _is_out_of_memory(error: BaseException) -> bool:
    """On a CPU PyTorch raises a plain RuntimeError, which its words alone tell apart."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


@contextmanager
def _terminated_like_ctrl_c() -> Iterator[None]:
    """Let a polite kill, as clusters send it before the time is up, save the state as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


if __name__ == "__main__":
    sys.exit(main())
