"""The confident joint, against a loop written from the paper, cleanlab, and planted matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trevision.estimation import ProbabilityRows, confident_joint, estimate
from trevision.estimation.confident_joint import CONFIDENT_JOINT
from trevision.noise import corrupt, from_cleanlab

ASYMMETRIC = np.array(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]]
)


def drawn(n: int, concentration: float, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """P(noisy | x) through ASYMMETRIC for random clean posteriors, and a noisy label drawn from each."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(4, concentration), size=n) @ ASYMMETRIC
    return probs, (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def slow_counts(probs: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rows by given label and confident class, the last column for rows without one; row by row."""
    size = probs.shape[1]
    thresholds = []
    for j in range(size):
        own = [probs[row, j] for row in range(len(probs)) if labels[row] == j]
        thresholds.append(sum(own) / len(own) if own else 2.0)
    counts = np.zeros((size, size + 1))
    for row, label in zip(probs, labels, strict=True):
        confident = [i for i in range(size) if row[i] >= thresholds[i]]
        counts[label, max(confident, key=lambda i: row[i]) if confident else size] += 1
    return counts


@pytest.mark.parametrize("concentration", [0.1, 1.0, 5.0])
def test_counts_equal_a_loop_over_the_rows(concentration: float) -> None:
    probs, labels = drawn(400, concentration)
    counts = CONFIDENT_JOINT.counts(ProbabilityRows(probs, labels))
    np.testing.assert_array_equal(counts, slow_counts(probs, labels))
    assert counts[:, -1].sum() > 0  # some rows are not confident of any class


def test_a_row_of_weight_three_counts_as_three_rows() -> None:
    probs, labels = drawn(60, 1.0)
    weights = np.random.default_rng(1).integers(4, size=60)
    weighted = CONFIDENT_JOINT.counts(ProbabilityRows(probs, labels), weights.astype(float))
    repeated = CONFIDENT_JOINT.counts(ProbabilityRows(probs.repeat(weights, axis=0), labels.repeat(weights)))
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)


def test_certain_rows_give_the_planted_matrix_within_its_standard_error() -> None:
    clean = np.random.default_rng(0).choice(4, size=40_000, p=[0.1, 0.2, 0.3, 0.4])
    joint = confident_joint(ASYMMETRIC[clean], corrupt(clean, ASYMMETRIC, random_state=1))
    size = np.bincount(clean)[:, None]
    error = np.abs(joint / joint.sum(axis=1, keepdims=True) - ASYMMETRIC)
    assert (error / np.sqrt(ASYMMETRIC * (1 - ASYMMETRIC) / size)).max() < 4.5
    np.testing.assert_allclose(joint.sum(axis=1), size[:, 0], rtol=0.03)


def test_given_labels_stay_as_frequent_as_they_are() -> None:
    probs, labels = drawn(500, 0.5)
    joint = confident_joint(probs, labels)
    np.testing.assert_allclose(joint.sum(axis=0), np.bincount(labels, minlength=4), atol=1e-9)


def test_a_class_that_no_row_is_labelled_with_gives_no_nan() -> None:
    probs, labels = drawn(200, 0.5)
    labels[labels == 2] = 1
    found = estimate(probs, labels, estimator="confident-joint", bootstrap=20)
    np.testing.assert_array_equal(found.transition[2], [0, 0, 1, 0])
    for matrix in (found.transition, found.transition_low, found.transition_high, found.joint):
        assert np.isfinite(matrix).all()


def test_a_label_without_a_confident_row_is_taken_as_right() -> None:
    # The two rows labelled 2 are on either side of nothing: neither reaches its threshold, nor another's.
    probs = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.5, 0.45, 0.05], [0.3, 0.4, 0.3]])
    joint = confident_joint(probs, [0, 1, 2, 2])
    assert joint[2, 2] > 0
    np.testing.assert_allclose(joint.sum(axis=0), [1, 1, 2])


def test_counts_and_matrix_are_those_of_cleanlab() -> None:
    count = pytest.importorskip("cleanlab.count")
    probs, labels = drawn(4000, 0.05)
    # Where several classes reach their thresholds, cleanlab takes the largest probability of all, the paper
    # the largest of those; these rows are ones on which both agree.
    ours = CONFIDENT_JOINT.counts(ProbabilityRows(probs, labels))[:, :-1]
    np.testing.assert_array_equal(ours, count.compute_confident_joint(labels, probs, calibrate=False))
    joint = count.compute_confident_joint(labels, probs)
    _, noise_matrix, _ = count.estimate_latent(joint, labels)
    found = estimate(probs, labels, estimator="confident-joint", bootstrap=10)
    # cleanlab rounds the calibrated counts to whole rows.
    rounding = 4 / joint.sum(axis=0).min()
    np.testing.assert_allclose(found.transition, from_cleanlab(noise_matrix), atol=rounding)
    assert np.abs(found.transition.T - from_cleanlab(noise_matrix)).max() > 10 * rounding
