"""Functions on tensors: the operators' inner loops, one room for each."""

from .anchor_mix import anchor_measure, anchor_mix
from .fftconv import Boundary, Spectrum, fftconv, spectrum
from .gate import gate
from .host_memory import reuse_host_memory
from .implicit_kernel import implicit_kernel
from .instance_norm import instance_norm
from .short_convolution import short_convolution

__all__ = [
    "Boundary",
    "Spectrum",
    "anchor_measure",
    "anchor_mix",
    "fftconv",
    "gate",
    "implicit_kernel",
    "instance_norm",
    "reuse_host_memory",
    "short_convolution",
    "spectrum",
]
