"""The corrected losses of the stages, as functions of logits, noisy labels and T."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from trevision import losses
from trevision.methods.problem import EstimatedTransition, Objective, Problem


def forward_objective(
    logits: Tensor, noisy_labels: Tensor, matrix: Tensor, *, reduction: losses.Reduction = "mean"
) -> Tensor:
    """The Forward loss, for either stage."""
    return losses.forward_nll(logits, noisy_labels, matrix, reduction=reduction)


def reweight_objective(live_weight: bool) -> Objective:
    """The Reweight loss, with the weight live or detached."""
    return partial(losses.reweight_nll, live_weight=live_weight)


def released_objective(problem: Problem, initial: EstimatedTransition) -> Objective:
    """The loss of the authors' released revision; its n is the number of a batch's rows on one device."""
    # Delta T is computed from the T that `forward` returned, so that processes average its gradient.
    known = torch.tensor(initial.matrix, dtype=torch.float32).to(problem.runtime.fabric.device)

    def objective(
        logits: Tensor, noisy_labels: Tensor, matrix: Tensor, *, reduction: losses.Reduction = "mean"
    ) -> Tensor:
        delta = matrix - known
        return losses.released_revision_nll(logits, noisy_labels, known, delta, reduction=reduction)

    return objective
