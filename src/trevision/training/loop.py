"""The training loop."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.data.augment import alternating_flips
from trevision.data.noisy import NoisyData
from trevision.data.rows import augmented_batches
from trevision.training.average import WeightAverage
from trevision.training.checkpoint import Keeper, check_fits
from trevision.training.evaluate import Evaluation
from trevision.training.model import NoisyLabelModel
from trevision.training.optimizers import make_optimizers, set_rates
from trevision.training.phase import Phase, learning_rate
from trevision.training.runtime import Runtime
from trevision.training.tracker import Tracker, cpu_copy

ALL_EPOCHS_DONE = "all epochs done"
DIVERGED = "the loss became"
OPTIMIZER_NAMES = ("optimizer", "optimizer_transition")
"""The names in a checkpoint of the first optimiser and, if there is one, Delta T's own."""


class TrainingDiverged(RuntimeError):
    """The loss became NaN or infinite in the first epoch, so there is no earlier state to return."""


@dataclass(frozen=True)
class Batch:
    """The input of a step: rows, their noisy labels, their row numbers, and the epoch.

    `weights` (n,) say how often each row counts, on average once over the training rows; None: once.
    `targets` (n, C) are P(clean), if it is to be learnt instead of the labels. `known` (n,) says of which
    rows the labels are known to be right; None: of none.
    """

    x: Tensor
    noisy_labels: Tensor
    rows: Tensor
    epoch: int
    weights: Tensor | None = None
    targets: Tensor | None = None
    known: Tensor | None = None

    def mean(self, loss: Callable[..., Tensor], *given: Any) -> Tensor:
        """The mean of `loss(*given)` over the rows, each counted by its weight: a scalar.

        The weights are not divided by their sum in the batch: a batch of light rows is to move the network
        less than one of heavy rows.
        """
        if self.weights is None:
            return loss(*given)
        return (self.weights * loss(*given, reduction="none")).mean()


Step = Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True)
class Stage:
    """One named stage of a method.

    Attributes
    ----------
    name : str
        The name in history, checkpoints and progress.
    model : NoisyLabelModel
        The model to train.
    step : Step
        The loss of a batch: a scalar, a mean over its rows.
    phase : Phase
        Epochs, optimiser and rates.
    record_start : bool
        Whether to measure the state before training as epoch 0. It is selected only if no later epoch
        finishes.
    """

    name: str
    model: NoisyLabelModel
    step: Step
    phase: Phase
    record_start: bool = False


@dataclass(frozen=True)
class StageResult:
    """The result of a finished stage.

    Attributes
    ----------
    state : dict of str to Tensor
        The model's state in the selected epoch.
    selected : dict
        The record of the selected epoch.
    history : list of dict
        One record per epoch.
    stopped_because : str
        Why the stage ended.
    warnings : tuple of str
        Doubts about the result.
    guard : tuple of dict
        Whether the stage or its start was kept, and by which numbers, if that was asked.
    """

    state: dict[str, Tensor]
    selected: dict[str, Any]
    history: list[dict[str, Any]]
    stopped_because: str
    warnings: tuple[str, ...] = ()
    guard: tuple[dict[str, Any], ...] = ()

    @property
    def diverged(self) -> bool:
        """Whether the loss became NaN or infinite. The state is then from an earlier epoch."""
        return self.stopped_because.startswith(DIVERGED)


def _batches(rows: Tensor, size: int) -> list[Tensor]:
    """Rows in batches of `size`. A single leftover row joins the last batch: batch norm needs two rows."""
    *before, last = rows.split(size)
    if before and len(last) == 1:
        return [*before[:-1], torch.cat([before[-1], last])]
    return [*before, last]


