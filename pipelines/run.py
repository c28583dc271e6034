"""A run is a folder.

plan.yaml             everything needed to repeat and to predict
weights.safetensors   the network
log.csv               a line for each logged step
state/                what is needed to go on: optimiser, counters, random state; tensors and plain types only
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from .files import replacing, write_text
from .plan import Plan
from .recipe import TrainingRecipe
from .tensors import disk_errors, first_line, save_tensors


class AnyPlan(Protocol):
    """What a run asks of a plan: a segmenter's `Plan`, and those of others.

    Args:
        score: What validation measures, as the log's column.
        recipe: How the network is trained; None for weights that came from elsewhere.
    """

    score: ClassVar[str]

    @property
    def recipe(self) -> TrainingRecipe | None:
        """How the network is trained."""
        ...

    def load(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network with these weights, in evaluation mode."""
        ...

    def write(self, path: Path) -> None:
        """Write the YAML file, all or nothing."""
        ...


P = TypeVar("P", bound=AnyPlan)


@dataclass(frozen=True)
class Run(Generic[P]):
    """A run's folder and its plan."""

    folder: Path
    plan: P

    @classmethod
    def create(cls, folder: Path, plan: P) -> "Run[P]":
        """Make a new run.

        Raises:
            FileExistsError: The folder already holds a run.
        """
        if (folder / "plan.yaml").exists():
            raise FileExistsError(
                f"{folder} already holds a run: --resume goes on with it, another -o starts a new one"
            )
        folder.mkdir(parents=True, exist_ok=True)
        plan.write(folder / "plan.yaml")
        return cls(folder, plan)

    @overload
    @classmethod
    def open(cls, folder: Path) -> "Run[Plan]": ...

    @overload
    @classmethod
    def open(cls, folder: Path, read: Callable[[Path], P]) -> "Run[P]": ...

    @classmethod
    def open(cls, folder: Path, read: Callable[[Path], Any] = Plan.read) -> "Run[Any]":
        """Open a run that is there.

        Args:
            folder: The run's.
            read: Reads its plan; a segmenter's by default.

        Raises:
            FileNotFoundError: The folder or its plan is missing.
        """
        if not folder.is_dir():
            raise FileNotFoundError(f"no run at {folder}: no such folder")
        if not (folder / "plan.yaml").is_file():
            raise FileNotFoundError(f"{folder} is no run: plan.yaml is missing")
        return cls(folder, read(folder / "plan.yaml"))

    def replan(self, plan: P) -> "Run[P]":
        """The run with a changed plan, on disk too."""
        plan.write(self.folder / "plan.yaml")
        return Run(self.folder, plan)

    @property
    def columns(self) -> tuple[str, ...]:
        """What a line of the log may hold."""
        return ("step", "loss", self.plan.score, "lr", "seconds")

    @property
    def weights_file(self) -> Path:
        """Where the network's weights are, as they were after the last step."""
        return self.folder / "weights.safetensors"

    @property
    def best_file(self) -> Path:
        """Where the weights of the best validation are, if there was one."""
        return self.folder / "best.safetensors"

    @property
    def state_file(self) -> Path:
        """Where the state to resume from is."""
        return self.folder / "state" / "last.pt"

    @property
    def log_file(self) -> Path:
        """Where the log is."""
        return self.folder / "log.csv"

    def load_model(self, file: Path | None = None) -> nn.Module:
        """The trained network in evaluation mode, on the CPU.

        Args:
            file: `best_file` or `weights_file`, which it is by default.

        Raises:
            FileNotFoundError: There are no weights.
            ValueError: The weights are damaged or of another network than the plan says.
        """
        file = file or self.weights_file
        if not file.is_file():
            missing = "is no finished run" if file == self.weights_file else "was not validated"
            raise FileNotFoundError(f"{self.folder} {missing}: {file.name} is missing")
        try:
            return self.plan.load(self.read_weights(file))
        except RuntimeError as error:
            lines = [line.strip() for line in str(error).splitlines()]
            raise ValueError(f"{file} does not fit plan.yaml: {lines[min(1, len(lines) - 1)]}") from None

    def read_weights(self, file: Path) -> Mapping[str, Tensor]:
        """The tensors in a file of weights, by name.

        Raises:
            ValueError: The file is damaged.
        """
        try:
            return load_file(file)
        except SafetensorError as error:
            raise ValueError(f"{file} is damaged: {error}") from None

    def save_weights(self, weights: Mapping[str, Tensor], file: Path | None = None) -> None:
        """Write the network's weights, whole or not at all; to `weights_file` if no other is given."""
        save_tensors(file or self.weights_file, weights)

    def save_state(self, state: Mapping[str, object]) -> None:
        """Write what is needed to go on, whole or not at all."""
        self.state_file.parent.mkdir(exist_ok=True)
        with replacing(self.state_file) as beside, disk_errors(self.state_file):
            torch.save(dict(state), beside)

    def load_state(self) -> dict[str, object]:
        """What was saved to go on from.

        Raises:
            FileNotFoundError: Nothing was.
            ValueError: The file is damaged or holds more than tensors and plain types.
        """
        if not self.state_file.is_file():
            raise FileNotFoundError(f"{self.folder} cannot be resumed: state/{self.state_file.name} is missing")
        try:
            return torch.load(self.state_file, map_location="cpu", weights_only=True)
        except Exception as error:  # unpickling has no error of its own
            raise ValueError(f"{self.state_file} is damaged: {first_line(error)}") from None

    def log(self, row: Mapping[str, float]) -> None:
        """Add a line to the log."""
        new = not self.log_file.exists()
        with self.log_file.open("a", newline="", encoding="utf-8") as file:
            writer: csv.DictWriter[str] = csv.DictWriter(file, self.columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(_words(row))

    def read_log(self) -> list[dict[str, float]]:
        """The log's lines, without the values that a line lacks."""
        if not self.log_file.exists():
            return []
        with self.log_file.open(newline="", encoding="utf-8") as file:
            return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]

    def cut_log(self, step: int) -> None:
        """Drop lines at and after `step`, which a resumed run will write again."""
        rows = [row for row in self.read_log() if row["step"] < step]
        write_text(self.log_file, _as_csv(rows, self.columns))


def _as_csv(rows: Sequence[Mapping[str, float]], columns: Sequence[str]) -> str:
    lines = [",".join(columns)]
    lines += [",".join(_words(row).get(name, "") for name in columns) for row in rows]
    return "\n".join(lines) + "\n"


def _words(row: Mapping[str, float]) -> dict[str, str]:
    return {name: str(int(value)) if name == "step" else format(value, ".6g") for name, value in row.items()}
