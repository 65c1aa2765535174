"""True and given classes of all rows, from audited rows joined with the estimate of a model."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from trevision.noise import FloatArray, IntArray

STRENGTHS = np.geomspace(1, 10_000, 81)
"""How many audited rows of a class the model's estimate may count for."""
UNFORESEEN = 0.01
"""The share of each column of the model's estimate that is spread over all classes."""


def joined_counts(
    true: IntArray, given: IntArray, weights: FloatArray, class_rows: IntArray, model: FloatArray | None
) -> tuple[FloatArray, float | None]:
    """Rows by true and given class, and how many rows of a class the model's estimate counts for.

    In the column of given class j, with a_j the weighted shares of the true classes among its audited rows,
    m_j the number of these rows (that of equal weights, (sum w)^2 / sum w^2) and b_j the shares of the model,

        P(true | given = j) = (k b_j + m_j a_j) / (k + m_j)

    the posterior mean under a Dirichlet prior. k is the strength under which the answers are likeliest: large
    if the model foretold them, small if not. Without a model, b_j is that all labels are right and k is 1.
    """
    classes = len(class_rows)
    seen: FloatArray = np.zeros((classes, classes))
    np.add.at(seen, (true, given), weights)
    squares = np.bincount(given, weights**2, minlength=classes)
    sums = seen.sum(axis=0)
    shares = seen / np.where(sums > 0, sums, 1)
    rows = np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1), 0)
    prior = np.eye(classes) if model is None else np.array(model)
    totals = prior.sum(axis=0)
    prior = np.where(totals > 0, prior / np.where(totals > 0, totals, 1), np.eye(classes))
    prior = (1 - UNFORESEEN) * prior + UNFORESEEN / classes
    strength = 1.0
    if model is not None:
        strength = float(STRENGTHS[np.argmax([_log_evidence(rows * shares, k * prior) for k in STRENGTHS])])
    columns = (strength * prior + rows * shares) / (strength + rows)
    return columns * class_rows, None if model is None else strength


def _log_evidence(counts: FloatArray, alpha: FloatArray) -> float:
    """The log probability of counts, column by column, under Dirichlet priors; without their constant."""
    whole = gammaln(alpha.sum(axis=0)) - gammaln(alpha.sum(axis=0) + counts.sum(axis=0))
    return float(whole.sum() + (gammaln(alpha + counts) - gammaln(alpha)).sum())
