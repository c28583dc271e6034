"""`fredholm bench kernels` checks first, then times every way to each result."""

import json

import pytest
import torch
from fredholm.apps.bench import comparison
from fredholm.apps.bench.operations import OPERATIONS, Size, draw, operation, padded_fft
from fredholm.apps.cli import main
from fredholm.kernels.fftconv.reference import fftconv_reference

SMALL = ["--batch", "1", "--channels", "4", "--side", "4", "--repeats", "2", "--device", "cpu"]


def test_every_operator_is_right_and_timed(capsys, tmp_path) -> None:
    file = tmp_path / "bench.json"
    assert main(["bench", "kernels", *SMALL, "--json", str(file)]) == 0
    shown, found = capsys.readouterr().out, json.loads(file.read_text())
    ours = [row for row in found["rows"] if row["by"] == "fredholm"]
    assert [(row["operator"], row["step"]) for row in ours] == [
        (name, step) for name in OPERATIONS for step in ("forward", "gradients")
    ]
    for row in found["rows"]:
        assert row["operator"] in shown
        assert row["ms"] > 0
        assert row["share_of_floor"] > 0
        assert row["error"] < 1e-4
        assert row["peak_bytes"] is None
    assert all(row["times_ours"] == 1 for row in ours)
    assert {"torch.fft", "plain PyTorch"} <= {row["by"] for row in found["rows"]}
    assert found["copy_gb_per_s"] > 0


def test_half_precision_and_some_operators(capsys) -> None:
    assert main(["bench", "kernels", *SMALL, "--ops", "gate", "--dtype", "bfloat16"]) == 0
    assert "fftconv" not in capsys.readouterr().out


def test_a_wrong_operator_is_told_and_not_timed(capsys, monkeypatch) -> None:
    monkeypatch.setitem(comparison.TOLERANCE, torch.float32, (1e-30, 1e-30))
    assert main(["bench", "kernels", *SMALL, "--ops", "gate"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "fredholm: gate is wrong here: error of its output" in said.err


def test_what_is_called_exact_is_the_definition() -> None:
    x, kernel, shortcut = draw(operation("fftconv", Size(2, 3, 3)), torch.float64, torch.device("cpu"))
    expected = fftconv_reference(x, kernel, periodic=[False] * 3, shortcut=shortcut)
    torch.testing.assert_close(padded_fft(x, kernel, shortcut), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("option", ["--side", "--repeats"])
def test_sizes_below_one_are_refused(option, capsys) -> None:
    assert main(["bench", "kernels", *SMALL, option, "0"]) == 1
    assert "must be 1 or more" in capsys.readouterr().err
