"""`forward-gce` and `forward-sce`: robust losses of the noisy labels, predicted through T-hat.

The losses of `gce` (Zhang and Sabuncu, NeurIPS 2018) and `sce` (Wang et al., ICCV 2019), of T'g in place of
g. T explains mistakes that depend on the class. Labels that it does not explain move a robust loss less than
they move `forward`.

Notes
-----
- Neither paper has a T. Training continues from stage 1 with T-hat fixed, as in `forward`; the constants are
  those of `gce` and `sce`, and the rate is the schedule's `gentle_rate`, as in `gce`.
- The losses are not proper, so unlike `forward` these methods are not consistent, even with the true T.
- If epochs are selected by loss, it is by the method's own on the noisy validation labels, as in `gce`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor

from trevision import losses
from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Objective, Problem
from trevision.methods.sce import weights_for
from trevision.methods.stages import (
    continue_through,
    corrected_step,
    estimate_transition,
    fit_noisy_posterior,
)


def fit_generalised(problem: Problem) -> Learned:
    return _fit(problem, losses.forward_generalised_cross_entropy, losses.generalised_of_log_prob)


def fit_symmetric(problem: Problem) -> Learned:
    alpha, beta = weights_for(problem.data.num_classes)
    objective = partial(losses.forward_symmetric_cross_entropy, alpha=alpha, beta=beta)
    return _fit(problem, objective, partial(losses.symmetric_of_log_prob, alpha=alpha, beta=beta))


def _fit(problem: Problem, objective: Objective, of_log_prob: Callable[[Tensor], Tensor]) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    phase = replace(problem.schedule.classifier, lr=problem.schedule.gentle_rate)
    evaluation = problem.evaluation(loss=of_log_prob)
    step = corrected_step(objective)
    trained = continue_through(problem, posterior, initial, step, phase, evaluation=evaluation)
    return conclude_guarded(problem, initial, [posterior, trained])


FORWARD_GCE = Method("forward-gce", fit_generalised, options=("prior",))
FORWARD_SCE = Method("forward-sce", fit_symmetric, options=("prior",))
