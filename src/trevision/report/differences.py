"""Which fields of a row differ most from the rows of a class, and what is usual there.

A number, or a date, counts its distance from the class's median in standard deviations (from the median
absolute deviation). A category counts as unusual as a number that is as rare: z with P(|Z| > z) its share of
the class. A missing value is a category of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtri

from trevision.data.files.columns import date_parts, numbers, recognise

NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, eq=False)
class FieldDifferences:
    """The fields of one column for some rows, compared with those of the classes.

    Parameters
    ----------
    values
        (n,) the column as numbers, nan where it is missing; None for a column of categories.
    texts
        The column as text.
    codes
        (n,) the labels of the rows; -1 for a row that is not counted for its class.
    """

    values: NDArray[np.floating] | None
    texts: Sequence[str]
    codes: NDArray[np.int64]
    is_date: bool

    @classmethod
    def of(cls, name: str, texts: Sequence[str], codes: NDArray[np.int64]) -> FieldDifferences | None:
        """The column, if it holds numbers, dates or categories; None for texts and identifiers."""
        column = pa.array([text or None for text in texts], pa.string())
        found = recognise(name, column)
        if found.kind == "ignored":
            return None
        if found.kind == "number":
            return cls(numbers(column, decimal_comma=found.decimal_comma), texts, codes, False)
        if found.kind == "date":
            return cls(date_parts(column, found.date_format)[:, 0], texts, codes, True)
        return cls(None, texts, codes, False)

    def distances(self, rows: NDArray[np.int64], code: int) -> NDArray[np.floating]:
        """How unusual the fields of these rows would be in a class, in standard deviations."""
        mine = self.codes == code
        if not mine.any():
            return np.zeros(len(rows))
        if self.values is None or not np.isfinite(self.values[mine]).any():
            return self._rarity(rows, mine)
        of_class = self.values[mine & np.isfinite(self.values)]
        median = np.median(of_class)
        spread = NORMAL * float(np.median(np.abs(of_class - median))) or float(of_class.std()) or 1.0
        return np.nan_to_num(np.abs(self.values[rows] - median) / spread, nan=0.0)

    def _rarity(self, rows: NDArray[np.int64], mine: NDArray[np.bool_]) -> NDArray[np.floating]:
        counts = Counter(self.texts[row] for row in np.flatnonzero(mine).tolist())
        share = np.array([(counts[self.texts[row]] + 0.5) / (mine.sum() + 1) for row in rows.tolist()])
        return -ndtri(np.minimum(share, 1.0) / 2)

    def usual(self, code: int) -> str:
        """What is usual in a class: its median, or its most frequent value with its share."""
        rows = np.flatnonzero(self.codes == code)
        if not len(rows):
            return ""
        if self.values is None:
            value, times = Counter(self.texts[row] for row in rows.tolist()).most_common(1)[0]
            return f"{value or 'empty'} ({times / len(rows):.0%})"
        known = self.values[rows][np.isfinite(self.values[rows])]
        if not len(known):
            return "empty"
        middle = float(np.median(known))
        return str(np.datetime64(int(middle), "D")) if self.is_date else _written(middle)


def _written(number: float) -> str:
    """Four digits, and never 2.01e+04 for 20115.

    >>> _written(20115.4), _written(5.13749)
    ('20115', '5.137')
    """
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:.4g}"
