"""Counts of several classes pooled: much is gained where classes are alike, little lost elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trevision import noise
from trevision.estimation import transition_error
from trevision.estimation.pooling import WEIGHTS, pooled_transition

DENSE = np.array(
    [
        [0.55, 0.25, 0.05, 0.15, 0.00],
        [0.02, 0.80, 0.10, 0.03, 0.05],
        [0.30, 0.05, 0.60, 0.04, 0.01],
        [0.01, 0.02, 0.30, 0.65, 0.02],
        [0.10, 0.15, 0.05, 0.25, 0.45],
    ]
)
ABSORBING = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]])


def draw(transition: np.ndarray, rows_each: int, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.multinomial(rows_each, row) for row in transition]).astype(np.float64)


def mean_errors(transition: np.ndarray, rows_each: int, draws: int = 30) -> tuple[float, float]:
    """The error of T pooled and of T counted, over repeated draws."""
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(draws):
        counts = draw(transition, rows_each, rng)
        plain = counts / counts.sum(axis=1, keepdims=True)
        pairs.append([transition_error(one, transition) for one in (pooled_transition(counts), plain)])
    pooled, counted = np.mean(pairs, axis=0)
    return float(pooled), float(counted)


@pytest.mark.parametrize("name", ["sym-20", "sym-80", "pair-45"])
@pytest.mark.parametrize("rows_each", [60, 5400])
def test_classes_that_err_alike_halve_the_error_of_counting_at_least(name: str, rows_each: int) -> None:
    pooled, counted = mean_errors(noise.parse(name, 10), rows_each)
    assert pooled < 0.5 * counted


@pytest.mark.parametrize("transition", [DENSE, ABSORBING], ids=["dense", "absorbing"])
@pytest.mark.parametrize("rows_each", [200, 5400])
def test_classes_that_err_differently_lose_next_to_nothing(transition: np.ndarray, rows_each: int) -> None:
    pooled, counted = mean_errors(transition, rows_each)
    assert pooled < 1.06 * counted


def test_pooled_entries_are_posterior_means_summed_by_hand() -> None:
    counts = np.array([[6.5, 2.0, 1.0], [0.0, 9.0, 3.0], [1.0, 1.0, 4.25]])
    right = [counts[i, i] for i in range(3)]
    rows = [counts[i].sum() for i in range(3)]
    share = (sum(right) + 0.5) / (sum(rows) + 1)

    def average(groups: list[list[float]], means: list[float]) -> list[list[float]]:
        logs = []
        for s in WEIGHTS:
            log = math.log(s) - 1.5 * math.log1p(s)
            for group in groups:
                log += math.lgamma(s) - math.lgamma(s + sum(group))
                for count, mean in zip(group, means, strict=True):
                    log += math.lgamma(count + s * mean) - math.lgamma(s * mean)
            logs.append(log)
        weights = [math.exp(log - max(logs)) for log in logs]
        return [
            [
                sum(w * (c + s * m) / (sum(group) + s) for w, s in zip(weights, WEIGHTS, strict=True))
                / sum(weights)
                for c, m in zip(group, means, strict=True)
            ]
            for group in groups
        ]

    kept = average([[right[i], rows[i] - right[i]] for i in range(3)], [share, 1 - share])
    moved = average([[counts[i, j] for j in range(3) if j != i] for i in range(3)], [0.5, 0.5])
    expected = np.zeros((3, 3))
    for i in range(3):
        expected[i, i] = kept[i][0]
        for place, j in enumerate(j for j in range(3) if j != i):
            expected[i, j] = kept[i][1] * moved[i][place]
    np.testing.assert_allclose(pooled_transition(counts), expected, rtol=1e-9)


def test_rows_of_a_pooled_matrix_sum_to_one_and_a_class_without_rows_is_like_the_others() -> None:
    counts = draw(noise.parse("sym-20", 6), 1000, np.random.default_rng(1))
    counts[2] = 0
    transition = pooled_transition(counts)
    np.testing.assert_allclose(transition.sum(axis=1), 1)
    assert transition[2, 2] == pytest.approx(0.8, abs=0.02)


def test_labels_that_are_all_right_leave_hardly_a_doubt() -> None:
    transition = pooled_transition(np.diag([500.0, 300.0, 200.0]))
    assert np.isfinite(transition).all()
    assert transition.diagonal().min() > 0.995
