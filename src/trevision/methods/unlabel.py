"""`unlabel`: rows whose label T and the classifier call wrong keep their content and lose their label.

    noisy-posterior -> T-hat -> two networks through T-hat (Forward)
    in two rounds, each network is trained further on targets that the other one sets:

        q_i  proportional to  g_i(x) T[i, y]        if the given label y seems right: q_y >= 1/2
        q_i  proportional to  g_i(x)^2              else: y is left out, and g is made surer

The leaders on labels of people split the rows by the size of their loss and learn the doubtful ones as
unlabelled (DivideMix: Li, Socher and Hoi, ICLR 2020). Here T and g split them: T says how often a class is
given which label, so no mixture has to be guessed. As there, two networks teach each other, so that one does
not confirm its own mistakes, and rows are mixed in pairs (Zhang et al., mixup, ICLR 2018).

Notes
-----
- Targets are set once a round, from images without augmentation (both views where mirror images are usual).
- The second network ends a round earlier: its last targets would teach nobody. The first one predicts.
- A mixed row is nearer to its own image than to its partner's. Pairs and shares depend on (seed, stage,
  epoch, first row of the batch) alone, so that a resumed run mixes the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from trevision.estimation import clean_given_label
from trevision.losses import soft_cross_entropy
from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.objectives import forward_objective
from trevision.methods.problem import EstimatedTransition, Learned, Problem
from trevision.methods.stages import (
    continue_through,
    corrected_step,
    estimate_transition,
    fit_noisy_posterior,
    predicted_probs,
    run_problem_stage,
    train_classifier,
)
from trevision.noise import FloatArray, IntArray
from trevision.training.loop import Batch, StageResult, Step
from trevision.training.model import NoisyLabelModel
from trevision.transition import Transition

ROUNDS = 2
SEEMS_RIGHT = 0.5
SHARPENING = 2.0
"""The power of g that a row without a label learns."""

MIXING = 0.75
"""Both parameters of the Beta distribution of shares, as in MixMatch (Berthelot et al. 2019)."""


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    first = train_classifier(problem, posterior, initial, forward_objective, weighted=False)
    second = _second_network(problem, initial)
    results = [posterior, second, first]
    for number in range(1, ROUNDS + 1):
        by_first, by_second = (targets_by(problem, each, initial.matrix) for each in (first, second))
        if number < ROUNDS:
            second = _taught(problem, second, initial, by_first, f"second-{number}")
            results.append(second)
        first = _taught(problem, first, initial, by_second, f"first-{number}")
        results.append(first)
    return conclude_guarded(problem, initial, results)


UNLABEL = Method("unlabel", fit, options=("prior",), family="forward")


def targets_by(problem: Problem, trained: StageResult, transition: FloatArray) -> FloatArray:
    """What a network makes of the training rows, as targets for the other one, (n, C)."""
    probs = predicted_probs(problem, trained, problem.data.train_x).astype(np.float64)
    return soft_targets(probs, problem.data.train_y.cpu().numpy(), transition)


def soft_targets(clean_probs: FloatArray, noisy_labels: IntArray, transition: FloatArray) -> FloatArray:
    """P(clean | x, given) where the given label seems right; without the label, and surer, elsewhere.

    >>> soft_targets(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]), np.array([[0.8, 0.2], [0.2, 0.8]]))
    array([[0.97297297, 0.02702703],
           [0.98780488, 0.01219512]])
    """
    with_label = clean_given_label(clean_probs, transition, noisy_labels)
    seems_right = with_label[np.arange(len(noisy_labels)), noisy_labels] >= SEEMS_RIGHT
    without = clean_probs**SHARPENING
    without /= without.sum(axis=1, keepdims=True)
    return np.where(seems_right[:, None], with_label, without)


def mixing_step(seed: int, stage: str) -> Step:
    """Cross-entropy of rows mixed in pairs against targets mixed alike."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        assert batch.targets is not None
        rng = np.random.default_rng([seed, *stage.encode(), batch.epoch, int(batch.rows[0])])
        count = len(batch.rows)
        partners = torch.from_numpy(rng.permutation(count)).to(batch.x.device)
        drawn = rng.beta(MIXING, MIXING, size=count)
        own = torch.from_numpy(np.maximum(drawn, 1 - drawn)).to(batch.targets)
        shares = own.view(-1, *[1] * (batch.x.ndim - 1))
        rows = batch.x.float()
        logits, _ = model(shares * rows + (1 - shares) * rows[partners])
        targets = own[:, None] * batch.targets + (1 - own[:, None]) * batch.targets[partners]
        return batch.mean(soft_cross_entropy, logits, targets)

    return step


def _second_network(problem: Problem, initial: EstimatedTransition) -> StageResult:
    """Another network, trained through T-hat from its own random start."""
    fixed = Transition(torch.tensor(initial.matrix, dtype=torch.float32), prior=problem.prior)
    model = NoisyLabelModel(problem.standardise, problem.make_network(1), fixed)
    phase = problem.schedule.classifier_through(initial.matrix, weighted=False)
    return run_problem_stage(problem, "second", model, corrected_step(forward_objective), phase)


def _taught(
    problem: Problem, before: StageResult, initial: EstimatedTransition, targets: FloatArray, stage: str
) -> StageResult:
    """A network trained further on the targets that the other network set."""
    told = replace(problem.data, train_targets=torch.from_numpy(targets).float())
    step = mixing_step(problem.seed, stage)
    return continue_through(
        replace(problem, data=told), before, initial, step, problem.schedule.classifier, name=stage
    )
