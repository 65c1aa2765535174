"""Annotators and a classifier that learn from each other.

    1. T_a and P(clean | answers), from the answers alone.
    2. For some shares s, a classifier learns P_s(clean | answers) ~ P(clean) prod_a T_a[i, y_na]^s on
       all folds but one. The s whose classifier makes held-out answers likeliest is taken.
    3. T_a and P(clean | answers, x), with what that classifier says of rows that it has not learnt from.

Mistakes that annotators share make P(clean | answers) too sure: five answers tell as much as two or three
independent ones. s is how many independent answers an answer counts as. It is chosen by answers to rows that
the classifier has not seen, so no true label takes part.

The classifier learns from the answers, and not from P(clean | answers, x): its own opinion would come back to
it as a label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from trevision.estimation.annotators import (
    LEAST_PROBABILITY,
    Annotators,
    Answers,
    answer_logs,
    fit_annotators,
    normalised,
)
from trevision.noise import FloatArray

COUNTS_AS = (1.0, 0.5, 0.25)
"""The shares s that are compared."""

POWERS = (0.1, 10.0)
"""The least and the greatest power that a classifier's probabilities are raised to."""

Predict = Callable[[FloatArray, str], FloatArray]
"""From targets (n, C) and a name to P(clean | x) of each row, by a model that was not fitted on it."""


@dataclass(frozen=True, eq=False)
class CrowdLearnt:
    """What annotators and a classifier learnt from each other.

    Attributes
    ----------
    annotators : Annotators
        T of each annotator and P(clean | answers, x). Its `counts_as` is s.
    alone : Annotators
        The same from the answers alone.
    targets : ndarray of shape (n, C)
        What a classifier is to learn: P_s(clean | answers), without its own opinion.
    held_out : ndarray of shape (n, C)
        P(clean | x) by models that were not fitted on the row.
    history : list of dict
        What was done, step by step.
    """

    annotators: Annotators
    alone: Annotators
    targets: FloatArray
    held_out: FloatArray
    history: list[dict[str, Any]]


def learn_with_classifier(
    answers: Answers,
    predict: Predict,
    *,
    level: float = 0.9,
    sample_weight: ArrayLike | None = None,
    counts_as: tuple[float, ...] = COUNTS_AS,
) -> CrowdLearnt:
    """Let annotators and a classifier learn from each other.

    Parameters
    ----------
    answers : Answers
        Who gave which label to which row.
    predict : callable
        Fits models on targets (n, C) without a part of the rows, and predicts that part: P(clean | x) of
        every row. Its second argument names the step.
    level : float, default=0.9
        The share of intervals that are to hold the truth.
    sample_weight : array-like of shape (n,), optional
        How often each row counts.
    counts_as : tuple of float
        The shares s to compare. With one of them, models are fitted once for each fold.

    Returns
    -------
    CrowdLearnt

    Examples
    --------
    A classifier that always knows the class, and annotators who answer at random:

    >>> clean = np.repeat([0, 1], 50)
    >>> table = np.random.default_rng(0).integers(2, size=(100, 2))
    >>> learnt = learn_with_classifier(Answers.of_table(table, 2), lambda targets, _: np.eye(2)[clean])
    >>> bool((learnt.annotators.clean_posterior.argmax(axis=1) == clean).all())
    True
    """
    alone = fit_annotators(answers, answers.classes, level=level, sample_weight=sample_weight)
    weights = np.ones(answers.rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    history: list[dict[str, Any]] = []
    best, held_out, highest = counts_as[0], np.empty(0), -np.inf
    for share in counts_as:
        predicted = predict(targets_of(answers, alone, share), f"answers-{share:g}")
        likelihood = answers_log_likelihood(answers, alone.transitions, predicted, weights)
        history.append({"step": "learn", "counts_as": share, "log_likelihood": likelihood})
        if likelihood > highest:
            best, held_out, highest = share, predicted, likelihood
    history.append({"step": "choose", "counts_as": best})
    explained = sharpened(held_out, alone.clean_posterior, weights)
    together = fit_annotators(answers, answers.classes, explained, level, sample_weight)
    changed = together.clean_posterior.argmax(axis=1) != alone.clean_posterior.argmax(axis=1)
    history.append({"step": "annotators again", "labels_changed": int(changed.sum())})
    together = replace(together, counts_as=best)
    return CrowdLearnt(together, alone, targets_of(answers, together, best), held_out, history)


def targets_of(answers: Answers, annotators: Annotators, counts_as: float = 1.0) -> FloatArray:
    """P_s(clean | answers) of each row, (n, C).

    Parameters
    ----------
    answers : Answers
        Who gave which label to which row.
    annotators : Annotators
        T of each annotator and P(clean).
    counts_as : float, default=1.0
        s, how many independent answers an answer counts as.

    Examples
    --------
    >>> given = Answers.of_table([[0, 0, 1], [1, 1, 1], [0, 0, 0]], 2)
    >>> crowd = fit_annotators(given, 2)
    >>> sure, less_sure = targets_of(given, crowd), targets_of(given, crowd, counts_as=0.25)
    >>> bool((sure.max(axis=1) > less_sure.max(axis=1)).all())
    True
    """
    prior = np.log(np.maximum(annotators.class_prior, LEAST_PROBABILITY))
    return normalised(prior + counts_as * answer_logs(answers, annotators.transitions))


def answers_log_likelihood(
    answers: Answers, transitions: FloatArray, clean_probs: FloatArray, weights: FloatArray
) -> float:
    """The mean of log sum_i g_i^a(x) T_a[i, y] over answers, each weighted by its row.

    The power a is the one that makes it largest: that a model is too sure, or not sure enough, is no reason
    to prefer another.
    """
    said = transitions[answers.who, :, answers.label]
    counted = weights[answers.row] / weights[answers.row].sum()

    def mean(power: float) -> float:
        own = (powered(clean_probs, power)[answers.row] * said).sum(axis=1)
        return float(counted @ np.log(np.maximum(own, LEAST_PROBABILITY)))

    return mean(_best_power(mean))


def sharpened(probs: FloatArray, clean_posterior: FloatArray, weights: FloatArray) -> FloatArray:
    """Predictions raised to the power that explains P(clean) best, (n, C)."""

    def explained(power: float) -> float:
        logs = np.log(np.maximum(powered(probs, power), LEAST_PROBABILITY))
        return float(weights @ (clean_posterior * logs).sum(axis=1)) / float(weights.sum())

    return powered(probs, _best_power(explained))


def powered(probs: FloatArray, power: float) -> FloatArray:
    """Probabilities raised to a power, and normalised."""
    return normalised(power * np.log(np.maximum(probs, LEAST_PROBABILITY)))


def _best_power(value: Callable[[float], float]) -> float:
    found = minimize_scalar(lambda log: -value(float(np.exp(log))), bounds=np.log(POWERS), method="bounded")
    return float(np.exp(found.x))
