"""Columns that are no target for a classifier: scores and amounts, and lists of labels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from trevision.files import DataError

MANY_LEVELS = 30
"""From how many different numbers on a column is a score or an amount and not a set of classes."""
PERCENT = 101
"""The levels of whole numbers from 0 to 100."""
EVEN = 1.1
"""Rows of the most frequent level by those of the rarest, below which levels are balanced, as classes are."""
SEPARATORS = (";", "|", ",")
SHARED = 0.6
"""The share of the parts of lists that must come in other labels too for these to be lists of labels."""
_SCORE = re.compile(
    r"(?:^|[\W_])(?:score|rating|grade|points?|percent(?:age|ile)?|pct|age|years?|price|amount|count|number|"
    r"votes|quantity|level|rank)s?(?:$|[\W_])",
    re.IGNORECASE,
)
"""A column of whole numbers that is called so holds no codes."""
_CODE = re.compile(r"-?0\d")
"""007 is a name."""
_BRACKETS = re.compile(r"[\[\](){}\"']")


def check(names: Sequence[str], counts: Sequence[int], where: str, column: str = "") -> None:
    """Raise a DataError for labels that are no classes. The message says what to do.

    Parameters
    ----------
    names, counts
        The different labels, and the rows of each.
    where
        The file and the column; begins the line.
    column
        The column's name, if it has one.
    """
    numbers = [_number(name) for name in names]
    if len(names) >= MANY_LEVELS and None not in numbers and not _are_codes(names, counts, column):
        known = [number for number in numbers if number is not None]
        raise DataError(
            f"{where} holds {len(names):,} different numbers from {min(known):g} to {max(known):g}, like "
            "a score or an amount; put it into a few classes first (such as low, middle, high), or if each "
            "number is a class, say --labels-as-written"
        )
    for separator in SEPARATORS:
        lists = _lists(names, separator)
        if lists:
            first = max(lists, key=lambda number: counts[number])
            rows = sum(counts[number] for number in lists)
            raise DataError(
                f"{where} holds lists of labels, such as {names[first]!r}, in {rows:,} rows, and one label a "
                "row can be learnt; make a yes/no column of each label and fit them one at a time, or keep "
                "the main label of each row (--labels-as-written takes each list as a class of its own)"
            )


def _number(name: str) -> float | None:
    if _CODE.match(name):
        return None
    try:
        value = float(name)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _are_codes(names: Sequence[str], counts: Sequence[int], column: str) -> bool:
    """Whether whole numbers are codes that a program gave to classes: 0, 1, 2, ... without a gap.

    A score may have every value too. Its column is called so, or it goes from 0 to 100, and not each value
    has the same number of rows.
    """
    if set(names) != {str(number) for number in range(len(names))} or _SCORE.search(column):
        return False
    return len(names) != PERCENT or max(counts) < EVEN * min(counts)


def _lists(names: Sequence[str], separator: str) -> list[int]:
    """The numbers of the names that are lists, if they share most of their parts; else none."""
    parts = [
        [part.strip() for part in _BRACKETS.sub("", name).split(separator) if part.strip()] for name in names
    ]
    lists = [number for number, split in enumerate(parts) if len(split) > 1]
    if len(lists) < 2:
        return []
    # A part counts once a name, however often the name has it.
    seen = Counter(part for split in parts for part in set(split))
    within = {part for number in lists for part in parts[number]}
    shared = sum(seen[part] > 1 for part in within)
    return lists if shared >= SHARED * len(within) else []
