"""`volminnet`: network and T are learnt together from the start; the volume of T is minimised.

Li, Liu, Han, Niu, Sugiyama: Provably End-to-end Label-noise Learning without Anchor Points, ICML 2021. Many
pairs of T and clean posterior explain the noisy posterior. If the clean posteriors are scattered widely
enough, with or without anchor points, the true T is the one with the smallest volume.

Notes
-----
- The weight of the volume, 1e-4, the form of T and its start are the released settings. They have 10 and 100
  classes; for other numbers see `starting_transition`.
- T is trained by Adam at a rate of 1e-2, as released for MNIST and CIFAR-100, with the schedule's decay,
  unless the schedule says how. Optimiser and epochs of the network are the schedule's.
- The schedule `released` is that of the authors' released settings, commit 9074c70 of
  github.com/xuefeng-li1/Provably-end-to-end-label-noise-learning-without-anchor-points. They report the
  epochs of least noisy validation loss and of least error. Here it is the former, whose T they print.
- If det T is not positive there is no volume term (`losses.log_volume`); the released code takes
  log |det T|.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from trevision.losses import VOLUME_WEIGHT, forward_nll, log_volume
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.schedules import Schedule
from trevision.methods.selection import conclude_learnt, train_from_scratch, whole_phase
from trevision.methods.stages import train_steadily
from trevision.training.loop import Batch, StageResult
from trevision.training.phase import Optimizer, Phase
from trevision.transition import DominantTransition

TRANSITION_RATE = 1e-2
OFF_DIAGONAL = 1 / (1 + np.exp(2))
"""The start of an off-diagonal entry relative to a diagonal of 1, for up to ten classes."""


def fit(problem: Problem) -> Learned:
    start = torch.tensor(starting_transition(problem.data.num_classes), dtype=torch.float32)

    def train(name: str, phase: Phase) -> StageResult:
        transition = DominantTransition(start)
        return train_from_scratch(
            problem, name, problem.make_network(), _step, transition=transition, phase=phase
        )

    phase = whole_phase(problem)
    if phase.optimizer_transition is None:
        phase = replace(phase, lr_transition=TRANSITION_RATE, optimizer_transition="adam")
    trained = train_steadily(problem, "volminnet", phase, train)
    return conclude_learnt(problem, trained, DominantTransition(start))


def released(epochs: int, milestones: tuple[int, ...], optimizer_transition: Optimizer) -> Schedule:
    """The authors' recipe: SGD, a rate of 1e-2 for network and T, a tenth of it after each milestone."""
    return Schedule(
        noisy_posterior=Phase(0),
        classifier=Phase(
            epochs,
            lr=1e-2,
            momentum=0.9,
            weight_decay=1e-4,
            batch_size=128,
            decay="steps",
            milestones=milestones,
            lr_transition=TRANSITION_RATE,
            optimizer_transition=optimizer_transition,
        ),
        revision=Phase(0),
        select_by="loss",
    )


VOLMINNET = Method(
    "volminnet",
    fit,
    starts_from_estimate=False,
    released={
        "mnist": lambda rows: released(60, (), "adam"),
        "cifar10": lambda rows: released(80, (30, 60), "sgd"),
        "cifar100": lambda rows: released(80, (30, 60), "adam"),
    },
)


def starting_transition(num_classes: int) -> np.ndarray:
    """T before training: all off-diagonal entries are equal.

    Each is sigmoid(-2) of its diagonal, as released for ten classes. More classes share the off-diagonal sum
    of ten, which gives sigmoid(-4.51) for a hundred; the released settings have sigmoid(-4.5).
    """
    others = num_classes - 1
    weights = np.full((num_classes, num_classes), OFF_DIAGONAL * min(1.0, 9 / others))
    np.fill_diagonal(weights, 1.0)
    start: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return start


def _step(model: nn.Module, batch: Batch) -> Tensor:
    logits, matrix = model(batch.x)
    loss = batch.mean(forward_nll, logits, batch.noisy_labels, matrix)
    return loss + VOLUME_WEIGHT * log_volume(matrix)  # `volume_nll`, with weights of rows
