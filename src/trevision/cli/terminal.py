"""Consoles, tables and numbers for the terminal, and arguments that commands share."""

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


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, words: int = 1
) -> Table:
    """A plain table: the first columns, of words, to the left, the others to the right."""
    plain = Table(title=title, title_justify="left")
    for column, name in enumerate(header):
        # Long words are broken and not cut: two rows may differ only at the end of a word.
        plain.add_column(Text(name), justify="left" if column < words else "right", overflow="fold")
    for row in rows:
        plain.add_row(*(Text(str(cell)) for cell in row))
    return plain


def accuracy(share: float) -> str:
    """A share as a percentage with two decimals, as the paper prints accuracies."""
    return f"{100 * share:.2f}%"


def number(value: float | None) -> str:
    """A number with four decimals, or a dash for None."""
    return "-" if value is None else f"{value:.4f}"
