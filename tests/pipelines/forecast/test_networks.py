"""Networks of the table: of one size, told the same, and what cannot be is refused."""

import pytest
import torch
from fredholm.backbones import SurrogateBody
from fredholm.pipelines.forecast.networks import NETWORKS, Ports, body_of, network_of, weights_of

SQUARE = Ports(fields=8, following=2, boundary=("periodic", "zero"), scalars=2, grid=(64, 32))
VOLUME = Ports(fields=8, following=2, boundary=("periodic",) * 3, scalars=2, grid=(16,) * 3)


@pytest.mark.parametrize("ports", [SQUARE, VOLUME], ids=["square", "volume"])
@pytest.mark.parametrize("model", NETWORKS)
def test_by_default_all_are_of_one_size(model: str, ports: Ports) -> None:
    ours, this = (weights_of(network_of(name).build(ports, body_of(name, ports, {}))) for name in ("hyena", model))
    assert this == pytest.approx(ours, rel=0.25)  # the width of a narrow U-net is a coarse measure


@pytest.mark.parametrize("model", NETWORKS)
def test_parameters_matter(model: str) -> None:
    torch.manual_seed(0)
    network = network_of(model).build(SQUARE, body_of(model, SQUARE, {"dim": 8})).eval()
    x = torch.randn(1, 64, 32, 8)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        first, second = (network(x, torch.tensor([[0.0, s]])) for s in (0.0, 1.0))
    assert first.shape == (1, 64, 32, 2)
    assert not torch.allclose(first, second)


def test_a_chosen_width_is_kept() -> None:
    assert body_of("hyena", SQUARE, {"dim": 8, "pattern": "H"}) == SurrogateBody(dim=8, pattern="H")
    assert body_of("fno", SQUARE, {"dim": 9}).dim == 9


def test_a_complex_weight_is_two_numbers() -> None:
    assert weights_of(torch.nn.Linear(2, 3, bias=False)) == 6
    assert weights_of(torch.nn.Linear(2, 3, bias=False, dtype=torch.complex64)) == 12


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("resnet", {}, "unknown model 'resnet'; known are hyena, unet, cnextunet, fno, tfno"),
        ("unet", {"patch": 2}, "the model unet has no --patch; it has --dim, --depth"),
        ("unet", {"depth": 0}, "depth is a whole number of 1 or more, not 0"),
        ("cnextunet", {"dim": 4, "depth": 6}, r"needs sides that are multiples of 64, the grid is \(64, 32\)"),
    ],
)
def test_what_cannot_be_is_named(model: str, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        network_of(model).build(SQUARE, body_of(model, SQUARE, options))
