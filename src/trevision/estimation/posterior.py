"""Clean posteriors: what T, and a given label, say about the clean label of a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trevision.noise import FloatArray, IntArray


def softmax(logits: FloatArray) -> FloatArray:
    """Probabilities along the last axis."""
    powers: FloatArray = np.exp(logits - logits.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def nearest_on_simplex(rows: NDArray[np.floating]) -> FloatArray:
    """For each row the nearest probabilities, in the Euclidean sense: max(v - t, 0) with the sum 1."""
    ordered = -np.sort(-rows.astype(np.float64), axis=1)
    excess = ordered.cumsum(axis=1) - 1
    size = np.arange(1, rows.shape[1] + 1)
    # The largest k for which the k-th entry stays above zero when the first k share the excess.
    kept = (ordered * size > excess).sum(axis=1)
    shift = excess[np.arange(len(rows)), kept - 1] / kept
    nearest: FloatArray = np.maximum(rows - shift[:, None], 0)
    return nearest


def invert(noisy_probs: NDArray[np.floating], transition: FloatArray) -> FloatArray:
    """P(clean | x) from P(noisy | x), by inverting T.

    (T')^-1 P(noisy | x) or, where T cannot make P(noisy | x), the probabilities nearest to it.

    Parameters
    ----------
    noisy_probs : ndarray of shape (n, C)
        Rows of P(noisy | x).
    transition : ndarray of shape (C, C)
        T.

    Returns
    -------
    ndarray of shape (n, C)

    Examples
    --------
    >>> invert(np.array([[0.55, 0.45]]), np.array([[0.9, 0.1], [0.2, 0.8]])).round(6)
    array([[0.5, 0.5]])
    """
    return nearest_on_simplex(noisy_probs @ np.linalg.pinv(transition))


def clean_given_label(
    clean_posterior: NDArray[np.floating], transition: FloatArray, noisy_labels: IntArray
) -> FloatArray:
    """P(clean = i | x, given) for every row and class, by Bayes' rule.

        P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]

    Parameters
    ----------
    clean_posterior : ndarray of shape (n, C)
        g(x), by a model that was not trained on these labels.
    transition : ndarray of shape (C, C)
        T.
    noisy_labels : ndarray of shape (n,)
        The labels given, integers from 0 to C - 1.

    Returns
    -------
    ndarray of shape (n, C)

    Examples
    --------
    >>> transition = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> clean_given_label(np.array([[0.5, 0.5]]), transition, np.array([1]))
    array([[0.25, 0.75]])
    """
    joint: FloatArray = clean_posterior * transition.T[noisy_labels]
    total = joint.sum(axis=1, keepdims=True)
    # Where T says that such a label cannot be here, it tells nothing.
    return np.where(total > 0, joint / np.where(total > 0, total, 1), clean_posterior)
