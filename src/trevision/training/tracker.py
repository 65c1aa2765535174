"""The history of a stage, and the best state so far."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from trevision.training.model import State


class Tracker:
    """Collects one record per epoch and keeps the state of the best epoch.

    Parameters
    ----------
    stage : str
        The stage's name, for the records.
    select_by : str or None
        The metric to minimise; None takes the latest epoch.

    Attributes
    ----------
    history : list of dict
        All records.
    selected : dict
        The record of the best epoch.
    best : State
        The model's state in that epoch.
    """

    def __init__(self, stage: str, select_by: str | None) -> None:
        self.stage, self.select_by = stage, select_by
        self.history: list[dict[str, Any]] = []
        self.selected: dict[str, Any] = {}
        self.best: State = {}

    @property
    def epochs_done(self) -> int:
        return self.history[-1]["epoch"] if self.history else 0

    @property
    def epochs_since_best(self) -> int:
        return self.epochs_done - self.selected["epoch"]

    def add(
        self, epoch: int, loss: float, metrics: dict[str, Any], seconds: float, model: nn.Module
    ) -> dict[str, Any]:
        """Record an epoch of `model`, and return the record. A loss of NaN is left out."""
        record = {"stage": self.stage, "epoch": epoch}
        if not math.isnan(loss):
            record["train_loss"] = loss
        record |= metrics | {"seconds": round(seconds, 3)}
        self.history.append(record)
        # Epoch 0 is the state before training: any epoch after it is preferred.
        if not self.selected or self.selected["epoch"] == 0 or self._better(record):
            self.selected, self.best = record, cpu_copy(model)
        return record

    def _better(self, record: dict[str, Any]) -> bool:
        return self.select_by is None or bool(record[self.select_by] < self.selected[self.select_by])

    def state(self) -> dict[str, Any]:
        """The state to save in a checkpoint."""
        return {"best": self.best, "selected": self.selected, "history": self.history}

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.best, self.selected, self.history = saved["best"], saved["selected"], saved["history"]


def cpu_copy(model: nn.Module) -> State:
    """A copy of the model's current state, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
