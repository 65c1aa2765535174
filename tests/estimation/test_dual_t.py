"""Dual-T against a loop written from its equation; anchors at a percentile in passes; counted labels."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from trevision.estimation import ProbabilityRows, anchor_points, dual_transition, estimate, rows
from trevision.estimation.anchors import anchors_at
from trevision.estimation.counted import prediction_counts

ASYMMETRIC = np.array([[0.7, 0.2, 0.1], [0.05, 0.8, 0.15], [0.1, 0.3, 0.6]])


def drawn(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(3, 0.4), size=n) @ ASYMMETRIC
    return probs, (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def slow_dual_t(probs: np.ndarray, labels: np.ndarray, percentile: float | None) -> np.ndarray:
    """T[i, j] = sum over l of P(Y' = l | clean = i) P(noisy = j | Y' = l), entry by entry.

    Without a percentile, three tenths of the rows predicted as i lie above its anchor.
    """
    n, size = probs.shape
    predicted = [max(range(size), key=lambda j, row=row: probs[row, j]) for row in range(n)]
    matrix = np.zeros((size, size))
    for i in range(size):
        ranked = sorted(range(n), key=lambda row: probs[row, i])
        if percentile is None:
            anchor = ranked[n - 1 - (3 * predicted.count(i)) // 10]
        else:
            anchor = ranked[math.floor(Fraction(str(percentile)) * (n - 1) / 100)]
        for j in range(size):
            for middle in range(size):
                given = [labels[row] for row in range(n) if predicted[row] == middle]
                matrix[i, j] += probs[anchor, middle] * given.count(j) / len(given)
    return matrix


@pytest.mark.parametrize("percentile", [50, 90, 97, 100])
def test_dual_t_is_the_sum_over_the_intermediate_class(percentile: float) -> None:
    probs, labels = drawn()
    found = dual_transition(ProbabilityRows(probs, labels), percentile=percentile)
    np.testing.assert_allclose(found, slow_dual_t(probs, labels, percentile), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_without_a_percentile_the_surest_rows_are_anchors() -> None:
    probs, labels = drawn()
    found = dual_transition(ProbabilityRows(probs, labels))
    np.testing.assert_allclose(found, slow_dual_t(probs, labels, 100), atol=1e-12)


def test_estimates_have_anchors_three_tenths_into_the_rows_of_a_class() -> None:
    probs, labels = drawn()
    found = estimate(probs, labels, "dual-t", bootstrap=10)
    np.testing.assert_allclose(found.transition, slow_dual_t(probs, labels, None), atol=1e-12)


@pytest.mark.parametrize("numbers", [3, 100, 10_000])
@pytest.mark.parametrize("percentile", [None, 0, 33.3, 90, 100])
def test_anchors_in_passes_are_those_of_the_whole(
    numbers: int, percentile: float | None, monkeypatch
) -> None:
    probs, labels = drawn()
    monkeypatch.setattr(rows, "NUMBERS_AT_ONCE", numbers)
    found = anchors_at(ProbabilityRows(probs, labels), percentile)
    np.testing.assert_array_equal(found, anchor_points(probs, percentile))


@pytest.mark.parametrize("percentile", [None, 20, 90])
def test_a_row_that_counts_twice_is_two_rows_and_one_that_counts_not_is_none(
    percentile: float | None,
) -> None:
    probs, labels = drawn()
    weights = np.random.default_rng(1).integers(0, 4, size=300)
    repeated = ProbabilityRows(probs.repeat(weights, axis=0), labels.repeat(weights))
    weighted = dual_transition(ProbabilityRows(probs, labels), weights.astype(float), percentile)
    np.testing.assert_allclose(weighted, dual_transition(repeated, None, percentile), atol=1e-12)


def test_a_class_that_is_never_predicted_is_taken_as_right() -> None:
    probs = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.6, 0.2, 0.2]])
    found = prediction_counts(ProbabilityRows(probs, [0, 1, 2]))
    np.testing.assert_array_equal(found, [[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    counted = estimate(probs, [0, 1, 2], "counted", bootstrap=10).transition
    np.testing.assert_allclose(counted, [[0.5, 0, 0.5], [0, 1, 0], [0, 0, 1]])
    # The third row is the anchor of class 2: 0.6 of it goes on as class 0, 0.2 as class 1, 0.2 stays.
    dual = dual_transition(ProbabilityRows(probs, [0, 1, 2]))
    np.testing.assert_allclose(dual[2], [0.3, 0.2, 0.5])
