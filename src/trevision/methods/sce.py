"""`sce`: symmetric cross-entropy, which adds to cross-entropy its reverse.

Wang, Ma, Chen, Luo, Yi, Bailey: Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV 2019. The
reverse term is bounded, and as tolerant of noise as the mean absolute error; cross-entropy, with a small
weight, makes sure that something is learnt.

Notes
-----
- The weights are published by data set: see `weights_for`. log 0 is -4, which others give as the
  paper's value; the authors' released code has log 1e-4 = -9.2 in its place.
- A fresh network is trained through the whole budget, as in the paper and as for `gce`.
- An epoch is selected as in every method; where that is by loss, by this one on the noisy validation labels.
- T-hat is read off stage 1 for the record.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from trevision.losses import symmetric_cross_entropy, symmetric_of_log_prob
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import train_from_scratch, whole_phase
from trevision.methods.stages import conclude, estimate_transition, fit_noisy_posterior, train_steadily
from trevision.training.loop import Batch, StageResult
from trevision.training.phase import Phase

# Halfway, in ratios, between the ten classes of CIFAR-10 and the hundred of CIFAR-100.
MANY_CLASSES = 32


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    alpha, beta = weights_for(problem.data.num_classes)

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, _ = model(batch.x)
        return symmetric_cross_entropy(logits, batch.noisy_labels, alpha=alpha, beta=beta)

    loss = partial(symmetric_of_log_prob, alpha=alpha, beta=beta)
    evaluation = problem.evaluation(loss=loss)

    def train(name: str, phase: Phase) -> StageResult:
        return train_from_scratch(
            problem, name, problem.make_network(), step, evaluation=evaluation, phase=phase
        )

    trained = train_steadily(problem, "sce", whole_phase(problem), train)
    return conclude(problem, initial, [posterior, trained])


SCE = Method("sce", fit)


def weights_for(num_classes: int) -> tuple[float, float]:
    """alpha and beta as published for CIFAR-10 or, for many classes, those for CIFAR-100.

    With many classes the reverse term alone learns too slowly. (For MNIST the paper has alpha 0.01.)
    """
    return (0.1, 1.0) if num_classes < MANY_CLASSES else (6.0, 0.1)
