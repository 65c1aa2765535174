"""`standard`: plain cross-entropy on the given labels.

The baseline of every comparison: network, phases and selection are those of `reweight-r`, without a
transition matrix. T-hat is estimated from stage 1 for the record.
"""

from __future__ import annotations

from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import conclude, continue_plainly, estimate_transition, fit_noisy_posterior


def fit(problem: Problem) -> Learned:
    schedule = problem.schedule
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    trained = continue_plainly(problem, posterior, "classifier", schedule.classifier)
    tuned = continue_plainly(problem, trained, "fine-tuning", schedule.revision, record_start=True)
    return conclude(problem, initial, [posterior, trained, tuned])


STANDARD = Method("standard", fit, options=("lr_revision",))
