"""Dual-T: T as a product over an intermediate class, the one that a model of the noisy labels predicts.

Yao, Liu, Han, Gong, Deng, Niu and Sugiyama, "Dual T: Reducing Estimation Error for Transition Matrix in
Label-noise Learning", 2020.
"""

from __future__ import annotations

import numpy as np

from trevision.estimation.anchors import anchors_at
from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.counted import prediction_counts
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray


def dual_transition(
    rows: ProbabilityRows, weights: FloatArray | None = None, percentile: float | None = None
) -> FloatArray:
    """T by way of the intermediate class Y', whose posterior is the estimated P(noisy | x).

        T[i, j] = sum_l P(Y' = l | clean = i) P(noisy = j | Y' = l)                  (Yao et al. 2020)

    The first factor is read off anchor points of P(noisy | x), chosen at `percentile` as `anchor_transition`
    does; the second is counted, with the class of largest probability for Y'. Each row counts `weights`
    times, a whole number.

    Notes
    -----
    The first factor takes Y' for a draw from P(noisy | x), the second for its likeliest class. The two agree
    where the model is all but sure of every row, as a network is that has learnt its noisy labels by heart:
    the first factor is then nearly the identity, and T the counted matrix. Where P(noisy | x) is right
    instead, the first factor already is T, and the product is nearly T T.
    """
    first = rows.at(anchors_at(rows, percentile, weights)).astype(np.float64)
    second = rows_to_one(prediction_counts(rows, weights))
    return rows_to_one(first @ second)
