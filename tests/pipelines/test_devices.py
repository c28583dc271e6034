"""The device asked for is the device given, or one line says why not."""

import pytest
import torch
from fredholm.pipelines.devices import arithmetic, best_precision, pick_device

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.mark.parametrize(("found", "expected"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch, found: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    assert pick_device() == pick_device("auto") == torch.device(expected)


def test_a_device_is_given_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("cuda:0") == torch.device("cuda", 0)


@needs_no_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_gpu_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' was asked for, but PyTorch finds no GPU here"):
        pick_device(name)


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cpu cuda"])
def test_an_unknown_device_is_named_on_one_line(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown device '{name}': expected auto, cpu, cuda") as caught:
        pick_device(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, "bf16-mixed"),
        ({"amx_bf16": True}, "bf16-mixed"),
        ({"avx2": True, "avx512_bf16": False}, "32-true"),
        ({}, "32-true"),
    ],
)
def test_bfloat16_is_best_where_the_processor_multiplies_it(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], expected: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert best_precision(torch.device("cpu")) == expected


def test_the_names_of_the_capabilities_are_torchs() -> None:
    if torch.cpu.get_capabilities()["architecture"] not in ("x86_64", "AMD64"):
        pytest.skip("the names are those of x86")
    assert {"avx512_bf16", "amx_bf16"} <= torch.cpu.get_capabilities().keys()


@pytest.mark.parametrize(("able", "expected"), [(True, "bf16-mixed"), (False, "32-true")])
def test_bfloat16_is_best_on_gpus_that_have_it(monkeypatch: pytest.MonkeyPatch, able: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: able)
    assert best_precision(torch.device("cuda")) == expected


@pytest.mark.parametrize(("precision", "expected"), [("32-true", torch.float32), ("bf16-mixed", torch.bfloat16)])
def test_the_context_sets_the_type_of_products(precision, expected: torch.dtype) -> None:
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    with arithmetic(torch.device("cpu"), precision):
        assert layer(x).dtype == expected
    assert layer(x).dtype == torch.float32
