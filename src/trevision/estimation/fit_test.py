"""Do the labels come as often as predicted? A chi-square test over groups of rows, with an effect size.

Rows are grouped by predicted class k, by how sure the prediction is, and by whether their own probabilities
lean more or less than T to its most frequent mistake; never by their labels. In each group three outcomes are
counted: the given label is k; it is the wrong label that T makes most of for k; it is another. Predicted
probabilities differ from row to row, so the variance of a count is the sum of the rows' variances (smaller
than Pearson's expected count), and each group adds its squared Mahalanobis distance to the statistic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from trevision.noise import FloatArray, IntArray

# P(noisy = k | x) / T[k, k] between which rows are grouped: the last group is surer than T allows.
SURENESS = np.array([0.5, 0.75, 0.95, 1.05])
BINS = len(SURENESS) + 1

# P(noisy = b | x) less what T predicts for the likely mistake b, between which rows are grouped again.
LEANINGS = np.array([-0.02, 0.02])
KINDS = BINS * (len(LEANINGS) + 1)

# Variance that each outcome of a group must have for its count to be nearly normal.
LEAST_VARIANCE = 5.0


@dataclass(frozen=True)
class FitTest:
    """chi2 over df degrees of freedom, its p-value, and the share of labels that are not as predicted.

    `unexplained` is the total variation distance between the observed and the predicted outcomes, averaged
    over the rows, after the part that chance alone would make is taken off. It does not grow with the
    number of rows, as chi2 does.
    """

    chi2: float
    df: int
    p_value: float
    unexplained: float
    rows: int


class LabelTally:
    """Observed and predicted labels by group, added up chunk by chunk."""

    def __init__(self, transition: FloatArray) -> None:
        self.size = len(transition)
        self.diagonal = transition.diagonal()
        off = transition.copy()
        np.fill_diagonal(off, -1)
        self.likely_wrong: IntArray = off.argmax(axis=1)
        # For each group: rows; observed a, b; predicted a, b; variance of a, of b; covariance.
        self.sums = np.zeros((8, self.size * KINDS))

    def groups(
        self,
        noisy_probs: NDArray[np.floating],
        by_transition: NDArray[np.floating],
        predicted_class: IntArray,
    ) -> IntArray:
        """The group of each row (m,), from P(noisy | x) as given (m, C) and as T makes it (m, C)."""
        each, wrong = np.arange(len(noisy_probs)), self.likely_wrong[predicted_class]
        own = noisy_probs[each, predicted_class]
        bins = np.digitize(own / np.maximum(self.diagonal[predicted_class], 1e-12), SURENESS)
        leaning = np.digitize(noisy_probs[each, wrong] - by_transition[each, wrong], LEANINGS)
        return predicted_class * KINDS + leaning * BINS + bins

    def add(self, groups: IntArray, predicted: NDArray[np.floating], labels: IntArray) -> None:
        """Count rows of `predicted` label probabilities (m, C) and given `labels` (m,) in their groups."""
        first = groups // KINDS
        second = self.likely_wrong[first]
        each = np.arange(len(groups))
        a, b = predicted[each, first].astype(np.float64), predicted[each, second].astype(np.float64)
        terms = (
            np.ones(len(groups)),
            labels == first,
            labels == second,
            a,
            b,
            a * (1 - a),
            b * (1 - b),
            -a * b,
        )
        for total, term in zip(self.sums, terms, strict=True):
            total += np.bincount(groups, term, len(total))

    def test(self) -> FitTest:
        """The test over all groups; those too small for it are joined with those of other classes."""
        large = _outcomes(self.sums) == 2
        small = np.where(large, 0, self.sums).reshape(8, self.size, KINDS).sum(axis=1)
        groups = np.concatenate([self.sums[:, large], small], axis=1)
        outcomes = _outcomes(groups)
        distance = _squared_distance(groups, outcomes)
        df = int(outcomes.sum())
        chi2 = float(distance.sum())
        rows, seen_a, seen_b, a, b = groups[:5]
        # What is neither a nor b is missed by as much as both together, with the other sign.
        off = (np.abs(seen_a - a) + np.abs(seen_b - b) + np.abs(seen_a + seen_b - a - b)) / 2
        beyond_chance = np.sqrt(np.clip(1 - outcomes / np.maximum(distance, 1e-12), 0, 1))
        tested = outcomes > 0
        count = int(rows[tested].sum())
        unexplained = float((off * beyond_chance)[tested].sum() / max(1, count))
        p_value = float(chdtrc(df, chi2)) if df else 1.0
        return FitTest(chi2, df, p_value, unexplained, count)


def _outcomes(groups: FloatArray) -> IntArray:
    """How many of the outcomes a and b of each group vary enough to be tested: 2, 1 (only a), or 0."""
    variance_a, variance_b, covariance = groups[5:]
    both = np.minimum(variance_b, variance_a + variance_b + 2 * covariance) >= LEAST_VARIANCE
    return np.where(variance_a < LEAST_VARIANCE, 0, np.where(both, 2, 1))


def _squared_distance(groups: FloatArray, outcomes: IntArray) -> FloatArray:
    """The squared Mahalanobis distance of observed from predicted counts over the tested outcomes."""
    _, seen_a, seen_b, a, b, variance_a, variance_b, covariance = groups
    x, y = seen_a - a, seen_b - b
    of_a = x**2 / np.where(outcomes > 0, variance_a, 1)
    determinant = np.where(outcomes == 2, variance_a * variance_b - covariance**2, 1)
    of_both = (variance_b * x**2 - 2 * covariance * x * y + variance_a * y**2) / determinant
    return np.where(outcomes == 2, of_both, np.where(outcomes == 1, of_a, 0.0))
