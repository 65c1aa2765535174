"""`reweight-r` and `forward-r`: T-Revision (Xia et al., NeurIPS 2019, Algorithm 1).

The classifier is first trained with T-hat fixed, then together with Delta T. `reweight-r` is the paper's
method, with the risk-consistent loss of Eq. 3; `forward-r` uses the Forward loss.
"""

from __future__ import annotations

from collections.abc import Callable

from trevision.methods.guard import conclude_guarded, revise_guarded
from trevision.methods.method import Method
from trevision.methods.objectives import forward_objective, released_objective, reweight_objective
from trevision.methods.problem import EstimatedTransition, Learned, Objective, Problem
from trevision.methods.stages import (
    estimate_transition,
    fit_noisy_posterior,
    train_classifier,
)


def fit_forward(problem: Problem) -> Learned:
    return _fit(problem, forward_objective, lambda initial: forward_objective, weighted=False)


def fit_reweight(problem: Problem) -> Learned:
    problem.schedule.check()

    def revision(initial: EstimatedTransition) -> Objective:
        if problem.schedule.revision_loss == "released":
            return released_objective(problem, initial)
        return reweight_objective(problem.schedule.live_weight)

    return _fit(problem, reweight_objective(live_weight=False), revision, weighted=True)


def _fit(
    problem: Problem,
    training: Objective,
    revision: Callable[[EstimatedTransition], Objective],
    *,
    weighted: bool,
) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    trained = train_classifier(problem, posterior, initial, training, weighted=weighted)
    revised = revise_guarded(problem, trained, initial, revision(initial))
    return conclude_guarded(problem, initial, [posterior, trained, revised])


FORWARD_R = Method(
    "forward-r",
    fit_forward,
    options=("revision", "lr_revision", "lr_transition", "prior"),
    family="forward",
)
REWEIGHT_R = Method(
    "reweight-r",
    fit_reweight,
    options=("revision", "reweight_gradient", "lr_revision", "lr_transition", "revision_loss", "prior"),
    family="reweight",
)
