"""The optimisers of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Optimizer, Phase


def make_optimizers(model: NoisyLabelModel, phase: Phase) -> list[torch.optim.Optimizer]:
    """Optimisers with separate groups for network and Delta T: rates differ, and only the network decays.

    One optimiser holds both groups, unless the phase names another one for Delta T.
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
    # The fused kernels do the same arithmetic in one call per update.
    if kind == "adam":
        return torch.optim.Adam(groups, lr=phase.lr, fused=True)
    return torch.optim.SGD(groups, lr=phase.lr, momentum=phase.momentum, nesterov=phase.nesterov, fused=True)


def set_rates(optimizers: Sequence[torch.optim.Optimizer], factor: float) -> None:
    """Set the rate of every group to its own rate times `factor`."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * factor
