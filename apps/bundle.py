"""`fredholm bundle`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..pipelines.bundle import Imprint, open_run, pack
from ..pipelines.classes import read_json
from .console import result


@dataclass
class Bundle:
    """Pack a run of `segment train` as a MONAI bundle, to be handed on.

    The folder holds weights, plan, facts, licences, scores and the sha256 of every file, and no name of a case. It
    takes a run's place in `segment predict --run`, and `python -m monai.bundle run` labels NIfTI files with it.

    Example: fredholm bundle RUN -o BUNDLE --license CC-BY-4.0
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of the run."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))]
    """Folder to make."""

    weights: Literal["last", "best"] = "last"
    """Those after the last step, or those of the best validation."""

    scores: Path | None = None
    """JSON file of `segment evaluate`, to be told in the bundle."""

    authors: str = "not stated"
    """Who trained it."""

    license: str = "not stated"
    """Licence of the weights; `segment predict` tells it."""

    data_license: str = "not stated"
    """Licence of the data that they learned from."""

    overwrite: bool = False
    """Replace a bundle that is there."""

    def run(self) -> None:
        """Pack."""
        if self.output.exists() and not self.overwrite:
            raise FileExistsError(f"{self.output} is there: --overwrite replaces a bundle, another -o makes a new one")
        run = open_run(self.run_folder)
        file = run.best_file if self.weights == "best" else run.weights_file
        imprint = Imprint(
            authors=self.authors,
            license=self.license,
            data_license=self.data_license,
            scores={} if self.scores is None else read_json(self.scores),
        )
        pack(run, file, self.output, imprint)
        result(str(self.output))
