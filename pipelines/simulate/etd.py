r"""Exponential time differencing of second order, for `du/dt = L u + N(u)` with a diagonal L.

With z = h L::

    a = exp(z) u + h phi1(z) N(u);    u' = a + h phi2(z) (N(a) - N(u))
    phi1(z) = (exp(z) - 1) / z;       phi2(z) = (exp(z) - 1 - z) / z^2

Exact where N is constant, whatever the step; else of second order.

Source: Cox, Matthews 2002, Journal of Computational Physics 176, equations 20 to 22 (ETD2RK).
"""

from collections.abc import Callable

import torch
from torch import Tensor


def etd2(linear: Tensor, nonlinear: Callable[[Tensor], Tensor], step: float) -> Callable[[Tensor], Tensor]:
    """The function that takes u one step on.

    Args:
        linear: The diagonal of L, float64, of a shape that goes with u's.
        nonlinear: N.
        step: h.
    """
    z = step * linear
    small = z.abs() < 1e-3  # where the quotients would lose digits; the series is exact to 1e-13 there
    safe = torch.where(small, torch.ones_like(z), z)
    first = torch.where(small, 1 + z / 2 + z**2 / 6 + z**3 / 24, torch.expm1(safe) / safe)
    second = torch.where(small, 0.5 + z / 6 + z**2 / 24 + z**3 / 120, (torch.expm1(safe) - safe) / safe**2)
    decay, first, second = torch.exp(z), step * first, step * second

    def advance(u: Tensor) -> Tensor:
        before = nonlinear(u)
        a = decay * u + first * before
        return a + second * (nonlinear(a) - before)

    return advance
