"""The confident joint: clean and given labels counted together on the rows that a model is sure of.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", 2021,
Section 3.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.noise import FloatArray

# A probability that equals the threshold up to rounding in single precision reaches it.
ROUNDING = 1e-6

# The threshold of a class that no row is labelled with: above every probability.
UNREACHABLE = 2.0


def confident_joint(noisy_probs: ArrayLike | RowSource, noisy_labels: ArrayLike) -> FloatArray:
    """The expected number of rows with clean label i and given label j, (C, C), summing to n.

    `noisy_probs` (n, C) are out-of-sample probabilities P(noisy | x): of rows that the model was not
    trained on. Dividing each row by its sum gives T, as `estimate(..., method="confident-joint")` does.
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    return calibrated(confident_counts(rows))


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


def confident_counts(rows: ProbabilityRows, weights: FloatArray | None = None) -> FloatArray:
    """How many rows given label j are confidently of class i: entry (j, i) of a (C, C + 1) matrix.

    A row is of the class with its largest probability among those that reach their thresholds
    (Northcutt et al. 2021, Eq. 1); where none does, it is counted in the last column.
    """
    size = rows.num_classes
    thresholds = confident_thresholds(rows, weights)
    counts = np.zeros(size * (size + 1))
    for probs, labels, where in rows.chunks():
        sure = np.where(probs >= (thresholds - ROUNDING).astype(probs.dtype), probs, -1)
        classes = sure.argmax(axis=1)
        classes[sure[np.arange(len(sure)), classes] < 0] = size
        cells = labels * (size + 1) + classes
        counts += np.bincount(cells, None if weights is None else weights[where], len(counts))
    return counts.reshape(size, size + 1)


def calibrated(counts: FloatArray) -> FloatArray:
    """The joint [clean, given] whose given labels are as frequent as they were, from `confident_counts`.

    Rows that were not confident are shared out like the confident ones of their given label (Northcutt
    et al. 2021, Eq. 3). Each given label counts as right at least once, so that a label without a
    confident row is taken as right instead of leaving 0 / 0.
    """
    confident = counts[:, :-1].copy()
    np.fill_diagonal(confident, confident.diagonal().clip(min=1))
    share = confident / confident.sum(axis=1, keepdims=True)
    return np.ascontiguousarray((share * counts.sum(axis=1, keepdims=True)).T)
