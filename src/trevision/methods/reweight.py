"""`reweight`: importance reweighting with T-hat (Liu and Tao 2016; Eq. 3 of Xia et al. 2019)."""

from __future__ import annotations

from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import (
    conclude,
    estimate_transition,
    fit_noisy_posterior,
    reweight_objective,
    train_classifier,
)


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    objective = reweight_objective(live_weight=False)
    trained = train_classifier(problem, posterior, initial, objective, weighted=True)
    return conclude(problem, initial, [posterior, trained])


REWEIGHT = Method("reweight", fit, options=("prior",), family="reweight")
