"""Functions on tensors: the operators' inner loops, one room for each."""

from .fftconv import Boundary, Spectrum, fftconv, spectrum
from .gate import gate
from .implicit_kernel import implicit_kernel

__all__ = ["Boundary", "Spectrum", "fftconv", "gate", "implicit_kernel", "spectrum"]
