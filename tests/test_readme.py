"""What the README says in Python runs as it stands there."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def test_its_python_lines_run_and_give_what_they_say() -> None:
    (lines,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(compile(lines, str(README), "exec"), names)
    assert names["y"].shape == names["x"].shape
    assert names["logits"].shape == (1, 29, 64, 64, 64)
