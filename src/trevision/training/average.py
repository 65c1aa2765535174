"""A moving average of a model's weights: steadier than the weights themselves, at no cost in a prediction."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from trevision.training.model import NoisyLabelModel


class WeightAverage:
    """Exponential average of the weights of `model` over about the latest `steps` updates.

        average <- average + rate (weights - average),    rate = max(1 / t, 1 / steps) at update t

    so that it is the plain mean until there are `steps` updates, and forgets where training began. What is
    counted or copied rather than learnt (buffers) is taken as it is.
    """

    def __init__(self, model: NoisyLabelModel, steps: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.steps = max(1.0, steps)
        self.updates = 0
        # Looked up once: a walk through the modules at every step would cost more than the arithmetic.
        self._averages: list[Tensor] = list(self.model.parameters())
        self._weights: list[Tensor] = list(model.parameters())
        self._buffers = list(zip(self.model.buffers(), model.buffers(), strict=True))

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of the model as they are now."""
        self.updates += 1
        rate = max(1 / self.updates, 1 / self.steps)
        torch._foreach_lerp_(self._averages, self._weights, rate)
        for mine, its in self._buffers:
            mine.copy_(its)

    def state(self) -> dict[str, Any]:
        weights = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        return {"model": weights, "updates": self.updates}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]
