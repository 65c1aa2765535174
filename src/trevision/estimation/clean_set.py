"""T from a set of instances whose clean labels are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trevision.estimation.rows import check_probs
from trevision.noise import FloatArray, check_labels


def counted_transition(
    clean_labels: ArrayLike, noisy_labels: ArrayLike, num_classes: int, smoothing: float = 0.0
) -> FloatArray:
    """T by counting, for instances that have both labels.

        T[i, j] = (#(clean = i, noisy = j) + s) / (#(clean = i) + C s),    s = smoothing

    The paper's start for Clothing1M. A class that no clean label names would have an empty row. It gets
    the identity's row, as if its labels were right, unless `smoothing` fills it.

    Parameters
    ----------
    clean_labels, noisy_labels : array-like of shape (n,)
        Both labels of each instance, integers from 0 to C - 1.
    num_classes : int
        C.
    smoothing : float
        What is added to each count.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If a label is out of range, the lengths differ, or `smoothing` is negative.

    Examples
    --------
    >>> counted_transition([0, 0, 1, 1], [0, 1, 1, 1], num_classes=2)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    if not 0 <= smoothing < np.inf:
        raise ValueError(f"smoothing must be a finite number of at least 0, got {smoothing}")
    clean = check_labels(clean_labels, num_classes, "clean_labels")
    noisy = check_labels(noisy_labels, num_classes, "noisy_labels")
    if clean.shape != noisy.shape:
        raise ValueError(
            f"clean_labels and noisy_labels must be of one length, got {len(clean)} and {len(noisy)}"
        )
    pairs = np.bincount(clean * num_classes + noisy, minlength=num_classes**2)
    return rows_to_one(pairs.reshape(num_classes, num_classes).astype(np.float64) + smoothing)


def trusted_transition(noisy_probs: ArrayLike, clean_labels: ArrayLike) -> FloatArray:
    """T from the noisy posterior at instances of known clean label, for which no noisy label exists.

        T[i, :] = mean of P(noisy | x) over the trusted x with clean label i   (Hendrycks et al. 2018)

    It is exact where an instance's class is certain: P(clean = i | x) = 1 for the trusted x of class i. Where
    classes overlap, a row leans towards the rows of the classes it is confused with. A mean over many
    instances is far less noisy than the single instance that an anchor point is.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) of the trusted instances.
    clean_labels : array-like of shape (n,)
        Their clean labels, integers from 0 to C - 1.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, a label is out of range, or the lengths differ.

    References
    ----------
    Hendrycks et al., "Using Trusted Data to Train Deep Networks on Labels Corrupted by Severe Noise", 2018.

    Examples
    --------
    >>> trusted_transition([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]], [0, 0, 1])
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    probs = check_probs(noisy_probs)
    clean = check_labels(clean_labels, probs.shape[1], "clean_labels")
    if len(clean) != len(probs):
        raise ValueError(
            f"noisy_probs and clean_labels must be of one length, got {len(probs)} and {len(clean)}"
        )
    totals = np.zeros((probs.shape[1], probs.shape[1]))
    np.add.at(totals, clean, probs)
    return rows_to_one(totals)


def rows_to_one(totals: FloatArray) -> FloatArray:
    """Each row divided by its sum; an empty row becomes the identity's, as if its labels were right."""
    sums = totals.sum(axis=1, keepdims=True)
    return np.where(sums > 0, totals / np.where(sums > 0, sums, 1), np.eye(len(totals)))
