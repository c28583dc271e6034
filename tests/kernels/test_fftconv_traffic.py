"""The counted traffic of `fftconv` keeps its promises."""

import importlib

import pytest

TRAFFIC = importlib.import_module("fredholm.kernels.fftconv.traffic")


@pytest.mark.parametrize(("channels", "n"), [(48, 48), (128, 64)])
def test_fused_moves_at_most_a_third_of_the_bytes(channels, n) -> None:
    case = TRAFFIC.Case.of(1, channels, (n, n, n))
    assert 3 * TRAFFIC.fused(case).bytes <= TRAFFIC.unfused(case).bytes


@pytest.mark.parametrize("case", TRAFFIC.CASES)
def test_nothing_goes_below_the_floor(case) -> None:
    for floor, fused, unfused in TRAFFIC.OPERATIONS.values():
        assert floor(case).bytes <= fused(case).bytes < unfused(case).bytes


def test_traffic_grows_with_the_batch_but_the_kernels_part_does_not() -> None:
    one, two, three = (TRAFFIC.fused(TRAFFIC.Case.of(batch, 2, (5, 6, 7))).bytes for batch in (1, 2, 3))
    assert three - two == two - one < one


def test_the_table_has_a_line_for_each_operation_and_case() -> None:
    assert len(TRAFFIC.table(TRAFFIC.CASES).splitlines()) == 2 + 2 * len(TRAFFIC.CASES)
