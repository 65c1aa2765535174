"""The corrections and their comparison, against slow loops written from the equations."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.estimation import confident_joint
from trevision.refit.correction import LEAST_COPY, Evidence, Training
from trevision.refit.corrections import confident, none, prune, reweight, soft
from trevision.refit.models import drawn_by_weight
from trevision.refit.registry import CORRECTIONS
from trevision.refit.scoring import Calibration, calibrate, gain, held_out_noisy

TRANSITION = np.array([[0.7, 0.3, 0.0], [0.1, 0.6, 0.3], [0.2, 0.0, 0.8]])


@pytest.fixture
def evidence() -> Evidence:
    rng = np.random.default_rng(0)
    labels, g = rng.integers(3, size=60), rng.dirichlet(np.full(3, 0.4), size=60)
    return Evidence(labels, g, TRANSITION, g @ TRANSITION)


def test_soft_copies_have_the_posterior_of_the_clean_label_as_weights(evidence):
    training = soft.apply(evidence)
    weights = np.zeros((60, 3))
    weights[training.rows, training.labels] = training.weights
    for row, given in enumerate(evidence.labels):
        joint = [evidence.clean_posterior[row, i] * TRANSITION[i, given] for i in range(3)]
        expected = np.array(joint) / sum(joint)
        assert weights[row] == pytest.approx(expected, abs=2 * LEAST_COPY)
        assert weights[row].sum() == pytest.approx(1)


def test_reweight_has_the_weights_of_equation_3(evidence):
    training = reweight.apply(evidence)
    assert np.array_equal(training.labels, evidence.labels)
    for row, given in enumerate(evidence.labels):
        g = evidence.clean_posterior[row]
        noisy = sum(TRANSITION[i, given] * g[i] for i in range(3))
        assert training.weights[row] == pytest.approx(g[given] / noisy)


def test_prune_keeps_the_most_probable_labels_of_each_class_and_restores_its_share(evidence):
    training = prune.apply(evidence)
    for label in range(3):
        own = np.flatnonzero(evidence.labels == label)
        kept = training.rows[training.labels == label]
        assert len(kept) == max(1, round(evidence.right[own].sum()))
        assert evidence.right[kept].min() >= evidence.right[np.setdiff1d(own, kept)].max(initial=0)
        assert training.weights[training.labels == label] == pytest.approx(1 / TRANSITION[label, label])


def test_confident_leaves_out_the_rows_of_each_pair_that_the_model_is_surest_against(evidence):
    probs, labels = evidence.noisy_probs, evidence.labels
    joint = confident_joint(probs, labels)
    left_out = set()
    for given in range(3):
        for other in range(3):
            if other == given:
                continue
            rows = [row for row in range(60) if labels[row] == given]
            rows.sort(key=lambda row: probs[row, given] - probs[row, other])
            worst = rows[: round(joint[other, given])]
            left_out |= {row for row in worst if probs[row, other] > probs[row, given]}
    training = confident.apply(evidence)
    assert 0 < len(left_out) < 60
    assert set(range(60)) - set(training.rows.tolist()) == left_out
    assert training.weights == pytest.approx(1)


def test_confident_agrees_with_cleanlab_on_the_rows_that_it_would_leave_out():
    filters = pytest.importorskip("cleanlab.filter", reason="cleanlab is in the bench extra")
    rng = np.random.default_rng(1)
    clean = rng.integers(3, size=600)
    probs = rng.dirichlet(np.ones(3), size=600) + 1.5 * np.eye(3)[clean]
    probs /= probs.sum(axis=1, keepdims=True)
    labels = np.where(rng.random(600) < 0.3, rng.integers(3, size=600), clean)
    theirs = filters.find_label_issues(labels, probs, n_jobs=1)
    ours = np.ones(600, dtype=bool)
    ours[confident.apply(Evidence(labels, probs, np.eye(3), probs)).rows] = False
    assert theirs.sum() > 50
    # Ties of rounded counts may fall to either side.
    assert (theirs != ours).sum() <= 3


def test_none_and_the_identity_leave_labels_as_they_are(evidence):
    sure = Evidence(evidence.labels, evidence.clean_posterior, np.eye(3), np.eye(3)[evidence.labels])
    for name, correction in CORRECTIONS.items():
        training = correction.apply(sure)
        assert np.array_equal(training.rows, np.arange(60)), name
        assert np.array_equal(training.labels, evidence.labels), name
        assert training.weights == pytest.approx(1), name
    assert none.NONE.uses_transition is False


def test_whole_weights_draw_exactly_so_many_copies():
    weights = np.random.default_rng(0).integers(0, 4, size=50).astype(float)
    drawn = drawn_by_weight(weights, 10, np.random.default_rng(1))
    assert np.array_equal(np.bincount(drawn, minlength=50), weights)


def test_rows_are_drawn_as_often_as_their_weights_say():
    weights = np.array([0.5, 1.25, 0.25])
    rng = np.random.default_rng(0)
    counts = np.mean(
        [np.bincount(drawn_by_weight(weights, 2, rng), minlength=3) for _ in range(4000)], axis=0
    )
    assert counts == pytest.approx(weights, abs=0.03)


def test_training_keeps_to_chosen_rows_and_multiplies_weights():
    training = Training(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), np.array([0.25, 0.75, 1.0, 1.0]))
    part = training.among(np.array([True, False, True])).times(np.array([2.0, 1.0, 0.0]))
    assert part.rows.tolist() == [0, 0]
    assert part.weights.tolist() == [0.5, 1.5]


def drawn_labels(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.choice(len(row), p=row) for row in probs])


@pytest.mark.parametrize("power", [0.4, 3.0])
def test_a_soft_or_sharp_posterior_is_calibrated_through_t(power):
    rng = np.random.default_rng(0)
    clean = rng.dirichlet(np.full(3, 0.5), size=6000)
    labels = drawn_labels(clean @ TRANSITION, rng)
    distorted = clean**power / (clean**power).sum(axis=1, keepdims=True)
    fitted = calibrate(distorted, labels, TRANSITION, np.full(3, 1 / 3), np.ones(6000))
    assert fitted.power == pytest.approx(1 / power, rel=0.15)
    assert fitted.share < 0.05


def test_sharpness_alone_gives_no_gain():
    """The same posterior, once raised to the power 4, is as likely after calibration."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(3, 0.8), size=3000)
    labels = drawn_labels(probs, rng)
    folds = [np.arange(3000) % 5 == k for k in range(5)]
    sharp = probs**4 / (probs**4).sum(axis=1, keepdims=True)
    weights = np.ones(3000)
    scores = [held_out_noisy(each, labels, [None] * 5, folds, weights)[0] for each in (probs, sharp)]
    assert abs(gain(*scores, weights).mean) < 0.005
    uncalibrated = np.log(np.maximum(sharp, 1e-6))[np.arange(3000), labels].mean()
    assert uncalibrated < scores[0].mean() - 0.3


def test_the_noisy_probabilities_are_those_of_the_equation():
    g, frequencies = np.array([[0.5, 0.3, 0.2]]), np.array([0.2, 0.3, 0.5])
    raised = [0.5**2 / 0.38, 0.3**2 / 0.38, 0.2**2 / 0.38]
    expected = [
        0.9 * sum(raised[i] * TRANSITION[i, j] for i in range(3)) + 0.1 * frequencies[j] for j in range(3)
    ]
    assert Calibration(2.0, 0.1).noisy_probs(g, TRANSITION, frequencies)[0] == pytest.approx(expected)


def test_a_gain_is_clear_only_beyond_its_standard_error():
    rng = np.random.default_rng(0)
    differences = rng.normal(0.1, 1, size=400)
    found_gain = gain(differences, np.zeros(400), np.ones(400))
    assert found_gain.error == pytest.approx(differences.std(ddof=1) / 20)
    assert found_gain.is_clear(1) == (differences.mean() > differences.std(ddof=1) / 20)
