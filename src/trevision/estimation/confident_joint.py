"""The confident joint: clean and given labels counted together on the rows that a model is sure of.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", 2021,
Section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.noise import FloatArray
from trevision.prior import Prior

# The threshold of a class that no row is labelled with: above every probability.
UNREACHABLE = 2.0


@dataclass(frozen=True, kw_only=True)
class ConfidentJoint(Estimator):
    """T from the rows that a model is sure of; see `confident_joint`."""

    name: str = "confident-joint"
    rank: int = 2
    # A probability that equals its threshold up to rounding in single precision reaches it.
    rounding: float = 1e-6

    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        return self.recount(self.counts(rows, weights))

    def recount(self, counts: FloatArray) -> Solution:
        """T from confident counts [given, class], (C, C + 1)."""
        joint = calibrated(counts)
        return Solution(rows_to_one(joint), joint.sum(axis=1) / joint.sum(), counts)

    def counts(self, rows: ProbabilityRows, weights: FloatArray | None = None) -> FloatArray:
        """How many rows given label j are confidently of class i: entry (j, i) of a (C, C + 1) matrix.

        A row is of the class with its largest probability among those that reach their thresholds
        (Northcutt et al. 2021, Eq. 1); where none does, it is counted in the last column.
        """
        size = rows.num_classes
        thresholds = confident_thresholds(rows, weights)
        counts = np.zeros(size * (size + 1))
        for probs, labels, where in rows.chunks():
            sure = np.where(probs >= (thresholds - self.rounding).astype(probs.dtype), probs, -1)
            classes = sure.argmax(axis=1)
            classes[sure[np.arange(len(sure)), classes] < 0] = size
            cells = labels * (size + 1) + classes
            counts += np.bincount(cells, None if weights is None else weights[where], len(counts))
        return counts.reshape(size, size + 1)


CONFIDENT_JOINT = ConfidentJoint()


def confident_joint(noisy_probs: ArrayLike | RowSource, noisy_labels: ArrayLike) -> FloatArray:
    """The expected number of rows with clean label i and given label j, summing to n.

    Each row divided by its sum gives T, as `estimate(..., estimator="confident-joint")` does.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) for rows that the model was not trained on.
    noisy_labels : array-like of shape (n,)
        The labels given, integers from 0 to C - 1.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, or a label is out of range.

    References
    ----------
    Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", 2021.

    Examples
    --------
    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 10, axis=0)
    >>> confident_joint(sure, np.repeat([0, 1, 0, 1], [8, 2, 3, 7]))
    array([[8., 2.],
           [3., 7.]])
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    return calibrated(CONFIDENT_JOINT.counts(rows))


def confident_thresholds(rows: ProbabilityRows, weights: FloatArray | None = None) -> FloatArray:
    """For each class the mean probability that rows given this label have of it.

    t_j = mean of P(noisy = j | x) over the rows given label j           (Northcutt et al. 2021, Eq. 2)
    """
    sums = np.zeros(rows.num_classes)
    for probs, labels, where in rows.chunks():
        own = np.take_along_axis(probs, labels[:, None], axis=1)[:, 0].astype(np.float64)
        sums += np.bincount(labels, own if weights is None else own * weights[where], rows.num_classes)
    counts = rows.label_counts(weights)
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1), UNREACHABLE)


def calibrated(counts: FloatArray) -> FloatArray:
    """The joint [clean, given] whose given labels are as frequent as they were, from confident counts.

    Rows that were not confident are shared out like the confident ones of their given label (Northcutt
    et al. 2021, Eq. 3). Each given label counts as right at least once, so that a label without a
    confident row is taken as right instead of leaving 0 / 0.
    """
    confident = counts[:, :-1].copy()
    np.fill_diagonal(confident, confident.diagonal().clip(min=1))
    share = confident / confident.sum(axis=1, keepdims=True)
    return np.ascontiguousarray((share * counts.sum(axis=1, keepdims=True)).T)
