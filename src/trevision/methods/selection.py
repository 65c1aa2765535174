"""Shared parts of the methods that train fresh networks, some of them on chosen samples.

These methods train for as many epochs as `reweight` in its two stages together. Methods that choose samples
also run stage 1: its T-hat is recorded and, unless the user gave a noise rate, gives the share of wrong
labels. With several processes, samples are chosen over the whole batch, as a single process would.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision import losses
from trevision.estimation import noise_rate, solve_class_prior
from trevision.methods.problem import EstimatedTransition, Learned, Problem
from trevision.methods.stages import TransitionWarning, conclude, run_problem_stage
from trevision.training.evaluate import Evaluation
from trevision.training.loop import StageResult, Step
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.transition import TransitionModule

RAMP_EPOCHS = 10
"""T_k of Han et al. 2018: epochs in which the kept share falls to 1 - rate."""


class Pair(nn.Module):
    """Two networks of one architecture from different initial weights.

    In training, their logits are stacked: (2, n, C). In evaluation only the first network is used, (n, C), so
    that an ordinary network is selected, reported and saved.
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        if all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)):
            raise ValueError(
                "network must start from other weights when it is made a second time, for a method that "
                "trains two; pass a function that draws them at random instead of a module"
            )
        self.first = first
        self.second = second

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            alone: Tensor = self.first(x)
            return alone
        return torch.stack([self.first(x), self.second(x)])


@dataclass(frozen=True)
class Rate:
    """The share of wrong labels to assume, and doubts about it."""

    value: float
    warnings: list[str] = field(default_factory=list)


def rate_to_go_by(problem: Problem, initial: EstimatedTransition) -> Rate:
    """The user's noise rate, or one computed from T-hat and the noisy labels. No clean labels are used."""
    if problem.options.noise_rate is not None:
        return Rate(problem.options.noise_rate)
    labels = torch.cat([problem.data.train_y.cpu(), problem.data.valid_y.cpu()]).numpy()
    counts = np.bincount(labels, problem.data.weights, minlength=problem.data.num_classes)
    shares = counts / counts.sum()
    class_prior = solve_class_prior(initial.matrix, shares)
    if class_prior is not None:
        return Rate(noise_rate(initial.matrix, class_prior))
    message = (
        "the noise rate is a mean over classes, because the estimated T does not explain how often each "
        "noisy label occurs; give noise_rate if it is known"
    )
    warnings.warn(message, TransitionWarning, stacklevel=3)
    return Rate(noise_rate(initial.matrix), [message])


def train_from_scratch(
    problem: Problem,
    name: str,
    network: nn.Module,
    step: Step,
    *,
    evaluation: Evaluation | None = None,
    transition: TransitionModule | None = None,
    phase: Phase | None = None,
) -> StageResult:
    """Train `network`, and `transition` with it, for the whole budget.

    `phase` is the classifier's over the whole budget, unless another is given.
    """
    model = NoisyLabelModel(problem.standardise, network, transition)
    return run_problem_stage(problem, name, model, step, phase or whole_phase(problem), evaluation=evaluation)


def whole_phase(problem: Problem) -> Phase:
    """The classifier's phase, stretched over the epochs of stage 1 and its own."""
    return replace(problem.schedule.classifier, epochs=problem.schedule.whole_epochs)


def conclude_with(
    problem: Problem,
    initial: EstimatedTransition,
    results: list[StageResult],
    rate: Rate | None = None,
    part: str = "",
) -> Learned:
    """Combine the results of all stages. The model is the last stage's network, or its submodule `part`."""
    *before, last = results
    state = NoisyLabelModel.state_of_part(last.state, part)
    learned = conclude(problem, initial, [*before, replace(last, state=state)])
    if rate is None:
        return learned
    return replace(learned, noise_rate=rate.value, warnings=[*rate.warnings, *learned.warnings])


