"""`forward`: cross-entropy through T-hat (Patrini et al., CVPR 2017)."""

from __future__ import annotations

from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import (
    conclude,
    estimate_transition,
    fit_noisy_posterior,
    forward_objective,
    train_classifier,
)


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    trained = train_classifier(problem, posterior, initial, forward_objective, weighted=False)
    return conclude(problem, initial, [posterior, trained])


FORWARD = Method("forward", fit, options=("prior",), family="forward")
