"""`decoupling`: two networks, updated only on samples whose predictions disagree.

Malach and Shalev-Shwartz: Decoupling "when to update" from "how to update", NeurIPS 2017. Where both
networks predict the same class they learn nothing, so a wrong label that contradicts both does no harm.

Notes
-----
- A batch's loss is the mean over the samples in disagreement. A batch without any has loss zero; the
  optimiser's momentum and weight decay still act.
- Both networks start from random weights, without a first phase of updates on all samples.
- The first network predicts. No noise rate is needed; T-hat is estimated for the record.
"""

from __future__ import annotations

from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import (
    Pair,
    conclude_with,
    each_loss,
    train_from_scratch,
    weighted_mean,
    whole_batch,
)
from trevision.methods.stages import estimate_transition, fit_noisy_posterior
from trevision.training.loop import Batch, Step


def fit(problem: Problem) -> Learned:
    networks = Pair(problem.make_network(0), problem.make_network(1))
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    trained = train_from_scratch(problem, "decoupling", networks, disagreement_step(problem.runtime.fabric))
    return conclude_with(problem, initial, [posterior, trained], part="first")


DECOUPLING = Method("decoupling", fit)


def disagreement_step(fabric: Fabric) -> Step:
    """The sum of both networks' mean losses over the samples where their predictions differ."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, _ = model(batch.x)
        first, second = logits.detach().argmax(dim=2)
        disagree = whole_batch(fabric, (first != second).float())
        losses = each_loss(logits, batch.noisy_labels)
        return weighted_mean(fabric, losses, disagree, batch.weights).sum()

    return step
