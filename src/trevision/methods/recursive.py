"""`recursive`: T and the classifier learnt in turns, each round on predictions that no label could bias.

    T_0  from stage 1's out-of-sample predictions (latent, docs/latent.md)
    for r = 1, 2:
        g_r  two networks, each trained through T_{r-1} (Forward) on one half of the rows, predict the other
        T_r  maximises sum log sum_i T[i, y] g_i(x) over all rows, g = link(g_r) calibrated with it
        keep T_r if it predicts the noisy validation labels better than what came before, else stop;
        stop too if it hardly moved
    classifier: a fresh network through the last T kept, on all rows

The paper ends with the wish to learn T and the classifier recursively. Counting labels against a classifier's
own classes would do it, but is biased twice: the classifier's mistakes are counted as label noise, and a
network that has seen a label leans to it. The likelihood with a latent clean class deconvolves the first, and
halves that are predicted by the network of the other half avoid the second; they cost together what one
training on all rows does. docs/methods/recursive.md derives it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trevision.estimation import (
    LatentFit,
    ProbabilityRows,
    fit_latent,
    likeliest_prior,
    pooled_transition,
    transition_error,
)
from trevision.methods.cross_fit import cross_fit
from trevision.methods.problem import Learned, OutOfSample, Problem
from trevision.methods.stages import (
    conclude,
    estimate_transition,
    fit_noisy_posterior,
    train_anew,
    without_zeros,
)
from trevision.training import StageResult

ROUNDS = 2
HALVES = 2

# T has settled where a round moves less than this share of it: what a classifier through T makes of that is
# nothing, and the sampling error of 60,000 labels in ten classes is larger.
SETTLED = 0.01

# A class that keeps less than this share of the rows it had is being lost to another.
LEAST_KEPT = 0.5


@dataclass(frozen=True, eq=False)
class Round:
    """One estimate of T, the share of rows in each class, and the loss of noisy validation labels with it."""

    transition: np.ndarray
    prior: np.ndarray
    validation_loss: float


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    labels = np.bincount(problem.data.train_y.cpu().numpy(), minlength=len(initial))
    prior = likeliest_prior(initial, labels / labels.sum())
    # A plain noisy posterior is what every T must be better than: it needs none.
    best = Round(initial, prior, posterior.selected["noisy_validation_loss"])
    history: list[dict[str, Any]] = []
    ended = f"all {ROUNDS} rounds done"
    for number in range(1, ROUNDS + 1):
        found = cross_fit(problem, _through(best.transition), HALVES, f"round-{number}")
        history += found.history
        began = time.perf_counter()
        candidate = reestimate(problem, found, best.transition)
        problem.estimation_seconds.append(time.perf_counter() - began)
        reason = why_not(candidate, best)
        if reason:
            ended = f"round {number} was not kept: {reason}"
            break
        moved = transition_error(best.transition, candidate.transition)
        best = candidate
        if moved < SETTLED:
            ended = f"T settled in round {number}, which moved it by {moved:.4f}"
            break
    trained = train_anew(problem, best.transition, "classifier")
    learned = conclude(problem, initial, [posterior, trained])
    first = len(posterior.history)
    told = learned.history[:first] + history + learned.history[first:]
    return replace(learned, history=told, stopped_because=f"{learned.stopped_because}; {ended}")


def reestimate(problem: Problem, found: OutOfSample, before: np.ndarray) -> Round:
    """T from the training rows' predictions, and how well it predicts the validation rows' labels."""
    data = problem.data
    size = len(before)
    start = LatentFit(before, np.eye(size), np.zeros(size), None, np.zeros((size, size)), np.inf)
    rows = ProbabilityRows(found.train_probs, data.train_y.cpu().numpy())
    fit = fit_latent(rows, start=start)
    transition = without_zeros(pooled_transition(fit.counts), fit.counts.sum(axis=1))
    predicted = fit.clean_posterior(found.valid_probs) @ transition
    given = predicted[np.arange(len(predicted)), data.valid_y.cpu().numpy()]
    return Round(transition, fit.counts.sum(axis=1) / fit.counts.sum(), float(-np.log(given).mean()))


def why_not(candidate: Round, best: Round) -> str:
    """Why the candidate should not take the place of the best so far, or nothing."""
    if not np.isfinite(candidate.transition).all():
        return "its T is not finite"
    lost = np.flatnonzero(candidate.prior < LEAST_KEPT * best.prior)
    if len(lost):
        return f"class {lost[0]} lost more than half of its rows"
    if not candidate.validation_loss < best.validation_loss:
        return f"noisy validation loss {candidate.validation_loss:.4f}, not below {best.validation_loss:.4f}"
    return ""


def _through(transition: np.ndarray):
    """Training through a fixed T, for `cross_fit`."""

    def train(part: Problem, name: str) -> StageResult:
        return train_anew(part, transition, name)

    return train
