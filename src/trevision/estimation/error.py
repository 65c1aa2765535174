"""How far an estimate of T lies from the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trevision.noise import detached, validate


def transition_error(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The relative entrywise error that the paper's Figure 3 plots.

        ||T - T-hat - Delta T||_1 / ||T||_1,    ||A||_1 = sum_ij |A[i, j]|

    Parameters
    ----------
    estimate : array-like or Tensor of shape (C, C)
        Any matrix: an unconstrained T-hat + Delta T leaves the simplex.
    truth : array-like of shape (C, C)
        The true T.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `truth` is no transition matrix, or `estimate` has another shape.

    References
    ----------
    Xia et al., "Are Anchor Points Really Indispensable in Label-Noise Learning?", 2019, Figure 3.

    Examples
    --------
    >>> transition_error([[1, 0], [0, 1]], [[0.75, 0.25], [0, 1]])
    0.25
    """
    true = validate(truth)
    given = np.asarray(detached(estimate), dtype=np.float64)
    if given.shape != true.shape:
        raise ValueError(f"estimate must have the shape of truth, got {given.shape} and {true.shape}")
    return float(np.abs(true - given).sum() / np.abs(true).sum())
