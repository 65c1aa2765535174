"""T from anchor points, against planted matrices and a slow ranking."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from trevision.estimation import Anchor, ProbabilityRows, anchor_points, anchor_transition, usual_percentile
from trevision.estimation.anchors import anchors_at

ASYMMETRIC = np.array(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]]
)


def noisy_posterior(n: int, seed: int = 0, anchors: bool = True) -> NDArray[np.float64]:
    """P(noisy | x) through ASYMMETRIC for n random clean posteriors and, shuffled in, an anchor a class."""
    rng = np.random.default_rng(seed)
    clean = rng.dirichlet(np.ones(4), size=n)
    if anchors:
        clean = rng.permutation(np.vstack([clean, np.eye(4)]))
    return clean @ ASYMMETRIC


def slow_row_at(noisy_probs: NDArray[np.floating], label: int, percentile: float) -> int:
    """The row whose posterior of `label` has, from below, the rank that the percentile names."""
    ranked = sorted(range(len(noisy_probs)), key=lambda row: noisy_probs[row, label])
    return ranked[math.floor(Fraction(str(percentile)) * (len(noisy_probs) - 1) / 100)]


# ---- planted matrices


def test_exact_anchor_points_give_the_planted_matrix() -> None:
    estimate = anchor_transition(noisy_posterior(500))
    np.testing.assert_allclose(estimate, ASYMMETRIC, atol=1e-12)


def test_exact_anchor_points_give_the_planted_matrix_in_single_precision() -> None:
    estimate = anchor_transition(noisy_posterior(500).astype(np.float32))
    assert estimate.dtype == np.float64
    np.testing.assert_allclose(estimate, ASYMMETRIC, atol=1e-6)


def test_rows_are_normalised_where_the_posterior_is_only_nearly_so() -> None:
    # Half precision sums to 1 within 1e-3; T-hat must be a transition matrix all the same.
    estimate = anchor_transition(1.0005 * noisy_posterior(500))
    np.testing.assert_allclose(estimate.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(estimate, ASYMMETRIC, atol=1e-12)


def test_many_anchor_points_give_the_planted_matrix_at_a_percentile() -> None:
    rng = np.random.default_rng(0)
    clean = np.vstack([rng.dirichlet(np.ones(4), size=800), np.repeat(np.eye(4), 50, axis=0)])
    # 50 rows of 1000 are anchors of each class: the 97th percentile falls among them, the 90th does not.
    noisy_probs = rng.permutation(clean) @ ASYMMETRIC
    np.testing.assert_allclose(anchor_transition(noisy_probs, 97), ASYMMETRIC, atol=1e-12)
    assert np.abs(anchor_transition(noisy_probs, 90) - ASYMMETRIC).max() > 0.01


def test_without_anchor_points_the_estimate_is_biased_by_the_posterior_there() -> None:
    noisy_probs = noisy_posterior(500, anchors=False)
    estimate = anchor_transition(noisy_probs)
    surest = [slow_row_at(noisy_probs, label, 100) for label in range(4)]
    clean = noisy_probs @ np.linalg.inv(
        ASYMMETRIC
    )  # P(clean | x) of those rows: the paper's L, a row a class
    np.testing.assert_allclose(estimate, clean[surest] @ ASYMMETRIC, atol=1e-9)
    assert np.abs(estimate - ASYMMETRIC).max() > 0.005


# ---- ranks


@pytest.mark.parametrize("n", [1, 2, 3, 137, 1000])
@pytest.mark.parametrize("percentile", [0, 3, 25, 50, 90, 97, 99.5, 100])
def test_percentile_picks_the_row_of_its_rank(n: int, percentile: float) -> None:
    noisy_probs = noisy_posterior(n, seed=n, anchors=False)
    expected = [slow_row_at(noisy_probs, label, percentile) for label in range(4)]
    assert anchor_points(noisy_probs, percentile).tolist() == expected
    np.testing.assert_allclose(anchor_transition(noisy_probs, percentile), noisy_probs[expected], atol=1e-12)


@pytest.mark.parametrize("percentile", range(101))
def test_percentile_of_a_hundred_and_one_rows_is_the_rank(percentile: int) -> None:
    noisy_probs = noisy_posterior(101, anchors=False)
    at = noisy_probs[anchor_points(noisy_probs, percentile), range(4)]
    np.testing.assert_allclose(at, np.percentile(noisy_probs, percentile, axis=0), atol=1e-12)


def test_hundredth_percentile_is_the_maximum() -> None:
    noisy_probs = noisy_posterior(300, anchors=False)
    highest = [max(range(300), key=lambda row, label=label: noisy_probs[row, label]) for label in range(4)]
    assert anchor_points(noisy_probs, 100).tolist() == highest
    assert anchor_points(noisy_probs).tolist() == highest
    np.testing.assert_array_equal(anchor_transition(noisy_probs, 100), anchor_transition(noisy_probs))


# ---- input


@pytest.mark.parametrize("percentile", [None, 97])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_posterior_is_not_altered(percentile: float | None, dtype: type[np.floating]) -> None:
    noisy_probs = noisy_posterior(200).astype(dtype)
    before = noisy_probs.tobytes()
    estimate = anchor_transition(noisy_probs, percentile)
    estimate[:] = 7  # nor is it through the result
    assert noisy_probs.tobytes() == before


@pytest.mark.parametrize("percentile", [-1, 100.5, float("nan")])
def test_percentile_outside_its_range_is_refused(percentile: float) -> None:
    with pytest.raises(ValueError, match=r"percentile must lie in \[0, 100\]"):
        anchor_transition(noisy_posterior(10), percentile)


@pytest.mark.parametrize("shape", [(4,), (0, 4), (5, 1), (2, 3, 4)])
def test_posterior_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"noisy_probs must be \(n, C\)"):
        anchor_transition(np.full(shape, 0.25))


def test_labels_in_place_of_a_posterior_are_refused() -> None:
    with pytest.raises(ValueError, match="floating-point"):
        anchor_transition(np.eye(4, dtype=int))


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1])
def test_posterior_that_is_no_probability_is_refused(value: float) -> None:
    noisy_probs = noisy_posterior(10)
    noisy_probs[3, 1] = value
    with pytest.raises(ValueError, match="finite probabilities"):
        anchor_transition(noisy_probs)


def test_logits_are_refused_with_the_repair() -> None:
    logits = np.abs(np.random.default_rng(0).normal(size=(10, 4)))
    with pytest.raises(ValueError, match="softmax"):
        anchor_transition(logits)


def certain_rows(counts: list[int]) -> tuple[ProbabilityRows, np.ndarray]:
    """The exact noisy posterior of so many rows of each class, all of them certain, and T."""
    transition = np.array([[0.8, 0.2, 0.0], [0.1, 0.7, 0.2], [0.3, 0.0, 0.7]])
    clean = np.repeat(np.arange(3), counts)
    return ProbabilityRows(transition[clean], clean), transition


def test_the_usual_anchor_of_a_rare_class_is_a_row_of_that_class() -> None:
    rows, transition = certain_rows([500, 495, 5])
    np.testing.assert_array_equal(Anchor().solve(rows).transition, transition)
    # The claim has content: the percentile of even classes reads another class's row.
    at_percentile = Anchor(percentile=usual_percentile(3)).solve(rows).transition
    assert np.abs(at_percentile[2] - transition[2]).max() > 0.1


def test_the_usual_anchor_of_even_classes_is_the_one_at_the_usual_percentile() -> None:
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.6, 1.0, size=1000)
    probs = np.repeat(((1 - sure) / 9)[:, None], 10, axis=1)
    probs[np.arange(1000), np.arange(1000) % 10] = sure
    found = anchors_at(ProbabilityRows(probs, np.arange(1000) % 10), "usual")
    # Each class has 100 rows, of which 30 lie above its anchor.
    expected = [np.argsort(-probs[:, label])[30] for label in range(10)]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_less(np.abs(probs[found] - probs[anchor_points(probs, 97)]).max(), 0.02)


@pytest.mark.parametrize("size", [2, 10, 14])
def test_the_usual_percentile_leaves_three_tenths_of_a_class_above_it(size: int) -> None:
    each = 1000  # rows of a class; above the rank are those with a larger posterior
    rank = usual_percentile(size) / 100 * (each * size)
    assert each * size - rank == pytest.approx(0.3 * each)


def test_a_row_that_counts_twice_lies_as_deep_as_two_rows() -> None:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet([1, 2, 6], size=200)
    weights = rng.integers(0, 4, size=200)
    labels = probs.argmax(axis=1)
    weighted = anchors_at(ProbabilityRows(probs, labels), "usual", weights.astype(float))
    again = np.repeat(np.arange(200), weights)
    repeated = anchors_at(ProbabilityRows(probs[again], labels[again]), "usual")
    np.testing.assert_array_equal(probs[weighted], probs[again][repeated])
