"""The estimators that `estimate` knows, by name: each finds T in passes over rows that may be weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trevision.estimation import hoc, latent
from trevision.estimation.anchors import anchors_at, usual_percentile
from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.confident_joint import calibrated, confident_counts
from trevision.estimation.counted import prediction_counts
from trevision.estimation.dual_t import dual_transition
from trevision.estimation.hoc import Consensus, fit_hoc
from trevision.estimation.latent import LatentFit, fit_latent
from trevision.estimation.pooling import pooled_transition
from trevision.estimation.posterior import invert
from trevision.estimation.rate import likeliest_prior
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray
from trevision.prior import Prior


@dataclass(frozen=True, eq=False)
class Solution:
    """What an estimator found: T and P(clean).

    Of one that shares rows out to cells, also the counts; of the latent-class model, also the whole fit; of
    one that pools classes, also T without that; of HOC, also its triples of rows.
    """

    transition: FloatArray
    prior: FloatArray
    counts: FloatArray | None = None
    fit: LatentFit | None = None
    unpooled: FloatArray | None = None
    consensus: Consensus | None = None

    @property
    def class_by_class(self) -> FloatArray:
        """T with every row from its own class alone."""
        return self.transition if self.unpooled is None else self.unpooled

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """P(clean | x) for rows (n, C) of P(noisy | x): by the fitted link, or by inverting T."""
        if self.fit is not None:
            return self.fit.clean_posterior(noisy_probs)
        return invert(noisy_probs, self.transition)


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
    most_classes: int | None = None
    """The number of classes beyond which it is refused."""


def solve_by_anchors(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """Row i of T is the noisy posterior at a row that is sure of class i (Xia et al. 2019, Eq. 1).

    The same as `anchor_transition` at the usual percentile, in one pass.
    """
    return anchor_solution(rows, weights, usual_percentile(rows.num_classes))


def anchor_solution(
    rows: ProbabilityRows, weights: FloatArray | None = None, percentile: float | None = None
) -> Solution:
    """The same with anchor points at `percentile`, or at the maximum."""
    points = anchors_at(rows, percentile, weights)
    transition = rows_to_one(rows.at(points).astype(np.float64))
    counts = rows.label_counts(weights)
    return Solution(transition, likeliest_prior(transition, counts / counts.sum()))


def solve_by_confident_joint(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T from the confident joint; see `confident_joint`."""
    return _from_confident_counts(confident_counts(rows, weights))


def _from_confident_counts(counts: FloatArray) -> Solution:
    joint = calibrated(counts)
    return Solution(rows_to_one(joint), joint.sum(axis=1) / joint.sum(), counts)


def solve_by_latent_class(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T by maximum likelihood, see `fit_latent`, and its classes pooled, see `pooled_transition`."""
    return _from_latent_fit(fit_latent(rows, weights))


def _resume_latent_class(rows: ProbabilityRows, weights: FloatArray, found: Solution) -> Solution:
    return _from_latent_fit(fit_latent(rows, weights, found.fit))


def _from_latent_fit(fit: LatentFit) -> Solution:
    return replace(_from_latent_counts(fit.counts), fit=fit)


def _from_latent_counts(counts: FloatArray) -> Solution:
    return replace(
        _from_joint_counts(counts), transition=pooled_transition(counts), unpooled=rows_to_one(counts)
    )


def _alone(found: Solution) -> Solution:
    """The same with every class by itself."""
    return replace(found, transition=found.class_by_class, unpooled=None)


def solve_by_latent_class_alone(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T by maximum likelihood, no class learning from another."""
    return _alone(solve_by_latent_class(rows, weights))


def _from_joint_counts(counts: FloatArray) -> Solution:
    """T from counts [clean, given]."""
    return Solution(rows_to_one(counts), counts.sum(axis=1) / counts.sum(), counts)


def solve_by_dual_t(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T as a product over the predicted class, with anchor points at the usual percentile; see `dual_t`."""
    return dual_t_solution(rows, weights, usual_percentile(rows.num_classes))


def dual_t_solution(
    rows: ProbabilityRows, weights: FloatArray | None = None, percentile: float | None = None
) -> Solution:
    """The same with anchor points at `percentile`, or at the maximum."""
    transition = dual_transition(rows, weights, percentile)
    counts = rows.label_counts(weights)
    return Solution(transition, likeliest_prior(transition, counts / counts.sum()))


def solve_by_consensus(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T from the labels of rows and their nearest neighbours; see `fit_hoc`."""
    return _from_consensus(fit_hoc(rows, weights))


def _resume_consensus(rows: ProbabilityRows, weights: FloatArray, found: Solution) -> Solution:
    return _from_consensus(fit_hoc(rows, weights, found.consensus))


def _from_consensus(found: Consensus) -> Solution:
    return Solution(found.transition, found.prior, consensus=found)


def solve_by_counting(rows: ProbabilityRows, weights: FloatArray | None = None) -> Solution:
    """T as if every prediction were right; see `prediction_counts`."""
    return _from_joint_counts(prediction_counts(rows, weights))


METHODS: dict[str, Method] = {
    "latent": Method(
        solve_by_latent_class, _from_latent_counts, _resume_latent_class, 200, latent.MOST_CLASSES
    ),
    "latent-unpooled": Method(
        solve_by_latent_class_alone,
        lambda counts: _alone(_from_latent_counts(counts)),
        lambda rows, weights, found: _alone(_resume_latent_class(rows, weights, found)),
        200,
        latent.MOST_CLASSES,
    ),
    "confident-joint": Method(solve_by_confident_joint, _from_confident_counts),
    "anchor": Method(solve_by_anchors),
    "dual-t": Method(solve_by_dual_t, passes=2),
    "hoc": Method(solve_by_consensus, resume=_resume_consensus, most_classes=hoc.MOST_CLASSES),
    "counted": Method(solve_by_counting, _from_joint_counts),
}


def default_method(num_classes: int) -> str:
    """The method for somebody who names none: `latent`, where there are not too many classes for it."""
    return "latent" if num_classes <= latent.MOST_CLASSES else "confident-joint"


def solve_knowing(method: str, rows: ProbabilityRows, knowledge: Prior) -> Solution:
    """T as `knowledge` admits it: fitted under it by `latent`, projected to it after any method."""
    if method.startswith("latent"):
        found = _from_latent_fit(fit_latent(rows, knowledge=knowledge))
        found = found if method == "latent" else _alone(found)
    else:
        found = METHODS[method].solve(rows, None)
    return replace(found, transition=knowledge.project(found.transition))
