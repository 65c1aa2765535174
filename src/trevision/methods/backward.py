"""`backward`: cross-entropy corrected by the inverse of T-hat (Patrini et al., CVPR 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from trevision.losses import BackwardLoss, Reduction
from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import estimate_transition, fit_noisy_posterior, train_classifier


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    # T-hat stays fixed, so it is inverted once and not in every step.
    loss = BackwardLoss(torch.tensor(initial.matrix, dtype=torch.float32)).to(problem.runtime.fabric.device)

    def objective(
        logits: Tensor, noisy_labels: Tensor, matrix: Tensor, *, reduction: Reduction = "mean"
    ) -> Tensor:
        corrected: Tensor = loss(logits, noisy_labels, reduction=reduction)
        return corrected

    trained = train_classifier(problem, posterior, initial, objective, weighted=True)
    return conclude_guarded(problem, initial, [posterior, trained])


BACKWARD = Method("backward", fit, options=("prior",))
