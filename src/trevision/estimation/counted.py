"""T by counting given labels against predicted classes, as if every prediction were right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray
from trevision.prior import Prior


@dataclass(frozen=True, kw_only=True)
class Counted(Estimator):
    """T as if every prediction were right; see `prediction_counts`."""

    name: str = "counted"
    rank: int = 6

    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        return self.recount(prediction_counts(rows, weights))

    def recount(self, counts: FloatArray) -> Solution:
        """T from counts [clean, given]."""
        return Solution(rows_to_one(counts), counts.sum(axis=1) / counts.sum(), counts)


COUNTED = Counted()


def prediction_counts(rows: ProbabilityRows, weights: FloatArray | None = None) -> FloatArray:
    """How many rows of predicted class l are given label j, (C, C), each row counted `weights` times.

    The predicted class of a row is the one of its largest P(noisy | x). Divided by their sums, the rows of
    the counts are T where the prediction is the clean class; where a share of the rows predicted l is of
    other classes, row l leans to their rows of T by that share.
    """
    size = rows.num_classes
    counts = np.zeros(size**2)
    for probs, labels, where in rows.chunks():
        cells = probs.argmax(axis=1) * size + labels
        counts += np.bincount(cells, None if weights is None else weights[where], len(counts))
    return counts.reshape(size, size)
