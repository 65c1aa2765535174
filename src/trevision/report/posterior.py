"""What the model says of rows that it was not trained on: nearest rows, and how sure it is of a label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trevision.runs.run_folder import RunFolder

CHUNK = 256
"""Rows whose distances to the pool are held at once."""


@dataclass(frozen=True, eq=False)
class RowPosterior:
    """Probabilities (n, C) of rows (n,) of the source, out of sample.

    They are of the noisy label, P(noisy | x), or with several annotators of the clean one.
    """

    rows: NDArray[np.int64]
    probs: NDArray[np.floating]

    def of(self, rows: list[int]) -> NDArray[np.floating]:
        """The probabilities of these rows; nan for a row that is not there."""
        order = np.argsort(self.rows, kind="stable")
        places = order[np.minimum(np.searchsorted(self.rows[order], rows), len(order) - 1)]
        found = np.asarray(self.probs[places], dtype=float)
        found[self.rows[places] != np.asarray(rows)] = np.nan
        return found


def posterior_of(run: RunFolder) -> RowPosterior | None:
    """The out-of-sample probabilities of a run; None where its folder has lost them."""
    if run.has_annotators:
        return RowPosterior(run.clean_rows, run.annotators.clean_posterior)
    if not run.has_probabilities:
        return None
    return RowPosterior(run.probabilities.rows, run.probabilities.probs)


def nearest(points: NDArray[np.floating], pool: NDArray[np.floating], number: int) -> NDArray[np.int64]:
    """The `number` nearest of `pool` (m, d) for each of `points` (n, d), nearest first, by Euclid."""
    number = min(number, len(pool))
    found = np.empty((len(points), number), dtype=np.int64)
    if not number:
        return found
    lengths = np.einsum("ij,ij->i", pool, pool)
    for start in range(0, len(points), CHUNK):
        distances = lengths - 2 * points[start : start + CHUNK] @ pool.T
        few = np.argpartition(distances, number - 1, axis=1)[:, :number]
        order = np.take_along_axis(distances, few, axis=1).argsort(axis=1, kind="stable")
        found[start : start + CHUNK] = np.take_along_axis(few, order, axis=1)
    return found
