"""Columns that are no target for a classifier: scores and amounts, and lists of labels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from trevision.files import DataError

MANY_LEVELS = 30
"""From how many different numbers on a column is a score or an amount and not a set of classes."""
SEPARATORS = (";", "|", ",")
SHARED = 0.6
"""The share of the parts of lists that must come in other labels too for these to be lists of labels."""
_CODE = re.compile(r"-?0\d")
"""007 is a name."""
_BRACKETS = re.compile(r"[\[\](){}\"']")


def check(names: Sequence[str], counts: Sequence[int], where: str) -> None:
    """Raise a DataError for labels that are no classes. The message says what to do.

    Parameters
    ----------
    names, counts
        The different labels, and the rows of each.
    where
        The file and the column; begins the line.
    """
    numbers = [_number(name) for name in names]
    if len(names) >= MANY_LEVELS and None not in numbers and not _are_codes(names):
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


def _are_codes(names: Sequence[str]) -> bool:
    """Whether whole numbers are codes that a program gave to classes: 0, 1, 2, ... without a gap."""
    return set(names) == {str(number) for number in range(len(names))}


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
