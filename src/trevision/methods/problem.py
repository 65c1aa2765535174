"""The input of a method, `Problem`, and its output, `Learned`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trevision.data.noisy import NoisyData
from trevision.estimation import Anchor, DualT, Estimator, Solution, default_estimator, find_estimator
from trevision.methods.options import Options
from trevision.methods.schedules import Schedule
from trevision.prior import Prior
from trevision.training.evaluate import Evaluation, Measure, measure_nothing
from trevision.training.inputs import NetworkMaker
from trevision.training.model import NoisyLabelModel
from trevision.training.runtime import Runtime


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """Predictions for rows by networks that were not trained on them.

    Attributes
    ----------
    train_probs, valid_probs : ndarray of shape (n, C)
        For the training and the validation rows: P(noisy | x), or the clean posterior if the networks were
        trained through T.
    folds : int
        The number of folds.
    history : list of dict
        The records of the epochs that were trained.
    warnings : tuple of str
        Doubts about the predictions.
    """

    train_probs: np.ndarray
    valid_probs: np.ndarray
    folds: int
    history: list[dict[str, Any]]
    warnings: tuple[str, ...] = ()

    def rows(self, data: NoisyData) -> tuple[np.ndarray, np.ndarray]:
        """Predictions (n, C) for all rows, training rows first, and their noisy labels (n,)."""
        labels = torch.cat([data.train_y.cpu(), data.valid_y.cpu()]).numpy()
        return np.concatenate([self.train_probs, self.valid_probs]), labels


def network_seed(seed: int, number: int) -> int:
    """The seed of network `number` of a run: the run's own for 0, else a seed that no other run uses."""
    if number == 0:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> 2)


@dataclass(frozen=True, eq=False)
class EstimatedTransition:
    """T-hat, the seconds its estimation took, doubts about it, and the estimator's own solution."""

    matrix: np.ndarray
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    solution: Solution | None = None


@dataclass(frozen=True)
class Problem:
    """Everything a method is given: noisy data, a network, a schedule, a seed and a runtime.

    `pose` in registry.py makes a problem and checks that its parts fit each other. A method never sees clean
    test labels or the true T: only `measure` may know them, and its numbers are only recorded.

    Attributes
    ----------
    data : NoisyData
        Training and validation rows with noisy labels.
    make_network : NetworkMaker
        Makes the network to train.
    standardise : nn.Module
        Shifts and scales the network's inputs.
    schedule : Schedule
        How long and how fast each stage trains.
    seed : int
        Seed of initial weights, batches and folds.
    runtime : Runtime
        Devices, checkpoints, progress.
    options : Options
        The user's choices that are not in the schedule already.
    prior : Prior or None
        What is known of T.
    measure : Measure
        Extra numbers to record for every epoch.
    out_of_sample : OutOfSample or None
        Out-of-sample predictions, if T-hat is estimated from them.
    warnings : tuple of str
        Doubts that were known before the method began.
    """

    data: NoisyData
    make_network: NetworkMaker
    standardise: nn.Module
    schedule: Schedule
    seed: int
    runtime: Runtime
    options: Options = field(default_factory=Options)
    prior: Prior | None = None
    measure: Measure = measure_nothing
    out_of_sample: OutOfSample | None = None
    warnings: tuple[str, ...] = ()

    def evaluation(
        self, *, trusting: bool = True, loss: Callable[[Tensor], Tensor] = torch.neg
    ) -> Evaluation:
        """How an epoch is measured and selected, by the schedule's criterion."""
        return Evaluation(self.data, self.schedule.select_by, self.measure, trusting, loss)

    @property
    def estimator(self) -> Estimator:
        """The estimator of T: the schedule's, or the default if the schedule's cannot handle so many classes.

        If the user chose the estimator, too many classes are an error. `anchor` and `dual-t` take the
        schedule's percentile.
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
    """What a method learnt.

    Attributes
    ----------
    model : NoisyLabelModel
        The model in its selected state.
    initial_transition, transition : ndarray of shape (C, C)
        T before and after training.
    selected : dict
        The record of the selected epoch.
    history : list of dict
        One record per epoch.
    stopped_because : str
        Why training ended.
    warnings : list of str
        Doubts about the result.
    transition_ran_away : bool
        Whether the rows of an unconstrained T stopped summing to 1.
    noise_rate : float or None
        The share of wrong labels that the method assumed, if it needs one.
    seconds_estimating : float
        Seconds spent estimating T. Epochs in `history` have seconds of their own.
    guard : list of dict
        What a guarded schedule compared on noisy validation labels, and whether it kept what was trained.
    choice : dict or None
        For a method that chooses a correction: its `correction`, the `reason` in words, and the `scores`.
    """

    model: NoisyLabelModel
    initial_transition: np.ndarray
    transition: np.ndarray
    selected: dict[str, Any]
    history: list[dict[str, Any]]
    stopped_because: str
    warnings: list[str] = field(default_factory=list)
    transition_ran_away: bool = False
    noise_rate: float | None = None
    seconds_estimating: float = 0.0
    guard: list[dict[str, Any]] = field(default_factory=list)
    choice: dict[str, Any] | None = None


Objective = Callable[..., Tensor]
"""A loss from logits (n, C), noisy labels (n,) and T (C, C): their mean or, with reduction="none", (n,)."""
