"""`rent`: plain cross-entropy on rows drawn anew, each as often as its label is probably right.

Bae, Shin, Na, Moon: Dirichlet-based Per-Sample Weighting by Transition Matrix for Noisy Label Learning,
ICLR 2024. The weights are those of `reweight`, g_y / (T'g)_y. They do not multiply the loss: as many rows as
a batch has are drawn from it, with replacement and in proportion to the weights, and the loss is theirs.

Notes
-----
- T-hat stays fixed and training continues from stage 1, as in `reweight`, with the rate of `reweight`. The
  paper takes T from several estimators, some of which learn it along with the network.
- Weights and loss are of the same pass through the network, so an epoch costs what one of `reweight` does.
- A row's own weight multiplies the weight it is drawn by: one that counts twice is drawn as two would be.
- The draw depends on (seed, epoch, first row of the batch) alone, so that a resumed run draws the same.
  Several processes draw from the whole batch, as one would.
"""

from __future__ import annotations

import numpy as np
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.losses import importance_weights, resampled_counts, resampled_nll
from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import my_part, whole_batch
from trevision.methods.stages import continue_through, estimate_transition, fit_noisy_posterior
from trevision.training.loop import Batch, Step


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    phase = problem.schedule.classifier_through(initial.matrix, weighted=True)
    step = resampling_step(problem.runtime.fabric, problem.seed)
    trained = continue_through(problem, posterior, initial, step, phase)
    return conclude_guarded(problem, initial, [posterior, trained])


RENT = Method("rent", fit, options=("prior",))


def resampling_step(fabric: Fabric, seed: int) -> Step:
    """The mean loss of rows drawn from the whole batch by their weights."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, matrix = model(batch.x)
        weights = importance_weights(logits, batch.noisy_labels, matrix)
        if batch.weights is not None:
            weights = weights * batch.weights
        first = int(whole_batch(fabric, batch.rows.to(weights.device))[0])
        rng = np.random.default_rng([seed, *b"rent", batch.epoch, first])
        counts = my_part(fabric, resampled_counts(whole_batch(fabric, weights), rng))
        return resampled_nll(logits, batch.noisy_labels, counts)

    return step
