"""The terminal: where output goes, how tables and numbers look, and arguments that commands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

# `rich` would read square brackets in paths and class names as markup.
console = Console(markup=False, highlight=False)
errors = Console(stderr=True, markup=False, highlight=False)

Source = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    """A plain table: the first column to the left, the others to the right."""
    made = Table(title=title, title_justify="left")
    for place, name in enumerate(header):
        # A long word is broken rather than cut: it may be what tells two rows apart.
        made.add_column(Text(name), justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


def accuracy(share: float) -> str:
    """A share as a percentage with two decimals, as the paper prints accuracies."""
    return f"{100 * share:.2f}%"


def number(value: float | None) -> str:
    """Four decimals, or a dash where there is nothing to tell."""
    return "-" if value is None else f"{value:.4f}"
