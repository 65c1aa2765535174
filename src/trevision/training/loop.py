"""The training loop, visible and straight."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.data.rows import augmented_batches
from trevision.training.average import WeightAverage
from trevision.training.evaluate import Evaluation
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Optimizer, Phase, learning_rate
from trevision.training.runtime import Runtime

ALL_EPOCHS_DONE = "all epochs done"
DIVERGED = "the loss became"
# The share of the time that may go into keeping what a stopped run continues from. Very short epochs are then
# not kept one by one, and a stopped run repeats a few of them, to the same bits.
KEEPING = 0.1
# Under which names a checkpoint keeps the optimisers: the only one or the network's, and Delta T's own.
OPTIMIZER_NAMES = ("optimizer", "optimizer_transition")


class TrainingDiverged(RuntimeError):
    """The loss stopped being a number before there was any state to go back to."""


@dataclass(frozen=True)
class Batch:
    """What a method's step sees: some rows, their noisy labels, which rows they are, and the time."""

    x: Tensor
    noisy_labels: Tensor
    rows: Tensor
    epoch: int


Step = Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True)
class Stage:
    """One named stage of a method: which model, which loss, which phase."""

    name: str
    model: NoisyLabelModel
    step: Step
    """The loss of a batch, a scalar that is a mean over its rows."""
    phase: Phase
    record_start: bool = False
    """Whether the state before the first epoch is measured too, as epoch 0. It is selected only if no epoch
    after it ends well."""


@dataclass(frozen=True)
class StageResult:
    """A finished stage: the selected state, what was measured on the way, and why it ended."""

    state: dict[str, Tensor]
    selected: dict[str, Any]
    history: list[dict[str, Any]]
    stopped_because: str

    @property
    def diverged(self) -> bool:
        """Whether it ended because the loss was no number any more; the state is of an epoch before that."""
        return self.stopped_because.startswith(DIVERGED)


def _batches(rows: Tensor, size: int) -> list[Tensor]:
    """Rows in batches of `size`; one that is left over joins the last, as batch normalisation needs two."""
    *before, last = rows.split(size)
    if before and len(last) == 1:
        return [*before[:-1], torch.cat([before[-1], last])]
    return [*before, last]


def run_stage(stage: Stage, evaluation: Evaluation, runtime: Runtime, seed: int) -> StageResult:
    """Train `stage.model` through its phase and return the epoch that the evaluation's score selects.

    With a store that knows the stage, a finished one is returned at once and an interrupted one
    continues after the last epoch that was kept, to the same bits.
    """
    fabric, phase, data = runtime.fabric, stage.phase, evaluation.data
    saved = runtime.store.load(stage.name)
    if saved is not None and saved["done"]:
        return StageResult(saved["best"], saved["selected"], saved["history"], saved["done"])

    stage_seed = _seed(seed, stage.name)
    model, *optimizers = fabric.setup(stage.model, *make_optimizers(stage.model, phase))
    x, labels = fabric.to_device(data.train_x), fabric.to_device(data.train_y)
    batches = math.ceil(len(x) / phase.batch_size)
    runtime.progress.stage(stage.name, phase.epochs, batches)

    tracker = _Tracker(evaluation.select_by)
    average = WeightAverage(stage.model, phase.average * batches) if phase.average > 0 else None
    if saved is not None:
        stage.model.load_state_dict(saved["model"])
        for name, optimizer in zip(OPTIMIZER_NAMES, optimizers, strict=False):
            optimizer.load_state_dict(saved[name])
        if average is not None:
            average.load(saved["average"])
        tracker.restore(saved)
        runtime.progress.epoch(tracker.history[-1])
    elif stage.record_start:
        tracker.add(
            0, math.nan, evaluation.measure(model, _matrix(stage.model)), 0.0, stage.name, stage.model
        )

    stopped_because = ALL_EPOCHS_DONE
    kept_at, cost_of_keeping = time.perf_counter(), 0.0
    for epoch in range(tracker.epochs_done, phase.epochs):
        began = time.perf_counter()
        total = torch.zeros((), device=fabric.device)
        # Each epoch draws from its own seed, so a resumed run needs no generator's state. The fork
        # keeps the caller's global generator (and its use by dropout in a user's network) apart.
        with torch.random.fork_rng(devices=[] if fabric.device.type == "cpu" else None):
            torch.manual_seed(_seed(stage_seed, epoch))
            generator = torch.Generator().manual_seed(_seed(stage_seed, epoch))
            model.train()
            drawn = _batches(torch.randperm(len(x), generator=generator), phase.batch_size)
            # A process without rows would have no loss.
            whole = [rows for rows in drawn if len(rows) >= fabric.world_size]
            own = [rows[fabric.global_rank :: fabric.world_size] for rows in whole]
            samples = augmented_batches(x, own, phase.augmentation or data.augmentation, generator)
            for number, (rows, mine, images) in enumerate(zip(whole, own, samples, strict=True)):
                _set_rates(optimizers, learning_rate(phase, epoch + number / batches))
                batch = Batch(images.to(fabric.device), labels[mine], mine, epoch)
                # Processes average their gradients; this share makes that the mean over the whole batch.
                share = len(mine) * fabric.world_size / len(rows)
                loss = train_batch(fabric, model, optimizers, stage.step, batch, share)
                if average is not None:
                    average.update()
                total += loss * len(mine)
                runtime.progress.batch()
        summed: Any = fabric.all_reduce(total, reduce_op="sum")
        mean_loss = float(summed) / len(x)
        if not math.isfinite(mean_loss):
            stopped_because = (
                f"{DIVERGED} {mean_loss} in epoch {epoch + 1} of {stage.name}; "
                f"a lower learning rate than {phase.lr:g} is needed"
            )
            if not tracker.selected:
                raise TrainingDiverged(stopped_because)
            warnings.warn(f"an earlier epoch is taken: {stopped_because}", RuntimeWarning, stacklevel=2)
            break
        learnt = stage.model if average is None else average.model
        measured = evaluation.measure(model if average is None else learnt, _matrix(learnt))
        tracker.add(epoch + 1, mean_loss, measured, time.perf_counter() - began, stage.name, learnt)
        runtime.progress.epoch(tracker.history[-1])
        if phase.patience is not None and tracker.epochs_since_best >= phase.patience:
            stopped_because = f"no better {evaluation.select_by} in {phase.patience} epochs of {stage.name}"
            break
        now = time.perf_counter()
        if fabric.is_global_zero and epoch + 1 < phase.epochs and now - kept_at >= cost_of_keeping / KEEPING:
            runtime.store.save(stage.name, tracker.snapshot(stage.model, optimizers, average))
            kept_at = time.perf_counter()
            cost_of_keeping = kept_at - now
    result = StageResult(tracker.best, tracker.selected, tracker.history, stopped_because)
    if fabric.is_global_zero:
        runtime.store.save(stage.name, {**tracker.outcome(), "done": stopped_because})
    fabric.barrier()
    return result


