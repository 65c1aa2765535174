"""`prune`: the labels that are probably wrong are left out."""

from __future__ import annotations

import numpy as np

from trevision.refit.correction import Correction, Evidence, Training

LEAST_DIAGONAL = 0.1
"""Bounds the weight of a class whose labels are hardly ever right."""


def apply(evidence: Evidence) -> Training:
    """Rows whose label is probably right, each with the label j given and the weight 1 / T[j, j].

    Of the rows given label j, as many as sum P(clean = j | x, given = j) are kept, the most probable ones.
    Of a class's clean rows only T[j, j] have its label: the weight restores its share (Northcutt et al.
    2021).
    """
    kept = np.zeros(len(evidence.labels), dtype=bool)
    for label in np.unique(evidence.labels):
        own = np.flatnonzero(evidence.labels == label)
        right = evidence.right[own]
        # At least one row stays, so that no class is lost.
        count = max(1, round(float(right.sum())))
        kept[own[np.argsort(-right, kind="stable")[:count]]] = True
    rows = np.flatnonzero(kept)
    labels = evidence.labels[rows]
    return Training(rows, labels, 1 / np.maximum(evidence.transition.diagonal()[labels], LEAST_DIAGONAL))


PRUNE = Correction("prune", apply, rank=2)
