"""A moving average of a model's weights: steadier than the weights themselves, at no cost in a prediction."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from trevision.training.model import NoisyLabelModel


class WeightAverage:
    """Exponential average of the weights over about the latest `steps` updates.

        average <- average + rate (weights - average),    rate = max(1 / t, 1 / steps) at update t

    so that it is the plain mean until there are `steps` updates, and forgets where training began. What is
    counted or copied rather than learnt (buffers) is taken as it is.
    """

    def __init__(self, model: NoisyLabelModel, steps: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.steps = max(1.0, steps)
        self.updates = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights of `model` as they are now."""
        self.updates += 1
        rate = max(1 / self.updates, 1 / self.steps)
        averages: list[Tensor] = list(self.model.parameters())
        weights: list[Tensor] = list(model.parameters())
        torch._foreach_lerp_(averages, weights, rate)
        for mine, its in zip(self.model.buffers(), model.buffers(), strict=True):
            mine.copy_(its)

    def state(self) -> dict[str, Any]:
        weights = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        return {"model": weights, "updates": self.updates}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]
