"""Functions on tensors: the operators' inner loops, one room for each."""

from .fftconv import Boundary, Spectrum, fftconv, spectrum

__all__ = ["Boundary", "Spectrum", "fftconv", "spectrum"]
