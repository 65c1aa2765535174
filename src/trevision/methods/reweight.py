"""`reweight`: importance reweighting with T-hat (Liu and Tao 2016; Eq. 3 of Xia et al. 2019)."""

from __future__ import annotations

from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.objectives import reweight_objective
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import (
    estimate_transition,
    fit_noisy_posterior,
    train_classifier,
)


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    objective = reweight_objective(live_weight=False)
    trained = train_classifier(problem, posterior, initial, objective, weighted=True)
    return conclude_guarded(problem, initial, [posterior, trained])


REWEIGHT = Method("reweight", fit, options=("prior",), family="reweight")
