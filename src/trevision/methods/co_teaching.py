"""`co-teaching`: two networks, each trained on the samples with small loss in the other.

Han, Yao, Yu, Niu, Xu, Hu, Tsang, Sugiyama: Co-teaching: Robust Training of Deep Neural Networks with
Extremely Noisy Labels, NeurIPS 2018. A network learns the regular samples first, so labels with a small loss
are probably right. The two networks make different mistakes, so each filters the mistakes of the other.

Notes
-----
- The loss is the mean over the kept samples. (The authors' released code divides this mean by their number
  once more, which lowers the effective rate.)
- T_k is 10 epochs but at most a third of a short schedule. Optimiser and epochs are the schedule's.
- The first network predicts; the paper reports either.
- The noise rate is estimated unless given; the paper takes it as known.
"""

from __future__ import annotations

from collections.abc import Callable

from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import (
    Pair,
    conclude_with,
    each_loss,
    rate_to_go_by,
    share_over_time,
    smallest,
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
    rate = rate_to_go_by(problem, initial)
    step = exchange_step(problem.runtime.fabric, share_over_time(problem, rate.value))
    trained = train_from_scratch(problem, "co-teaching", networks, step)
    return conclude_with(problem, initial, [posterior, trained], rate, part="first")


CO_TEACHING = Method("co-teaching", fit, options=("noise_rate",))


def exchange_step(fabric: Fabric, share: Callable[[int], float]) -> Step:
    """The sum of both networks' mean losses, each over the samples with small loss in the other."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, _ = model(batch.x)
        losses = each_loss(logits, batch.noisy_labels)
        kept = smallest(whole_batch(fabric, losses.detach()), share(batch.epoch))
        of_the_other = kept.flip(0)
        return weighted_mean(fabric, losses, of_the_other, batch.weights).sum()

    return step