def run_stage(stage: Stage, evaluation: Evaluation, runtime: Runtime, seed: int) -> StageResult:
    """Train `stage.model` for its phase and return the epoch that the evaluation selects.

    If the store holds the finished stage, its result is returned at once. If it holds a checkpoint, training
    continues there, with bit-identical results.

    Parameters
    ----------
    stage : Stage
        Model, loss and phase.
    evaluation : Evaluation
        The data, and how epochs are measured and selected.
    runtime : Runtime
        Devices, checkpoints, progress.
    seed : int
        Seed of batches and augmentation.

    Returns
    -------
    StageResult
        The selected state and the history.

    Raises
    ------
    TrainingDiverged
        If the loss becomes NaN or infinite before any epoch was recorded.
    """
    saved = runtime.store.load(stage.name)
    if saved is not None:
        check_fits(saved, stage.model, stage.name)
    if saved is not None and saved["done"]:
        return StageResult(saved["best"], saved["selected"], saved["history"], saved["done"])
    phase, progress = stage.phase, runtime.progress
    training = _Training(stage, evaluation.data, runtime, seed)
    tracker = Tracker(stage.name, evaluation.select_by)
    keeper = Keeper(runtime.store, stage.name, only=runtime.fabric.is_global_zero)
    progress.stage(stage.name, phase.epochs, training.batches)
    if saved is not None:
        training.load(saved)
        tracker.load(saved)
        progress.epoch(tracker.history[-1])
    elif stage.record_start:
        tracker.add(0, math.nan, evaluation.measure(training.model, training.matrix), 0.0, stage.model)

    stopped_because = ALL_EPOCHS_DONE
    for epoch in range(tracker.epochs_done, phase.epochs):
        began = time.perf_counter()
        loss = training.epoch(epoch)
        if not math.isfinite(loss):
            stopped_because = (
                f"{DIVERGED} {loss} in epoch {epoch + 1} of {stage.name}; "
                f"a lower learning rate than {phase.lr:g} is needed"
            )
            if not tracker.selected:
                raise TrainingDiverged(stopped_because)
            warnings.warn(f"an earlier epoch is taken: {stopped_because}", RuntimeWarning, stacklevel=2)
            break
        metrics = evaluation.measure(training.measured, training.matrix)
        seconds = time.perf_counter() - began
        progress.epoch(tracker.add(epoch + 1, loss, metrics, seconds, training.learnt))
        if phase.patience is not None and tracker.epochs_since_best >= phase.patience:
            stopped_because = f"no better {evaluation.select_by} in {phase.patience} epochs of {stage.name}"
            break
        if epoch + 1 < phase.epochs:
            keeper.keep(lambda: {**tracker.state(), **training.state(), "done": ""})
    keeper.finish({**tracker.state(), "done": stopped_because})
    runtime.fabric.barrier()
    return StageResult(tracker.best, tracker.selected, tracker.history, stopped_because)


def start_unless_likelier(trained: StageResult, start: dict[str, Tensor]) -> StageResult:
    """The stage, or its start if noisy validation labels are not likelier in the epoch selected.

    The likelihood of the labels is that by T'g, as measured after every epoch. Trusted labels, if there are
    any, must not be hit less often either.
    """
    before, after = trained.history[0], trained.selected
    likelier = after["noisy_validation_loss"] < before["noisy_validation_loss"]
    hits = after.get("trusted_error", 0) <= before.get("trusted_error", 0)
    kept = after["epoch"] == 0 or (likelier and hits)
    told = {
        "stage": before["stage"],
        "kept": kept,
        "noisy_validation_loss_before": before["noisy_validation_loss"],
        "noisy_validation_loss_after": after["noisy_validation_loss"],
    }
    if kept:
        return replace(trained, guard=(told,))
    losses = (each["noisy_validation_loss"] for each in (before, after))
    reason = "{} was not kept: noisy validation loss {:.4f} before it, {:.4f} after it"
    reason = reason.format(before["stage"], *losses)
    return replace(trained, state=start, selected=before, stopped_because=reason, guard=(told,))


