"""HOC: triples of near rows against slow loops, its equations against their solution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from trevision import noise
from trevision.estimation import ProbabilityRows, Solution, hoc, search, transition_error
from trevision.estimation.hoc import HOC, Hoc, Moments, nearest_two, triple_counts

DENSE = np.array(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]]
)


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy posteriors of random rows and labels drawn from them."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(4, 0.3), size=n) @ DENSE
    return probs, (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def triples_of(solution: Solution) -> np.ndarray:
    assert isinstance(solution.state, hoc.Consensus)
    return solution.state.triples


def slow_triples(probs: np.ndarray) -> dict[int, tuple[int, int]]:
    """The two nearest rows of each row, by the distance of their centred log-probabilities."""

    def place(row: int) -> list[float]:
        logs = [math.log(p) for p in probs[row]]
        return [one - sum(logs) / len(logs) for one in logs]

    nearest = {}
    for row in range(len(probs)):
        others = [other for other in range(len(probs)) if other != row]
        others.sort(key=lambda other: math.dist(place(row), place(other)))
        nearest[row] = (others[0], others[1])
    return nearest


@pytest.mark.parametrize("distances", [1, 500, 2**22])
def test_triples_and_their_counts_are_those_of_a_slow_loop(distances: int, monkeypatch) -> None:
    monkeypatch.setattr(hoc, "DISTANCES_AT_ONCE", distances)
    probs, labels = drawn(120)
    rows = ProbabilityRows(probs, labels)
    triples = Hoc(jitter=0.0).label_triples(rows)
    slow = slow_triples(probs)
    assert {int(a): (int(b), int(c)) for a, b, c in triples} == slow
    counts = np.zeros((4, 4, 4))
    for row, (near, next_near) in slow.items():
        counts[labels[row], labels[near], labels[next_near]] += 1
    np.testing.assert_array_equal(triple_counts(rows, triples), counts)


def test_rows_in_parts_have_their_neighbours_in_their_part() -> None:
    probs, labels = drawn(190)
    triples = Hoc(rows_together=50).label_triples(ProbabilityRows(probs, labels))
    assert sorted(triples[:, 0].tolist()) == list(range(190))
    parts = [set(), set(), set(), set()]  # 47 or 48 rows each, one after the other
    ends = np.cumsum([48, 48, 47, 47])
    for first, last, part in zip([0, *ends], ends, parts, strict=False):
        part.update(triples[first:last, 0].tolist())
        assert set(triples[first:last].ravel().tolist()) == part
        assert len({*triples[first, :].tolist()}) == 3


def test_of_many_rows_a_part_is_taken_and_always_the_same() -> None:
    some = Hoc(most_triples=100)
    probs, labels = drawn(400)
    rows = ProbabilityRows(probs, labels)
    np.random.seed(1)  # noqa: NPY002 - the global generator must not matter, nor be touched
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    triples = some.label_triples(rows)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert len(triples) == len(set(triples[:, 0].tolist())) == 100
    np.testing.assert_array_equal(some.label_triples(rows), triples)


def test_rows_that_a_model_does_not_tell_apart_do_not_all_have_the_same_neighbours() -> None:
    # As a tree's leaves give them: every row of a class has the same probabilities.
    rng = np.random.default_rng(0)
    clean = rng.integers(4, size=4000)
    labels = noise.corrupt(clean, DENSE, rng)
    found = HOC.solve(ProbabilityRows(DENSE[clean], labels))
    triples = triples_of(found)
    assert np.bincount(triples[:, 1]).max() < 15
    assert (clean[triples] == clean[triples[:, :1]]).all()
    assert transition_error(found.transition, DENSE) < 0.15


def expected_counts(matrix: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """How often each triple of labels occurs in a million, if frequencies were exact."""
    size = len(matrix)
    counts = np.zeros((size, size, size))
    for i, j, k, m in itertools.product(range(size), repeat=4):
        counts[j, k, m] += 1e6 * prior[i] * matrix[i, j] * matrix[i, k] * matrix[i, m]
    return counts


@pytest.mark.parametrize(
    "matrix",
    [
        DENSE,
        noise.parse("pair-45", 6),
        noise.parse("sym-60", 5),
        np.array([[1, 0, 0], [0.4, 0.6, 0], [0.3, 0, 0.7]]),
        np.array([[0.9, 0.1], [0.45, 0.55]]),
    ],
    ids=["dense", "pair-45", "sym-60", "absorbing", "binary"],
)
def test_exact_frequencies_of_triples_give_the_matrix_and_the_prior(matrix: np.ndarray, monkeypatch) -> None:
    size = len(matrix)
    prior = np.arange(2.0, size + 2)
    prior /= prior.sum()
    counts = expected_counts(matrix, prior)
    monkeypatch.setattr(hoc, "triple_counts", lambda *_: counts)
    found = HOC.solve(ProbabilityRows(np.full((3, size), 1 / size), np.zeros(3, dtype=int)))
    np.testing.assert_allclose(found.transition, matrix, atol=2e-3)
    np.testing.assert_allclose(found.class_prior, prior, atol=2e-3)


@pytest.mark.parametrize("seed", range(8))
def test_unequal_classes_under_pair_noise_do_not_trap_the_search(seed: int) -> None:
    """From the general start alone, three of these eight end in a local minimum (errors 0.26 to 0.46)."""
    matrix = noise.parse("pair-45", 4)
    prior = np.random.default_rng(seed).dirichlet(np.full(4, 3.0))
    found = HOC.matched(Moments.of(expected_counts(matrix, prior)))
    np.testing.assert_allclose(found.transition, matrix, atol=2e-3)
    np.testing.assert_allclose(found.class_prior, prior, atol=2e-3)


def test_slopes_of_the_mismatch_are_its_finite_differences(monkeypatch) -> None:
    seen = []

    class Stopped(Exception):
        pass

    def stop(objective, start, **_):
        seen.append(objective)
        raise Stopped

    monkeypatch.setattr(search, "minimize", stop)
    with pytest.raises(Stopped):
        HOC.solve(ProbabilityRows(*drawn(60)))
    (objective,) = seen
    point = np.random.default_rng(1).normal(size=4 + 16)
    _, slopes = objective(point)
    for place, step in enumerate(1e-6 * np.eye(len(point))):
        difference = (objective(point + step)[0] - objective(point - step)[0]) / 2e-6
        assert slopes[place] == pytest.approx(difference, abs=1e-6, rel=1e-5)


def test_a_bootstrap_weighs_each_triple_as_one_draw_and_together_with_those_it_shares_rows_with() -> None:
    rows = ProbabilityRows(drawn(300)[0], np.arange(300) % 4)
    triples = np.array([[0, 1, 2], [2, 7, 4], [9, 10, 11]])  # of labels 012, 230 and 123
    rng = np.random.default_rng(0)
    counted = []
    for _ in range(4000):
        weights = np.bincount(rng.integers(300, size=300), minlength=300).astype(float)
        counts = triple_counts(rows, triples, weights)
        counted.append((counts[0, 1, 2], counts[2, 3, 0], counts[1, 2, 3]))
    mean, covariance = np.mean(counted, axis=0), np.cov(np.transpose(counted))
    # A row's weight has mean and variance 1; a row in common is a third of a triple.
    np.testing.assert_allclose(mean, 1, atol=0.06)
    np.testing.assert_allclose(covariance, [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1]], atol=0.1)


def test_weights_of_one_change_nothing_and_a_start_is_continued() -> None:
    rows = ProbabilityRows(*drawn(500))
    found = HOC.solve(rows)
    again = HOC.solve(rows, np.ones(500), start=found)
    assert again.state is found.state
    np.testing.assert_allclose(again.transition, found.transition, atol=1e-3)


def test_the_nearest_of_rows_on_a_line_are_the_next_on_it() -> None:
    places = np.array([0.0, 1.0, 2.1, 3.3, 4.6])[:, None]
    np.testing.assert_array_equal(nearest_two(places), [[1, 2], [0, 2], [1, 3], [2, 4], [3, 2]])


def test_too_few_rows_and_too_many_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="a row and its two neighbours, got 2 rows"):
        HOC.solve(ProbabilityRows(np.full((2, 2), 0.5), [0, 1]))
    assert HOC.most_classes is not None
    size = HOC.most_classes + 1
    with pytest.raises(ValueError, match="hoc is for up to 100 classes, got 101"):
        HOC.solve(ProbabilityRows(np.full((4, size), 1 / size), [0, 1, 2, 3]))
