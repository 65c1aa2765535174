"""`soft`: each row once for every label that it may have had, weighted by the probability of that label."""

from __future__ import annotations

import numpy as np

from trevision.noise import IntArray
from trevision.refit.correction import Correction, Evidence, Training

LEAST_PROBABILITY = 0.01
"""Copies below it are left out, and the row's others take their weight: many classes would be many copies."""


def apply(evidence: Evidence) -> Training:
    """Row x as copies (x, i) of weight

        q_i = P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j].

    A model fitted on them minimises sum_i q_i loss(x, i), the expected loss on the clean label.
    """
    q = np.where(evidence.clean_given_label < LEAST_PROBABILITY, 0, evidence.clean_given_label)
    q /= q.sum(axis=1, keepdims=True)
    rows, labels = (numbers.astype(np.int64) for numbers in np.nonzero(q))
    classes: IntArray = labels
    return Training(rows, classes, q[rows, classes])


SOFT = Correction("soft", apply, rank=0)
