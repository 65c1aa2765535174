"""How many labels are wrong, from T and the noisy labels alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trevision.noise import FLOAT32_TOLERANCE, FloatArray, validate

# Sampling noise in labels and T makes solved priors slightly negative. More than this, and T does not
# explain the labels.
MOST_NEGATIVE = 0.05
CONDITION_LIMIT = 1e6


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


def noise_rate(transition: ArrayLike, prior: ArrayLike | None = None) -> float:
    """The share of labels that T makes wrong, 1 - sum_i P(clean = i) T[i, i].

    Without a prior all classes count the same: the mean of what lies off the diagonal.
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    weights = np.full(len(matrix), 1 / len(matrix)) if prior is None else np.asarray(prior, dtype=np.float64)
    rate = 1 - float(weights @ np.diag(matrix))
    return min(max(rate, 0.0), 1.0)
