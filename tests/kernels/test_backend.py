"""Which backend computes, what overrides it, and that PyTorch's tools treat all of them alike."""

import itertools
import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from fredholm.kernels import backend as dispatch
from fredholm.kernels import fftconv, gate, implicit_kernel
from fredholm.kernels.backend import backend, implementation
from torch.utils.checkpoint import checkpoint

ON_GPU, ON_GPU_IN_FLOAT64 = (
    SimpleNamespace(is_cuda=True, device=torch.device("cuda"), dtype=dtype) for dtype in (torch.half, torch.float64)
)
ON_CPU = torch.zeros(1)


@pytest.fixture(autouse=True)
def _no_override(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FREDHOLM_BACKEND", raising=False)
    dispatch._triton_is_here.cache_clear()
    yield
    dispatch._triton_is_here.cache_clear()


def test_the_device_chooses() -> None:
    assert backend(ON_CPU) == "cpu"
    assert backend(ON_GPU) == "triton"
    assert backend(ON_GPU_IN_FLOAT64) == "cpu"


@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_the_variable_overrides(name, monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", name)
    assert backend(ON_CPU) == backend(ON_GPU) == backend(ON_GPU_IN_FLOAT64) == name
    monkeypatch.setenv("FREDHOLM_BACKEND", "")
    assert backend(ON_CPU) == "cpu"


def test_an_unknown_name_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", "cuda")
    with pytest.raises(ValueError, match=r"^FREDHOLM_BACKEND=cuda: expected reference, cpu or triton$"):
        gate(torch.ones(2, 3), torch.ones(2, 3), activation="silu")


def test_triton_off_a_gpu_is_interpreted_or_refused(monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert backend(ON_CPU) == backend(ON_GPU) == "triton"
    assert backend(ON_CPU.double()) == "cpu"
    monkeypatch.delenv("TRITON_INTERPRET")
    assert backend(ON_GPU) == "triton"
    with pytest.raises(ValueError, match="FREDHOLM_BACKEND=triton: a tensor on cpu needs TRITON_INTERPRET=1 as well"):
        backend(ON_CPU)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, r"Triton is not installed: pip install 'triton>=3\.4'"),
        (SimpleNamespace(__version__="3.3.1"), r"Triton 3\.3\.1 is too old: pip install 'triton>=3\.4'"),
    ],
)
def test_without_triton_the_gpu_says_so_once_and_goes_on(found, words, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", found)
    with pytest.warns(UserWarning, match=f"^{words}; until then the GPU computes with plain PyTorch"):
        assert backend(ON_GPU) == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert backend(ON_GPU) == "cpu"
    monkeypatch.setenv("FREDHOLM_BACKEND", "triton")
    with pytest.raises(ValueError, match=f"^FREDHOLM_BACKEND=triton: {words}$"):
        backend(ON_GPU)


@pytest.mark.parametrize("version", ["3.4.0", "3.10.0+git12ab", "4.0"])
def test_new_versions_of_triton_are_welcome(version, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=version))
    assert backend(ON_GPU) == "triton"


def test_a_room_without_triton_takes_plain_pytorch() -> None:
    assert implementation("fredholm.kernels.instance_norm.ops", ON_GPU).__name__ == "fredholm.kernels.instance_norm.cpu"


def test_kernels_run_where_triton_is_absent() -> None:
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch; from fredholm.kernels import gate\n"
        "print(gate(torch.ones(1, 4), torch.ones(1, 4), activation='sigmoid').shape)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "FREDHOLM_BACKEND"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "torch.Size([1, 4])"), done.stderr


