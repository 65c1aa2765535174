"""`gce`: generalised cross-entropy, between cross-entropy and the mean absolute error.

Zhang and Sabuncu: Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels,
NeurIPS 2018. Labels that the network finds improbable count less than in cross-entropy: the gradient is the
cross-entropy gradient times g_y^q.

Notes
-----
- q is 0.7, as published. The loss is not truncated: the paper's other variant leaves out samples whose g_y is
  below a threshold, by a second optimisation between epochs.
- A fresh network is trained for the whole budget, as in the paper. The network of stage 1 has already learnt
  some wrong labels, and this loss corrects confident mistakes least.
- The rate is the schedule's `gentle_rate`. At 0.1 the network learns and then collapses to a constant
  prediction, where this loss has almost no gradient.
- Epochs are selected as in every method; if by loss, by this loss on the noisy validation labels.
  Cross-entropy would punish the confidence that this loss encourages.
- T-hat is estimated from stage 1 for the record.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from trevision.losses import generalised_cross_entropy, generalised_of_log_prob
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import train_from_scratch, whole_phase
from trevision.methods.stages import conclude, estimate_transition, fit_noisy_posterior, train_steadily
from trevision.training.loop import Batch, StageResult
from trevision.training.phase import Phase


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    evaluation = problem.evaluation(loss=generalised_of_log_prob)

    def train(name: str, phase: Phase) -> StageResult:
        return train_from_scratch(
            problem, name, problem.make_network(), _step, evaluation=evaluation, phase=phase
        )

    phase = replace(whole_phase(problem), lr=problem.schedule.gentle_rate)
    trained = train_steadily(problem, "gce", phase, train)
    return conclude(problem, initial, [posterior, trained])


GCE = Method("gce", fit)


def _step(model: nn.Module, batch: Batch) -> Tensor:
    logits, _ = model(batch.x)
    return batch.mean(generalised_cross_entropy, logits, batch.noisy_labels)
