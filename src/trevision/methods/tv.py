"""`tv`: network and T are learnt together from the start; total variation keeps predictions apart.

Zhang, Niu, Sugiyama: Learning Noise Transition Matrix from Only Noisy Labels via Total Variation
Regularization, ICML 2021. Noise brings posteriors closer together. Of all pairs of T and clean posterior that
explain the noisy posterior, the true pair has the clean posteriors farthest apart. T is not learnt by
gradients: each row is a Dirichlet distribution that counts which labels go with which predicted class.

Notes
-----
- gamma (0.1), the factors of old and new counts (0.999 and 0.01) and the start, 10 on the diagonal and 0
  elsewhere, are the released settings for MNIST. So T starts as the identity, and training as plain
  cross-entropy.
- As released, the loss uses a T drawn from the distribution, and the counts use a class drawn from each
  prediction. Both are drawn from (seed, number of the update), so that a resumed run draws the same.
- The total variation is a mean over all pairs of a batch, whatever the weights of rows. With several
  processes, each pairs its own samples.
- Optimiser and epochs are the schedule's.
- The schedule `released` is that of the authors' released settings, commit 2b12022 of
  github.com/YivanZhang/lio, ex/transition-matrix. They count batches of 512 rows; here these are made whole
  epochs. CIFAR starts with 100 on the diagonal, and the total variation is a mean over 512 pairs drawn from a
  batch. The authors have no validation set, and so no selection: the last state is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.losses import TOTAL_VARIATION_WEIGHT, forward_nll, total_variation
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.schedules import Schedule
from trevision.methods.selection import conclude_learnt, train_from_scratch, whole_phase
from trevision.methods.stages import train_steadily
from trevision.training.loop import Batch, StageResult, Step
from trevision.training.phase import Phase
from trevision.transition import DirichletTransition

STRENGTH = 10.0
"""The diagonal of the counts at the start."""

BATCH = 512
"""Rows in a batch, and pairs drawn from it, of the released settings."""


@dataclass(frozen=True)
class Recipe(Schedule):
    """A schedule that also says how the counts of T start, and how many pairs of a batch are compared."""

    strength: float = STRENGTH
    pairs: int | None = None
    """None for all pairs."""


def fit(problem: Problem) -> Learned:
    start = torch.eye(problem.data.num_classes)
    recipe = problem.schedule
    strength, pairs = (recipe.strength, recipe.pairs) if isinstance(recipe, Recipe) else (STRENGTH, None)

    def train(name: str, phase: Phase) -> StageResult:
        transition = DirichletTransition(start, strength)
        step = counting_step(problem.runtime.fabric, transition, problem.seed, pairs)
        return train_from_scratch(
            problem, name, problem.make_network(), step, transition=transition, phase=phase
        )

    trained = train_steadily(problem, "tv", whole_phase(problem), train)
    return conclude_learnt(problem, trained, DirichletTransition(start))


def released(phase: Phase, batches: int, rows: int, strength: float) -> Recipe:
    """The authors' recipe: as many epochs of `phase` as make up `batches`, and the last state."""
    epochs = max(1, round(batches / math.ceil(rows / BATCH)))
    return Recipe(
        noisy_posterior=Phase(0),
        classifier=replace(phase, epochs=epochs, batch_size=BATCH),
        revision=Phase(0),
        select_by="last",
        strength=strength,
        pairs=BATCH,
    )


GREY = Phase(1, optimizer="adam", lr=1e-3, weight_decay=0.0, decay="exponential")
COLOUR = Phase(1, lr=0.1, momentum=0.9, weight_decay=1e-4, decay="tent")

TV = Method(
    "tv",
    fit,
    starts_from_estimate=False,
    released={
        "mnist": lambda rows: released(GREY, 2000, rows, STRENGTH),
        "fashion-mnist": lambda rows: released(GREY, 2000, rows, STRENGTH),
        "cifar10": lambda rows: released(COLOUR, 4000, rows, 100.0),
        "cifar100": lambda rows: released(COLOUR, 4000, rows, 100.0),
    },
)


def counting_step(
    fabric: Fabric, transition: DirichletTransition, seed: int, pairs: int | None = None
) -> Step:
    """The loss with a T drawn from its distribution. The distribution then counts the predictions.

    The total variation is over `pairs` pairs of rows, drawn from the batch, or over all of them.
    """

    def step(model: nn.Module, batch: Batch) -> Tensor:
        rng = np.random.default_rng([seed, *b"tv", int(transition.updates)])
        logits, _ = model(batch.x)
        loss = batch.mean(forward_nll, logits, batch.noisy_labels, transition.sample(rng))
        predicted = _drawn_classes(fabric, logits.detach(), rng)
        compared = None
        if pairs is not None:
            compared = torch.from_numpy(rng.integers(len(logits), size=(2, pairs))).to(logits.device)
        # `total_variation_nll`, with weights of rows
        loss = loss - TOTAL_VARIATION_WEIGHT * total_variation(logits, compared)
        counts = count_pairs(predicted, batch.noisy_labels, logits.shape[1], batch.weights)
        summed: Tensor = fabric.all_reduce(counts, reduce_op="sum")  # type: ignore[assignment]
        transition.observe(summed)
        return loss

    return step


def count_pairs(
    predicted: Tensor, noisy_labels: Tensor, num_classes: int, weights: Tensor | None = None
) -> Tensor:
    """How often class i was predicted and label j given, (C, C), each row counted by its weight."""
    pairs = torch.bincount(num_classes * predicted + noisy_labels, weights, minlength=num_classes**2)
    return pairs.view(num_classes, num_classes).float()


def _drawn_classes(fabric: Fabric, logits: Tensor, rng: np.random.Generator) -> Tensor:
    """A class for each row, drawn from its prediction.

    Numbers are drawn for the whole batch. Process r of W takes every W-th from the r-th on, as it does rows.
    """
    drawn = rng.random(len(logits) * fabric.world_size)[fabric.global_rank :: fabric.world_size]
    levels = F.softmax(logits.float(), dim=1).cumsum(dim=1)
    places = torch.from_numpy(drawn).to(levels)[:, None]
    return torch.searchsorted(levels, places, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
