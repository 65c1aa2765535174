"""What is measured after every epoch, and what of it may choose the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trevision.data.noisy import NoisyData, Truth
from trevision.data.rows import Rows, batches_of
from trevision.estimation import transition_error
from trevision.training.phase import Criterion

PREDICTION_BATCH = 1000

Measure = Callable[[nn.Module, "Tensor | None"], dict[str, Any]]
"""Measures a model and its T, which may be None."""


@torch.no_grad()
def class_probs(model: nn.Module, x: Rows, batch_size: int = PREDICTION_BATCH) -> Tensor:
    """The clean posterior g(x) for every row of `x`, (n, C), in float32 on the CPU."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    parts = [
        torch.softmax(model(part.to(device))[0].float(), dim=1).cpu() for part in batches_of(x, batch_size)
    ]
    model.train(was_training)
    return torch.cat(parts)


def measure_nothing(model: nn.Module, transition: Tensor | None) -> dict[str, Any]:
    """The measure of those who do not know the truth."""
    return {}


def measure_against(truth: Truth) -> Measure:
    """A measure of accuracy on clean test rows and of the error of T, as far as `truth` knows them.

    A method may be handed the measure: the truth itself is out of its reach.
    """

    def measure(model: nn.Module, transition: Tensor | None) -> dict[str, Any]:
        metrics: dict[str, Any] = {}
        if truth.test_x is not None and truth.test_y is not None:
            metrics["test_accuracy"] = 1 - _error(class_probs(model, truth.test_x), truth.test_y)
        if transition is not None and truth.transition is not None:
            metrics["transition_error"] = transition_error(_on_cpu(transition).numpy(), truth.transition)
        return metrics

    return measure


@dataclass(frozen=True)
class Evaluation:
    """Measures a model on the noisy validation set and, where there is one, on a trusted set.

    An epoch is selected by the `criterion`, error or loss, of the noisy posterior on the noisy validation
    labels or, where the user has clean labels to give, by the error on those. The error is what Algorithm 1
    of the paper says. The loss varies less from epoch to epoch, which counts where noise leaves few
    validation labels right, but leads astray where T is wrong. The criterion "last" takes the last epoch.
    """

    data: NoisyData
    criterion: Criterion = "error"
    also: Measure = measure_nothing
    """What else is recorded of every epoch. It never selects one."""
    trusting: bool = True
    """Whether trusted labels, where there are any, select. They should not where it is P(noisy | x) that is
    learnt: the epoch that is best at clean labels has often not learnt the noise yet."""
    loss: Callable[[Tensor], Tensor] = torch.neg
    """The loss of a row, from the log-probability of its given label: cross-entropy, or what a method trains
    with instead."""

    @property
    def select_by(self) -> str | None:
        """The metric of which the least selects an epoch; None where the last one is taken."""
        if self.trusting and self.data.trusted_x is not None:
            return "trusted_error"
        return None if self.criterion == "last" else f"noisy_validation_{self.criterion}"

    def measure(self, model: nn.Module, transition: Tensor | None) -> dict[str, Any]:
        """The metrics of one epoch: the noisy posterior T'g against noisy labels, g against clean ones."""
        data = self.data
        clean = class_probs(model, data.valid_x)
        matrix = None if transition is None else _on_cpu(transition)
        noisy = clean if matrix is None else clean @ matrix
        given = noisy.gather(1, data.valid_y.cpu()[:, None]).clamp(min=1e-12)
        metrics: dict[str, Any] = {
            "noisy_validation_error": _error(noisy, data.valid_y),
            "noisy_validation_loss": float(self.loss(given.log()).mean()),
        }
        if data.trusted_x is not None and data.trusted_y is not None:
            metrics["trusted_error"] = _error(class_probs(model, data.trusted_x), data.trusted_y)
        if matrix is not None:
            sums = matrix.sum(dim=1)
            metrics["transition_row_sums"] = [float(sums.min()), float(sums.max())]
        return metrics | self.also(model, matrix)


def _on_cpu(transition: Tensor) -> Tensor:
    return transition.detach().float().cpu()


def _error(probs: Tensor, labels: Tensor) -> float:
    wrong = (probs.argmax(dim=1) != labels.cpu()).sum().item()
    return wrong / len(labels)
