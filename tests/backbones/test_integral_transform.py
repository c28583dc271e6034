"""An integral transform is each layer that the theorems name, exactly, and what an integral must be besides."""

import itertools
import math

import pytest
import torch
from fredholm.backbones import (
    ConvolutionKernel,
    DiagonalKernel,
    IntegralTransform,
    LearnedSamples,
    LowRankKernel,
    MLPKernel,
    NearSamples,
    RecurrentKernel,
    ResidualBlock,
    SoftmaxKernel,
    UniformSamples,
    cell_centres,
)
from fredholm.kernels import PairwiseKappa, Selection, integral_transform
from torch import nn

KERNELS = {
    "perceptron": lambda dim, axes: MLPKernel(dim, axes, width=16, frequencies=4),
    "diagonal": lambda dim, axes: DiagonalKernel(dim, axes, width=16, frequencies=4),
    "low rank": lambda dim, axes: LowRankKernel(dim, axes, rank=3, width=16, frequencies=4),
    "convolution": lambda dim, axes: ConvolutionKernel(dim, axes, spacing=0.25),
    "softmax": SoftmaxKernel,
    "recurrent": lambda dim, axes: RecurrentKernel(dim, axes, states=3),
}
every_kernel = pytest.mark.parametrize("kind", KERNELS)


def lattice(*grid: int) -> torch.Tensor:
    """The places of a grid, counted in cells."""
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in grid), indexing="ij")
    return torch.stack(axes, -1).flatten(0, -2)[None]


def alone(kernel: nn.Module, dim: int, axes: int) -> IntegralTransform:
    """A transform that is its kernel: W is 0 and W_O changes nothing."""
    layer = IntegralTransform(dim, axes, kernel=lambda channels, axes: kernel).double()
    with torch.no_grad():
        layer.residual.weight.zero_()
        layer.out.weight.copy_(torch.eye(dim))
    return layer


def assert_equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert (found - expected).abs().max() <= 1e-12 * expected.abs().max()


@pytest.mark.parametrize("grid", [(11,), (6, 7), (4, 5, 6)])
@pytest.mark.parametrize(
    ("groups", "dilation", "stride"), [(1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 1), (4, 1, 1), (4, 2, 2)]
)
def test_theorem_1_a_kernel_of_lags_is_convolution(grid, groups, dilation, stride) -> None:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(grid) - 1]
    conv = kind(4, 4, 3, stride, dilation, dilation, groups, bias=False).double()
    kernel = ConvolutionKernel(4, len(grid), spacing=dilation, groups=groups)
    kernel.load_state_dict(conv.state_dict())
    x = torch.randn(2, 4, *grid, dtype=torch.float64)
    points = lattice(*grid).expand(2, -1, -1)
    found = alone(kernel, 4, len(grid))(x.flatten(2).mT, points, torch.ones(2, points.shape[1], dtype=torch.float64))
    found = found.mT.unflatten(-1, grid)[(..., *(len(grid) * [slice(None, None, stride)]))]
    assert_equal(found, conv(x))


def test_a_convolution_over_the_occupied_cells_takes_the_others_for_zero() -> None:
    kernel = ConvolutionKernel(3, 2)
    points, occupied = lattice(5, 6), torch.rand(30) < 0.5
    u = torch.randn(1, 30, 3, dtype=torch.float64) * occupied[:, None]
    layer, ones = alone(kernel, 3, 2), torch.ones(1, 30, dtype=torch.float64)
    whole = layer(u, points, ones)
    sparse = layer(u[:, occupied], points[:, occupied], ones[:, occupied])
    assert_equal(sparse, whole[:, occupied])


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_theorem_2_a_softmax_of_products_is_multi_head_attention(heads) -> None:
    attention = nn.MultiheadAttention(8, heads, batch_first=True, dtype=torch.float64)
    layer = IntegralTransform(8, 3, kernel=lambda dim, axes: SoftmaxKernel(dim, axes, heads=heads)).double()
    nn.init.normal_(attention.in_proj_bias)
    with torch.no_grad():
        layer.kernels[0].project.weight.copy_(attention.in_proj_weight)
        layer.kernels[0].project.bias.copy_(attention.in_proj_bias)
        layer.out.weight.copy_(attention.out_proj.weight)
        layer.residual.weight.zero_()
    x = torch.randn(2, 3, 2, 3, 8, dtype=torch.float64)
    tokens = x.flatten(1, -2)
    assert_equal(layer(x).flatten(1, -2), attention(tokens, tokens, tokens, need_weights=False)[0])


