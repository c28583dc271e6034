"""`fredholm bench recall`: what lies somewhere on a canvas has to be drawn in its last corner."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from ...pipelines.files import write_text
from ...pipelines.recall.canvas import Canvas
from ...pipelines.recall.plan import Asked, Mixer, Place, RecallBody, RecallPlan
from ...pipelines.recall.task import Recalling
from ...pipelines.recipe import TrainingRecipe
from ...pipelines.run import Run
from ..console import note, result, table
from ..training import TrainingOptions, create, leads

SIDES = {"small": (32, 16, 8), "paper": (64, 32, 16)}  # of the square (the line is as many samples), cube and glyphs
COLUMNS = ("run", "weights", "steps", "minutes", "mse", "mean guess", "share")


@dataclass(kw_only=True)
class BenchRecall(TrainingOptions):
    """Measure how well a mixer brings what lies in one place of a canvas to another, as the HyenaND paper does.

    copy: a glyph lies in the first corner of an empty canvas and has to be drawn in the last one. colour: four glyphs
    in coloured frames lie anywhere; the one whose frame has the colour of the last corner's is to be drawn there, in
    that colour. The score is the mean squared error of the readout for glyphs that were not learned from, beside that
    of the mean target, and as its share. The folder's recall.csv, which is shown, has a row for each run in it.

    Example: fredholm bench recall --dims 3 --task copy --mixer hyena --minutes 30
    """

    usual_epochs: ClassVar[int] = 8

    dims: Literal[1, 2, 3] = 3
    """Axes of the canvas."""

    task: Asked = "copy"
    """What is asked for."""

    mixer: Mixer = "hyena"
    """What mixes positions: HyenaND, attention with rotary positions, or ITNet."""

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))] = Path("recall")
    """Folder of the table, and of a folder for each run, named for what it measures."""

    size: Literal["small", "paper"] = "small"
    """small: 1024, 32 x 32 or 16 x 16 x 16 samples and glyphs of 8 x 8; paper: 4096, 64 x 64, 32 x 32 x 32, 16 x 16."""

    place: Place = "fixed"
    """Where copy's glyph lies: in the first corner, or anywhere apart from the readout."""

    window: int = 0
    """Samples along each axis that attention sees about a position, an odd number; 0 for all positions."""

    dim: int = 32
    """Channels; the paper has 256."""

    depth: int = 4
    """Blocks."""

    glyphs: Path | None = None
    """Images of glyphs in an IDX file, such as EMNIST's; characters are drawn without it."""

    epochs: int | None = None
    """Train for so many epochs of 250 steps; 8 if neither minutes nor epochs are given."""

    batch: int = 8
    """Canvases in a step."""

    learning_rate: float = 3e-3
    """Highest learning rate."""

    validate_every: int = 0
    """Steps from one validation to the next; 0 for one at the end alone."""

    def run(self) -> None:
        """Train, score, tell."""
        self.check()
        plan, file = self._plan(), self.output / "recall.csv"
        self.output = self.output / self._name
        logs = self.logs()
        run = Run.open(self.output, RecallPlan.read) if self.resume else create(self.output, plan)
        task = Recalling(run.plan)
        guess, weights = task.mean_guess(), sum(weight.numel() for weight in run.plan.build().parameters())
        note(f"{weights:,} weights; the mean target has an error of {guess:.4f}")
        scores = self.train(run, task, logs)
        if scores is not None and leads():
            last = run.read_log()[-1]
            numbers = (last["step"] + 1, last["seconds"] / 60, scores.casewise, guess, scores.casewise / guess)
            _keep(file, [self._name, str(weights), *(format(number, ".6g") for number in numbers)])
        result(table(COLUMNS, _rows(file)))

    @property
    def _name(self) -> str:
        parts = [f"{self.dims}d", self.task, self.mixer]
        parts += ["random"] * (self.task == "copy" and self.place == "random")
        parts += [f"window{self.window}"] * (self.window > 0)
        parts += ["interpolated"] * (self.interpolation.network is not None)
        return "_".join([*parts, *([self.size] * (self.size != "small"))])

    def _plan(self) -> RecallPlan:
        square, cube, glyph = SIDES[self.size]
        grid = {1: (square**2,), 2: (square,) * 2, 3: (cube,) * 3}[self.dims]
        return RecallPlan(
            task=self.task,
            canvas=Canvas(grid=grid, glyph=glyph),
            place=self.place,
            mixer=self.mixer,
            network=RecallBody(
                dim=self.dim,
                depth=self.depth,
                window=self.window,
                interpolation=self.interpolation.network,
            ),
            recipe=TrainingRecipe(**self.for_recipe(), weight_decay=1e-3),
            glyphs="" if self.glyphs is None else str(self.glyphs),
        )


def _rows(file: Path) -> list[list[str]]:
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines))[1:]


def _keep(file: Path, row: list[str]) -> None:
    """Add a run's row to the table, or put it in the place of its earlier one."""
    text = io.StringIO()
    others = [one for one in _rows(file) if one[0] != row[0]]
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *others, row])
    write_text(file, text.getvalue())
