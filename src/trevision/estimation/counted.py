"""T by counting given labels against predicted classes, as if every prediction were right."""

from __future__ import annotations

import numpy as np

from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray


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
