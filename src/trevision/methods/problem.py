"""What a method is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from trevision.data.noisy import NoisyData
from trevision.estimation import Anchor, DualT, Estimator, default_estimator, find_estimator
from trevision.methods.options import Options
from trevision.methods.schedules import Schedule
from trevision.prior import Prior
from trevision.training.evaluate import Evaluation, Measure, measure_nothing
from trevision.training.model import NoisyLabelModel
from trevision.training.runtime import Runtime


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """Probabilities by networks that had not seen x, for the training and for the validation rows.

    `train_probs` and `valid_probs` are (n, C): P(noisy | x) of the folds of stage 1, the clean posterior
    where the networks were trained through T. `history` tells of the epochs that it took, `warnings` what is
    doubtful about it.
    """

    train_probs: np.ndarray
    valid_probs: np.ndarray
    folds: int
    history: list[dict[str, Any]]
    warnings: tuple[str, ...] = ()

    def rows(self, data: NoisyData) -> tuple[np.ndarray, np.ndarray]:
        """The predictions for all rows, training rows first, and their noisy labels."""
        labels = torch.cat([data.train_y.cpu(), data.valid_y.cpu()]).numpy()
        return np.concatenate([self.train_probs, self.valid_probs]), labels


class NetworkMaker(Protocol):
    """Makes the network to train; of another `number`, the same network from other initial weights."""

    def __call__(self, number: int = 0) -> nn.Module: ...


def network_seed(seed: int, number: int) -> int:
    """The seed of network `number` of a run: the run's own, then seeds that no other run begins with."""
    if number == 0:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> 2)


@dataclass(frozen=True, eq=False)
class EstimatedTransition:
    """T-hat as a stage found it, how long that took, and what is doubtful about it."""

    matrix: np.ndarray
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Noisy data, a network to train on them, a schedule, a seed, and where to do it.

    `pose` in registry.py makes one and checks that its parts fit each other. Clean test labels and the true T
    are out of a method's reach: `measure` may know them, and what it returns is only recorded.
    """

    data: NoisyData
    make_network: NetworkMaker
    standardise: nn.Module
    schedule: Schedule
    seed: int
    runtime: Runtime
    options: Options = field(default_factory=Options)
    """Choices of the user that are not in the schedule already."""
    prior: Prior | None = None
    """What is known of T."""
    measure: Measure = measure_nothing
    """What is recorded of every epoch besides how it does on noisy labels."""
    out_of_sample: OutOfSample | None = None
    """Predictions for rows that a network had not seen, where T-hat is to be estimated from such."""
    warnings: tuple[str, ...] = ()
    """What is doubtful already, before the method begins."""

    def evaluation(
        self, *, trusting: bool = True, loss: Callable[[Tensor], Tensor] = torch.neg
    ) -> Evaluation:
        """How an epoch is measured and selected, by the schedule's criterion."""
        return Evaluation(self.data, self.schedule.select_by, self.measure, trusting, loss)

    @property
    def estimator(self) -> Estimator:
        """The estimator of T that the schedule names, or the default where that is not for so many classes.

        Where the user chose it, too many classes are an error instead. One that looks for anchor points looks
        where the schedule says.
        """
        chosen, classes = find_estimator(self.schedule.estimator), self.data.num_classes
        if self.options.estimator is not None:
            chosen.check_classes(classes)
        elif not chosen.takes(classes):
            chosen = find_estimator(default_estimator(classes))
        if isinstance(chosen, Anchor | DualT):
            return replace(chosen, percentile=self.schedule.anchor_percentile)
        return chosen


@dataclass(frozen=True)
class Learned:
    """What a method learnt: the model in its selected state, T before and after, and how it went."""

    model: NoisyLabelModel
    initial_transition: np.ndarray
    transition: np.ndarray
    selected: dict[str, Any]
    history: list[dict[str, Any]]
    stopped_because: str
    warnings: list[str] = field(default_factory=list)
    transition_ran_away: bool = False
    noise_rate: float | None = None
    """The share of wrong labels that the method went by, where it needs one."""
    seconds_estimating: float = 0.0
    """How long the estimation of T took. The epochs in `history` tell their own time."""


Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
