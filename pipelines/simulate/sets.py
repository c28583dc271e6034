"""The data sets that can be simulated, by name: for each the simulations of its files."""

from collections.abc import Callable, Mapping

from . import acoustics, burgers, gray_scott, shear_flow
from .simulator import Simulator


def _gray_scott(dim: int, grid: int) -> Mapping[str, Simulator]:
    return {
        f"gray_scott_{regime}_F_{feed}_k_{kill}": gray_scott.GrayScott(feed=feed, kill=kill, dim=dim, grid=grid)
        for regime, (feed, kill) in gray_scott.REGIMES.items()
    }


def _acoustics(dim: int, grid: int) -> Mapping[str, Simulator]:
    _expect_plane("acoustics", dim)
    return {"acoustics": acoustics.Acoustics(grid=grid)}


def _burgers(dim: int, grid: int) -> Mapping[str, Simulator]:
    _expect_plane("burgers", dim)
    return {
        f"burgers_viscosity_{viscosity}": burgers.Burgers(viscosity=viscosity, grid=grid)
        for viscosity in burgers.VISCOSITIES
    }


def _shear_flow(dim: int, grid: int) -> Mapping[str, Simulator]:
    _expect_plane("shear_flow", dim)
    return {
        f"shear_flow_Reynolds_{reynolds}_Schmidt_{schmidt}": shear_flow.ShearFlow(
            reynolds=reynolds, schmidt=schmidt, grid=grid
        )
        for reynolds, schmidt in shear_flow.REGIMES
    }


def _expect_plane(name: str, dim: int) -> None:
    if dim != 2:
        raise ValueError(f"{name} is simulated in the plane: expected --dim 2, got {dim}")


SETS: Mapping[str, Callable[[int, int], Mapping[str, Simulator]]] = {
    "acoustics": _acoustics,
    "burgers": _burgers,
    "gray_scott": _gray_scott,
    "shear_flow": _shear_flow,
}
