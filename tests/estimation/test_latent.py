"""T by maximum likelihood with a latent clean class, against planted matrices and slow loops."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from trevision import noise
from trevision.estimation import (
    LATENT,
    Latent,
    ProbabilityRows,
    clean_given_label,
    confident_joint,
    counted_transition,
    estimate,
    pooled_transition,
    search,
    transition_error,
)
from trevision.estimation.latent_curvature import axes_of, curvature
from trevision.estimation.latent_model import gather, sums
from trevision.estimation.posterior import nearest_on_simplex, softmax
from trevision.prior import Prior

DENSE = np.array([[0.7, 0.2, 0.1], [0.05, 0.8, 0.15], [0.1, 0.3, 0.6]])
ABSORBING = np.array([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.35, 0.0, 0.65]])
CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


def gaussian_rows(n: int, transition: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact noisy posteriors of three Gaussian classes, their noisy labels and their clean ones."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(3, size=n)
    x = CENTRES[clean] + rng.normal(size=(n, 2))
    logits = -((x[:, None] - CENTRES) ** 2).sum(axis=2) / 2
    posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior @ transition, noise.corrupt(clean, transition, rng), clean


@pytest.mark.parametrize("transition", [DENSE, ABSORBING, noise.parse("pair-40", 3)])
def test_exact_posteriors_give_the_planted_matrix_near_the_sampling_floor(transition: np.ndarray) -> None:
    probs, labels, clean = gaussian_rows(10_000, transition)
    floor = transition_error(counted_transition(clean, labels, 3), transition)
    found = LATENT.fit(ProbabilityRows(probs, labels)).transition
    # The floor knows the clean labels; a posterior that is sure of nearly all rows costs little beside it.
    assert transition_error(found, transition) < 2.5 * floor + 0.02


@pytest.mark.parametrize("power", [0.4, 2.5])
def test_probabilities_that_are_too_soft_or_too_sharp_give_the_matrix_of_exact_ones(power: float) -> None:
    probs, labels, clean = gaussian_rows(20_000, DENSE)
    distorted = probs**power
    distorted /= distorted.sum(axis=1, keepdims=True)
    found = LATENT.fit(ProbabilityRows(distorted, labels))
    exact = LATENT.fit(ProbabilityRows(probs, labels))
    # Anchor points are off by 0.42 and 0.45 there: they take such probabilities at their word.
    assert transition_error(found.transition, exact.transition) < 0.002
    floor = transition_error(counted_transition(clean, labels, 3), DENSE)
    assert transition_error(found.transition, DENSE) < 2.5 * floor
    # The posterior goes by the same power.
    np.testing.assert_allclose(found.clean_posterior(distorted), exact.clean_posterior(probs), atol=0.02)


@pytest.mark.parametrize("kind", ["sym-40", "pair-40"])
def test_a_models_own_probabilities_give_a_better_matrix_than_the_confident_joint(kind: str) -> None:
    x, clean = make_blobs(3000, centers=5, n_features=6, cluster_std=4.0, random_state=3)
    transition = noise.parse(kind, 5)
    labels = noise.corrupt(clean, transition, np.random.default_rng(0))
    model = LogisticRegression(C=0.1, max_iter=1000)
    probs = cross_val_predict(model, x, labels, cv=5, method="predict_proba")
    joint = confident_joint(probs, labels)
    rival = transition_error(joint / joint.sum(axis=1, keepdims=True), transition)
    assert transition_error(LATENT.fit(ProbabilityRows(probs, labels)).transition, transition) < 0.7 * rival


def test_slopes_of_the_objective_are_its_finite_differences(monkeypatch) -> None:
    probs, labels, _ = gaussian_rows(60, DENSE)
    seen = []
    monkeypatch.setattr(
        search, "minimize", lambda objective, start, **_: seen.append(objective) or _Result(start)
    )
    LATENT.fit(ProbabilityRows(probs, labels))
    rng = np.random.default_rng(1)
    for objective in (seen[0], seen[3]):  # from log p, and from the corrected p
        point = rng.normal(size=3 * 3 + 3 + 3 * 3) / 2
        _, slopes = objective(point)
        for place in range(len(point)):
            step = np.zeros_like(point)
            step[place] = 1e-6
            difference = (objective(point + step)[0] - objective(point - step)[0]) / 2e-6
            assert slopes[place] == pytest.approx(difference, abs=1e-6)


class _Result:
    def __init__(self, x: np.ndarray) -> None:
        self.x, self.fun, self.success = x, 0.0, True


def test_a_row_of_weight_two_counts_as_two_rows() -> None:
    probs, labels, _ = gaussian_rows(900, DENSE)
    weights = np.ones(900)
    weights[:300] = 2
    twice = np.concatenate([np.arange(900), np.arange(300)])
    weighted = LATENT.fit(ProbabilityRows(probs, labels), weights)
    repeated = LATENT.fit(ProbabilityRows(probs[twice], labels[twice]))
    np.testing.assert_allclose(weighted.transition, repeated.transition, atol=0.01)


def test_a_part_of_many_rows_gives_nearly_the_matrix_of_all() -> None:
    probs, labels, _ = gaussian_rows(20_000, DENSE)
    whole = LATENT.fit(ProbabilityRows(probs, labels))
    part = Latent(most_numbers=3 * 5000).fit(ProbabilityRows(probs, labels))
    assert part.counts.sum() == pytest.approx(20_000)
    assert transition_error(part.transition, whole.transition) < 0.03


def test_latent_classes_are_named_by_their_commonest_label() -> None:
    probs, labels, _ = gaussian_rows(3000, DENSE)
    start = LATENT.fit(ProbabilityRows(probs, labels))
    order = [2, 0, 1]
    swapped = replace(
        start, transition=start.transition[order], link=start.link[:, order], bias=start.bias[order]
    )
    again = LATENT.fit(ProbabilityRows(probs, labels), start=swapped)
    # Under the names of `swapped` the distance would be above 1.
    assert transition_error(again.transition, DENSE) < 0.15


def test_a_class_that_no_row_is_labelled_with_gives_no_nan() -> None:
    probs, labels, _ = gaussian_rows(600, DENSE)
    kept = labels != 2
    found = LATENT.fit(ProbabilityRows(probs[kept], labels[kept]))
    assert np.isfinite(found.transition).all()
    np.testing.assert_allclose(found.transition.sum(axis=1), 1)


def test_very_many_classes_are_left_to_the_confident_joint() -> None:
    assert LATENT.most_classes is not None
    size = LATENT.most_classes + 1
    probs = np.full((size, size), 0.1 / (size - 1))
    np.fill_diagonal(probs, 0.9)
    labels = np.arange(size)
    with pytest.raises(ValueError, match="latent is for up to 100 classes, got 101"):
        LATENT.fit(ProbabilityRows(probs, labels))
    assert estimate(probs, labels, bootstrap=10).estimator == "confident-joint"


def test_a_label_speaks_for_a_class_by_bayes_rule() -> None:
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(3), size=20)
    labels = rng.integers(3, size=20)
    found = clean_given_label(posterior, DENSE, labels)
    for row in range(20):
        joint = [posterior[row, i] * DENSE[i, labels[row]] for i in range(3)]
        np.testing.assert_allclose(found[row], np.array(joint) / sum(joint))


def test_a_label_that_t_calls_impossible_leaves_the_posterior_as_it_is() -> None:
    found = clean_given_label(np.array([[1.0, 0.0, 0.0]]), ABSORBING, np.array([2]))
    np.testing.assert_allclose(found, [[1.0, 0.0, 0.0]])


def test_the_nearest_probabilities_are_those_that_bisection_finds() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, 4)) * rng.choice([0.3, 3], size=(50, 1))
    for point, found in zip(points, nearest_on_simplex(points), strict=True):
        low, high = point.min() - 1, point.max()
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(point - middle, 0).sum() > 1 else (low, middle)
        np.testing.assert_allclose(found, np.maximum(point - low, 0), atol=1e-9)


def test_what_is_known_of_t_is_kept_by_the_fit_and_helps_it_if_true() -> None:
    transition = noise.pair_flip(3, 0.3)
    probs, labels, _ = gaussian_rows(1000, transition, seed=1)
    rows = ProbabilityRows(probs, labels)

    def fitted(knowledge: Prior | None) -> np.ndarray:
        return LATENT.fit(rows, knowledge=knowledge).transition

    free = transition_error(fitted(None), transition)
    true = fitted(Prior(support=transition > 0, known_rows={0: transition[0]}))
    assert np.array_equal(true > 0, transition > 0)
    assert np.array_equal(true[0], transition[0])
    assert transition_error(true, transition) < 0.8 * free
    without_a_flip = transition > 0
    without_a_flip[0, 1] = False
    for false in (Prior(support=without_a_flip), Prior(symmetric=True)):
        assert transition_error(fitted(false), transition) > free + 0.1


def test_symmetry_and_dominance_are_laid_on_the_fitted_matrix() -> None:
    probs, labels, _ = gaussian_rows(600, DENSE)
    knowledge = Prior(symmetric=True)
    rows = ProbabilityRows(probs, labels)
    expected = knowledge.project(LATENT.fit(rows).transition)
    np.testing.assert_allclose(LATENT.fit(rows, knowledge=knowledge).transition, expected)
    pooled = knowledge.project(pooled_transition(LATENT.fit(rows, knowledge=knowledge).counts))
    np.testing.assert_allclose(LATENT.solve(rows, knowledge=knowledge).transition, pooled)


def test_slopes_under_knowledge_are_finite_differences_and_zero_where_t_is_known(monkeypatch) -> None:
    probs, labels, _ = gaussian_rows(60, DENSE)
    seen = []
    monkeypatch.setattr(
        search, "minimize", lambda objective, start, **_: seen.append(objective) or _Result(start)
    )
    support = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]])
    LATENT.fit(ProbabilityRows(probs, labels), knowledge=Prior(support=support, known_rows={2: DENSE[2]}))
    point = np.random.default_rng(1).normal(size=3 * 3 + 3 + 3 * 3) / 2
    _, slopes = seen[0](point)
    for place in range(len(point)):
        step = np.zeros_like(point)
        step[place] = 1e-6
        difference = (seen[0](point + step)[0] - seen[0](point - step)[0]) / 2e-6
        assert slopes[place] == pytest.approx(difference, abs=1e-6)
    of_t = slopes[12:].reshape(3, 3)
    assert np.array_equal(of_t != 0, [[True, True, False], [True, True, True], [False, False, False]])


def test_a_fit_that_is_cut_short_while_it_gains_is_not_called_converged() -> None:
    probs, labels, _ = gaussian_rows(2000, DENSE)
    rows = ProbabilityRows(probs, labels)
    poor = LATENT.start_from(noise.symmetric(3, 0.6))
    whole, few = LATENT.fit(rows, start=poor), Latent(most_iterations=3).fit(rows, start=poor)
    assert whole.converged
    assert not few.converged
    # It was still on its way: what it lacks is far above what counts as nothing.
    assert 2000 * (few.objective - whole.objective) > 2 * LATENT.negligible_gain
    # At its limit, a search that starts where the whole one ended has arrived.
    assert Latent(most_iterations=1).fit(rows, start=whole).converged


def overlapping(n: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy posteriors of classes that overlap a little, too soft, their labels, and an asymmetric T.

    Each class goes to the next with most of its mistakes, and to others at random with the rest.
    """
    rng = np.random.default_rng(seed)
    right = rng.uniform(0.55, 0.9, size)
    transition = 0.4 * rng.dirichlet(np.full(size, 0.3), size)
    transition[np.arange(size), (np.arange(size) + 1) % size] += 0.6
    transition *= ((1 - right) / transition.sum(axis=1))[:, None]
    transition[np.arange(size), np.arange(size)] += right
    clean = rng.integers(size, size=n)
    scores = 1.5 * rng.normal(size=(n, size))
    scores[np.arange(n), clean] += 6
    scores *= 6 / 1.5**2
    posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    probs = (posterior @ transition) ** 0.7
    return probs / probs.sum(axis=1, keepdims=True), noise.corrupt(clean, transition, rng), transition


