"""Rows read in chunks: the same whatever the chunks, normalised, and mistakes named with their row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trevision.estimation import ProbabilityRows, estimate, rows


def random_probs(n: int = 23, size: int = 3) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(size), size=n)


@pytest.mark.parametrize("numbers", [1, 3, 10, 69, 1000])
def test_chunks_put_together_are_the_rows_in_their_order(numbers: int, monkeypatch) -> None:
    monkeypatch.setattr(rows, "NUMBERS_AT_ONCE", numbers)
    probs, labels = random_probs(), np.arange(23) % 3
    chunks = list(ProbabilityRows(probs, labels).chunks())
    np.testing.assert_allclose(np.concatenate([chunk.probs for chunk in chunks]), probs, atol=1e-15)
    np.testing.assert_array_equal(np.concatenate([chunk.labels for chunk in chunks]), labels)
    assert max(chunk.probs.size for chunk in chunks) <= max(3, numbers)


@pytest.mark.parametrize("estimator", ["confident-joint", "anchor", "dual-t", "hoc", "counted"])
def test_estimates_do_not_depend_on_the_chunks(estimator: str, monkeypatch) -> None:
    probs, labels = random_probs(200), np.random.default_rng(1).integers(3, size=200)
    whole = estimate(probs, labels, estimator, bootstrap=20)
    monkeypatch.setattr(rows, "NUMBERS_AT_ONCE", 40)
    parts = estimate(probs, labels, estimator, bootstrap=20)
    np.testing.assert_allclose(parts.transition, whole.transition, atol=1e-12)
    np.testing.assert_allclose(parts.transition_high, whole.transition_high, atol=1e-6)


def test_rows_are_normalised_and_the_source_is_not_altered() -> None:
    rounded = random_probs().round(3)
    before = rounded.copy()
    (chunk,) = ProbabilityRows(rounded, np.zeros(23, dtype=int)).chunks()
    np.testing.assert_allclose(chunk.probs.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(rounded, before)
    assert (rounded.sum(axis=1) != 1).any()


def test_a_memory_map_and_a_tensor_give_the_rows_of_the_array(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    probs, labels = random_probs().astype(np.float32), np.arange(23) % 3
    np.save(tmp_path / "probs.npy", probs)
    expected = next(ProbabilityRows(probs, labels).chunks()).probs
    for same in (np.load(tmp_path / "probs.npy", mmap_mode="r"), torch.from_numpy(probs)):
        np.testing.assert_array_equal(next(ProbabilityRows(same, labels).chunks()).probs, expected)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 0.5, 0.5], "got nan in row 17"),
        ([np.inf, 0.5, 0.5], "got inf in row 17"),
        ([-0.5, 1.0, 0.5], r"got -0.5 in row 17; logits want a softmax"),
        ([3.0, 1.0, 0.5], r"sum of 4.5 in row 17; logits want a softmax"),
        ([-0.1, -2.5, -4.0], r"row 17; log-probabilities want np.exp"),
    ],
)
def test_the_first_row_that_holds_no_probabilities_is_named(
    row: list[float], message: str, monkeypatch
) -> None:
    monkeypatch.setattr(rows, "NUMBERS_AT_ONCE", 15)
    probs = random_probs()
    probs[17] = row
    probs[20] = 0
    with pytest.raises(ValueError, match=message):
        estimate(probs, np.arange(23) % 3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(23, 3), r"noisy_labels must lie in 0\.\.2"),
        (np.zeros(22, dtype=int), "of one length, got 23 and 22"),
        (np.full(23, "a"), "must be integers from 0 to 2"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProbabilityRows(random_probs(), labels)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        (np.ones((4, 1)), "C >= 2"),
        (np.ones(4), r"\(n, C\)"),
        (np.eye(3, dtype=int), "floating-point"),
    ],
)
def test_probabilities_of_another_form_are_refused(probs: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProbabilityRows(probs, np.zeros(len(probs), dtype=int))
