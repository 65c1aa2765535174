"""Which labels are probably wrong, how many, and what they should be.

    P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]

g and T are both estimated from out-of-sample probabilities of the noisy labels. A label is suspicious where
the probability of its being right, P(clean = given | x, given), is low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.estimation import (
    BOOTSTRAP,
    Estimate,
    ProbabilityRows,
    RowSource,
    clean_given_label,
    estimate,
)
from trevision.noise import FloatArray, IntArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LabelIssues:
    """Per-row label quality, each an array of shape (n,) in the order of the rows.

    Attributes
    ----------
    given : ndarray of int
        The label, as a code.
    suggested : ndarray of int
        The most probable clean label; where the given one seems right, that.
    p_given : ndarray
        P(clean = given | x, given).
    p_suggested : ndarray
        P(clean = suggested | x, given).
    suspect : ndarray of bool
        Whether the row is among the least probable labels, of which there are as many as are estimated to be
        wrong.
    order : ndarray of int
        The numbers of the rows, most suspicious first.
    estimate : Estimate
        T, how many labels are wrong, and error bars.

    Examples
    --------
    >>> probs = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
    >>> labels = np.repeat([0, 1], 10)
    >>> labels[3] = 1
    >>> issues = find_label_issues(probs, labels, "confident-joint", bootstrap=0)
    >>> issues.suspect.nonzero()
    (array([3]),)
    >>> round(issues.wrong[0], 6)
    1.0
    """

    given: IntArray
    suggested: IntArray
    p_given: FloatArray
    p_suggested: FloatArray
    suspect: BoolArray
    order: IntArray
    estimate: Estimate

    @property
    def wrong(self) -> tuple[float, float | None, float | None]:
        """The estimated number of wrong labels, and the ends of its interval, if there is one."""
        rows, noise = len(self.given), self.estimate
        low, high = noise.noise_rate_low, noise.noise_rate_high
        return (
            rows * noise.noise_rate,
            None if low is None else rows * low,
            None if high is None else rows * high,
        )


def find_label_issues(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    estimator: str | None = None,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LabelIssues:
    """Rank labels by the probability that they are right.

        P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]

    g is the clean posterior. It and T are estimated from `noisy_probs`.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) by a model for rows that it was not trained on.
    noisy_labels : array-like of shape (n,)
        The labels given to them, integers from 0 to C - 1.
    estimator, bootstrap, level, random_state, progress
        How T and its intervals are estimated: as for `trevision.estimation.estimate`.

    Returns
    -------
    LabelIssues

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, a label is out of range, or a choice is none.

    Examples
    --------
    >>> probs = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
    >>> labels = np.repeat([0, 1], 10)
    >>> labels[3] = 1
    >>> issues = find_label_issues(probs, labels, "confident-joint", bootstrap=0)
    >>> int(issues.order[0]), int(issues.suggested[3])
    (3, 0)
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    noise = estimate(noisy_probs, noisy_labels, estimator, bootstrap, level, random_state, progress)
    p_given, p_suggested = np.empty(len(rows)), np.empty(len(rows))
    suggested: IntArray = np.empty(len(rows), dtype=np.int64)
    for probs, labels, where in rows.chunks():
        clean = clean_given_label(noise.clean_posterior(probs), noise.transition, labels)
        each = np.arange(len(labels))
        p_given[where] = clean[each, labels]
        suggested[where] = clean.argmax(axis=1)
        p_suggested[where] = clean[each, suggested[where]]
    order: IntArray = np.argsort(p_given, kind="stable")
    suspect = np.zeros(len(rows), dtype=bool)
    suspect[order[: round(len(rows) * noise.noise_rate)]] = True
    return LabelIssues(rows.labels, suggested, p_given, p_suggested, suspect, order, noise)
