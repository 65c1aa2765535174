"""The estimators that `estimate` knows, by name: each finds T in passes over rows that may be weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.confident_joint import calibrated, confident_counts
from trevision.estimation.rate import likeliest_prior
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray


@dataclass(frozen=True, eq=False)
class Solution:
    """What an estimator found: T and P(clean); of one that assigns each row to a cell, also the counts."""

    transition: FloatArray
    prior: FloatArray
    counts: FloatArray | None = None


@dataclass(frozen=True)
class Method:
    """An estimator of T.

    `solve` takes rows and, for the bootstrap, how often each counts (None: once). `recount`, of a method
    whose T is a function of counts alone, is that function: with it a bootstrap needs no further pass.
    """

    solve: Callable[[ProbabilityRows, FloatArray | None], Solution]
    recount: Callable[[FloatArray], Solution] | None = None


def solve_by_anchors(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """Row i of T is the noisy posterior at the row that is surest of class i (Xia et al. 2019, Eq. 1).

    The same as `anchor_transition`, in one pass. Rows of weight 0 are left out.
    """
    size = rows.num_classes
    surest, transition = np.full(size, -1.0), np.eye(size)
    for probs, _, where in rows.chunks():
        kept = probs if weights is None else probs[weights[where] > 0]
        if not len(kept):
            continue
        best = kept.argmax(axis=0)
        values = kept[best, np.arange(size)]
        better = values > surest
        surest[better] = values[better]
        transition[better] = kept[best[better]]
    counts = rows.label_counts(weights)
    transition = rows_to_one(transition)
    return Solution(transition, likeliest_prior(transition, counts / counts.sum()))


def solve_by_confident_joint(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T from the confident joint; see `confident_joint`."""
    return _from_confident_counts(confident_counts(rows, weights))


def _from_confident_counts(counts: FloatArray) -> Solution:
    joint = calibrated(counts)
    return Solution(rows_to_one(joint), joint.sum(axis=1) / joint.sum(), counts)


METHODS: dict[str, Method] = {
    "confident-joint": Method(solve_by_confident_joint, _from_confident_counts),
    "anchor": Method(solve_by_anchors),
}
DEFAULT_METHOD = "confident-joint"
