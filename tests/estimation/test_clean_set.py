"""T from instances with known clean labels, against loops and planted matrices."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.estimation import counted_transition, trusted_transition
from trevision.noise import corrupt

ASYMMETRIC = np.array(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]]
)


# ---- counting


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 0.25])
def test_counting_equals_a_loop(smoothing: float) -> None:
    rng = np.random.default_rng(0)
    clean, noisy = rng.integers(4, size=200), rng.integers(4, size=200)
    counts = [[smoothing] * 4 for _ in range(4)]
    for i, j in zip(clean, noisy, strict=True):
        counts[i][j] += 1
    expected = [[count / sum(row) for count in row] for row in counts]
    np.testing.assert_allclose(counted_transition(clean, noisy, 4, smoothing), expected, atol=1e-12)


def test_counting_recovers_a_planted_matrix_within_its_standard_error() -> None:
    clean = np.random.default_rng(0).choice(4, size=80_000, p=[0.1, 0.2, 0.3, 0.4])
    estimate = counted_transition(clean, corrupt(clean, ASYMMETRIC, random_state=1), 4)
    size = np.array([(clean == i).sum() for i in range(4)])[:, None]
    standard_error = np.sqrt(ASYMMETRIC * (1 - ASYMMETRIC) / size)
    assert (np.abs(estimate - ASYMMETRIC) / standard_error).max() < 4.5
    assert (np.abs(estimate.T - ASYMMETRIC) / standard_error).max() > 20  # the bound tells a transposition


def test_class_without_clean_labels_is_taken_as_right() -> None:
    clean, noisy = [0, 0, 0, 1, 3], [0, 0, 2, 1, 2]
    expected = [[2 / 3, 0, 1 / 3, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]]
    np.testing.assert_allclose(counted_transition(clean, noisy, 4), expected, atol=1e-15)


def test_smoothing_fills_the_row_of_a_class_without_clean_labels() -> None:
    estimate = counted_transition([0, 0, 0, 1, 3], [0, 0, 2, 1, 2], 4, smoothing=1.0)
    np.testing.assert_allclose(estimate[2], [0.25] * 4)
    np.testing.assert_allclose(estimate[0], [3 / 7, 1 / 7, 2 / 7, 1 / 7])


def test_labels_of_small_integer_types_do_not_overflow_the_count() -> None:
    clean = np.arange(100, dtype=np.uint8).repeat(2)
    np.testing.assert_array_equal(counted_transition(clean, clean, 100), np.eye(100))


def test_counting_does_not_alter_its_input() -> None:
    clean, noisy = np.array([0, 1, 2, 3, 0]), np.array([1, 1, 2, 3, 0])
    before = clean.tobytes(), noisy.tobytes()
    counted_transition(clean, noisy, 4, smoothing=0.5)
    assert (clean.tobytes(), noisy.tobytes()) == before


def test_label_lists_of_two_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="of one length, got 3 and 2"):
        counted_transition([0, 1, 2], [0, 1], 4)


@pytest.mark.parametrize(("clean", "noisy"), [([0, 4], [0, 1]), ([0, 1], [0, -1])])
def test_label_that_is_no_class_is_refused(clean: list[int], noisy: list[int]) -> None:
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.3"):
        counted_transition(clean, noisy, 4)


def test_negative_smoothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"smoothing must be .* at least 0, got -1"):
        counted_transition([0, 1], [0, 1], 2, smoothing=-1)


# ---- the posterior at trusted instances


def test_certain_trusted_instances_give_the_planted_matrix() -> None:
    clean = np.random.default_rng(0).permutation(np.arange(40) % 4)
    np.testing.assert_allclose(trusted_transition(ASYMMETRIC[clean], clean), ASYMMETRIC, atol=1e-12)


def test_noisy_trusted_posteriors_average_to_the_planted_matrix() -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(4, size=8000)
    # Each posterior is the right row seen through Dirichlet noise, whose mean is that row.
    noisy_probs = np.array([rng.dirichlet(20 * ASYMMETRIC[i]) for i in clean])
    size = np.array([(clean == i).sum() for i in range(4)])[:, None]
    standard_error = np.sqrt(ASYMMETRIC * (1 - ASYMMETRIC) / 21 / size)
    estimate = trusted_transition(noisy_probs, clean)
    assert (np.abs(estimate - ASYMMETRIC) / standard_error).max() < 4.5
    assert (np.abs(estimate.T - ASYMMETRIC) / standard_error).max() > 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trusted_rows_are_means_by_class(dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(0)
    noisy_probs = rng.dirichlet(np.ones(4), size=50).astype(dtype)
    clean = rng.choice([0, 1, 3], size=50)  # class 2 is not seen: its labels are taken as right
    before = noisy_probs.tobytes()
    estimate = trusted_transition(noisy_probs, clean)
    for i in (0, 1, 3):
        rows = [noisy_probs[n] for n in range(50) if clean[n] == i]
        for j in range(4):
            assert estimate[i, j] == pytest.approx(sum(float(row[j]) for row in rows) / len(rows), abs=1e-6)
    np.testing.assert_array_equal(estimate[2], [0, 0, 1, 0])
    assert noisy_probs.tobytes() == before


def test_trusted_labels_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="of one length, got 4 and 3"):
        trusted_transition(ASYMMETRIC, [0, 1, 2])


def test_trusted_logits_are_refused() -> None:
    with pytest.raises(ValueError, match="softmax"):
        trusted_transition(3 * ASYMMETRIC, [0, 1, 2, 3])
