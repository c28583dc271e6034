"""Memory is counted without being taken."""

import pytest
import torch
from fredholm.backbones import MixerUNETR
from fredholm.pipelines.memory import available_bytes, counted_peak, gigabytes, parsed_bytes, resident_bytes
from torch import nn


def test_what_lives_at_once_is_counted_and_what_died_is_not() -> None:
    def work(model: nn.Module) -> None:
        x = torch.zeros(1000, 10)  # 40 kB
        for _ in range(5):
            x = model(x)  # 40 kB more, then the older one dies

    with torch.inference_mode():
        assert counted_peak(nn.Linear(10, 10), work) == 80_000


def test_views_are_no_memory_of_their_own() -> None:
    def work(model: nn.Module) -> None:
        x = torch.zeros(100, 10)
        x.T[:5].add_(1).view(5, 10, 10)

    assert counted_peak(nn.Identity(), work) == 4000


def test_what_a_gradient_needs_lives_until_it_is_taken() -> None:
    def work(model: nn.Module) -> None:
        model(torch.zeros(1000, 10)).sum().backward()

    deep = nn.Sequential(*(nn.Sigmoid() for _ in range(20)))
    kept = counted_peak(nn.Sequential(nn.Linear(10, 10), deep), work)
    assert 21 * 40_000 <= kept <= 25 * 40_000


def test_the_network_stays_as_it_is_and_its_weights_are_not_counted() -> None:
    model = nn.Linear(1000, 1000)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert counted_peak(model, lambda model: model(torch.zeros(1, 1000))) < 20_000
    for name, value in model.state_dict().items():
        assert type(value) is torch.Tensor
        assert torch.equal(value, before[name])


def test_a_windows_memory_grows_with_the_batch_and_not_with_the_counting() -> None:
    model = MixerUNETR(1, 3, "HHAA", 12).eval()

    def window(batch: int):
        def work(model: nn.Module) -> None:
            with torch.inference_mode():
                model(torch.zeros(batch, 1, 32, 32, 32))

        return work

    before = resident_bytes()
    one, ten, large = (counted_peak(model, window(batch)) for batch in (1, 10, 2000))
    assert 5 * one < ten < 11 * one
    assert large > 10e9
    assert resident_bytes() - before < 1e9


def test_a_process_has_some_memory_and_may_have_more() -> None:
    assert 1e7 < resident_bytes() < 1e12
    free = available_bytes()
    assert free is None or free > 0


@pytest.mark.parametrize(("size", "words"), [(1.234e9, "1.2 GB"), (34e6, "0.034 GB"), (74.2e9, "74 GB")])
def test_bytes_are_told_in_gigabytes(size: float, words: str) -> None:
    assert gigabytes(size) == words


@pytest.mark.parametrize(("words", "size"), [("8GB", 8e9), ("7.5 g", 7.5e9), ("800 MB", 8e8), ("1tb", 1e12)])
def test_amounts_of_memory_are_read_as_people_write_them(words: str, size: float) -> None:
    assert parsed_bytes(words) == size


@pytest.mark.parametrize("words", ["", "8", "much", "-8GB", "0GB", "8 GiB"])
def test_what_is_no_amount_of_memory_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match="expected an amount of memory such as 8GB"):
        parsed_bytes(words)
