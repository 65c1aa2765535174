"""How many labels are wrong, from T and the noisy labels alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trevision.noise import FLOAT32_TOLERANCE, FloatArray, validate

# Sampling noise in labels and T makes solved priors slightly negative. More than this, and T does not
# explain the labels.
MOST_NEGATIVE = 0.05
CONDITION_LIMIT = 1e6

# Where T is far from singular, tens of steps settle the prior to the precision; elsewhere they are limited.
PRIOR_STEPS = 2000
PRIOR_PRECISION = 1e-9


def clean_prior(transition: ArrayLike, noisy_prior: ArrayLike) -> FloatArray | None:
    """P(clean) from T and P(noisy), or None where T does not explain the noisy labels.

    T' P(clean) = P(noisy), solved; entries that come out slightly negative are set to zero.
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    target = np.asarray(noisy_prior, dtype=np.float64)
    if target.shape != (len(matrix),):
        raise ValueError(
            f"noisy_prior must hold one share a class, ({len(matrix)},), got shape {target.shape}"
        )
    if not np.linalg.cond(matrix) < CONDITION_LIMIT:
        return None
    prior = np.linalg.solve(matrix.T, target)
    if not prior.min() >= -MOST_NEGATIVE:
        return None
    positive: FloatArray = prior.clip(min=0)
    positive /= positive.sum()
    return positive


def likeliest_prior(transition: ArrayLike, noisy_prior: ArrayLike) -> FloatArray:
    """The P(clean) under which T makes the noisy labels most probable; there always is one.

        P(clean = i) <- P(clean = i) sum_j T[i, j] P(noisy = j) / sum_k P(clean = k) T[k, j]

    repeated until it stays (expectation-maximisation). It equals `clean_prior` where that has a solution
    without negative entries, and gives the nearest prior where it has none.
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    target = np.asarray(noisy_prior, dtype=np.float64)
    prior: FloatArray = np.full(len(matrix), 1 / len(matrix))
    for _ in range(PRIOR_STEPS):
        predicted = prior @ matrix
        # A label that no class produces and no row bears is 0 / 0, and says nothing.
        moved = prior * (matrix @ (target / np.where(predicted > 0, predicted, 1)))
        if not moved.sum() > 0:
            break  # no class produces any of the labels that occur
        moved /= moved.sum()
        settled = np.abs(moved - prior).max() < PRIOR_PRECISION
        prior = moved
        if settled:
            break
    return prior


def noise_rate(transition: ArrayLike, prior: ArrayLike | None = None) -> float:
    """The share of labels that T makes wrong, 1 - sum_i P(clean = i) T[i, i].

    Without a prior all classes count the same: the mean of what lies off the diagonal.
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    weights = np.full(len(matrix), 1 / len(matrix)) if prior is None else np.asarray(prior, dtype=np.float64)
    rate = 1 - float(weights @ np.diag(matrix))
    return min(max(rate, 0.0), 1.0)
