"""Layers and networks: what has parameters."""

from .attention import GlobalAttention, SlidingWindow
from .convnext_unet import ConvNextUNet
from .field_surrogate import FieldSurrogate, SurrogateBody
from .fourier import FourierOperator
from .half import round_weights
from .hyena import HyenaND, ProductGates, ShortConvolution, UnitGates
from .implicit_kernel import (
    Film,
    GaussianWindow,
    ImplicitKernel,
    Siren,
    StepCoordinates,
    UnitCoordinates,
    without_window,
)
from .integral_transform import IntegralTransform, LearnedSamples, NearSamples, UniformSamples, cell_centres
from .kappa import DiagonalKernel, LowRankKernel, MLPKernel
from .known_kappa import ConvolutionKernel, RecurrentKernel, SoftmaxKernel
from .mixer_stack import MixerStack
from .mixer_unetr import Encoder, MixerUNETR
from .monai_weights import MonaiOptions, from_monai
from .point_itnet import PointBody, PointITNet
from .registers import RegisterPool, Registers
from .residual import ResidualBlock
from .rotary import AxialRotary
from .stages import Hyena, Integral, WindowAttention
from .unet_classic import UNetClassic
from .universal_interpolation import (
    Anchors,
    Interpolation,
    UniversalInterpolation,
    linear_depth,
    logarithmic_depth,
    residuals,
    without_branch,
)

__all__ = [
    "Anchors",
    "AxialRotary",
    "ConvNextUNet",
    "ConvolutionKernel",
    "DiagonalKernel",
    "Encoder",
    "FieldSurrogate",
    "Film",
    "FourierOperator",
    "GaussianWindow",
    "GlobalAttention",
    "Hyena",
    "HyenaND",
    "ImplicitKernel",
    "Integral",
    "IntegralTransform",
    "Interpolation",
    "LearnedSamples",
    "LowRankKernel",
    "MLPKernel",
    "MixerStack",
    "MixerUNETR",
    "MonaiOptions",
    "NearSamples",
    "PointBody",
    "PointITNet",
    "ProductGates",
    "RecurrentKernel",
    "RegisterPool",
    "Registers",
    "ResidualBlock",
    "ShortConvolution",
    "Siren",
    "SlidingWindow",
    "SoftmaxKernel",
    "StepCoordinates",
    "SurrogateBody",
    "UNetClassic",
    "UniformSamples",
    "UnitCoordinates",
    "UnitGates",
    "UniversalInterpolation",
    "WindowAttention",
    "cell_centres",
    "from_monai",
    "linear_depth",
    "logarithmic_depth",
    "residuals",
    "round_weights",
    "without_branch",
    "without_window",
]
