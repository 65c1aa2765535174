"""What README shows, runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

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


PAGES = [
    *README.parent.glob("*.md"),
    *(README.parent / "docs").rglob("*.md"),
    *README.parent.glob("examples/*.md"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(README.parent)))
def test_every_file_and_heading_that_a_page_links_to_exists(page):
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[^)\s]+)?\)", page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor.lstrip("#") in map(_anchor, headings), anchor


def _anchor(heading: str) -> str:
    """The name by which GitHub links to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
