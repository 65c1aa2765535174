"""T from anchor points: rows of the noisy posterior at the surest instances of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.counted import prediction_counts
from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.rate import likeliest_class_prior
from trevision.estimation.rows import ProbabilityRows, check_probs
from trevision.noise import FloatArray, IntArray
from trevision.prior import Prior

Percentile = float | Literal["usual"] | None
"""Where anchor points are looked for: at a percentile, within each class, or, None, at the maximum."""

USUAL_DEPTH = 0.3
"""How deep an anchor point usually lies among the rows of its class, as a share of them."""


@dataclass(frozen=True, kw_only=True)
class Anchor(Estimator):
    """Row i of T is the noisy posterior at a row that is sure of class i (Xia et al. 2019, Eq. 1).

    Attributes
    ----------
    percentile : float, "usual" or None
        Where anchor points are looked for: at a percentile of all rows, three tenths into the rows that are
        predicted as the class, or at the maximum.

    References
    ----------
    Xia et al., "Are Anchor Points Really Indispensable in Label-Noise Learning?", 2019.

    Examples
    --------
    >>> rows = ProbabilityRows([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1])
    >>> Anchor(percentile=None).solve(rows).transition
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """

    name: str = "anchor"
    rank: int = 3
    passes: int = 2
    # The network may have seen the rows: the paper reads T off its own training rows.
    needs_out_of_sample: bool = False
    # The surest row of all is the most overconfident one.
    percentile: Percentile = "usual"

    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        points = anchors_at(rows, self.percentile, weights)
        return explaining(rows_to_one(rows.at(points).astype(np.float64)), rows, weights)


ANCHOR = Anchor()


def explaining(transition: FloatArray, rows: ProbabilityRows, weights: FloatArray | None) -> Solution:
    """T with the P(clean) under which it makes the labels given most probable."""
    counts = rows.label_counts(weights)
    return Solution(transition, likeliest_class_prior(transition, counts / counts.sum()))


def usual_percentile(num_classes: int) -> float:
    """The percentile, among all rows, at which the paper looks for an anchor point.

    It lies three tenths into the share 100 / C of the rows that a class has if all have the same.

    Parameters
    ----------
    num_classes : int
        C.

    Returns
    -------
    float
        100 - 30 / C.

    Examples
    --------
    >>> usual_percentile(10)
    97.0
    """
    return 100 * (1 - USUAL_DEPTH / num_classes)


def anchor_points(noisy_probs: ArrayLike, percentile: float | None = None) -> IntArray:
    """For each class the row that serves as its anchor point.

    That is the row with the highest noisy posterior of the class. A maximum over tens of thousands of rows
    picks the most overconfident one, so a percentile of the posterior may be taken instead: the row of rank
    percentile / 100 * (n - 1), rounded down, in ascending order.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x).
    percentile : float or None
        From 0 to 100. None takes the maximum.

    Returns
    -------
    ndarray of shape (C,)
        Numbers of rows.

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, or `percentile` lies outside 0 to 100.

    Examples
    --------
    >>> anchor_points([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    array([0, 2])
    """
    probs = check_probs(noisy_probs)
    rank = rank_at(percentile, len(probs))
    points: IntArray = np.argpartition(probs, rank, axis=0)[rank]
    return points


def rank_at(percentile: float | None, rows: int) -> int:
    """The rank, from 0 for the lowest, of the anchor point among so many rows."""
    if percentile is not None and not 0 <= percentile <= 100:
        raise ValueError(f"percentile must lie in [0, 100], got {percentile}")
    return rows - 1 if percentile is None else int(percentile * (rows - 1) / 100)


def anchors_at(
    rows: ProbabilityRows, percentile: Percentile = None, weights: FloatArray | None = None
) -> IntArray:
    """For each class its anchor point: by `anchor_points`, in one pass, or, "usual", within the class.

    A percentile of all rows lies outside a class that is rarer than what remains above it, and reads a row
    of another class. So the usual rank from above is `USUAL_DEPTH` of the number of rows that are predicted
    as the class: where classes are even, that is the rank of `usual_percentile`. It is the predictions that
    are counted, because most labels of a rare class may be mistakes about a common one.

    Only the rows above the lowest of the ranks are held.
    """
    size = rows.num_classes
    counted = np.ones(len(rows)) if weights is None else weights
    total = int(counted.sum())
    # The ranks from above, among rows that are repeated as often as they count; each counts at least once.
    above: IntArray
    if percentile == "usual":
        above = (USUAL_DEPTH * prediction_counts(rows, weights).sum(axis=1)).astype(np.int64)
    else:
        above = np.full(size, total - 1 - rank_at(percentile, total))
    most = int(above.max()) + 1
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

    Where x_i is no true anchor point the result is biased, by L in the paper's T-hat = T L. That bias is what
    T-Revision revises.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) on the training instances, without augmentation. It is not altered.
    percentile : float or None
        Where to look for anchor points, see `anchor_points`.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, or `percentile` lies outside 0 to 100.

    References
    ----------
    Xia et al., "Are Anchor Points Really Indispensable in Label-Noise Learning?", 2019.

    Examples
    --------
    >>> anchor_transition([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """
    probs = check_probs(noisy_probs)
    rows: NDArray[np.float64] = probs[anchor_points(probs, percentile)].astype(np.float64)
    rows /= rows.sum(axis=1, keepdims=True)
    return rows
