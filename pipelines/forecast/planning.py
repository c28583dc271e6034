"""What a surrogate's plan says of the data, looked up in the training split."""

import torch

from ..well.folder import WellFolder
from ..well.statistics import read_statistics
from ..well.windows import Contents, Windows
from .plan import Simulation

EDGES = ("WALL", "OPEN", "PERIODIC")  # The Well's codes


def simulation_of(folder: WellFolder, windows: Windows) -> Simulation:
    """What the training split holds.

    Args:
        folder: The data set.
        windows: Of its training split.

    Raises:
        FileNotFoundError: There are no statistics; the message has the command that computes them.
        ValueError: They lack a field, or there is no changing field.
    """
    contents = windows.contents
    if not contents.channels:
        raise ValueError(f"{folder.root} has no field that changes with time")
    statistics, constant = read_statistics(folder.statistics_file, contents.fields, contents.constant_fields)
    mean, std = _scalars(windows)
    return Simulation(
        name=contents.name,
        grid=contents.grid,
        edges=edges_of(contents),
        channels=contents.channels,
        constant_channels=contents.constant_channels,
        scalars=(*contents.scalars, "time step"),
        statistics=statistics,
        constant_statistics=constant,
        scalar_mean=mean,
        scalar_std=std,
    )


def edges_of(contents: Contents) -> tuple[str, ...]:
    """What lies at the ends of each axis, by name."""
    return tuple("/".join(dict.fromkeys(EDGES[code] for code in ends)) for ends in contents.boundary)


def check_fits(simulation: Simulation, windows: Windows, where: str) -> None:
    """Refuse data that a surrogate of `simulation` cannot run on.

    Raises:
        ValueError: Fields, parameters or edges differ; both are named.
    """
    contents = windows.contents
    pairs = {
        "fields": (contents.channels, simulation.channels),
        "constant fields": (contents.constant_channels, simulation.constant_channels),
        "parameters": ((*contents.scalars, "time step"), simulation.scalars),
        "edges": (edges_of(contents), simulation.edges),
    }
    for name, (found, learned) in pairs.items():
        if tuple(found) != tuple(learned):
            raise ValueError(f"{where} has {name} {list(found)}, the run learned with {list(learned)}")


def _scalars(windows: Windows) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each parameter and of the time step, a window of each trajectory."""
    firsts = [windows[numbers[0]] for numbers in windows.trajectories]
    values = torch.stack([torch.cat((one.scalars, one.time_step[None])) for one in firsts]).double()
    std = values.std(0, correction=0)
    varies = std > 1e-6 * values.abs().amax(0)
    return tuple(values.mean(0).tolist()), tuple(torch.where(varies, std, 1.0).tolist())