class _Training:
    """A running stage: its model on the device, optimisers, averaged weights, and the rows."""

    def __init__(self, stage: Stage, data: NoisyData, runtime: Runtime, seed: int) -> None:
        self.stage, self.phase = stage, stage.phase
        self.fabric, self.progress = runtime.fabric, runtime.progress
        self.seed = _seed(seed, stage.name)
        optimizers = make_optimizers(stage.model, stage.phase)
        self.model, *self.optimizers = self.fabric.setup(stage.model, *optimizers)
        self.x, self.labels = self.fabric.to_device(data.train_x), self.fabric.to_device(data.train_y)
        self.weights, self.targets = data.train_weights, data.train_targets
        if self.weights is not None:
            self.weights = self.fabric.to_device(self.weights * (len(self.weights) / self.weights.sum()))
        if self.targets is not None:
            self.targets = self.fabric.to_device(self.targets)
        self.known = None if data.train_known is None else self.fabric.to_device(data.train_known)
        self.augmentation = stage.phase.augmentation or data.augmentation
        self.batches = math.ceil(len(self.x) / stage.phase.batch_size)
        steps = stage.phase.average * self.batches
        self.average = WeightAverage(stage.model, steps) if steps > 0 else None

    @property
    def learnt(self) -> NoisyLabelModel:
        """The model so far; the averaged model if weights are averaged."""
        return self.stage.model if self.average is None else self.average.model

    @property
    def measured(self) -> nn.Module:
        """The same model on the device, to be measured."""
        return self.model if self.average is None else self.average.model

    @property
    def matrix(self) -> Tensor | None:
        return None if self.learnt.transition is None else self.learnt.transition.matrix

    def epoch(self, epoch: int) -> float:
        """Train on every row once; returns the mean loss over all rows of all processes."""
        total = torch.zeros((), device=self.fabric.device)
        # Each epoch draws from its own seed, so a resumed run needs no generator's state. The fork leaves
        # the caller's global generator as it was, even if a user's network has dropout.
        with torch.random.fork_rng(devices=[] if self.fabric.device.type == "cpu" else None):
            torch.manual_seed(_seed(self.seed, epoch))
            self.model.train()
            for number, (batch, share) in enumerate(self._epoch_batches(epoch)):
                set_rates(self.optimizers, learning_rate(self.phase, epoch + number / self.batches))
                loss = train_batch(self.fabric, self.model, self.optimizers, self.stage.step, batch, share)
                if self.average is not None:
                    self.average.update()
                total += loss * len(batch.rows)
                self.progress.batch()
        summed: Any = self.fabric.all_reduce(total, reduce_op="sum")
        return float(summed) / len(self.x)

    def _epoch_batches(self, epoch: int) -> Iterator[tuple[Batch, float]]:
        """This process's batches of one epoch, each with a factor for its loss.

        Processes average their gradients. Because of the factor, that is the mean over the whole batch.
        """
        fabric = self.fabric
        generator = torch.Generator().manual_seed(_seed(self.seed, epoch))
        shuffled = torch.randperm(len(self.x), generator=generator)
        # A process without rows would have no loss.
        whole = [rows for rows in _batches(shuffled, self.phase.batch_size) if len(rows) >= fabric.world_size]
        own = [rows[fabric.global_rank :: fabric.world_size] for rows in whole]
        flips = None
        if self.augmentation == "shift-flip":
            flips = alternating_flips(len(self.x), torch.Generator().manual_seed(self.seed), epoch)
        samples = augmented_batches(self.x, own, self.augmentation, generator, flips)
        for rows, mine, images in zip(whole, own, samples, strict=True):
            weights = None if self.weights is None else self.weights[mine]
            targets = None if self.targets is None else self.targets[mine]
            known = None if self.known is None else self.known[mine]
            batch = Batch(images.to(fabric.device), self.labels[mine], mine, epoch, weights, targets, known)
            yield batch, len(mine) * fabric.world_size / len(rows)

    def state(self) -> dict[str, Any]:
        """The state to save in a checkpoint."""
        states = (optimizer.state_dict() for optimizer in self.optimizers)
        kept = {"model": cpu_copy(self.stage.model), **dict(zip(OPTIMIZER_NAMES, states, strict=False))}
        return kept if self.average is None else kept | {"average": self.average.state()}

    def load(self, saved: dict[str, Any]) -> None:
        self.stage.model.load_state_dict(saved["model"])
        for name, optimizer in zip(OPTIMIZER_NAMES, self.optimizers, strict=False):
            optimizer.load_state_dict(saved[name])
        if self.average is not None:
            self.average.load(saved["average"])


def train_batch(
    fabric: Fabric,
    model: nn.Module,
    optimizers: Sequence[Any],
    step: Step,
    batch: Batch,
    share: float = 1.0,
) -> Tensor:
    """One update of the model from one batch.

    Parameters
    ----------
    fabric : Fabric
        Computes the gradient.
    model : nn.Module
        The model to update.
    optimizers : sequence of Optimizer
        One for everything, or one for the network and one for Delta T.
    step : Step
        The loss of a batch.
    batch : Batch
        The rows.
    share : float, default=1.0
        A factor for the loss: above or below 1 if processes have parts of different sizes.

    Returns
    -------
    Tensor
        The loss before the update, a scalar.
    """
    loss = step(model, batch)
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    fabric.backward(loss * share)
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


def _seed(seed: int, part: str | int) -> int:
    """A separate seed for each part of a run, independent of the seeds of neighbouring runs."""
    words = list(part.encode()) if isinstance(part, str) else [part]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 2)