def conclude_learnt(problem: Problem, trained: StageResult, transition: TransitionModule) -> Learned:
    """Combine the results where `transition` was trained with the network. The model holds the learnt T.

    The initial T is the start of `transition`.
    """
    transition.load_state_dict(NoisyLabelModel.transition_state(trained.state))
    matrix = transition.matrix.detach().cpu()
    state = NoisyLabelModel.state_with_transition(trained.state, matrix)
    initial = EstimatedTransition(transition.initial.double().cpu().numpy())
    return conclude(problem, initial, [replace(trained, state=state)])


def kept_share(rate: float, epoch: int, ramp: int = RAMP_EPOCHS) -> float:
    """The share of a batch that is kept after `epoch` whole epochs.

    R(t) = 1 - rate * min(t / T_k, 1)                             (Han et al. 2018, Algorithm 1)
    """
    return 1 - rate * min(epoch / ramp, 1)


def ramp_epochs(epochs: int) -> int:
    """T_k: 10 epochs, as published for 200, but no more than a third of a short schedule."""
    return max(1, min(RAMP_EPOCHS, epochs // 3))


def share_over_time(problem: Problem, rate: float) -> Callable[[int], float]:
    """R(t) for the budget of a problem."""
    ramp = ramp_epochs(whole_phase(problem).epochs)
    return lambda epoch: kept_share(rate, epoch, ramp)


def smallest(values: Tensor, share: float) -> Tensor:
    """Which of `values` (..., n) are the `share` smallest along the last axis, at least one."""
    count = max(1, round(share * values.shape[-1]))
    chosen = values.argsort(dim=-1, stable=True)[..., :count]
    return torch.zeros_like(values, dtype=torch.bool).scatter(-1, chosen, True)


def each_loss(logits: Tensor, noisy_labels: Tensor) -> Tensor:
    """Cross-entropy of every sample: (n,) for the logits of one network, (2, n) for those of a pair."""
    if logits.ndim == 2:
        return losses.cross_entropy(logits, noisy_labels, reduction="none")
    return torch.stack([losses.cross_entropy(each, noisy_labels, reduction="none") for each in logits])


def whole_batch(fabric: Fabric, mine: Tensor) -> Tensor:
    """Gather the values of the whole batch (..., N), in order, from the values of each process (..., n).

    The loop deals samples out in turn, so process r of W has every W-th sample from the r-th on.
    """
    if fabric.world_size == 1:
        return mine
    counted: Tensor = fabric.all_reduce(  # type: ignore[assignment]
        torch.tensor(mine.shape[-1], device=mine.device), reduce_op="sum"
    )
    total = int(counted)
    padding = math.ceil(total / fabric.world_size) - mine.shape[-1]
    gathered: Tensor = fabric.all_gather(F.pad(mine, (0, padding)))  # type: ignore[assignment]
    return gathered.movedim(0, -1).flatten(-2)[..., :total]


def my_part(fabric: Fabric, whole: Tensor) -> Tensor:
    """This process's part (..., n) of the whole batch's values (..., N): the inverse of `whole_batch`."""
    return whole[..., fabric.global_rank :: fabric.world_size]


def weighted_mean(fabric: Fabric, mine: Tensor, weights: Tensor, row_weights: Tensor | None = None) -> Tensor:
    """sum_i w_i loss_i / sum_i w_i over the whole batch, from this process's losses and all weights.

    `row_weights` are the user's weights of this process's samples (`Batch.weights`); w_i is the product.

    With weights of zero and one this is the plain mean over the chosen samples. If none is chosen it is zero
    and still has a gradient: a sum of weights below 1 counts as 1. The last factor undoes the loop's, which
    assumes a mean over this process's samples.
    """
    weights = weights.to(mine.dtype)
    if row_weights is not None:
        weights = weights * whole_batch(fabric, row_weights)
    total = (mine * my_part(fabric, weights)).sum(dim=-1) / weights.sum(dim=-1).clamp(min=1)
    return total * (weights.shape[-1] / mine.shape[-1])
