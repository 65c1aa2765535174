"""Folds of rows."""

from __future__ import annotations

import numpy as np


def fold_of(labels: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """A fold for every row, 0 to folds - 1, so that each fold has about the same share of each label."""
    shuffled = rng.permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    assigned = np.empty(len(labels), dtype=np.int64)
    assigned[by_label] = np.arange(len(labels)) % folds
    return assigned
