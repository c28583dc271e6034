"""Functions on tensors: the operators' inner loops, one room for each."""

from .anchor_mix import anchor_measure, anchor_mix
from .decompositions import decompositions
from .fftconv import Boundary, Spectrum, fftconv, spectrum
from .gate import gate
from .host_memory import reuse_host_memory
from .implicit_kernel import implicit_kernel
from .instance_norm import instance_norm
from .integral_transform import (
    Distances,
    Kappa,
    LowRankKappa,
    MLPKappa,
    PairwiseKappa,
    Points,
    Products,
    Selection,
    SoftmaxKappa,
    draw_by_score,
    draw_near,
    draw_uniform,
    fourier_features,
    integral_transform,
    itnet_kappa,
    take,
)
from .neighbours import farthest_points, nearest_points
from .short_convolution import short_convolution

__all__ = [
    "Boundary",
    "Distances",
    "Kappa",
    "LowRankKappa",
    "MLPKappa",
    "PairwiseKappa",
    "Points",
    "Products",
    "Selection",
    "SoftmaxKappa",
    "Spectrum",
    "anchor_measure",
    "anchor_mix",
    "decompositions",
    "draw_by_score",
    "draw_near",
    "draw_uniform",
    "farthest_points",
    "fftconv",
    "fourier_features",
    "gate",
    "implicit_kernel",
    "instance_norm",
    "integral_transform",
    "itnet_kappa",
    "nearest_points",
    "reuse_host_memory",
    "short_convolution",
    "spectrum",
    "take",
]
