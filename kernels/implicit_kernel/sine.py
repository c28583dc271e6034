"""Sine and cosine for Triton, without the library's way for huge angles, which takes its registers to the stack.

The angle is brought to half a turn about zero with pi in four parts, then a polynomial of degree nine follows. Absolute
error below 2e-7 while the angle is below 39000; float32 holds such an angle to 4e-3 itself.

Source: SLEEF, Shibata and Petrogalli 2020, IEEE TPDS 31(6), `sinf_u35`.
"""

import triton
import triton.language as tl


@triton.jit
def sin(angle):
    """The sine, float32."""
    half_turns = tl.floor(angle * 0.3183098861837907 + 0.5)
    r = angle - half_turns * 3.140625
    r -= half_turns * 0.0009670257568359375
    r -= half_turns * 6.2771141529083251953e-07
    r -= half_turns * 1.2154201256553420762e-10
    r = tl.where(half_turns.to(tl.int32) & 1 == 0, r, -r)
    square = r * r
    series = 2.6083159809786593541503e-06 * square - 0.0001981069071916863322258
    series = series * square + 0.00833307858556509017944336
    series = series * square - 0.166666597127914428710938
    return series * (square * r) + r


@triton.jit
def cos(angle):
    """The cosine, float32."""
    return sin(angle + 1.5707963267948966)
