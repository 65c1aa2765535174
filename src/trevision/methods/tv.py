"""`tv`: network and T are learnt together from the start; total variation keeps predictions apart.

Zhang, Niu, Sugiyama: Learning Noise Transition Matrix from Only Noisy Labels via Total Variation
Regularization, ICML 2021. Noise brings posteriors closer together. Of all pairs of T and clean posterior that
explain the noisy posterior, the true pair has the clean posteriors farthest apart. T is not learnt by
gradients: each row is a Dirichlet distribution that counts which labels go with which predicted class.

Notes
-----
- gamma (0.1), the factors of old and new counts (0.999 and 0.01) and the start, 10 on the diagonal and 0
  elsewhere, are the released settings for MNIST (CIFAR starts with 100). So T starts as the identity, and
  training as plain cross-entropy.
- As released, the loss uses a T drawn from the distribution, and the counts use a class drawn from each
  prediction. Both are drawn from (seed, number of the update), so that a resumed run draws the same.
- The total variation is a mean over all pairs of a batch, whatever the weights of rows; the paper draws
  some. With several processes, each pairs its own samples.
- Optimiser and epochs are the schedule's.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.losses import TOTAL_VARIATION_WEIGHT, forward_nll, total_variation
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import conclude_learnt, train_from_scratch, whole_phase
from trevision.methods.stages import train_steadily
from trevision.training.loop import Batch, StageResult, Step
from trevision.training.phase import Phase
from trevision.transition import DirichletTransition


def fit(problem: Problem) -> Learned:
    start = torch.eye(problem.data.num_classes)

    def train(name: str, phase: Phase) -> StageResult:
        transition = DirichletTransition(start)
        step = counting_step(problem.runtime.fabric, transition, problem.seed)
        return train_from_scratch(
            problem, name, problem.make_network(), step, transition=transition, phase=phase
        )

    trained = train_steadily(problem, "tv", whole_phase(problem), train)
    return conclude_learnt(problem, trained, DirichletTransition(start))


TV = Method("tv", fit, starts_from_estimate=False)


def counting_step(fabric: Fabric, transition: DirichletTransition, seed: int) -> Step:
    """The loss with a T drawn from its distribution. The distribution then counts the predictions."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        rng = np.random.default_rng([seed, *b"tv", int(transition.updates)])
        logits, _ = model(batch.x)
        loss = batch.mean(forward_nll, logits, batch.noisy_labels, transition.sample(rng))
        loss = loss - TOTAL_VARIATION_WEIGHT * total_variation(logits)  # `total_variation_nll`, weighted
        predicted = _drawn_classes(fabric, logits.detach(), rng)
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
