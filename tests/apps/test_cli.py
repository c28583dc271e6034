"""The command's manners: help for every command, one line for a mistake, a traceback for a bug."""

import signal
import sys
import threading
import warnings

import pytest
import torch
from fredholm.apps import console
from fredholm.apps.cli import main
from fredholm.apps.console import note, result, table
from fredholm.apps.info import Info

HELP = {
    (): ["demo", "segment", "convert", "bundle", "info"],
    ("demo",): ["--output", "-o", "--minutes", "--stages", "--seed", "Example: fredholm demo"],
    ("segment",): ["train", "predict", "evaluate"],
    ("segment", "train"): [
        *("--output", "-o", "--stages", "--minutes", "--epochs", "--feature-size", "--window", "--batch"),
        *("--accumulate", "--learning-rate", "--registers", "--deep-supervision", "--ema", "--validation"),
        *("--spacing", "--window-hu", "--precision", "--device", "--workers", "--seed", "--resume"),
        "Folder of the data set.",
        "Example: fredholm segment train DATA -o RUN --minutes 30",
    ],
    ("segment", "predict"): [
        *("--input", "-i", "--output", "-o", "--run", "--overlap", "--assume", "--precision", "--compile", "--device"),
        "Example: fredholm segment predict",
    ],
    ("segment", "check"): ["--json", "Folder of the data set.", "Example: fredholm segment check"],
    ("segment", "evaluate"): [
        *("--names", "--json", "Label map, or folder of them.", "Label map to compare with"),
        "Example: fredholm segment evaluate",
    ],
    ("convert",): [
        *("{monai}", "--output", "-o", "--spacing", "--window-hu", "--range", "--window", "--names", "--padding"),
        *("--grid", "--cache", "--merging", "Example: fredholm convert monai"),
    ],
    ("bundle",): [
        "--output",
        "-o",
        "--weights",
        "--scores",
        "--license",
        "--overwrite",
        "Example: fredholm bundle RUN",
    ],
    ("pde",): ["generate", "check", "stats"],
    ("pde", "generate"): ["--dim", "--grid", "--trajectories", "--frames", "--seed", "Example: fredholm pde generate"],
    ("pde", "check"): ["Folder of the data set", "Example: fredholm pde check"],
    ("pde", "stats"): ["Folder of the data set", "Example: fredholm pde stats"],
    ("info",): ["Example: fredholm info"],
}


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_every_command_has_its_help_on_stdout(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in HELP[command]:
        assert words in " ".join(out.split())
    assert f"usage: {' '.join(['fredholm', *command])}" in out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["segment"],
        ["nonsense"],
        ["segment", "train"],
        ["info", "--loud"],
        ["convert", "tensorflow", "x", "-o", "y"],
    ],
)
def test_a_command_that_cannot_be_read_is_told_on_stderr(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--help" in err
    assert "Traceback" not in err


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def run(_: Info) -> None:
        raise error

    monkeypatch.setattr(Info, "run", run)
    return main(["info"])


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("expected this,\n   got that"), 1, "fredholm: expected this, got that"),
        (FileNotFoundError("no such file: x"), 1, "fredholm: no such file: x"),
        (PermissionError(13, "Permission denied", "x"), 1, "fredholm: [Errno 13] Permission denied: 'x'"),
        (FloatingPointError("the loss is nan at step 3"), 1, "fredholm: the loss is nan at step 3"),
        (MemoryError(), 1, "fredholm: out of memory: try a smaller --window"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried\nmore"),
            1,
            "fredholm: out of memory: CUDA out of memory. Tried",
        ),
        (KeyboardInterrupt(), 130, "fredholm: stopped; what was finished is kept"),
        (ValueError("[bold]not markup[/bold] " + "long " * 60), 1, "fredholm: [bold]not markup[/bold] " + "long " * 60),
    ],
)
def test_what_a_user_can_mend_is_one_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    assert raising(monkeypatch, error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.rstrip("\n") == line.rstrip()


def test_a_polite_kill_is_a_ctrl_c_while_a_command_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Info, "run", lambda _: signal.raise_signal(signal.SIGTERM))
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "fredholm: stopped; what was finished is kept\n"
    assert signal.getsignal(signal.SIGTERM) == earlier


def test_a_command_runs_in_a_thread_too(capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["info"])))
    thread.start()
    thread.join()
    assert codes == [0]
    assert "torch" in capsys.readouterr().out


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("x"), AssertionError(), TypeError("x")])
def test_a_bug_is_a_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    with pytest.raises(type(error)):
        raising(monkeypatch, error)


def test_too_little_memory_on_the_cpu_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # D5
    monkeypatch.setattr(Info, "run", lambda _: torch.empty(2**60))
    assert main(["info"]) == 1
    assert capsys.readouterr().err.startswith("fredholm: out of memory")


def test_a_warning_is_one_line_without_its_place_in_the_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: Info) -> None:
        warnings.simplefilter("default", UserWarning)
        warnings.warn("look here", stacklevel=1)
        warnings.warn("of no use to a user", FutureWarning, stacklevel=1)

    monkeypatch.setattr(Info, "run", run)
    assert main(["info"]) == 0
    assert capsys.readouterr().err == "fredholm: warning: look here\n"


def test_notes_go_to_stderr_and_results_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    note("a note")
    result("a result")
    assert capsys.readouterr() == ("a result\n", "a note\n")


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with console.bar("counting", 3) as progress:
        for number in range(3):
            progress.tick(f"number {number}")
        progress.step(2, None, 0.5)
        progress.note("half way")
    out, err = capsys.readouterr()
    assert out == ""
    assert "half way" in err


def test_a_table_is_aligned_and_marks_what_is_missing() -> None:
    found = table(["Dice", "a", "long name"], [["spleen", 0.5, float("nan")], ["x", 1.0, 0.12345]])
    assert found.splitlines() == [
        "Dice        a  long name",
        "------  -----  ---------",
        "spleen  0.500          -",
        "x       1.000      0.123",
    ]


def test_the_arguments_are_those_of_the_process_by_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fredholm", "info"])
    assert main() == 0
    assert "torch" in capsys.readouterr().out
