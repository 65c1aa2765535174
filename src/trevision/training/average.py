"""A moving average of a model's weights: less noisy than the weights, at no cost in prediction."""

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

    It is the plain mean until there are `steps` updates, and later forgets the start of training. The
    statistics of batch normalisation are averaged too, since they belong to the weights. Other buffers are
    copied.
    """

    def __init__(self, model: NoisyLabelModel, steps: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.steps = max(1.0, steps)
        self.updates = 0
        # Collected once: a walk through the modules at every step would cost more than the arithmetic.
        self._averages, self._weights = _averaged(self.model), _averaged(model)
        averaged = {id(tensor) for tensor in (*self._averages, *self._weights)}
        self._buffers = [
            (mine, its)
            for mine, its in zip(self.model.buffers(), model.buffers(), strict=True)
            if id(mine) not in averaged
        ]

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights of the model to the average."""
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
    """The tensors to average: parameters, and means and variances of batch normalisation."""
    statistics = [
        statistic
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        for statistic in (module.running_mean, module.running_var)
        if statistic is not None
    ]
    return [*model.parameters(), *statistics]
