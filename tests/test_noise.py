"""Transition matrices and label corruption, against their definitions and against planted frequencies."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trevision import noise

DENSE = np.array(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]]
)


def random_transition(num_classes: int, seed: int, zeros: float = 0.0) -> NDArray[np.float64]:
    """A dense, asymmetric T with the given share of entries set to zero (never a whole row)."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.7, size=(num_classes, num_classes)) + 1e-3
    weights[rng.random(weights.shape) < zeros] = 0.0
    kept = rng.integers(num_classes, size=num_classes)
    weights[np.arange(num_classes), kept] += 0.5
    return weights / weights.sum(axis=1, keepdims=True)


def standard_scores(
    clean: NDArray[np.int64], noisy: NDArray[np.int64], transition: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How many binomial standard errors each observed count lies from its expectation under `transition`."""
    num_classes = len(transition)
    scores = np.zeros((num_classes, num_classes))
    for i in range(num_classes):
        of_class = noisy[clean == i]
        for j in range(num_classes):
            p = transition[i, j]
            spread = np.sqrt(len(of_class) * p * (1 - p))
            difference = (of_class == j).sum() - len(of_class) * p
            scores[i, j] = difference / spread if spread > 0 else (0.0 if difference == 0 else np.inf)
    return scores


# ---- named matrices


@pytest.mark.parametrize("num_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.875, 1.0])
def test_symmetric_matches_appendix_d_entry_by_entry(num_classes: int, rate: float) -> None:
    transition = noise.symmetric(num_classes, rate)
    assert transition.shape == (num_classes, num_classes)
    for i in range(num_classes):
        for j in range(num_classes):
            expected = 1 - rate if i == j else rate / (num_classes - 1)
            assert transition[i, j] == pytest.approx(expected, abs=1e-15)
    np.testing.assert_allclose(transition.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.45, 1.0])
def test_pair_flip_moves_only_to_the_next_class(num_classes: int, rate: float) -> None:
    transition = noise.pair_flip(num_classes, rate)
    assert transition.shape == (num_classes, num_classes)
    for i in range(num_classes):
        for j in range(num_classes):
            expected = (1 - rate if i == j else 0.0) + (rate if j == (i + 1) % num_classes else 0.0)
            assert transition[i, j] == pytest.approx(expected, abs=1e-15)
    np.testing.assert_allclose(transition.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("build", [noise.symmetric, noise.pair_flip])
@pytest.mark.parametrize("rate", [-0.1, 1.01, 20, float("nan")])
def test_rate_outside_the_unit_interval_is_refused(build, rate: float) -> None:
    with pytest.raises(ValueError, match=r"rate must lie in \[0, 1\].*written 0\.20"):
        build(5, rate)


@pytest.mark.parametrize("build", [noise.symmetric, noise.pair_flip])
@pytest.mark.parametrize("num_classes", [1, 0, -3])
def test_fewer_than_two_classes_are_refused(build, num_classes: int) -> None:
    with pytest.raises(ValueError, match="num_classes must be at least 2"):
        build(num_classes, 0.2)


# ---- names


@pytest.mark.parametrize(
    ("name", "kept", "to_next", "to_others"),
    [
        ("sym-50", 0.5, 0.125, 0.125),
        ("sym-20", 0.8, 0.05, 0.05),
        ("sym-12.5", 0.875, 0.03125, 0.03125),
        ("sym-0", 1.0, 0.0, 0.0),
        ("pair-45", 0.55, 0.45, 0.0),
        ("pair-100", 0.0, 1.0, 0.0),
    ],
)
def test_name_stands_for_the_percentage_of_its_kind(
    name: str, kept: float, to_next: float, to_others: float
) -> None:
    expected = np.full((5, 5), to_others)
    for i in range(5):
        expected[i, i] = kept
        expected[i, (i + 1) % 5] = to_next
    np.testing.assert_allclose(noise.parse(name, 5), expected, atol=1e-15)


@pytest.mark.parametrize(
    "name", ["foo", "sym", "sym-", "sym--5", "foo-20", "-20", "", "50", "sym 50", "sym-1e1"]
)
def test_name_that_is_no_kind_and_percentage_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="sym-50 or pair-45"):
        noise.parse(name, 10)


@pytest.mark.parametrize("name", ["sym-120", "pair-100.5"])
def test_name_above_a_hundred_percent_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"\[0, 100\]"):
        noise.parse(name, 10)


# ---- validation


@pytest.mark.parametrize("shape", [(2, 3), (4,), (1, 2, 2), ()])
def test_matrix_that_is_not_square_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square"):
        noise.validate(np.full(shape, 0.5))


def test_matrix_of_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        noise.validate([[1.0]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_matrix_with_a_number_that_is_not_finite_is_refused(value: float) -> None:
    matrix = DENSE.copy()
    matrix[2, 1] = value
    with pytest.raises(ValueError, match="finite"):
        noise.validate(matrix)


def test_negative_entry_is_refused_and_located() -> None:
    matrix = DENSE.copy()
    matrix[2] = [0.6, 0.5, 0.1, -0.2]
    with pytest.raises(ValueError, match=r"-0\.2 in row 2, column 3"):
        noise.validate(matrix)


def test_row_that_does_not_sum_to_one_is_refused_and_located() -> None:
    matrix = DENSE.copy()
    matrix[1, 1] -= 0.1
    with pytest.raises(ValueError, match=r"rows that sum to 1, got 0\.9 in row 1") as refused:
        noise.validate(matrix)
    assert "transpose" not in str(refused.value)


def test_transposed_matrix_is_refused_with_the_repair() -> None:
    with pytest.raises(ValueError, match=r"rows that sum to 1.*transpose.*from_cleanlab"):
        noise.validate(DENSE.T)


def test_wrong_number_of_classes_is_refused() -> None:
    assert noise.validate(DENSE, num_classes=4).shape == (4, 4)
    with pytest.raises(ValueError, match=r"each of the 10 classes, got shape \(4, 4\)"):
        noise.validate(DENSE, num_classes=10)


def test_validated_matrix_is_a_copy() -> None:
    given_matrix = DENSE.copy()
    validated = noise.validate(given_matrix)
    np.testing.assert_array_equal(validated, DENSE)
    assert not np.shares_memory(validated, given_matrix)
    validated[:] = 7
    np.testing.assert_array_equal(given_matrix, DENSE)


def test_matrix_in_single_precision_is_accepted() -> None:
    single = random_transition(100, seed=0).astype(np.float32)
    assert noise.validate(single).dtype == np.float64


# ---- corruption


def test_corrupted_frequencies_match_an_asymmetric_matrix() -> None:
    transition = random_transition(6, seed=1)
    clean = np.random.default_rng(2).integers(6, size=120_000)
    noisy = noise.corrupt(clean, transition, random_state=3)

    # 36 scores, roughly standard normal: above 4.5 in fewer than one sample of 4000.
    assert np.abs(standard_scores(clean, noisy, transition)).max() < 4.5
    # The same statistic tells T from its transpose, so a slip in the orientation would show.
    turned = transition.T / transition.T.sum(axis=1, keepdims=True)
    assert np.abs(standard_scores(clean, noisy, turned)).max() > 20


def test_impossible_labels_are_never_drawn() -> None:
    # Zeros at the start, in the middle and at the end of rows: each borders another branch of a lookup.
    transition = np.array(
        [[0.0, 0.0, 0.3, 0.7], [0.1, 0.0, 0.0, 0.9], [0.2, 0.8, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    )
    clean = np.random.default_rng(0).integers(4, size=200_000)
    noisy = noise.corrupt(clean, transition, random_state=1)
    assert transition[clean, noisy].min() > 0
    assert np.abs(standard_scores(clean, noisy, transition)).max() < 4.5


class _Extreme(np.random.Generator):
    """A generator whose uniform numbers are the two ends of [0, 1)."""

    def random(self, size: int) -> NDArray[np.float64]:  # type: ignore[override]
        return np.where(np.arange(size) % 2 == 0, 0.0, np.nextafter(1.0, 0.0))


def test_the_ends_of_the_unit_interval_draw_possible_labels() -> None:
    # Ten tenths add up to less than 1 in binary: a draw above them must not fall through to what follows.
    tenths = [0.1] * 10
    assert np.cumsum(tenths)[-1] < 1
    transition = np.vstack([[*tenths, 0.0, 0.0], [0.0, *tenths, 0.0], [0.0, 0.0, *tenths], np.eye(12)[3:]])
    clean = np.array([0, 0, 1, 1, 2, 2])
    noisy = noise.corrupt(clean, transition, random_state=_Extreme(np.random.PCG64(0)))
    np.testing.assert_array_equal(noisy, [0, 9, 1, 10, 2, 11])


def test_labels_are_corrupted_independently_of_their_neighbours() -> None:
    clean = np.random.default_rng(0).integers(4, size=100_000)
    flipped = noise.corrupt(clean, DENSE, random_state=1) != clean
    # What each class's flip rate does not explain must not be shared by neighbours.
    rest = flipped - (1 - np.diag(DENSE))[clean]
    correlation = (rest[:-1] * rest[1:]).mean() / rest.var()
    assert abs(correlation) < 4.5 / np.sqrt(len(clean))


def test_corruption_is_reproducible_by_seed() -> None:
    clean = np.random.default_rng(0).integers(4, size=1000)
    first = noise.corrupt(clean, DENSE, random_state=5)
    np.testing.assert_array_equal(first, noise.corrupt(clean, DENSE, random_state=5))
    np.testing.assert_array_equal(first, noise.corrupt(clean, DENSE, random_state=np.random.default_rng(5)))
    assert (first != noise.corrupt(clean, DENSE, random_state=6)).any()


def test_corruption_leaves_numpys_global_state_alone() -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    noise.corrupt(np.zeros(100, dtype=int), DENSE, random_state=None)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002


def test_corruption_does_not_alter_its_input() -> None:
    clean = np.random.default_rng(0).integers(4, size=1000)
    transition = DENSE.copy()
    bytes_before = clean.tobytes(), transition.tobytes()
    noisy = noise.corrupt(clean, transition, random_state=0)
    assert (clean.tobytes(), transition.tobytes()) == bytes_before
    assert not np.shares_memory(noisy, clean)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint64])
def test_every_integer_type_of_labels_is_accepted(dtype: type[np.integer]) -> None:
    clean = np.random.default_rng(0).integers(4, size=500)
    expected = noise.corrupt(clean, DENSE, random_state=1)
    noisy = noise.corrupt(clean.astype(dtype), DENSE, random_state=1)
    assert noisy.dtype == np.int64
    np.testing.assert_array_equal(noisy, expected)


@pytest.mark.parametrize("label", [-1, 4, 1000])
def test_label_outside_the_classes_is_refused(label: int) -> None:
    with pytest.raises(ValueError, match=rf"labels must lie in 0\.\.3 for 4 classes.*{label}"):
        noise.corrupt([0, 1, label, 2], DENSE, random_state=0)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [True, False], ["0", "1"], [0, None]])
def test_labels_that_are_not_integers_are_refused(labels: list[object]) -> None:
    with pytest.raises(ValueError, match="labels must be integers"):
        noise.corrupt(np.array(labels), DENSE, random_state=0)


def test_one_hot_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="one-dimensional"):
        noise.corrupt(np.eye(4, dtype=int), DENSE, random_state=0)


def test_no_labels_give_no_labels() -> None:
    noisy = noise.corrupt(np.zeros(0, dtype=np.int64), DENSE, random_state=0)
    assert noisy.shape == (0,)


def test_corrupting_checks_its_matrix() -> None:
    with pytest.raises(ValueError, match="transpose"):
        noise.corrupt([0, 1], DENSE.T, random_state=0)


def test_a_million_labels_in_a_thousand_classes_need_less_than_a_gigabyte() -> None:
    # A table with one row of probabilities a label would take 8 GB.
    transition = noise.symmetric(1000, 0.5)
    clean = np.random.default_rng(0).integers(1000, size=1_000_000)
    tracemalloc.start()
    try:
        noisy = noise.corrupt(clean, transition, random_state=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert noisy.nbytes < peak < 1e9  # the lower bound: numpy's memory is seen at all
    assert (noisy == clean).mean() == pytest.approx(0.5, abs=0.0025)  # 5 standard errors


# ---- properties over arbitrary matrices

transitions = st.builds(
    random_transition,
    num_classes=st.integers(2, 8),
    seed=st.integers(0, 2**32 - 1),
    zeros=st.sampled_from([0.0, 0.3, 0.9]),
)


@settings(deadline=None, max_examples=60)
@given(transition=transitions, seed=st.integers(0, 2**32 - 1))
def test_any_matrix_draws_only_its_possible_labels(transition: NDArray[np.float64], seed: int) -> None:
    clean = np.random.default_rng(seed).integers(len(transition), size=300)
    noisy = noise.corrupt(clean, transition, random_state=seed)
    assert noisy.shape == clean.shape
    assert transition[clean, noisy].min() > 0
    # 64 scores in 60 examples, counts of a few dozen: 9 leaves room for the skew of rare entries.
    likely = (transition > 0.1) & (transition < 0.9)
    assert np.abs(standard_scores(clean, noisy, transition)[likely]).max(initial=0) < 9


@settings(deadline=None)
@given(labels=st.lists(st.integers(0, 6), min_size=1, max_size=50), seed=st.integers(0, 2**32 - 1))
def test_identity_leaves_labels_alone(labels: list[int], seed: int) -> None:
    assert noise.corrupt(labels, np.eye(7), random_state=seed).tolist() == labels


@settings(deadline=None)
@given(labels=st.lists(st.integers(0, 6), min_size=1, max_size=50), seed=st.integers(0, 2**32 - 1))
def test_full_pair_flip_moves_every_label_on_by_one(labels: list[int], seed: int) -> None:
    moved = noise.corrupt(labels, noise.pair_flip(7, 1.0), random_state=seed)
    assert moved.tolist() == [(label + 1) % 7 for label in labels]


@settings(deadline=None)
@given(transition=transitions)
def test_cleanlab_conversion_is_its_own_inverse(transition: NDArray[np.float64]) -> None:
    turned = noise.to_cleanlab(transition)
    np.testing.assert_allclose(turned.sum(axis=0), 1, atol=1e-9)
    for i in range(len(transition)):
        for j in range(len(transition)):
            assert turned[j, i] == transition[i, j]
    np.testing.assert_array_equal(noise.from_cleanlab(turned), transition)


def test_conversion_from_cleanlab_refuses_a_matrix_already_turned() -> None:
    with pytest.raises(ValueError, match=r"columns that sum to 1; .* T already"):
        noise.from_cleanlab(DENSE)


def test_cleanlab_estimates_the_matrix_that_corrupted_the_labels() -> None:
    count = pytest.importorskip("cleanlab.count")
    clean = np.random.default_rng(0).integers(4, size=50_000)
    noisy = noise.corrupt(clean, DENSE, random_state=1)
    joint = np.zeros((4, 4), dtype=int)  # cleanlab's: given label down, true label across
    for given_label, true_label in zip(noisy, clean, strict=True):
        joint[given_label, true_label] += 1
    _, noise_matrix, _ = count.estimate_latent(joint, noisy)
    # Standard errors are at most sqrt(.25 / 12,000) = 0.0046; T and its transpose differ by 0.23.
    np.testing.assert_allclose(noise.from_cleanlab(noise_matrix), DENSE, atol=0.02)


@pytest.mark.parametrize("name", ["sym-20", "SYM-20", "sym-20%", " sym-20.0% ", "sym-020"])
def test_a_noise_has_one_name_however_it_is_written(name: str) -> None:
    assert noise.canonical_name(name) == "sym-20"
    assert np.array_equal(noise.parse(noise.canonical_name(name), 4), noise.parse(name, 4))


def test_the_name_of_a_noise_keeps_its_fraction() -> None:
    assert noise.canonical_name("pair-12.5") == "pair-12.5"


@pytest.mark.parametrize(("tolerance", "most"), [({}, 1e-6), ({"tolerance": noise.FLOAT32_TOLERANCE}, 1e-4)])
def test_rows_may_miss_one_by_what_rounding_explains_and_by_no_more(tolerance, most):
    matrix = np.array([[0.7, 0.3], [0.4, 0.6]])
    for sign in (1, -1):
        near, far = matrix.copy(), matrix.copy()
        near[0, 1] += sign * 0.8 * most
        far[0, 1] += sign * 1.3 * most
        noise.validate(near, **tolerance)
        with pytest.raises(ValueError, match="row"):
            noise.validate(far, **tolerance)