def unrolled(cell: nn.Module, state: tuple[torch.Tensor, ...], inputs: torch.Tensor) -> torch.Tensor:
    """n applications of a kernel supported on the step before, which are n steps of the cell.

    A point's features are its state and a 1; kappa's column for the 1 is what the cell makes of the target's input and
    the source's state, all its other columns are 0.
    """
    batch, length, _ = inputs.shape
    sizes = [one.shape[-1] for one in state]
    time = lattice(length + 1).expand(batch, -1, -1)
    inputs = torch.cat([torch.zeros_like(inputs[:, :1]), inputs], 1)
    start = torch.cat(state, -1)[:, None]
    u = torch.cat([start, start.new_zeros(batch, length, sum(sizes))], 1)
    ones = torch.ones(batch, length + 1, 1, dtype=u.dtype)

    def kappa(time_x, input_x, time_y, state_y):
        pairs = torch.broadcast_shapes(time_x.shape[:3], time_y.shape[:3])
        rows = input_x.expand(*pairs, -1).flatten(0, 2)
        before = state_y.expand(*pairs, -1).flatten(0, 2).split(sizes, -1)
        after = cell(rows, before if len(sizes) > 1 else before[0])
        column = torch.cat(after, -1) if isinstance(after, tuple) else after
        column = column.unflatten(0, pairs) * (time_x - time_y == 1)
        return torch.cat([column.new_zeros(*pairs, sum(sizes), sum(sizes)), column[..., None]], -1)

    for _ in range(length):
        made = PairwiseKappa(kappa, (time, inputs), (time, u))
        u = integral_transform(made, torch.cat([u, ones], -1), ones[..., 0])
        u = torch.cat([start, u[:, 1:]], 1)
    return u[:, 1:, : sizes[0]]


@pytest.mark.parametrize(
    ("cell", "layer", "states"),
    [(nn.RNNCell, nn.RNN, 1), (nn.GRUCell, nn.GRU, 1), (nn.LSTMCell, nn.LSTM, 2)],
)
def test_theorem_3_a_kernel_on_the_step_before_unrolls_gated_cells(cell, layer, states) -> None:
    cell, layer = cell(3, 4).double(), layer(3, 4, batch_first=True).double()
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    inputs = torch.randn(2, 6, 3, dtype=torch.float64)
    state = tuple(torch.randn(2, 4, dtype=torch.float64) for _ in range(states))
    first = tuple(one[None] for one in state)
    expected, _ = layer(inputs, first if states > 1 else first[0])
    assert_equal(unrolled(cell, state, inputs).detach(), expected.detach())


def test_theorem_3_a_decaying_kernel_is_a_diagonal_state_space_model() -> None:
    """S4's recurrence h(t) = exp(D a) h(t - 1) + D b u(t), y(t) = c h(t): steps and maps that do not look at u."""
    kernel = RecurrentKernel(4, 1, states=3)
    step, b, c = torch.rand(4) + 0.1, torch.randn(3), torch.randn(3)
    with torch.no_grad():
        for linear in (kernel.step, kernel.write, kernel.read):
            linear.weight.zero_()
        kernel.step.bias.copy_(step.expm1().log())
    kernel.double()
    u = torch.randn(2, 9, 4, dtype=torch.float64)
    # what the linear maps lack is a constant, so that their results stand in as constants here
    kernel.write, kernel.read = _Constant(b.double()), _Constant(c.double())
    decay = torch.exp(-nn.functional.softplus(kernel.step.bias)[:, None] * kernel.logarithm.exp())
    h, expected = torch.zeros(2, 4, 3, dtype=torch.float64), []
    for t in range(9):
        h = decay * h + nn.functional.softplus(kernel.step.bias)[:, None] * b.double() * u[:, t, :, None]
        expected.append(h @ c.double())
    found = alone(kernel, 4, 1)(u, lattice(9).expand(2, -1, -1), torch.ones(2, 9, dtype=torch.float64))
    assert_equal(found.detach(), torch.stack(expected, 1).detach())


class _Constant(nn.Module):
    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = value

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return self.value.expand(*u.shape[:-1], -1)


