"""`fredholm demo`: from nothing to a labelled body that the network has not seen, with pictures."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ..pipelines.dataset import open_dataset
from ..pipelines.devices import best_precision, fabric_of, pick_device
from ..pipelines.nifti import read_labels, read_volume, write_labels
from ..pipelines.phantom import write_phantom
from ..pipelines.pictures import overlay_figure, png_bytes, training_figure
from ..pipelines.plan import Network, Recipe
from ..pipelines.planning import Wishes, plan_dataset, prepare_cases
from ..pipelines.predict import Predictor
from ..pipelines.run import Run
from ..pipelines.scores import Scores, evaluate_pair
from ..pipelines.segmenting import Segmenting
from ..pipelines.splits import Split
from ..pipelines.training import Trainer
from ..pipelines.volume import Volume, canonical, reordered
from .console import bar, note, result
from .report import Picture, Section, Table, write_report
from .segment.tables import overview
from .training import train

SPACING_MM = (5.0, 5.0, 5.0)  # coarse enough that a window of 32 voxels holds an organ and what surrounds it
WINDOW = (32, 32, 32)
FEATURE_SIZE = 24
METRICS = ("dice", "surface_dice", "hd95_mm")
TOLERANCE_MM = 5.0

NEXT = """What to type for your own scans:
  fredholm segment train DATA -o RUN --minutes 60    DATA: images/*.nii.gz and labels/*.nii.gz, or an MSD data set
  fredholm segment predict -i SCANS -o LABELS --run RUN
  fredholm segment evaluate LABELS REFERENCE
"""


@dataclass
class Demo:
    """Make a small phantom data set, train a network on it, label a body it has not seen, and report.

    Takes about five minutes on two CPU cores. Everything lands in one folder; report.html has the pictures.

    Example: fredholm demo
    """

    output: Annotated[Path, tyro.conf.arg(aliases=("-o",))] = Path("demo")
    """Folder for data, run and report; a run of an earlier demo there is made anew."""

    minutes: float = 4.5
    """How long to train."""

    stages: str = "HHAA"
    """A letter for each of the four encoder stages: H HyenaND, A windowed attention, I ITNet."""

    seed: int = 0
    """Of the bodies, the weights and the patches."""

    def run(self) -> None:
        """Run the whole demo."""
        started = time.monotonic()
        data, run_folder = self.output / "data", self.output / "run"
        note("making six bodies to learn from and one to be tested on")
        data.mkdir(parents=True, exist_ok=True)
        write_phantom(data, seed=self.seed)
        run = self._train(data, run_folder)
        scan, truth, labels, scores = self._predict(data, run)
        result(overview(scores))
        report = self.output / "report.html"
        write_report(report, "fredholm demo", self._sections(run, scan, truth, labels, scores))
        note(f"{(time.monotonic() - started) / 60:.1f} minutes in all")
        result(str(report))
        note(NEXT)

    def _train(self, data: Path, folder: Path) -> Run:
        device = pick_device()
        recipe = Recipe(
            window=WINDOW,
            batch=2,
            learning_rate=1e-3,
            ema=0.98,
            precision=best_precision(device),
            save_every=0,
            seed=self.seed,
        )
        dataset = open_dataset(data)
        wishes = Wishes(
            network=Network(stages=self.stages, feature_size=FEATURE_SIZE),
            recipe=recipe,
            split=Split.holding_out([case.name for case in dataset.labelled], ()),
            spacing_mm=SPACING_MM,
        )
        plan = plan_dataset(dataset, wishes).plan
        with bar("preparing bodies", len(dataset.labelled)) as preparing:
            prepared = prepare_cases(dataset, plan, preparing.tick)
        for stale in (folder / "plan.yaml", folder / "log.csv"):
            stale.unlink(missing_ok=True)
        run = Run.create(folder, plan)
        fabric = fabric_of(device, recipe.precision)
        with bar("training") as progress:
            trainer = Trainer(run, Segmenting(run.plan, prepared.training), progress, fabric)
            train(trainer, minutes=self.minutes)
        return trainer.run

    def _predict(self, data: Path, run: Run) -> tuple[Volume, Volume, Volume, Scores]:
        case = open_dataset(data).unlabelled[0]
        scan, truth = read_volume(case.image), read_labels(data / "labelsTs" / case.image.name)
        predictor = Predictor.of(run)
        with bar(f"labelling {case.image.name}", predictor.windows(scan)) as progress:
            labels = predictor.label(scan, progress.tick)
        write_labels(self.output / f"{case.name}_labels.nii.gz", labels, like=scan)
        predicted = replace(scan, array=labels)
        rows = {case.name: evaluate_pair(predicted, truth, run.plan.names, TOLERANCE_MM)}
        return scan, truth, predicted, Scores(rows, run.plan.names, METRICS, TOLERANCE_MM)

    def _sections(self, run: Run, scan: Volume, truth: Volume, labels: Volume, scores: Scores) -> list[Section]:
        recipe = run.plan.recipe
        assert recipe is not None
        own = canonical(scan)
        maps = [canonical(reordered(volume, like=scan)).array.astype(np.int64) for volume in (labels, truth)]
        overlay = png_bytes(overlay_figure(own.array, maps[0], own.spacing_mm, run.plan.names, reference=maps[1]))
        (self.output / "overlay.png").write_bytes(overlay)
        tables = [scores.table(metric) for metric in METRICS]
        rows = [
            *(
                [name, *(one.mean_per_class[index] for one in tables)]
                for index, name in run.plan.names.items()
                if index
            ),
            ["mean", *(one.casewise for one in tables)],
        ]
        how = (
            f"{run.plan.network.stages}, feature size {run.plan.network.feature_size}, {recipe.steps} steps of two "
            f"patches of {' x '.join(map(str, recipe.window))} voxels of {SPACING_MM[0]:g} mm, from six bodies."
        )
        curve = png_bytes(training_figure(run.read_log()))
        return [
            Section(
                "A body the network has not seen",
                [
                    Picture(
                        overlay, "Prediction and reference over the scan", "Above the prediction, below the truth."
                    ),
                    Table(
                        ["organ", *map(scores.title, METRICS)], rows, "Scores of each organ; NSD is the surface Dice."
                    ),
                ],
            ),
            Section("Training", [how, Picture(curve, "Loss and learning rate by step", "Training curve.")]),
            Section("Next", ["Your own scans: fredholm segment train DATA -o RUN, then fredholm segment predict."]),
        ]
