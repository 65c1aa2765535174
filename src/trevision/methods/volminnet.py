"""`volminnet`: network and T learnt together from the start, T being kept to the least volume.

Li, Liu, Han, Niu, Sugiyama: Provably End-to-end Label-noise Learning without Anchor Points, ICML 2021. Many
pairs of T and clean posterior explain the noisy posterior; of those, the true T is the one of least volume if
the clean posteriors are scattered widely enough, with or without anchor points.

Notes
-----
- The weight of the volume, 1e-4, the form of T and where it starts are those of the released settings; for
  other numbers of classes than theirs, 10 and 100, see `starting_transition`.
- T has Adam with a rate of 1e-2, as they have on MNIST and CIFAR-100; it follows the schedule's decay.
  Optimiser and epochs of the network are the schedule's.
- Where det T is not positive there is no volume term (`losses.log_volume`); the released code takes
  log |det T|.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from trevision.losses import volume_nll
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import conclude_learnt, train_from_scratch, whole_phase
from trevision.methods.stages import train_steadily
from trevision.training.loop import Batch, StageResult
from trevision.training.phase import Phase
from trevision.transition import DominantTransition

TRANSITION_RATE = 1e-2
OFF_DIAGONAL = 1 / (1 + np.exp(2))
"""Where an entry off the diagonal starts, against a diagonal of 1, for up to ten classes."""


def fit(problem: Problem) -> Learned:
    start = torch.tensor(starting_transition(problem.data.num_classes), dtype=torch.float32)

    def train(name: str, phase: Phase) -> StageResult:
        transition = DominantTransition(start)
        return train_from_scratch(
            problem, name, problem.make_network(), _step, transition=transition, phase=phase
        )

    phase = replace(whole_phase(problem), lr_transition=TRANSITION_RATE, optimizer_transition="adam")
    trained = train_steadily(problem, "volminnet", phase, train)
    return conclude_learnt(problem, trained, DominantTransition(start))


VOLMINNET = Method("volminnet", fit, starts_from_estimate=False)


def starting_transition(num_classes: int) -> np.ndarray:
    """T before any training: the same everywhere off the diagonal.

    An entry is sigmoid(-2) of its diagonal, as released for ten classes. More classes share what ten have off
    the diagonal, which makes sigmoid(-4.51) for a hundred, where the released settings have sigmoid(-4.5).
    """
    others = num_classes - 1
    weights = np.full((num_classes, num_classes), OFF_DIAGONAL * min(1.0, 9 / others))
    np.fill_diagonal(weights, 1.0)
    start: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return start


def _step(model: nn.Module, batch: Batch) -> Tensor:
    logits, matrix = model(batch.x)
    return volume_nll(logits, batch.noisy_labels, matrix)