def test_theorem_3_steps_that_see_the_input_make_it_a_selective_scan() -> None:
    kernel = RecurrentKernel(4, 1, states=3).double()
    u = torch.randn(2, 9, 4, dtype=torch.float64)
    step, write, read = nn.functional.softplus(kernel.step(u)), kernel.write(u), kernel.read(u)
    h, expected = torch.zeros(2, 4, 3, dtype=torch.float64), []
    for t in range(9):
        decay = torch.exp(-step[:, t, :, None] * kernel.logarithm.exp())
        h = decay * h + (step[:, t] * u[:, t])[..., None] * write[:, t, None]
        expected.append((h * read[:, t, None]).sum(-1))
    found = alone(kernel, 4, 1)(u, lattice(9).expand(2, -1, -1), torch.ones(2, 9, dtype=torch.float64))
    assert_equal(found.detach(), torch.stack(expected, 1).detach())


def test_without_a_kernel_and_with_w_as_identity_nothing_changes() -> None:
    layer = IntegralTransform(6, 2, kernel=KERNELS["perceptron"], heads=2)
    with torch.no_grad():
        layer.residual.weight.copy_(torch.eye(6))
        for kernel in layer.kernels:
            kernel.weight.zero_()
    x = torch.randn(2, 4, 5, 6)
    assert torch.equal(layer(x), x)


@every_kernel
@pytest.mark.parametrize("heads", [1, 2])
def test_a_cloud_in_another_order_gives_the_same_in_that_order(kind, heads) -> None:
    layer = IntegralTransform(4, 3, kernel=KERNELS[kind], heads=heads).double()
    x, positions = torch.randn(2, 10, 4, dtype=torch.float64), torch.rand(2, 10, 3, dtype=torch.float64)
    order = torch.randperm(10)
    assert_equal(layer(x[:, order], positions[:, order]), layer(x, positions)[:, order])


@every_kernel
def test_points_without_weight_are_not_there(kind) -> None:
    layer = IntegralTransform(4, 3, kernel=KERNELS[kind]).double()
    x, positions = torch.randn(2, 10, 4, dtype=torch.float64), torch.rand(2, 10, 3, dtype=torch.float64)
    positions[:, 7:, 0] += 1  # later than the others, for a recurrence passes by absent points too
    weights = torch.rand(2, 10, dtype=torch.float64)
    weights[:, 7:] = 0
    assert_equal(layer(x, positions, weights)[:, :7], layer(x[:, :7], positions[:, :7], weights[:, :7]))


@every_kernel
def test_every_weight_of_a_layer_learns(kind) -> None:
    layer = IntegralTransform(4, 2, kernel=KERNELS[kind], heads=2)
    layer(torch.randn(2, 4, 4, 4)).square().sum().backward()
    for name, weight in layer.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name  # noqa: PT018
        if not (kind == "softmax" and name.endswith("bias")):
            assert weight.grad.any(), name


def test_finer_grids_come_nearer_to_the_integral() -> None:
    """Midpoints, so the error falls with the square of the spacing, on a kernel that grids can resolve."""
    layer = IntegralTransform(
        2, 1, kernel=lambda dim, axes: MLPKernel(dim, axes, width=8, frequencies=4, sigma=0.3)
    ).double()

    def at_middle(n: int) -> torch.Tensor:
        t = cell_centres([n])[0].double()
        u = torch.cat([torch.sin(3 * t), torch.cos(2 * t)], -1)[None]
        x = torch.tensor([[[math.sin(1.5), math.cos(1.0)]]], dtype=torch.float64)
        both = torch.cat([u, x], 1)
        measure = torch.cat([torch.full((1, n), 1 / n), torch.zeros(1, 1)], 1).double()
        positions = torch.cat([t, torch.tensor([[0.5]], dtype=torch.float64)])[None]
        return layer(both, positions, measure)[0, -1].detach()

    exact = at_middle(4096)
    errors = [(at_middle(n) - exact).abs().max().item() for n in (16, 32, 64, 128)]
    for coarse, fine in itertools.pairwise(errors):
        assert fine < coarse / 3


def biased(limit: int) -> LearnedSamples:
    """A learned proposal that prefers some points by far."""
    samples = LearnedSamples(4, 2, limit=limit).double()
    nn.init.normal_(samples.score[2].weight)
    return samples