def test_fits_by_parts_find_the_matrix_of_fits_to_all_rows() -> None:
    probs, labels, transition = overlapping(70_000, 5)
    rows = ProbabilityRows(probs, labels)
    whole = Latent(whole_numbers=probs.size).fit(rows)
    by_parts = Latent(whole_numbers=0).fit(rows)
    assert by_parts.counts.sum() == pytest.approx(70_000)
    assert by_parts.converged
    # Less than the sampling error of T itself, and no further from the planted T than 5% more.
    off = transition_error(whole.transition, transition)
    assert transition_error(by_parts.transition, whole.transition) < off
    assert transition_error(by_parts.transition, transition) < 1.05 * off
    # The likelihood of all rows is at least as high, up to what counts as nothing for each number.
    assert by_parts.objective < whole.objective + 35 * LATENT.negligible_gain / 70_000


def test_data_up_to_the_limit_are_fitted_whole() -> None:
    probs, labels, _ = gaussian_rows(900, DENSE)
    rows = ProbabilityRows(probs, labels)
    at_limit = Latent(whole_numbers=2700).fit(rows)
    assert np.array_equal(at_limit.transition, LATENT.fit(rows).transition)


def test_forty_classes_are_recovered_better_than_by_the_confident_joint() -> None:
    probs, labels, transition = overlapping(30_000, 40)
    assert probs.size > LATENT.whole_numbers
    assert probs.shape[1] > LATENT.most_curved_classes
    joint = confident_joint(probs, labels)
    rival = transition_error(joint / joint.sum(axis=1, keepdims=True), transition)
    found = LATENT.solve(ProbabilityRows(probs, labels)).transition
    assert transition_error(found, transition) < 0.95 * rival


