"""How many labels are wrong, from T and the noisy labels alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trevision.noise import FLOAT32_TOLERANCE, FloatArray, validate

# Sampling noise in labels and T makes solved class priors slightly negative. More than this, and T does not
# explain the labels.
MOST_NEGATIVE = 0.05
CONDITION_LIMIT = 1e6

# Where T is far from singular, tens of steps settle P(clean) to the precision; elsewhere they are limited.
PRIOR_STEPS = 2000
PRIOR_PRECISION = 1e-9


def solve_class_prior(transition: ArrayLike, noisy_shares: ArrayLike) -> FloatArray | None:
    """P(clean) from T and P(noisy), by solving T' P(clean) = P(noisy).

    Entries that come out slightly negative are set to zero.

    Parameters
    ----------
    transition : array-like of shape (C, C)
        T.
    noisy_shares : array-like of shape (C,)
        P(noisy): the share of rows that are given each label.

    Returns
    -------
    ndarray of shape (C,) or None
        None where T does not explain the noisy labels.

    Raises
    ------
    ValueError
        If `transition` is no transition matrix, or `noisy_shares` has not one number a class.

    Examples
    --------
    >>> solve_class_prior([[0.9, 0.1], [0.2, 0.8]], [0.55, 0.45])
    array([0.5, 0.5])
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    target = np.asarray(noisy_shares, dtype=np.float64)
    if target.shape != (len(matrix),):
        raise ValueError(
            f"noisy_shares must hold one share a class, ({len(matrix)},), got shape {target.shape}"
        )
    if not np.linalg.cond(matrix) < CONDITION_LIMIT:
        return None
    solved = np.linalg.solve(matrix.T, target)
    if not solved.min() >= -MOST_NEGATIVE:
        return None
    positive: FloatArray = solved.clip(min=0)
    positive /= positive.sum()
    return positive


def likeliest_class_prior(transition: ArrayLike, noisy_shares: ArrayLike) -> FloatArray:
    """The P(clean) under which T makes the noisy labels most probable; there always is one.

        P(clean = i) <- P(clean = i) sum_j T[i, j] P(noisy = j) / sum_k P(clean = k) T[k, j]

    repeated until it stays (expectation-maximisation). It equals `solve_class_prior` where that has a
    solution without negative entries, and is the nearest P(clean) where it has none.

    Parameters
    ----------
    transition : array-like of shape (C, C)
        T.
    noisy_shares : array-like of shape (C,)
        P(noisy): the share of rows that are given each label.

    Returns
    -------
    ndarray of shape (C,)

    Raises
    ------
    ValueError
        If `transition` is no transition matrix.

    Examples
    --------
    >>> likeliest_class_prior([[0.9, 0.1], [0.2, 0.8]], [0.55, 0.45]).round(6)
    array([0.5, 0.5])
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    target = np.asarray(noisy_shares, dtype=np.float64)
    class_prior: FloatArray = np.full(len(matrix), 1 / len(matrix))
    for _ in range(PRIOR_STEPS):
        predicted = class_prior @ matrix
        # A label that no class produces and no row bears is 0 / 0, and says nothing.
        moved = class_prior * (matrix @ (target / np.where(predicted > 0, predicted, 1)))
        if not moved.sum() > 0:
            break  # no class produces any of the labels that occur
        moved /= moved.sum()
        settled = np.abs(moved - class_prior).max() < PRIOR_PRECISION
        class_prior = moved
        if settled:
            break
    return class_prior


def noise_rate(transition: ArrayLike, class_prior: ArrayLike | None = None) -> float:
    """The share of labels that T makes wrong, 1 - sum_i P(clean = i) T[i, i].

    Parameters
    ----------
    transition : array-like of shape (C, C)
        T.
    class_prior : array-like of shape (C,) or None
        P(clean). None counts all classes the same.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `transition` is no transition matrix.

    Examples
    --------
    >>> round(noise_rate([[0.9, 0.1], [0.3, 0.7]], [0.5, 0.5]), 6)
    0.2
    """
    matrix = validate(transition, tolerance=FLOAT32_TOLERANCE)
    if class_prior is None:
        weights: FloatArray = np.full(len(matrix), 1 / len(matrix))
    else:
        weights = np.asarray(class_prior, dtype=np.float64)
    rate = 1 - float(weights @ np.diag(matrix))
    return min(max(rate, 0.0), 1.0)
