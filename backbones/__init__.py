"""Layers and networks: what has parameters."""

from .attention import GlobalAttention
from .field_surrogate import FieldSurrogate, SurrogateBody
from .half import round_weights
from .hyena import HyenaND, ProductGates, ShortConvolution, UnitGates
from .implicit_kernel import Film, GaussianWindow, ImplicitKernel, Siren, StepCoordinates, UnitCoordinates
from .mixer_unetr import Encoder, MixerUNETR
from .monai_weights import MonaiOptions, from_monai
from .registers import RegisterPool, Registers
from .residual import ResidualBlock
from .stages import Hyena, WindowAttention

__all__ = [
    "Encoder",
    "FieldSurrogate",
    "Film",
    "GaussianWindow",
    "GlobalAttention",
    "Hyena",
    "HyenaND",
    "ImplicitKernel",
    "MixerUNETR",
    "MonaiOptions",
    "ProductGates",
    "RegisterPool",
    "Registers",
    "ResidualBlock",
    "ShortConvolution",
    "Siren",
    "StepCoordinates",
    "SurrogateBody",
    "UnitCoordinates",
    "UnitGates",
    "WindowAttention",
    "from_monai",
    "round_weights",
]
