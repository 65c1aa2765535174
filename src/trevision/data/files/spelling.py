"""Labels as people write them: one class in several spellings, and names that are nearly alike.

`cat`, `Cat` and `CAT ` are one class, called by its commonest spelling.
`cat` and `catt` are two, and told of.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from trevision.data.files.reading import listed

MOST_TOLD = 5
MUCH_RARER = 0.1
"""A name that is probably a typing error has at most this share of the rows of the name that was meant."""
ONE_EDIT, TWO_EDITS = 4, 8
"""From how many letters on names may differ by one edit, and by two, and still be nearly alike."""


@dataclass(frozen=True)
class Spellings:
    """Spellings of one class: the commonest, which names it, and the others, with their numbers of rows."""

    name: str
    rows: int
    others: tuple[tuple[str, int], ...]

    def told(self) -> str:
        """`'Cat' (3) and 'CAT' (2) are read as 'cat' (120)`."""
        others = [f"{other!r} ({rows:,})" for other, rows in self.others]
        *first, last = others
        joined = f"{', '.join(first)} and {last}" if first else last
        return f"{joined} {'are' if first else 'is'} read as {self.name!r} ({self.rows:,})"


def key(name: str) -> str:
    """What two spellings of one class have in common: no case, compatible forms, single spaces."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def merge(names: Sequence[str], counts: Iterable[int]) -> tuple[np.ndarray, list[str], list[Spellings]]:
    """One name for all spellings of a class.

    Parameters
    ----------
    names
        The different labels, in the order of the file.
    counts
        The rows of each.

    Returns
    -------
    The new code of each name, the names of the new codes, and what was merged.
    """
    counts = list(counts)
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        groups.setdefault(key(name), []).append(number)
    new_codes = np.empty(len(names), dtype=np.int64)
    merged = []
    kept: list[str] = []
    for members in groups.values():
        # Of equally common ones, the first in the file.
        first, *others = sorted(members, key=lambda number: -counts[number])
        new_codes[members] = len(kept)
        kept.append(names[first])
        if others:
            told = tuple((names[number], counts[number]) for number in others)
            merged.append(Spellings(names[first], counts[first], told))
    return new_codes, kept, merged


def note_of(merged: Sequence[Spellings]) -> str:
    """The sentence about spellings that were merged, and how to keep them apart."""
    said = listed([each.told() for each in merged], MOST_TOLD)
    return f"One class in several spellings: {said}; --labels-as-written keeps them apart."


def codes_by_spelling(names: Sequence[str], classes: Iterable[str], as_written: bool = False) -> np.ndarray:
    """The code of the class that each name means, by name or else by spelling; -1 for none."""
    exact = {name: code for code, name in enumerate(classes)}
    if as_written:
        return np.array([exact.get(name, -1) for name in names], dtype=np.int64)
    alike: dict[str, int] = {}
    for name, code in exact.items():
        # Classes that were kept apart are known by their exact names only.
        alike[key(name)] = -1 if key(name) in alike else code
    return np.array([exact.get(name, alike.get(key(name), -1)) for name in names], dtype=np.int64)


def nearly_alike(names: Sequence[str], counts: Sequence[int]) -> list[tuple[str, str]]:
    """Pairs of a rare and a common name that differ by a typing error, the commonest first.

    Names that differ in a digit are two things, as class1 and class2 are.
    """
    by_rest: dict[str, set[int]] = {}
    for number, name in enumerate(names):
        for rest in _deletions(name.casefold()):
            by_rest.setdefault(rest, set()).add(number)
    candidates = {pair for members in by_rest.values() for pair in combinations(sorted(members), 2)}
    found = []
    for one, other in candidates:
        rare, common = sorted((one, other), key=lambda number: counts[number])
        if not 0 < counts[rare] <= max(1, MUCH_RARER * counts[common]) or counts[rare] == counts[common]:
            continue
        first, second = names[rare].casefold(), names[common].casefold()
        digits = ["".join(sign for sign in name if sign.isdigit()) for name in (first, second)]
        if digits[0] == digits[1] and _edits(first, second) <= _allowed(first, second):
            found.append((rare, common))
    found.sort(key=lambda pair: (-counts[pair[1]], names[pair[0]]))
    return [(names[rare], names[common]) for rare, common in found]


def hint_of(pairs: Sequence[tuple[str, str]], rows: dict[str, int]) -> str:
    """The sentence about names that are nearly alike."""
    said = [f"{rare!r} ({rows[rare]:,}) and {common!r} ({rows[common]:,})" for rare, common in pairs]
    return (
        f"Labels that are nearly alike are kept apart: {listed(said, MOST_TOLD)}; if one is a typing error, "
        "write it like the other in the source."
    )


def _allowed(first: str, second: str) -> int:
    longer = max(len(first), len(second))
    return (longer >= ONE_EDIT) + (longer >= TWO_EDITS)


def _deletions(name: str) -> set[str]:
    """The name without up to as many letters as it may differ by: typing errors of one name share one."""
    found = {name}
    for _ in range(_allowed(name, name + "?")):
        found |= {rest[:place] + rest[place + 1 :] for rest in found for place in range(len(rest))}
    return found


def _edits(first: str, second: str) -> int:
    """How many letters were left out, added, replaced or swapped with the next."""
    before: list[int] = []
    last = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        row = [i]
        for j, other in enumerate(second, start=1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other))
            swapped = i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other
            row.append(min(best, before[j - 2] + 1) if swapped else best)
        before, last = last, row
    return last[-1]
