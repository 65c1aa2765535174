"""The labels and names of a source's rows, without their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class RowLabels:
    """A label for each of some rows of a source.

    Parameters
    ----------
    row_numbers
        (n,) numbers of the rows in the source, counted from 0 over its data rows.
    codes
        (n,) labels as codes into `class_names`.
    class_names
        The classes, in the order of their codes.
    names
        (n,) the source's names of the rows; None if it has none.
    """

    row_numbers: np.ndarray
    codes: np.ndarray
    class_names: tuple[str, ...]
    names: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.row_numbers)

    def positions(self, row_numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The positions of the rows with these numbers; -1 for a row that is not there."""
        wanted = np.asarray(row_numbers, dtype=np.int64)
        order = np.argsort(self.row_numbers, kind="stable")
        nearest = np.searchsorted(self.row_numbers, wanted, sorter=order)
        candidates = order[np.minimum(nearest, len(self.row_numbers) - 1)]
        return np.where(self.row_numbers[candidates] == wanted, candidates, -1)

    def take(self, positions: np.ndarray) -> RowLabels:
        """The rows at these positions, in this order."""
        names = None if self.names is None else self.names[positions]
        return RowLabels(self.row_numbers[positions], self.codes[positions], self.class_names, names)
