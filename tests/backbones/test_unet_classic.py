"""The classic U-net is The Well's where nothing is periodic, and keeps the symmetry of what is."""

import re
from pathlib import Path

import pytest
import the_well
import torch
from fredholm.backbones import UNetClassic
from torch import Tensor, nn

# The package round The Well's file asks for timm, wandb and more, the file itself for a base class alone.
BASE = """
class BaseModel(nn.Module):
    def __init__(self, axes, _):
        super().__init__()
        self.n_spatial_dims = axes
"""


def the_wells(*args, **options) -> nn.Module:
    file = Path(the_well.__file__).parent / "benchmark/models/unet_classic/__init__.py"
    names: dict = {}
    exec(file.read_text().replace("from the_well.benchmark.models.common import BaseModel", BASE), names)
    return names["UNetClassic"](*args, **options)


def ours(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The Well's weights by our names."""
    levels = {**{f"encoder{n}": f"down.{n - 1}" for n in range(1, 5)}, "bottleneck": "down.4"}
    levels |= {f"decoder{n}": f"up.{4 - n}" for n in range(1, 5)} | {
        f"upconv{n}": f"spread.{4 - n}" for n in range(1, 5)
    }
    parts = {"conv1": "0.conv", "norm1": "1", "conv2": "3.conv", "norm2": "4"}
    found = {"out.weight": theirs["conv.weight"].flatten(1).T, "out.bias": theirs["conv.bias"]}
    for name, value in theirs.items():
        level, *rest = name.split(".")
        if level in levels:
            rest[0] = parts.get(re.sub(r"^(enc\d|dec\d|bottleneck)", "", rest[0]), rest[0])
            found[".".join((levels[level], *rest))] = value
    return found


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_with_zeros_outside_it_is_the_wells(axes: int) -> None:
    theirs = the_wells(3, 2, axes, (16,) * axes, init_features=4)
    model = UNetClassic(3, 2, ("zero",) * axes, dim=4)
    model.load_state_dict(ours(theirs.state_dict()))
    x = torch.randn(2, *(32, 16, 16)[:axes], 3)
    torch.testing.assert_close(model(x), theirs(x.movedim(-1, 1)).movedim(1, -1), rtol=1e-4, atol=1e-5)


def test_as_benchmarked_it_has_as_many_weights() -> None:
    model = UNetClassic(44, 11, ("periodic",) * 2)
    assert sum(weight.numel() for weight in model.parameters()) / 1e6 == pytest.approx(17.5, abs=0.05)


def test_on_a_periodic_axis_it_commutes_with_shifts_by_its_coarsest_cell() -> None:
    model, x = (
        UNetClassic(3, 2, ("periodic", "zero"), dim=4, depth=2).double().eval(),
        torch.randn(1, 16, 8, 3).double(),
    )
    with torch.no_grad():
        torch.testing.assert_close(model(x.roll(4, 1)), model(x).roll(4, 1), rtol=0, atol=1e-12)
        assert (model(x.roll(4, 2)) - model(x).roll(4, 2)).abs().max() > 1e-3
