"""How well label maps fit a reference, with the rules that decide the awkward cases.

For one class in one case, with P and R what prediction and reference have of it:

==============================  ====================  =========  ==============  ==============
score                           both have it          neither    missed (no P)   false (no R)
==============================  ====================  =========  ==============  ==============
dice                            2 |P and R|/(|P|+|R|)  not scored  0               0
surface_dice                    see `surface`         not scored  0               0
hd95_mm, hd_mm                  see `surface`         not scored  the diagonal    the diagonal
volume_difference_ml            P - R                 not scored  -R              P
volume_difference_percent       100 (P - R) / R       not scored  -100            not scored
==============================  ====================  =========  ==============  ==============

So a missed structure has the worst value that there is, a false one is never free, and a class that nobody has says
nothing. The diagonal is that of the whole volume, in mm: no distance in it is longer. "Not scored" is NaN, null in
JSON, an empty cell in CSV; it takes part in no mean.

Two means over many cases are told apart by name: `casewise` is the mean over cases of each case's own mean, `pooled`
the mean over all scored (case, class) pairs. What other packages make of the awkward cases is listed in
`docs/scores.md`.
"""

from .bootstrap import bootstrap_interval
from .case import SURFACE_METRICS, ClassScores, evaluate_pair
from .overlap import Overlap, dice, overlaps
from .surface import Distances, surface_distances
from .table import METRICS, VOLUMES, Metric, Scores, ScoreTable

__all__ = [
    "METRICS",
    "SURFACE_METRICS",
    "VOLUMES",
    "ClassScores",
    "Distances",
    "Metric",
    "Overlap",
    "ScoreTable",
    "Scores",
    "bootstrap_interval",
    "dice",
    "evaluate_pair",
    "overlaps",
    "surface_distances",
]
