"""A moving average of a model's weights: steadier than the weights themselves, at no cost in a prediction."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from trevision.training.model import NoisyLabelModel
from trevision.training.tracker import cpu_copy


class WeightAverage:
    """Exponential average of the weights of `model` over about the latest `steps` updates.

        average <- average + rate (weights - average),    rate = max(1 / t, 1 / steps) at update t

    so that it is the plain mean until there are `steps` updates, and forgets where training began. The
    statistics of batch normalisation, which belong to the weights, are averaged alike; other buffers are
    taken as they are.
    """

    def __init__(self, model: NoisyLabelModel, steps: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.steps = max(1.0, steps)
        self.updates = 0
        # Looked up once: a walk through the modules at every step would cost more than the arithmetic.
        self._averages, self._weights = _averaged(self.model), _averaged(model)
        averaged = {id(tensor) for tensor in (*self._averages, *self._weights)}
        self._buffers = [
            (mine, its)
            for mine, its in zip(self.model.buffers(), model.buffers(), strict=True)
            if id(mine) not in averaged
        ]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of the model as they are now."""
        self.updates += 1
        rate = max(1 / self.updates, 1 / self.steps)
        torch._foreach_lerp_(self._averages, self._weights, rate)
        for mine, its in self._buffers:
            mine.copy_(its)

    def state(self) -> dict[str, Any]:
        return {"model": cpu_copy(self.model), "updates": self.updates}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


def _averaged(model: nn.Module) -> list[Tensor]:
    """What of a model is averaged: its parameters, and means and variances of batch normalisation."""
    statistics = [
        statistic
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        for statistic in (module.running_mean, module.running_var)
        if statistic is not None
    ]
    return [*model.parameters(), *statistics]
