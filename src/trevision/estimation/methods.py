"""The estimators that `estimate` knows, by name: each finds T in passes over rows that may be weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.confident_joint import calibrated, confident_counts
from trevision.estimation.latent import MOST_CLASSES, LatentFit, fit_latent
from trevision.estimation.posterior import nearest_on_simplex
from trevision.estimation.rate import likeliest_prior
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray
from trevision.prior import Prior


@dataclass(frozen=True, eq=False)
class Solution:
    """What an estimator found: T and P(clean).

    Of one that shares rows out to cells, also the counts; of the latent-class model, also the whole fit.
    """

    transition: FloatArray
    prior: FloatArray
    counts: FloatArray | None = None
    fit: LatentFit | None = None

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """P(clean | x) for rows (n, C) of P(noisy | x): by the fitted link, or by inverting T.

        (T')^-1 P(noisy | x) or, where T cannot make P(noisy | x), the probabilities nearest to it.
        """
        if self.fit is not None:
            return self.fit.clean_posterior(noisy_probs)
        return nearest_on_simplex(noisy_probs @ np.linalg.pinv(self.transition))


@dataclass(frozen=True)
class Method:
    """An estimator of T.

    `solve` takes rows and, for the bootstrap, how often each counts (None: once). `recount`, of a method
    whose T is a function of counts alone, is that function: with it a bootstrap needs no further pass.
    `resume` does the same as `solve` in less time, from the solution for other weights.
    """

    solve: Callable[[ProbabilityRows, FloatArray | None], Solution]
    recount: Callable[[FloatArray], Solution] | None = None
    resume: Callable[[ProbabilityRows, FloatArray, Solution], Solution] | None = None
    passes: int = 1
    """About how often an estimation reads all rows."""


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


def solve_by_latent_class(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T by maximum likelihood; see `fit_latent`."""
    return _from_latent_fit(fit_latent(rows, weights))


def _resume_latent_class(rows: ProbabilityRows, weights: FloatArray, found: Solution) -> Solution:
    return _from_latent_fit(fit_latent(rows, weights, found.fit))


def _from_latent_fit(fit: LatentFit) -> Solution:
    return Solution(fit.transition, fit.counts.sum(axis=1) / fit.counts.sum(), fit.counts, fit)


def _from_latent_counts(counts: FloatArray) -> Solution:
    return Solution(rows_to_one(counts), counts.sum(axis=1) / counts.sum(), counts)


METHODS: dict[str, Method] = {
    "latent": Method(solve_by_latent_class, _from_latent_counts, _resume_latent_class, 60),
    "confident-joint": Method(solve_by_confident_joint, _from_confident_counts),
    "anchor": Method(solve_by_anchors),
}


def default_method(num_classes: int) -> str:
    """The method for somebody who names none: `latent`, where there are not too many classes for it."""
    return "latent" if num_classes <= MOST_CLASSES else "confident-joint"


def solve(rows: ProbabilityRows, knowledge: Prior | None = None) -> Solution:
    """T, P(clean) and the clean posterior by the default method, without error bars.

    T is as `knowledge` admits: fitted under it by `latent`, projected to it after another method.
    """
    method = default_method(rows.num_classes)
    if knowledge is None:
        return METHODS[method].solve(rows, None)
    if method == "latent":
        return _from_latent_fit(fit_latent(rows, knowledge=knowledge))
    found = METHODS[method].solve(rows, None)
    return replace(found, transition=knowledge.project(found.transition))
