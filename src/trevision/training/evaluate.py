"""The measurements after every epoch, and which of them selects the model."""

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
"""From a model and its T, which may be None, to numbers by name."""


@torch.no_grad()
def class_probs(model: nn.Module, x: Rows, batch_size: int = PREDICTION_BATCH) -> Tensor:
    """The clean posterior g(x) for every row of `x`, (n, C), in float32 on the CPU."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    # One array for all: small results between large batches would cut the memory of these into pieces.
    probs = torch.empty(0)
    done = 0
    for part in batches_of(x, batch_size):
        some = torch.softmax(model(part.to(device))[0].float(), dim=1)
        if done == 0:
            probs = torch.empty(len(x), some.shape[1])
        probs[done : done + len(some)] = some
        done += len(some)
    model.train(was_training)
    return probs


def measure_nothing(model: nn.Module, transition: Tensor | None) -> dict[str, Any]:
    """The measure when the truth is not known: no numbers."""
    return {}


def measure_against(truth: Truth) -> Measure:
    """A measure of test accuracy and of the error of T, if `truth` knows clean test labels and T.

    A method is given this function, so it never sees the truth itself.
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
    """Measures a model on the noisy validation set and, if there is one, on a trusted set.

    Rows count by their weights. If P(clean) of the validation rows is known from several annotators, error
    and loss are expected ones by it.

    Attributes
    ----------
    data : NoisyData
        Validation rows with noisy labels, and perhaps trusted rows with clean ones.
    criterion : {"error", "loss", "last"}
        What of the noisy posterior, on noisy validation labels, selects an epoch. The error is that of
        Algorithm 1. The loss varies less from epoch to epoch, which helps if few validation labels are right,
        but misleads if T is wrong. "last" takes the last epoch.
    also : Measure
        Extra numbers to record. They never select an epoch.
    trusting : bool
        Whether the error on trusted labels, if there are any, selects instead. It should not if P(noisy | x)
        is learnt: the epoch that predicts clean labels best has often not learnt the noise yet.
    loss : callable
        The loss of a row from the log-probability of its given label: cross-entropy, or a method's own.
    """

    data: NoisyData
    criterion: Criterion = "error"
    also: Measure = measure_nothing
    trusting: bool = True
    loss: Callable[[Tensor], Tensor] = torch.neg

    @property
    def select_by(self) -> str | None:
        """The metric whose minimum selects an epoch; None takes the last epoch."""
        if self.trusting and self.data.trusted_x is not None and self.data.train_known is None:
            return "trusted_error"
        return None if self.criterion == "last" else f"noisy_validation_{self.criterion}"

    def measure(self, model: nn.Module, transition: Tensor | None) -> dict[str, Any]:
        """The metrics of one epoch: T'g against noisy labels, g against clean labels."""
        data = self.data
        clean = class_probs(model, data.valid_x)
        matrix = None if transition is None else _on_cpu(transition)
        noisy = clean if matrix is None else clean @ matrix
        if data.valid_targets is None:
            given = noisy.gather(1, data.valid_y.cpu()[:, None]).clamp(min=1e-12)
            losses = self.loss(given.log()).squeeze(1)
            error = _error(noisy, data.valid_y, data.valid_weights)
        else:
            losses = (data.valid_targets * self.loss(noisy.clamp(min=1e-12).log())).sum(dim=1)
            right = data.valid_targets.gather(1, noisy.argmax(dim=1, keepdim=True)).squeeze(1)
            error = _mean(1 - right, data.valid_weights)
        metrics: dict[str, Any] = {
            "noisy_validation_error": error,
            "noisy_validation_loss": _mean(losses, data.valid_weights),
        }
        if data.trusted_x is not None and data.trusted_y is not None:
            metrics["trusted_error"] = _error(class_probs(model, data.trusted_x), data.trusted_y)
        if matrix is not None:
            sums = matrix.sum(dim=1)
            metrics["transition_row_sums"] = [float(sums.min()), float(sums.max())]
        return metrics | self.also(model, matrix)


def _on_cpu(transition: Tensor) -> Tensor:
    return transition.detach().float().cpu()


def _mean(values: Tensor, weights: Tensor | None) -> float:
    """The mean over rows, each counted by its weight."""
    return float(values.mean() if weights is None else (values * weights).sum() / weights.sum())


def _error(probs: Tensor, labels: Tensor, weights: Tensor | None = None) -> float:
    wrong = probs.argmax(dim=1) != labels.cpu()
    return wrong.sum().item() / len(labels) if weights is None else _mean(wrong.float(), weights)
