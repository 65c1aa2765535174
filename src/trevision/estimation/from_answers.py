"""T of labels by P(clean) of each row, which is known from the answers of several annotators."""

from __future__ import annotations

from typing import Any

import numpy as np

from trevision.estimation.annotators import Annotators
from trevision.estimation.estimator import Solution
from trevision.estimation.from_probabilities import Estimate, check_choices
from trevision.noise import FloatArray, IntArray


def estimate_of_answers(
    annotators: Annotators,
    given: IntArray,
    bootstrap: int,
    level: float,
    random_state: int | np.random.Generator,
) -> Estimate:
    """T of the labels `given`, counted by P(clean), with its intervals.

    These tell how much other rows would change it, and they reach from P(clean) as it is to P(clean) if
    annotators erred independently: that assumption matters more than the rows.
    """
    check_choices(None, bootstrap, level)
    clean = annotators.clean_posterior
    joint = _joint(clean, given)
    transition, class_prior, rate = _of_joint(joint)
    low: list[Any] = [None] * 3
    high: list[Any] = [None] * 3
    if bootstrap:
        surest = annotators.independent_posterior
        low, high = _ends((clean, surest), given, bootstrap, level, np.random.default_rng(random_state))
    return Estimate(
        transition=transition,
        transition_low=low[0],
        transition_high=high[0],
        class_prior=class_prior,
        class_prior_low=low[1],
        class_prior_high=high[1],
        noise_rate=rate,
        noise_rate_low=low[2],
        noise_rate_high=high[2],
        joint=joint,
        rows=len(clean),
        estimator="annotators",
        level=level,
        bootstrap=bootstrap,
        resampling="rows" if bootstrap else None,
        converged=annotators.converged,
        solution=Solution(transition, class_prior, counts=joint, converged=annotators.converged),
    )


def _ends(
    posteriors: tuple[FloatArray, ...],
    given: IntArray,
    bootstrap: int,
    level: float,
    rng: np.random.Generator,
) -> tuple[list[Any], list[Any]]:
    """The least and greatest quantiles by any posterior: of T, P(clean) and the share of wrong labels."""
    rows = len(given)
    draws: list[list[tuple[Any, ...]]] = [[] for _ in posteriors]
    for _ in range(bootstrap):
        counts = rng.multinomial(rows, np.full(rows, 1 / rows))
        for drawn, posterior in zip(draws, posteriors, strict=True):
            drawn.append(_of_joint(_joint(posterior, given, counts)))
    low, high = [], []
    for kind in range(3):
        values = [np.array([replicate[kind] for replicate in drawn]) for drawn in draws]
        low.append(np.min([np.quantile(value, (1 - level) / 2, axis=0) for value in values], axis=0))
        high.append(np.max([np.quantile(value, (1 + level) / 2, axis=0) for value in values], axis=0))
    low[2], high[2] = float(low[2]), float(high[2])
    return low, high


def _joint(clean_posterior: FloatArray, given: IntArray, counts: IntArray | None = None) -> FloatArray:
    """The expected number of rows with clean label i and given label j, (C, C), each row `counts` times."""
    weighted = clean_posterior if counts is None else clean_posterior * counts[:, None]
    size = clean_posterior.shape[1]
    return np.stack([weighted[given == label].sum(axis=0) for label in range(size)], axis=1)


def _of_joint(joint: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """T, P(clean) and the share of wrong labels. A class without rows is taken to have right labels."""
    totals = joint.sum(axis=1)
    known = np.where(totals[:, None] > 0, joint, np.eye(len(joint)))
    transition: FloatArray = known / known.sum(axis=1, keepdims=True)
    return transition, totals / totals.sum(), float(1 - joint.trace() / joint.sum())
