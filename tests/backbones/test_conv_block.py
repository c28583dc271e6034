"""The convolutional blocks are MONAI's, by name and by number."""

import pytest
import torch
from fredholm.backbones.conv_block import DecoderBlock, EncoderBlock, Head, ResidualConvolution
from monai.networks.blocks import UnetOutBlock, UnetrBasicBlock, UnetrUpBlock

AFFINE = {False: "instance", True: ("instance", {"affine": True})}
GRIDS = {2: (6, 10), 3: (4, 6, 5)}

every_axes = pytest.mark.parametrize("axes", [2, 3])
every_norm = pytest.mark.parametrize("affine", [False, True])


def assert_close(found, expected, tolerance, largest=None) -> None:
    atol = tolerance * (largest or expected.abs().max().item())
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=atol)


def perturbed(module):
    """The module with noise on every parameter, so that nothing is at its start."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def assert_same_blocks(ours, theirs, *inputs) -> None:
    """Names, output and gradients agree with MONAI's block in float64."""
    perturbed(theirs)
    assert ours.load_state_dict(theirs.state_dict(), strict=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.double()
    leaves = [each.clone().requires_grad_() for each in inputs]
    exact = [each.double().requires_grad_() for each in inputs]
    y, expected = ours(*leaves), theirs(*exact)
    assert y.shape == expected.shape
    assert_close(y, expected, 1e-5)
    dy = torch.randn(y.shape)
    # Where a value is all but zero, rounding decides on which side of the kink of the last leaky ReLU it lies.
    dy = dy.where(expected.abs() > 1e-5, 0)
    y.backward(dy)
    expected.backward(dy.double())
    for leaf, truth in zip(leaves, exact, strict=True):
        assert_close(leaf.grad, truth.grad, 1e-5)
    # Before a norm the size of a filter hardly matters, and where it is one number its gradient is all but zero.
    largest = max(parameter.grad.abs().max().item() for parameter in theirs.parameters())
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, theirs.get_parameter(name).grad, 1e-5, largest)


@pytest.mark.parametrize(("channels_in", "channels"), [(1, 4), (2, 4), (4, 4), (6, 3), (1, 1)])
@every_norm
@every_axes
def test_encoder_block_equals_unetr_basic_block(axes, affine, channels_in, channels) -> None:
    theirs = UnetrBasicBlock(axes, channels_in, channels, 3, 1, AFFINE[affine], res_block=True)
    x = torch.randn(2, channels_in, *GRIDS[axes])
    assert_same_blocks(EncoderBlock(axes, channels_in, channels, affine), theirs, x)


@pytest.mark.parametrize(("channels_in", "channels"), [(8, 4), (4, 4), (2, 1)])
@every_norm
@every_axes
def test_decoder_block_equals_unetr_up_block(axes, affine, channels_in, channels) -> None:
    theirs = UnetrUpBlock(axes, channels_in, channels, 3, 2, AFFINE[affine], res_block=True)
    x, skip = (torch.randn(2, c, *(n * k for n in (2, 3, 4)[:axes])) for c, k in ((channels_in, 1), (channels, 2)))
    assert_same_blocks(DecoderBlock(axes, channels_in, channels, affine), theirs, x, skip)


@every_axes
def test_head_equals_unet_out_block(axes) -> None:
    x = torch.randn(2, 5, *GRIDS[axes])
    assert_same_blocks(Head(axes, 5, 3), UnetOutBlock(axes, 5, 3), x)


@every_axes
def test_parts_equal_their_concatenation(axes) -> None:
    block, parts = perturbed(ResidualConvolution(axes, 6, 3)), [torch.randn(2, c, *GRIDS[axes]) for c in (1, 3, 2)]
    assert_close(block(*parts), block(torch.cat(parts, 1)), 1e-5)


@every_axes
def test_layout_changes_nothing_and_results_are_channels_last(axes) -> None:
    block, x = perturbed(EncoderBlock(axes, 3, 4)), torch.randn(2, 3, *GRIDS[axes])
    last = x.movedim(1, -1).contiguous().movedim(-1, 1)
    y = block(x)
    assert_close(block(last), y, 1e-6)
    assert block(last).movedim(1, -1).is_contiguous()
    assert y.movedim(1, -1).is_contiguous()


@pytest.mark.parametrize("first", [1, 2, 3])
@every_axes
def test_grids_of_one_and_two_voxels(axes, first) -> None:
    grid = (first, 2, 1)[:axes]
    block, x = perturbed(EncoderBlock(axes, 3, 3, affine=True)).train(), torch.randn(2, 3, *grid)
    y = block(x)
    assert y.shape == x.shape
    y.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in block.parameters())


@pytest.mark.parametrize("first", [2, 3, 6])
@every_norm
@every_axes
def test_bfloat16_autocast_is_close_to_float32(axes, affine, first) -> None:
    block, x = perturbed(EncoderBlock(axes, 3, 8, affine)), torch.randn(2, 3, *(first, 16, 12)[:axes])
    expected, dy = block(x), torch.randn(2, 8, *x.shape[2:])
    exact = torch.autograd.grad(expected, list(block.parameters()), dy)
    with torch.autocast("cpu", torch.bfloat16):
        y = block(x)
    if axes == 2 or first != 2:  # where oneDNN's bfloat16 fails, float32 stays
        assert y.dtype == torch.bfloat16
    assert_close(y.float(), expected, 3e-2)
    found = torch.autograd.grad(y, list(block.parameters()), dy.to(y.dtype))
    for ours, truth in zip(found, exact, strict=True):
        assert (ours - truth).norm() < 0.15 * truth.norm()


@every_axes
def test_works_in_float64(axes) -> None:
    block, x = perturbed(DecoderBlock(axes, 4, 2)), torch.randn(1, 4, *(2, 3, 4)[:axes])
    skip = torch.randn(1, 2, *(4, 6, 8)[:axes])
    y = block(x, skip)
    assert_close(y, block.double()(x.double(), skip.double()), 1e-5)
