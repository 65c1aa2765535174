"""What a correction is: a rule that makes rows to fit a model on, from noisy labels and what T says of them.

A file of `corrections` declares one by a module-level `Correction`, which `registry` finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trevision.estimation import clean_given_label
from trevision.noise import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the rows before they are corrected.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The labels given, codes from 0 to C - 1.
    clean_posterior : ndarray of shape (n, C)
        g(x), by models that were not fitted on the row.
    transition : ndarray of shape (C, C)
        T.
    noisy_probs : ndarray of shape (n, C)
        P(noisy | x), by the same models.
    weights : ndarray of shape (n,) or None
        How often each row counts; None if once.

    Examples
    --------
    >>> transition = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> unsure = np.array([[0.5, 0.5]])
    >>> Evidence(np.array([1]), unsure, transition, unsure).clean_given_label
    array([[0.25, 0.75]])
    """

    labels: IntArray
    clean_posterior: FloatArray
    transition: FloatArray
    noisy_probs: FloatArray
    weights: FloatArray | None = None

    @property
    def row_weights(self) -> FloatArray:
        """How often each row counts, (n,)."""
        return np.ones(len(self.labels)) if self.weights is None else self.weights

    @cached_property
    def clean_given_label(self) -> FloatArray:
        """P(clean = i | x, given), (n, C)."""
        return clean_given_label(self.clean_posterior, self.transition, self.labels)

    @cached_property
    def right(self) -> FloatArray:
        """P(clean = given | x, given), (n,)."""
        own: FloatArray = self.clean_given_label[np.arange(len(self.labels)), self.labels]
        return own


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to fit a model on: the number of each, its label and its weight. A row may come more than once."""

    rows: IntArray
    labels: IntArray
    weights: FloatArray

    def among(self, chosen: NDArray[np.bool_]) -> Training:
        """Only what comes from rows that are `chosen`, a mask over all rows."""
        kept = chosen[self.rows]
        return Training(self.rows[kept], self.labels[kept], self.weights[kept])

    def times(self, sample_weight: FloatArray | None) -> Training:
        """Each entry weighted by its row's own weight; entries without weight go."""
        weights = self.weights if sample_weight is None else self.weights * sample_weight[self.rows]
        kept = weights > 0
        return Training(self.rows[kept], self.labels[kept], weights[kept])


LEAST_COPY = 0.01
"""Copies of less weight are left out, and the row's others take theirs: many classes would be many copies."""


def weighted_copies(clean_probs: FloatArray) -> Training:
    """Each row once for every label that it may have, weighted by the probability of that label.

    >>> weighted_copies(np.array([[0.25, 0.75], [0.0, 1.0]]))
    Training(rows=array([0, 0, 1]), labels=array([0, 1, 1]), weights=array([0.25, 0.75, 1.  ]))
    """
    q = np.where(clean_probs < LEAST_COPY, 0, clean_probs)
    q /= q.sum(axis=1, keepdims=True)
    rows, labels = (numbers.astype(np.int64) for numbers in np.nonzero(q))
    return Training(rows, labels, q[rows, labels])


@dataclass(frozen=True)
class Correction:
    """A way to fit a model on noisy labels of which T is known.

    Attributes
    ----------
    name : str
        The name by which a user chooses it.
    apply : callable
        Makes the `Training` of an `Evidence`.
    rank : int
        Its place in lists, lowest first.
    uses_transition : bool
        Whether a model fitted so predicts the clean label. False: it predicts the noisy one.
    estimator : str or None
        The estimator of T that it goes with; None if any will do.

    Examples
    --------
    >>> def trust(evidence):
    ...     rows = np.arange(len(evidence.labels))
    ...     return Training(rows, evidence.labels, np.ones(len(rows)))
    >>> Correction("trust", trust, uses_transition=False).name
    'trust'
    """

    name: str
    apply: Callable[[Evidence], Training]
    rank: int = 100
    uses_transition: bool = True
    estimator: str | None = None
