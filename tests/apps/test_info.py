"""`fredholm info` says what is installed and what it would compute with."""

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch
from fredholm.apps import info
from fredholm.apps.cli import main


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["info"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()}


def test_versions_are_those_installed(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys)
    assert found["python"] == platform.python_version()
    for name in ("fredholm", "torch", "monai", "nibabel", "numpy"):
        assert found[name] == version(name)


def test_device_threads_and_precision_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys)
    assert found["device"]
    assert found["threads"] == str(torch.get_num_threads())
    assert found["precision"] in ("bf16-mixed", "32-true")


@pytest.mark.parametrize(("name", "words"), [("cpu", "PyTorch"), ("triton", "Triton"), ("reference", "definitions")])
def test_the_backend_in_use_is_told(name, words, capsys, monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", name)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert words in rows(capsys)["kernels"]


def test_a_backend_that_is_none_is_one_line(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FREDHOLM_BACKEND", "cuda")
    assert main(["info"]) == 1
    assert capsys.readouterr().err.strip() == "fredholm: FREDHOLM_BACKEND=cuda: expected reference, cpu or triton"


def test_what_is_not_installed_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        if name == "triton":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(info.importlib.metadata, "version", absent)
    assert rows(capsys)["triton"] == "not installed"


def test_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H200")
    assert info._device_name(torch.device("cuda")) == "2 x H200"


def test_the_installed_command_does_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    command = Path(sys.executable).with_name("fredholm")
    if not command.exists():
        pytest.skip(f"fredholm is not installed beside {sys.executable}")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", command, "info"], capture_output=True, text=True, timeout=120, check=False
    )
    loaded = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert (done.returncode, len(loaded)) == (0, len(done.stderr.splitlines()))
    slow = {"monai", "torch._dynamo", "lightning_fabric", "matplotlib.pyplot"}  # seconds, for those alone who use them
    assert not slow & {line.rpartition("|")[2].strip() for line in loaded}
    main(["info"])
    assert capsys.readouterr().out.splitlines()[:8] == done.stdout.splitlines()[:8]  # threads may differ
