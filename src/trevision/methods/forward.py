"""`forward`: cross-entropy through T-hat (Patrini et al., CVPR 2017)."""

from __future__ import annotations

from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.objectives import forward_objective
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import (
    estimate_transition,
    fit_noisy_posterior,
    train_classifier,
)


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    trained = train_classifier(problem, posterior, initial, forward_objective, weighted=False)
    return conclude_guarded(problem, initial, [posterior, trained])


FORWARD = Method("forward", fit, options=("prior",), family="forward")
