"""`fftconv` in Triton at every length of every axis, in minutes: run by hand, since CI has some of them.

pytest tests/kernels/every_length_of_fftconv_triton.py
"""

import importlib

import pytest
from helpers.convolution import BOUNDARIES, assert_matches, mixed, rand

TRITON = importlib.import_module("fredholm.kernels.fftconv.triton")
EVERY_LENGTH = [*range(1, 18), 24, 31, 48, 96]

pytestmark = pytest.mark.usefixtures("in_triton")


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", EVERY_LENGTH)
def test_of_a_line(n, boundary) -> None:
    for taps in {2 * n - 1, (1, n, 4 * n + 3)[n % 3]}:  # odd and even, short, full and longer than can matter
        assert_matches(rand(1, 1, n), rand(1, 1, taps), [boundary], rand(1))


@pytest.mark.parametrize("n", EVERY_LENGTH)
def test_of_either_axis_of_a_plane(n) -> None:
    assert_matches(rand(1, 1, n, 3), rand(1, 1, 2 * n - 1, 4), mixed(n, 2), rand(1))
    assert_matches(rand(1, 1, 2, n), rand(1, 1, 3, n + 1), mixed(n + 1, 2), rand(1))


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("n", EVERY_LENGTH)
def test_of_each_axis_of_a_box(n, axis, small, monkeypatch) -> None:
    if n > 16 and small:
        pytest.skip("one program takes boxes up to 16^3")
    if not small:
        monkeypatch.setattr(TRITON, "is_small", lambda waves: False)
    grid, taps = (list(each[-axis:] + each[:-axis]) for each in ([n, 2, 1], [2 * n - 1, 4, 1]))
    assert_matches(rand(1, 1, *grid), rand(1, 1, *taps), mixed(n + axis, 3), rand(1))


@pytest.mark.parametrize("turn", range(8))
def test_every_way_to_give_each_axis_its_boundary(turn) -> None:
    assert_matches(rand(1, 1, 3, 5, 2), rand(1, 1, 9, 4, 3), mixed(turn, 3))
    assert_matches(rand(1, 1, 2, 3, 17), rand(1, 1, 3, 5, 33), mixed(turn, 3), rand(1))
