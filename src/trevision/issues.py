"""Which labels are probably wrong, how many, and what they should be.

    P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]

g and T are both estimated from out-of-sample probabilities of the noisy labels. A label is suspicious where
the probability of its being right, P(clean = given | x, given), is low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trevision.estimation import Estimate, ProbabilityRows, RowSource, clean_given_label, estimate
from trevision.noise import FloatArray, IntArray

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class LabelIssues:
    """What is to be thought of every row's label, each an array (n,) in the order of the rows.

    given        the label, as a code
    suggested    the most probable clean label; where the given one seems right, that
    p_given      P(clean = given | x, given)
    p_suggested  P(clean = suggested | x, given)
    suspect      whether the row is among as many least probable labels as are estimated to be wrong
    order        the rows, most suspicious first
    estimate     T, how many labels are wrong, and error bars
    """

    given: IntArray
    suggested: IntArray
    p_given: FloatArray
    p_suggested: FloatArray
    suspect: BoolArray
    order: IntArray
    estimate: Estimate

    @property
    def wrong(self) -> tuple[float, float, float]:
        """The estimated number of wrong labels, and the ends of its interval."""
        found, rows = self.estimate, len(self.given)
        return rows * found.noise_rate, rows * found.noise_rate_low, rows * found.noise_rate_high


def find_label_issues(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    method: str | None = None,
    bootstrap: int = 200,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LabelIssues:
    """Rank labels by the probability that they are right.

    `noisy_probs` (n, C) are P(noisy | x) by a model for rows that it was not trained on, `noisy_labels` (n,)
    the labels given to them; both and the other arguments as for `trevision.estimation.estimate`.
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    found = estimate(noisy_probs, noisy_labels, method, bootstrap, level, random_state, progress)
    p_given, p_suggested = np.empty(len(rows)), np.empty(len(rows))
    suggested: IntArray = np.empty(len(rows), dtype=np.int64)
    for probs, labels, where in rows.chunks():
        clean = clean_given_label(found.clean_posterior(probs), found.transition, labels)
        places = np.arange(len(labels))
        p_given[where] = clean[places, labels]
        suggested[where] = clean.argmax(axis=1)
        p_suggested[where] = clean[places, suggested[where]]
    order: IntArray = np.argsort(p_given, kind="stable")
    suspect = np.zeros(len(rows), dtype=bool)
    suspect[order[: round(len(rows) * found.noise_rate)]] = True
    return LabelIssues(rows.labels, suggested, p_given, p_suggested, suspect, order, found)
