"""`fredholm scanner serve`."""

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

from ..console import note
from ..extras import extra


@dataclass
class Serve:
    """Take CT series by DICOM, label each that is whole, and send the segmentations on.

    Runs until Ctrl-C or a polite kill. What was acknowledged before a crash is there after it. docs/scanner.md says
    what the configuration holds, how to run it as a service, what is kept where, and what this is not.

    Example: fredholm scanner serve --config gateway.yaml
    """

    config: Path
    """The gateway's YAML file."""

    def run(self) -> None:
        """Serve."""
        with extra("scanner"):
            from .config import Config
            from .faults import silence_libraries, words
            from .gateway import Gateway
            from .labeller import Labeller
        config = Config.read(self.config)
        silence_libraries()
        threading.excepthook = lambda ended: note(f"fredholm: a thread ended: {words(ended.exc_value or SystemExit())}")
        stop = threading.Event()
        labeller = Labeller(Path(config.run), config.device, stop, view=config.view)
        with contextlib.suppress(KeyboardInterrupt):
            Gateway(config, labeller.check, labeller, stop=stop, told=note).serve()