def test_known_entries_are_kept_by_fits_by_parts() -> None:
    transition = noise.pair_flip(3, 0.3)
    probs, labels, _ = gaussian_rows(3000, transition, seed=1)
    knowledge = Prior(support=transition > 0, known_rows={0: transition[0]})
    quick = Latent(whole_numbers=0, start_numbers=900, choice_numbers=3000)
    found = quick.fit(ProbabilityRows(probs, labels), knowledge=knowledge).transition
    assert np.array_equal(found > 0, transition > 0)
    assert np.array_equal(found[0], transition[0])


def test_the_curvature_is_the_finite_difference_of_the_slopes() -> None:
    probs, labels, _ = gaussian_rows(200, DENSE)
    sample = gather(ProbabilityRows(probs, labels), None, np.full((3, 3), np.nan), 10**6, 2**14)
    features = np.ascontiguousarray(np.log(sample.probs).T)

    def slopes(values: np.ndarray) -> np.ndarray:
        link, bias, matrix = values[:9].reshape(3, 3), values[9:12], softmax(values[12:].reshape(3, 3))
        at_values = sums(features, sample, link, bias, matrix, 0.0)
        of_matrix = matrix * at_values.counts.sum(axis=1, keepdims=True) - at_values.counts
        return np.concatenate([at_values.by_link.ravel(), at_values.by_bias, of_matrix.ravel()]) / 200

    point = np.random.default_rng(1).normal(size=21) / 2
    steps = 1e-5 * np.eye(21)
    expected = np.array([(slopes(point + step) - slopes(point - step)) / 2e-5 for step in steps])
    matrix = softmax(point[12:].reshape(3, 3))
    found = curvature(features, sample, point[:9].reshape(3, 3), point[9:12], matrix)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_a_search_along_axes_of_equal_curvature_ends_where_a_plain_one_does() -> None:
    scales = np.array([1e-3, 1.0, 1e3])
    minimum = np.array([3.0, -2.0, 1.0])

    def bowl(point: np.ndarray) -> tuple[float, np.ndarray]:
        return float(scales @ (point - minimum) ** 2) / 2, scales * (point - minimum)

    axes = axes_of(np.diag(scales), least=1e-9)
    ended = search.descend_along(axes, bowl, np.zeros(3), 2, ftol=0, gtol=1e-9)
    # A plain search needs many more than two steps for curvatures a million apart.
    np.testing.assert_allclose(ended.point, minimum, atol=1e-6)