class Mixer(torch.nn.Module):
    """The three operators of HyenaND that have backends, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (2, 8, 8, 4)
        self.weights = torch.nn.ParameterList(torch.randn(b, a) / a**0.5 for a, b in itertools.pairwise(sizes))
        self.biases = torch.nn.ParameterList(torch.randn(n) for n in sizes[1:])
        self.sigma, self.scale, self.shortcut = (torch.nn.Parameter(1 + torch.rand(s)) for s in ((2, 4), (4,), (4,)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = gate(x, x.cos(), self.scale, activation="silu", unit=True)
        axes = [torch.linspace(-1, 1, 2 * n - 1, device=x.device) for n in x.shape[1:-1]]
        kernel = implicit_kernel(axes, list(self.weights), list(self.biases), sigma=self.sigma)
        h = fftconv(u.movedim(-1, 1), kernel, boundary="periodic", shortcut=self.shortcut)
        return gate(h.movedim(1, -1), x, activation="sigmoid")


def results(layer, x) -> list[torch.Tensor]:
    """The output, and the gradients by x and every parameter."""
    x = x.clone().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y.sin().sum(), [x, *layer.parameters()])]


def assert_close(found, expected, tolerance=1e-4) -> None:
    for ours, truth in zip(found, expected, strict=True):
        atol = tolerance * truth.abs().max().item()
        torch.testing.assert_close(ours.double().cpu(), truth.double().cpu(), rtol=0, atol=atol)


@pytest.fixture
def mixer() -> Mixer:
    return Mixer()


@pytest.fixture
def truth(mixer, monkeypatch):
    """Maps an input to the output and gradients by the definitions, in float64."""

    def of(x: torch.Tensor) -> list[torch.Tensor]:
        with monkeypatch.context() as patch:
            patch.setenv("FREDHOLM_BACKEND", "reference")
            return results(mixer, x)

    return of


def test_every_backend_gives_the_same(any_backend, mixer, truth) -> None:
    x = torch.randn(2, 3, 5, 4)
    assert_close(results(mixer, x), truth(x))


def test_compiled_as_one_graph(any_backend, mixer, truth) -> None:
    x = torch.randn(2, 3, 5, 4)
    torch._dynamo.reset()
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    assert_close(results(compiled, x), truth(x))


def test_exported(any_backend, mixer, truth) -> None:
    x = torch.randn(2, 3, 5, 4)
    assert_close([torch.export.export(mixer, (x,)).module()(x)], truth(x)[:1])


def test_autocast_leaves_sums_in_float32(any_backend, mixer, truth) -> None:
    x = torch.randn(2, 3, 5, 4)
    with torch.autocast(x.device.type, torch.bfloat16):
        found = results(mixer, x)
    assert_close(found, truth(x))


def test_checkpoints_change_nothing(any_backend, mixer) -> None:
    x = torch.randn(2, 3, 5, 4)
    again = lambda x: checkpoint(mixer, x, use_reentrant=False)  # noqa: E731
    again.parameters = mixer.parameters
    for ours, plain in zip(results(again, x), results(mixer, x), strict=True):
        assert torch.equal(ours, plain)


SHARED = """
import copy, sys, torch
from torch import distributed, nn
from fredholm.kernels import anchor_mix, fftconv, gate

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.alpha = nn.Parameter(torch.randn(5)), nn.Parameter(torch.tensor(0.4))
        self.anchors, self.kernel = nn.Parameter(torch.randn(5, 5)), nn.Parameter(torch.randn(1, 5, 3))

    def forward(self, x):
        y = gate(x, x.cos(), self.scale, activation="silu", unit=True)
        return fftconv(anchor_mix(y, x, self.anchors, self.alpha).mT, self.kernel)

rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
alone, x = Layer(), torch.randn(4, 7, 5)
shared = nn.parallel.DistributedDataParallel(copy.deepcopy(alone))
shared(x[2 * rank :][:2]).square().mean().backward()
alone(x).square().mean().backward()
for ours, truth in zip(shared.parameters(), alone.parameters(), strict=True):
    torch.testing.assert_close(ours.grad, truth.grad)
distributed.destroy_process_group()
"""


def test_two_processes_that_share_a_batch_get_its_gradients(tmp_path) -> None:
    command = [sys.executable, "-c", SHARED]
    both = [subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE) for rank in (0, 1)]
    said = [each.communicate(timeout=300)[1].decode() for each in both]
    assert [each.returncode for each in both] == [0, 0], said


def test_the_override_counts_when_a_compiled_program_runs(mixer, monkeypatch) -> None:
    torch._dynamo.reset()
    compiled, x = torch.compile(mixer, fullgraph=True, backend="aot_eager"), torch.randn(1, 3, 5, 4)
    compiled(x)
    monkeypatch.setenv("FREDHOLM_BACKEND", "nonsense")
    with pytest.raises(ValueError, match="FREDHOLM_BACKEND=nonsense"):
        compiled(x)
