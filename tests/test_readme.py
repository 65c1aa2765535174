"""What README shows, runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_and_finds_the_wrong_labels(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    low, high = re.search(r"interval (\d+) to (\d+)", capsys.readouterr().out).groups()
    assert int(low) <= 90 <= int(high)
    _, right = load_digits(n_class=5, return_X_y=True)
    first = names["issues"].order[:90]
    assert np.mean(names["labels"][first] != right[first]) > 0.9


def test_the_first_screen_has_the_journey_and_no_table_of_research():
    first, _, rest = README.read_text(encoding="utf-8").partition("## ")
    assert re.findall(r"^trevision (\w+)", first, re.MULTILINE) == ["check", "apply", "fit"]
    assert "(docs/images/report.png)" in first
    assert "not to trust" in first
    assert "|---" not in first
    assert all(target in rest for target in ("make demo", "make test", "docs/results.md"))


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
