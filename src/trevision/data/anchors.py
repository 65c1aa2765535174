"""Removing probable anchor points, to see how a method does without them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from trevision.data.dataset import DataError


def check_share(share: float) -> None:
    """Raise a ValueError for a share of each class that cannot be removed."""
    if not 0 <= share < 1:
        raise ValueError(
            f"remove_anchors must lie in [0, 1), got {share}; a percentage such as 40 is written 0.40"
        )


def drop_highest(posterior: Tensor | np.ndarray, labels: Tensor | np.ndarray, share: float) -> np.ndarray:
    """Ascending numbers of the rows that stay when each class loses its most typical ones.

    Of the n_i rows with clean label i, the round(share * n_i) with the highest `posterior[:, i]`, the
    estimated P(Y = i | x), are dropped (Section 4 of Xia et al. 2019, "N/A"); one row of a class always
    stays. Only the order counts, so log-odds serve as well as probabilities. Of equals the first row goes.
    """
    check_share(share)
    scores, codes = np.asarray(posterior), np.asarray(labels)
    if scores.ndim != 2 or codes.shape != scores.shape[:1]:
        raise DataError(
            f"posterior must be (n, classes) and labels (n,), got shapes {scores.shape} and {codes.shape}"
        )
    keep = np.ones(len(codes), dtype=bool)
    for label in np.unique(codes):
        rows = np.flatnonzero(codes == label)
        count = min(round(share * len(rows)), len(rows) - 1)
        keep[rows[np.argsort(-scores[rows, label], kind="stable")[:count]]] = False
    return np.flatnonzero(keep)
