"""What README shows, runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_and_learns_despite_the_noise(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    accuracy = float(re.search(r"clean digits: ([\d.]+)", printed)[1])
    assert accuracy > 0.85
    # 0.6 is the truth for every class.
    assert abs(np.diag(names["model"].transition_matrix_).mean() - 0.6) < 0.15


def test_every_file_that_readme_links_to_exists():
    targets = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert targets
    missing = [target for target in targets if not (README.parent / target).exists()]
    assert missing == []