SAMPLES = {
    "uniform": lambda: UniformSamples(24),
    "near": lambda: NearSamples(24, reach=0.3),
    "learned": lambda: biased(24),
}
every_strategy = pytest.mark.parametrize("strategy", SAMPLES)


@every_strategy
def test_samples_are_the_integral_on_average(strategy) -> None:
    layer = IntegralTransform(4, 2, kernel=KERNELS["perceptron"]).double()
    x = torch.randn(1, 8, 8, 4, dtype=torch.float64)
    exact = layer(x).detach()
    layer.strategy = SAMPLES[strategy]()
    with torch.no_grad():
        draws = torch.stack([layer(x) for _ in range(300)])
    error = draws.std(0) / math.sqrt(len(draws))
    assert draws.std(0).min() > 0
    assert ((draws.mean(0) - exact).abs() < 4.5 * error).all()


@every_strategy
def test_samples_are_the_same_each_time_in_evaluation(strategy) -> None:
    layer = IntegralTransform(4, 2, kernel=KERNELS["perceptron"], strategy=SAMPLES[strategy]()).double().eval()
    x = torch.randn(1, 8, 8, 4).double()
    assert torch.equal(layer(x), layer(x))


@every_strategy
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the compiler does so
def test_samples_are_drawn_in_a_compiled_graph_too(strategy, training) -> None:
    layer = IntegralTransform(4, 2, kernel=KERNELS["perceptron"], strategy=SAMPLES[strategy]()).double()
    layer, x = layer.train(training), torch.randn(1, 8, 8, 4).double()
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found = []
    for call in (compiled, layer):
        torch.manual_seed(1)
        found.append(call(x))
    torch.testing.assert_close(*found)


def test_a_learned_proposal_learns_and_nothing_before_it_does_so_for_its_sake() -> None:
    layer, x = (
        IntegralTransform(4, 2, kernel=KERNELS["perceptron"], strategy=biased(24)).double(),
        torch.randn(1, 8, 8, 4),
    )
    gradients = []
    for learned in (True, False):
        layer.strategy.requires_grad_(learned)
        u = x.double().requires_grad_()
        torch.manual_seed(1)
        layer(u).square().sum().backward()
        gradients.append(u.grad)
    assert torch.equal(*gradients)
    for weight in layer.strategy.parameters():
        assert weight.grad.isfinite().all()
        assert weight.grad.any()


def test_few_points_need_no_samples() -> None:
    x = torch.randn(1, 4, 4, 4)
    layer = IntegralTransform(4, 2, kernel=KERNELS["perceptron"])
    exact = layer(x)
    layer.strategy = UniformSamples(16)
    assert torch.equal(layer(x), exact)


def test_neighbours_are_a_measure_too() -> None:
    layer = IntegralTransform(4, 3, kernel=KERNELS["perceptron"]).double()
    x, positions = torch.randn(2, 10, 4, dtype=torch.float64), torch.rand(2, 10, 3, dtype=torch.float64)
    everyone = torch.arange(10).expand(2, 10, 10)
    selection = Selection(everyone, torch.full((2, 10, 10), 0.1, dtype=torch.float64))
    assert_equal(layer(x, positions, selection), layer(x, positions))


def test_in_a_residual_block_a_cloud_keeps_its_positions() -> None:
    block = ResidualBlock(8, IntegralTransform(8, 3, kernel=KERNELS["perceptron"]))
    x, positions = torch.randn(2, 10, 8), torch.rand(2, 10, 3)
    assert not torch.equal(block(x, positions), block(x, positions.flip(1)))


def test_what_does_not_fit_is_said() -> None:
    layer = IntegralTransform(4, 2, kernel=KERNELS["perceptron"])
    with pytest.raises(ValueError, match="3 heads do not divide 4 channels"):
        IntegralTransform(4, 2, heads=3)
    with pytest.raises(ValueError, match="expected a grid of 2 axes or positions"):
        layer(torch.randn(1, 5, 4))
    with pytest.raises(ValueError, match=r"expected positions \(batch, points, 2\)"):
        layer(torch.randn(1, 5, 4), torch.rand(1, 5, 3))
    with pytest.raises(ValueError, match="odd number of taps"):
        ConvolutionKernel(4, 2, taps=2)
    with pytest.raises(ValueError, match="do not divide 4 channels"):
        SoftmaxKernel(4, 2, heads=3)