def test_a_fit_by_parts_is_the_same_on_one_thread_and_on_two() -> None:
    """Blocks of this many classes are large enough for a threaded product, which adds in another order."""
    code = """
import numpy as np
from trevision.estimation import Latent, ProbabilityRows

rng = np.random.default_rng(0)
labels = rng.integers(10, size=40_000)
scores = rng.random((40_000, 10)) ** 4
scores[np.arange(40_000), labels] += rng.random(40_000)
fit = Latent(whole_numbers=0).fit(ProbabilityRows(scores / scores.sum(axis=1, keepdims=True), labels))
print(fit.transition.tobytes().hex())
"""
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert len(found[0]) > 1000
    assert found[0] == found[1]


def test_a_rare_class_whose_row_copies_a_common_one_is_no_small_volume() -> None:
    # All but singular, so of the least volume, and as likely as the other: 20 rows of 2,000 hardly tell.
    copied, apart = np.array([[0.8, 0.2], [0.79, 0.21]]), np.array([[0.8, 0.2], [0.1, 0.9]])
    counts = np.array([[1584.0, 396.0], [4.0, 16.0]])
    fits = [replace(LATENT.start_from(matrix), objective=0.5, counts=counts) for matrix in (copied, apart)]
    assert abs(np.linalg.det(copied)) < abs(np.linalg.det(apart))
    assert np.linalg.cond(copied) < LATENT.worst_condition
    assert LATENT._least_volume(fits, 2000) is fits[1]
    # Where no fit has every class named by its commonest label, the least volume decides as ever.
    assert LATENT._least_volume(fits[:1], 2000) is fits[0]


def test_the_row_of_a_class_that_a_fit_left_empty_is_the_mean_of_the_others() -> None:
    # All labels of class 2 are explained as mistakes of the others, so its row was never tried by a label.
    astray = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.9, 0.1, 0.0]])
    counts = np.array([[800.0, 100, 100], [200.0, 600, 200], [2.7, 0.3, 0.0]])
    fit = replace(LATENT.start_from(astray), objective=0.5, counts=counts)
    kept = LATENT._least_volume([fit], 2003)
    assert np.allclose(kept.transition, [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.15, 0.15, 0.7]])
    # It has no counts of its own, so pooling tells its row by those of the others too.
    pooled = LATENT.recount(kept.counts).transition
    assert pooled[2].argmax() == 2
    assert pooled[2, 2] == pytest.approx(0.7, abs=0.02)
    # With enough rows, a class is labelled as another if its labels say so.
    many = replace(fit, counts=counts * [[1.0], [1.0], [100.0]])
    assert LATENT._least_volume([many], 2300) is many