def train_batch(
    fabric: Fabric,
    model: nn.Module,
    optimizers: Sequence[Any],
    step: Step,
    batch: Batch,
    share: float = 1.0,
) -> Tensor:
    """One update of the model from one batch; returns the loss before it."""
    loss = step(model, batch)
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    fabric.backward(loss * share)
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


class _Tracker:
    """The history of a stage and the best state so far."""

    def __init__(self, select_by: str | None) -> None:
        self.select_by = select_by
        self.history: list[dict[str, Any]] = []
        self.selected: dict[str, Any] = {}
        self.best: dict[str, Tensor] = {}

    @property
    def epochs_done(self) -> int:
        return self.history[-1]["epoch"] if self.history else 0

    @property
    def epochs_since_best(self) -> int:
        return self.epochs_done - self.selected["epoch"]

    def add(
        self,
        epoch: int,
        loss: float,
        measured: dict[str, Any],
        seconds: float,
        stage: str,
        model: NoisyLabelModel,
    ) -> None:
        record = {"stage": stage, "epoch": epoch}
        if not math.isnan(loss):
            record["train_loss"] = loss
        record |= measured | {"seconds": round(seconds, 3)}
        self.history.append(record)
        if not self.selected or self.selected["epoch"] == 0 or self._better(record):
            self.selected, self.best = record, _cpu_copy(model)

    def _better(self, record: dict[str, Any]) -> bool:
        return self.select_by is None or bool(record[self.select_by] < self.selected[self.select_by])

    def outcome(self) -> dict[str, Any]:
        return {"best": self.best, "selected": self.selected, "history": self.history}

    def snapshot(
        self, model: NoisyLabelModel, optimizers: Sequence[Any], average: WeightAverage | None
    ) -> dict[str, Any]:
        states = (optimizer.state_dict() for optimizer in optimizers)
        state = {"model": _cpu_copy(model), "done": ""}
        if average is not None:
            state["average"] = average.state()
        return self.outcome() | state | dict(zip(OPTIMIZER_NAMES, states, strict=False))

    def restore(self, saved: dict[str, Any]) -> None:
        self.best, self.selected, self.history = (
            saved["best"],
            saved["selected"],
            saved["history"],
        )


def make_optimizers(model: NoisyLabelModel, phase: Phase) -> list[torch.optim.Optimizer]:
    """Network and Delta T in groups of their own: their rates differ, and only the network decays.

    One optimiser holds both groups, unless the phase has another for Delta T.
    """
    network = [p for p in model.network.parameters() if p.requires_grad]
    groups = [{"params": network, "rate": phase.lr, "weight_decay": phase.weight_decay}]
    if model.transition is None or model.transition.free is None:
        return [_make_optimizer(phase.optimizer, groups, phase)]
    rate = phase.lr if phase.lr_transition is None else phase.lr_transition
    own = [{"params": [model.transition.free], "rate": rate, "weight_decay": 0.0}]
    if phase.optimizer_transition is None:
        return [_make_optimizer(phase.optimizer, groups + own, phase)]
    return [
        _make_optimizer(phase.optimizer, groups, phase),
        _make_optimizer(phase.optimizer_transition, own, phase),
    ]


def _make_optimizer(kind: Optimizer, groups: list[dict[str, Any]], phase: Phase) -> torch.optim.Optimizer:
    # The fused kernels do the same arithmetic in one call an update.
    if kind == "adam":
        return torch.optim.Adam(groups, lr=phase.lr, fused=True)
    return torch.optim.SGD(groups, lr=phase.lr, momentum=phase.momentum, fused=True)


def _set_rates(optimizers: Sequence[torch.optim.Optimizer], factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * factor


def _matrix(model: NoisyLabelModel) -> Tensor | None:
    return None if model.transition is None else model.transition.matrix


def _cpu_copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def _seed(seed: int, part: str | int) -> int:
    """A seed of its own for each part of a run, spread so that neighbouring seeds share nothing."""
    words = list(part.encode()) if isinstance(part, str) else [part]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 2)
