"""`co-teaching`: two networks, each trained on the samples of small loss to the other.

Han, Yao, Yu, Niu, Xu, Hu, Tsang, Sugiyama: Co-teaching: Robust Training of Deep Neural Networks with
Extremely Noisy Labels, NeurIPS 2018. A network learns the regular samples first, so those of small loss are
probably right; what one network gets wrong about them, the other filters in another way.

Notes
-----
- The loss of the kept samples is their mean. (The authors' released code divides that mean by their number
  once more, which lowers the rate of learning.)
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
    """Each network's mean loss over the samples that are of small loss to the other one, added."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, _ = model(batch.x)
        losses = each_loss(logits, batch.noisy_labels)
        kept = smallest(whole_batch(fabric, losses.detach()), share(batch.epoch))
        of_the_other = kept.flip(0)
        return weighted_mean(fabric, losses, of_the_other).sum()

    return step
