r"""Texts in .csv files that a spreadsheet would compute: written so that it shows them, and read back.

A cell that begins with one of `FORMULA` gets an apostrophe in front, unless it is a number. So does a text
that has such an apostrophe already: `as_written` takes one away, and every text comes back as it was.

>>> shown_as_text("=1+1"), shown_as_text("-1.5"), shown_as_text("'=1+1")
("'=1+1", '-1.5', "''=1+1")
>>> as_written("'=1+1"), as_written("'tis"), as_written("''=1+1")
('=1+1', "'tis", "'=1+1")
"""

from __future__ import annotations

import re

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would compute, or drop, at the begin of a cell."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def shown_as_text(text: str) -> str:
    """A text as a cell: with an apostrophe before what would be a formula."""
    return f"'{text}" if _is_formula(text.lstrip("'")) else text


def as_written(cell: str) -> str:
    """The text of a cell that `shown_as_text` wrote."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell.lstrip("'")) else cell


def _is_formula(text: str) -> bool:
    return text.startswith(FORMULA) and _NUMBER.fullmatch(text) is None
