"""`sce`: symmetric cross-entropy, the sum of cross-entropy and its reverse.

Wang, Ma, Chen, Luo, Yi, Bailey: Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV 2019. The
reverse term is bounded, and as tolerant of noise as the mean absolute error. Cross-entropy, with a small
weight, makes learning fast enough.

Notes
-----
- The published weights depend on the data set: see `weights_for`. log 0 is -4, which others give as the
  paper's value; the authors' released code has log 1e-4 = -9.2 instead.
- A fresh network is trained for the whole budget, as in the paper and as for `gce`.
- Epochs are selected as in every method; if by loss, by this loss on the noisy validation labels.
- T-hat is estimated from stage 1 for the record.
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

# The geometric mean of the ten classes of CIFAR-10 and the hundred of CIFAR-100.
MANY_CLASSES = 32


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    alpha, beta = weights_for(problem.data.num_classes)
    of_batch = partial(symmetric_cross_entropy, alpha=alpha, beta=beta)

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, _ = model(batch.x)
        return batch.mean(of_batch, logits, batch.noisy_labels)

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
    """alpha and beta as published for CIFAR-10 or, with many classes, for CIFAR-100.

    With many classes the reverse term alone learns too slowly. (For MNIST the paper has alpha 0.01.)
    """
    return (0.1, 1.0) if num_classes < MANY_CLASSES else (6.0, 0.1)
