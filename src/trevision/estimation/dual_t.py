"""Dual-T: T as a product over an intermediate class, the one that a model of the noisy labels predicts.

Yao, Liu, Han, Gong, Deng, Niu and Sugiyama, "Dual T: Reducing Estimation Error for Transition Matrix in
Label-noise Learning", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trevision.estimation.anchors import Percentile, anchors_at, explaining
from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.counted import prediction_counts
from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray
from trevision.prior import Prior


@dataclass(frozen=True, kw_only=True)
class DualT(Estimator):
    """T as a product over the predicted class; see `dual_transition`.

    Attributes
    ----------
    percentile : float, "usual" or None
        Where anchor points are looked for, as for `Anchor`.

    References
    ----------
    Yao et al., "Dual T: Reducing Estimation Error for Transition Matrix in Label-noise Learning", 2020.

    Examples
    --------
    >>> sure = ProbabilityRows([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 1])
    >>> DualT(percentile=None).solve(sure).transition
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    name: str = "dual-t"
    rank: int = 4
    passes: int = 3
    # Where the anchor points of the first factor are looked for, as for `anchor`.
    percentile: Percentile = "usual"

    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        transition = dual_transition(rows, weights, self.percentile)
        return explaining(transition, rows, weights)


DUAL_T = DualT()


def dual_transition(
    rows: ProbabilityRows, weights: FloatArray | None = None, percentile: Percentile = None
) -> FloatArray:
    """T by way of the intermediate class Y', whose posterior is the estimated P(noisy | x).

        T[i, j] = sum_l P(Y' = l | clean = i) P(noisy = j | Y' = l)                  (Yao et al. 2020)

    The first factor is read off anchor points of P(noisy | x). The second is counted, with the class of
    largest probability for Y'.

    Parameters
    ----------
    rows : ProbabilityRows
        P(noisy | x) and the labels given.
    weights : ndarray of shape (n,) or None
        How often each row counts, a whole number. None: once.
    percentile : float, "usual" or None
        Where to look for anchor points, see `Anchor`.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If `percentile` lies outside 0 to 100.

    Notes
    -----
    The first factor takes Y' for a draw from P(noisy | x), the second for its likeliest class. The two agree
    where the model is all but sure of every row, as a network is that has learnt its noisy labels by heart:
    the first factor is then nearly the identity, and T the counted matrix. Where P(noisy | x) is right
    instead, the first factor already is T, and the product is nearly T T.

    References
    ----------
    Yao et al., "Dual T: Reducing Estimation Error for Transition Matrix in Label-noise Learning", 2020.

    Examples
    --------
    >>> sure = ProbabilityRows([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 1])
    >>> dual_transition(sure)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    first = rows.at(anchors_at(rows, percentile, weights)).astype(np.float64)
    second = rows_to_one(prediction_counts(rows, weights))
    return rows_to_one(first @ second)
