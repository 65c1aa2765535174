"""Annotators and a classifier that learn from each other.

    1. T_a and P(clean | answers), from the answers alone.
    2. A classifier learns P(clean | answers) and predicts z(x) for rows that it has not learnt from.
    3. s: how many independent answers an answer counts as, by z.
    4. T_a and P(clean | answers, x), with z; and what the classifier is to learn at last,
       P_s(clean | answers) ~ P(clean) prod_a T_a[i, y_na]^s.

Where rows differ in how hard they are, the answers to a hard row go wrong together and P(clean) is too sure:
five answers tell as much as two independent ones. The answers themselves hardly show it. The classifier is an
outside witness. If it knows the answers only through the clean class,

    E[z(x) | answers] = sum_i P(clean = i | answers) E[z(x) | clean = i]

is linear in the true P(clean | answers). E[z | clean = i] is read off the rows whose answers are surest, as
anchor points are. s is the power for which the equation holds best over all rows. No true label takes part.
Rows that are hard for both, people and classifier, make s too small: the truth mostly lies between s and 1.
A mistake that everybody makes, as surely as they are right elsewhere, is not seen at all.

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
    discounted,
    fit_annotators,
    normalised,
)
from trevision.noise import FloatArray

LEAST_SHARE = 0.05
"""The least that an answer may count."""

SUREST = 0.2
"""The share of a class's rows that E[z | clean] is read off: those whose answers are surest."""

CLEAR = 6.63
"""By how much s must fit better than 1, in twice the log-likelihood: one in a hundred by chance."""

LEAST_OPINION = 1e-3
"""A classifier's probabilities below it count as it: many models say "impossible" too lightly."""

POWERS = (0.1, 10.0)
"""The least and the greatest power that a classifier's probabilities are raised to."""

Predict = Callable[[FloatArray], FloatArray]
"""From targets (n, C) to P(clean | x) of each row, (n, C), by a model that was not fitted on that row."""


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
        z(x), P(clean | x) by models that were not fitted on the row.
    history : list of dict
        What was done, step by step.

    Examples
    --------
    >>> given = Answers.of_table([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]] * 5, 2)
    >>> learnt = learn_with_classifier(given, lambda targets: np.full((20, 2), 0.5))
    >>> learnt.targets.shape, learnt.annotators.counts_as
    ((20, 2), 1.0)
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
    discount: bool = True,
) -> CrowdLearnt:
    """Let annotators and a classifier learn from each other.

    Parameters
    ----------
    answers : Answers
        Who gave which label to which row.
    predict : callable
        Fits models on targets (n, C) without a part of the rows, and predicts that part: P(clean | x) of
        every row.
    level : float, default=0.9
        The share of intervals that are to hold the truth.
    sample_weight : array-like of shape (n,), optional
        How often each row counts.
    discount : bool, default=True
        Whether s is estimated. False: an answer counts as one.

    Returns
    -------
    CrowdLearnt

    Examples
    --------
    A classifier that always knows the class, and annotators who answer at random:

    >>> clean = np.repeat([0, 1], 50)
    >>> table = np.random.default_rng(0).integers(2, size=(100, 2))
    >>> learnt = learn_with_classifier(Answers.of_table(table, 2), lambda targets: np.eye(2)[clean])
    >>> bool((learnt.annotators.clean_posterior.argmax(axis=1) == clean).all())
    True
    """
    alone = fit_annotators(answers, answers.classes, level=level, sample_weight=sample_weight)
    weights = np.ones(answers.rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    held_out = predict(targets_of(answers, alone))
    share, evidence = 1.0, 0.0
    if discount:
        share, evidence = independent_share(answers, alone, held_out, weights)
    together = fit_annotators(
        answers, answers.classes, sharpened(held_out, alone.clean_posterior, weights), level, sample_weight
    )
    changed = together.clean_posterior.argmax(axis=1) != alone.clean_posterior.argmax(axis=1)
    history = [
        {"step": "count answers", "counts_as": share, "evidence": evidence},
        {"step": "annotators with the classifier", "labels_changed": int(changed.sum())},
    ]
    targets = targets_of(answers, together, share)
    posterior = discounted(together.clean_posterior, share)
    together = replace(together, counts_as=share, clean_posterior=posterior)
    return CrowdLearnt(together, alone, targets, held_out, history)


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


def independent_share(
    answers: Answers, annotators: Annotators, held_out: FloatArray, weights: FloatArray
) -> tuple[float, float]:
    """s, and twice the log-likelihood by which it fits better than 1.

    The misfit of s is the sum of squares of z(x) - sum_i P_s(clean = i | answers) E[z | clean = i]. Where s
    is not clearly better, it is 1.
    """
    if np.ptp(held_out, axis=0).max() < LEAST_OPINION:
        return 1.0, 0.0  # the classifier says the same of all rows
    expected = _opinion_of_classes(answers, annotators, held_out, weights)
    count = weights.sum() ** 2 / (weights**2).sum()

    def misfit(log_share: float) -> float:
        left = held_out - targets_of(answers, annotators, float(np.exp(log_share))) @ expected
        return float(weights @ (left**2).sum(axis=1))

    found = minimize_scalar(
        misfit, bounds=(np.log(LEAST_SHARE), 0.0), method="bounded", options={"xatol": 1e-2}
    )
    least, whole = float(found.fun), misfit(0.0)
    if least <= 0 or whole <= least:
        return 1.0, 0.0
    evidence = float(count * np.log(whole / least))
    return (float(np.exp(found.x)), evidence) if evidence > CLEAR else (1.0, evidence)


def _opinion_of_classes(
    answers: Answers, annotators: Annotators, held_out: FloatArray, weights: FloatArray
) -> FloatArray:
    """E[z | clean = i], (C, C), from the rows whose answers speak for class i most clearly."""
    logs = answer_logs(answers, annotators.transitions)
    likeliest = logs.argmax(axis=1)
    lead = logs.max(axis=1) - np.partition(logs, -2, axis=1)[:, -2]
    opinions = np.empty((answers.classes, answers.classes))
    for label in range(answers.classes):
        own = np.flatnonzero((likeliest == label) & (weights > 0))
        if len(own) == 0:  # nothing is known, and nothing depends on it
            opinions[label] = np.eye(answers.classes)[label]
            continue
        surest = own[np.argsort(-lead[own], kind="stable")[: max(1, round(SUREST * len(own)))]]
        opinions[label] = np.average(held_out[surest], axis=0, weights=weights[surest])
    return opinions


def sharpened(probs: FloatArray, clean_posterior: FloatArray, weights: FloatArray) -> FloatArray:
    """Predictions raised to the power that explains P(clean) best, (n, C)."""
    probs = np.maximum(probs, LEAST_OPINION)

    def unexplained(log_power: float) -> float:
        logs = np.log(np.maximum(discounted(probs, float(np.exp(log_power))), LEAST_PROBABILITY))
        return -float(weights @ (clean_posterior * logs).sum(axis=1)) / float(weights.sum())

    found = minimize_scalar(unexplained, bounds=np.log(POWERS), method="bounded")
    return discounted(probs, float(np.exp(found.x)))
