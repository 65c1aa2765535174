"""T from anchor points: rows of the noisy posterior at the surest instances of each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray, IntArray, detached


def usual_percentile(num_classes: int) -> float:
    """The percentile at which an anchor point is looked for: the 97th for ten classes.

    Three tenths into the share 100 / C of the rows that a class has.
    """
    return 100 - 30 / num_classes


def anchor_points(noisy_probs: ArrayLike, percentile: float | None = None) -> IntArray:
    """For each class the row that serves as its anchor point.

    The row with the highest noisy posterior of the class or, since a maximum over tens of thousands of
    rows picks the most overconfident one, the row at `percentile` (0 to 100) of that posterior: the one
    of rank percentile / 100 * (n - 1), rounded down, in ascending order.
    """
    probs = _check_probs(noisy_probs)
    rank = rank_at(percentile, len(probs))
    points: IntArray = np.argpartition(probs, rank, axis=0)[rank]
    return points


def rank_at(percentile: float | None, rows: int) -> int:
    """The rank, from 0 for the lowest, of the anchor point among so many rows."""
    if percentile is not None and not 0 <= percentile <= 100:
        raise ValueError(f"percentile must lie in [0, 100], got {percentile}")
    return rows - 1 if percentile is None else int(percentile * (rows - 1) / 100)


def anchors_at(
    rows: ProbabilityRows, percentile: float | None = None, weights: FloatArray | None = None
) -> IntArray:
    """For each class the row at `percentile` of its noisy posterior: `anchor_points`, in one pass.

    Only the rows above that percentile are held.
    """
    size = rows.num_classes
    counted = np.ones(len(rows)) if weights is None else weights
    total = int(counted.sum())
    # The rank from above, among rows that are repeated as often as they count; each counts at least once.
    above = total - 1 - rank_at(percentile, total)
    most = above + 1
    values: FloatArray = np.empty((0, size))
    numbers: IntArray = np.empty((0, size), dtype=np.int64)
    for probs, _, where in rows.chunks():
        kept = np.flatnonzero(counted[where] > 0)
        values = np.concatenate([values, probs[kept]])
        numbers = np.concatenate([numbers, np.tile(where.start + kept[:, None], size)])
        if len(values) > most:
            highest = np.argpartition(-values, most - 1, axis=0)[:most]
            values = np.take_along_axis(values, highest, axis=0)
            numbers = np.take_along_axis(numbers, highest, axis=0)
    numbers = np.take_along_axis(numbers, np.argsort(-values, axis=0, kind="stable"), axis=0)
    reached = counted[numbers].cumsum(axis=0) > above
    points: IntArray = numbers[reached.argmax(axis=0), np.arange(size)]
    return points


def anchor_transition(noisy_probs: ArrayLike, percentile: float | None = None) -> FloatArray:
    """T-hat whose row i is the noisy posterior at the anchor point of class i.

        T[i, j] = P(noisy = j | x_i),   since P(clean = i | x_i) = 1         (Xia et al. 2019, Eq. 1)

    `noisy_probs` (n, C) is an estimate of P(noisy | x) on the training instances, without augmentation;
    it is not altered. Where x_i is no true anchor point the result is biased, by L in the paper's
    T-hat = T L: that bias is what T-Revision revises.
    """
    probs = _check_probs(noisy_probs)
    rows: FloatArray = probs[anchor_points(probs, percentile)].astype(np.float64)
    rows /= rows.sum(axis=1, keepdims=True)
    return rows


def _check_probs(noisy_probs: ArrayLike) -> NDArray[np.floating]:
    probs = np.asarray(detached(noisy_probs))
    if probs.ndim != 2 or probs.shape[0] == 0 or probs.shape[1] < 2:
        raise ValueError(f"noisy_probs must be (n, C) with n >= 1 and C >= 2, got shape {probs.shape}")
    if not np.issubdtype(probs.dtype, np.floating):
        raise ValueError(f"noisy_probs must be floating-point probabilities, got dtype {probs.dtype}")
    if not np.isfinite(probs).all() or probs.min() < 0:
        raise ValueError("noisy_probs must hold finite probabilities, got NaN, infinity or a negative number")
    if np.abs(probs.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("noisy_probs must have rows that sum to 1; logits want a softmax first")
    return probs
