"""`recursive`: T and the classifier are learnt in turns, each round from out-of-sample predictions.

    T_0  from stage 1's out-of-sample predictions (latent, docs/latent.md)
    for r = 1, 2:
        g_r  two networks, each trained through T_{r-1} (Forward) on one half of the rows, predict the other
        T_r  maximises sum log sum_i T[i, y] q_i(x) over the training rows, q = link(g_r) fitted with it
        stop if the labels do not contradict T_{r-1} compared with T_r, or if T_r predicts validation labels
        worse by more than chance; else T_r, with its classes pooled, replaces T_{r-1}
    classifier: a fresh network through the last T kept, on all rows

The paper ends with the wish to learn T and the classifier recursively. Counting labels against a classifier's
predicted classes would be one way, but has two biases: the classifier's mistakes are counted as label noise,
and a network leans towards the labels it was trained on. The likelihood with a latent clean class removes the
first. Predicting each half by the network of the other half removes the second, and costs no more than one
training on all rows. docs/methods/recursive.md derives it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2

from trevision.estimation import LATENT, LatentFit, ProbabilityRows, pooled_transition
from trevision.methods.cross_fit import cross_fit
from trevision.methods.guard import conclude_guarded
from trevision.methods.method import Method
from trevision.methods.problem import Learned, OutOfSample, Problem
from trevision.methods.stages import (
    estimate_transition,
    fit_noisy_posterior,
    train_anew,
    without_zeros,
)
from trevision.prior import Prior
from trevision.training.loop import StageResult, TrainingDiverged

ROUNDS = 2
HALVES = 2

# Level of the test whether the labels contradict a T.
CONTRADICTED = 0.99

# A step is refused if a class keeps less than this share of its rows.
LEAST_KEPT = 0.5


@dataclass(frozen=True, eq=False)
class Step:
    """The step from T_{r-1} to T_r. Both use the same predictions, each with its own fitted link.

    Attributes
    ----------
    transition : ndarray of shape (C, C)
        T_r.
    evidence : float
        Twice the log likelihood ratio of the training labels.
    gain, chance : float
        How much T_r lowers the mean loss on validation labels, and the standard error of this number.
    shares, shares_before : ndarray of shape (C,)
        The share of training rows in each clean class, with T_r and with T_{r-1}.
    """

    transition: np.ndarray
    evidence: float
    gain: float
    chance: float
    shares: np.ndarray
    shares_before: np.ndarray


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    best = initial.matrix
    history: list[dict[str, Any]] = []
    doubts: list[str] = []
    seconds = initial.seconds
    ended = f"all {ROUNDS} rounds done"
    for number in range(1, ROUNDS + 1):
        try:
            predicted = cross_fit(problem, _through(best), HALVES, f"round-{number}")
        except TrainingDiverged as diverged:
            ended = f"round {number} was not kept: {diverged}"
            break
        history += predicted.history
        doubts += predicted.warnings
        began = time.perf_counter()
        step = reestimate(problem, predicted, best)
        seconds += time.perf_counter() - began
        reason = why_not(step)
        if reason:
            ended = f"round {number} was not kept: {reason}"
            break
        best = step.transition
    rounds = replace(initial, seconds=seconds, warnings=(*initial.warnings, *doubts))
    trained = train_anew(problem, best, "classifier", problem.schedule.whole_epochs)
    learned = conclude_guarded(problem, rounds, [posterior, trained])
    first = len(posterior.history)
    with_rounds = learned.history[:first] + history + learned.history[first:]
    return replace(learned, history=with_rounds, stopped_because=f"{learned.stopped_because}; {ended}")


RECURSIVE = Method("recursive", fit, own_estimator="latent", most_classes=LATENT.most_classes)


def reestimate(problem: Problem, predicted: OutOfSample, before: np.ndarray) -> Step:
    """Estimate T again from out-of-sample clean posteriors, and compare it with the T before."""
    data, size = problem.data, len(before)
    labels, valid_labels = data.train_y.cpu().numpy(), data.valid_y.cpu().numpy()
    rows = ProbabilityRows(predicted.train_probs, labels)
    # A T counted from pairs of labels may have zeros. A single label there would contradict it for sure.
    before = without_zeros(before, np.bincount(labels, minlength=size))
    start = LATENT.start_from(before)
    weights = None if data.train_weights is None else data.train_weights.double().numpy()
    stay = LATENT.fit(rows, weights, start=start, knowledge=Prior(known_rows=dict(enumerate(before))))
    move = LATENT.fit(rows, weights, start=start)
    transition = without_zeros(pooled_transition(move.counts), move.counts.sum(axis=1))

    def validation_losses(fit: LatentFit, matrix: np.ndarray) -> np.ndarray:
        noisy = fit.clean_posterior(predicted.valid_probs) @ matrix
        losses: np.ndarray = -np.log(noisy[np.arange(len(noisy)), valid_labels])
        return losses

    gains = validation_losses(stay, before) - validation_losses(move, transition)
    gain, chance = float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
    if data.valid_weights is not None:
        shares = data.valid_weights.double().numpy()
        shares /= shares.sum()
        gain = float(shares @ gains)
        chance = float(np.sqrt(shares**2 @ (gains - gain) ** 2))
    return Step(
        transition,
        evidence=2 * move.fitted_rows * (stay.objective - move.objective),
        gain=gain,
        chance=chance,
        shares=move.counts.sum(axis=1) / move.counts.sum(),
        shares_before=stay.counts.sum(axis=1) / stay.counts.sum(),
    )


def why_not(step: Step) -> str:
    """Why the step is refused; empty if it is accepted."""
    if not np.isfinite(step.transition).all():
        return "its T is not finite"
    lost = np.flatnonzero(step.shares < LEAST_KEPT * step.shares_before)
    if len(lost):
        return f"class {lost[0]} lost more than half of its rows"
    size = len(step.transition)
    limit = float(chi2.ppf(CONTRADICTED, size * (size - 1)))
    if not step.evidence > limit:
        return f"the labels do not contradict the T before it (chi2 {step.evidence:.1f}, limit {limit:.1f})"
    if not step.gain >= -step.chance:
        return f"noisy validation loss higher by {-step.gain:.4f}, its standard error {step.chance:.4f}"
    return ""


def _through(transition: np.ndarray) -> Callable[[Problem, str], StageResult]:
    """Training through a fixed T, for `cross_fit`."""

    def train(part: Problem, name: str) -> StageResult:
        return train_anew(part, transition, name, part.schedule.classifier.epochs)

    return train
