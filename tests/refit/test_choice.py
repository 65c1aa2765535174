"""When a correction is made: against scores that are written down by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from trevision import NoisyLabelClassifier
from trevision.refit.choice import contradicted
from trevision.refit.held_out import Score, best_correction, score, tells_labels, why
from trevision.refit.scoring import Gain
from trevision.refit.selection import Task


def made(gain: Gain, changed: float = 0.0, agreement: float = 0.0, through: float | None = None) -> Score:
    hits = Gain(agreement, 0.01)
    more = hits if through is None else Gain(through, 0.01)
    return Score(gain.mean, gain, np.empty((0, 2)), np.empty(0), changed, hits, more)


def task(labels: list[int], weights: list[float] | None = None) -> Task:
    codes = np.array(labels)
    given = None if weights is None else np.array(weights)
    halves = [np.arange(len(codes)) % 2 == part for part in range(2)]
    return Task(None, np.zeros((len(codes), 1)), codes, given, halves, 2, 0)


@pytest.mark.parametrize(
    ("standard_errors", "changed", "agreement", "clear"),
    [
        (1.1, 0.05, 0.0, True),
        (0.9, 0.05, 0.0, False),
        (1.9, 0.2, 0.1, False),  # it changes more than a tenth: two standard errors are asked for
        (2.1, 0.2, 0.1, True),
        (9.0, 0.2, -0.001, False),  # likelier labels, but fewer of them hit
    ],
)
def test_a_correction_must_be_ahead_by_more_the_more_it_changes(standard_errors, changed, agreement, clear):
    assert made(Gain(0.01 * standard_errors, 0.01), changed, agreement).is_clear is clear


def test_the_best_correction_hits_labels_as_often_as_none_if_any_does():
    scores = {
        "soft": made(Gain(0.5, 0.1), 0.2, -0.01),
        "prune": made(Gain(0.1, 0.1)),
        "none": made(Gain(0, 0)),
    }
    assert best_correction(scores) == "prune"
    assert why({"soft": scores["soft"]}, "soft").startswith(
        "none: the best correction, soft, hits fewer held-out noisy labels"
    )


def test_hits_through_t_count_only_where_no_correction_that_hits_by_class_is_clear():
    scores = {
        "soft": made(Gain(0.5, 0.1), 0.2, agreement=-0.01, through=0.01),
        "prune": made(Gain(0.3, 0.1), 0.2, agreement=0.01),
        "none": made(Gain(0, 0)),
    }
    assert best_correction(scores) == "prune"
    unclear = scores | {"prune": made(Gain(0.1, 0.1), 0.2, agreement=0.01)}
    assert best_correction(unclear) == "soft"
    assert unclear["soft"].is_clear
    assert "and through T, hits +1.0% more noisy labels" in why(unclear, "soft")
    assert "and hits +1.0% more noisy labels" in why(scores, "prune")
    assert not made(Gain(0.5, 0.1), 0.2, agreement=-0.01, through=-0.01).is_clear


def test_changes_and_agreement_are_weighted_shares_of_rows():
    given = task([0, 1, 0, 1], weights=[1, 2, 3, 4])
    none = score(given, np.array([[0.9, 0.1]] * 4), [None, None])
    other = score(given, np.array([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]]), [np.eye(2)] * 2, none)
    assert other.changed == pytest.approx((2 + 3) / 10)
    assert other.hits.mean == pytest.approx((2 - 3) / 10)
    assert contradicted(given, none.held_out) == pytest.approx((2 + 4) / 10)


def test_a_right_correction_of_uneven_noise_hits_as_many_labels_as_the_noisy_posterior():
    """With T, not by the clean class: 40% of class 0 are labelled 1, so near it 1 is the likelier label."""
    rng = np.random.default_rng(0)
    transition = np.array([[0.6, 0.4], [0.1, 0.9]])
    g = np.linspace(0.02, 0.98, 2000)
    g = np.stack([g, 1 - g], axis=1)
    clean = (rng.random(2000) < g[:, 1]).astype(int)
    labels = (rng.random(2000) < transition[clean, 1]).astype(int)
    given = task(labels.tolist())
    none = score(given, g @ transition, [None, None])
    right = score(given, g, [transition] * 2, none)
    by_class = (g.argmax(axis=1) == labels).mean() - (none.held_out.argmax(axis=1) == labels).mean()
    assert by_class < -0.03  # the clean class itself hits fewer labels
    assert right.hits.mean == pytest.approx(by_class)
    assert abs(right.hits_through.mean) < 0.01
    assert right.changed > 0.1


@pytest.mark.parametrize("rates", [(0.4, 0.1), (0.3, 0.05)])
def test_uneven_noise_of_two_classes_is_corrected(rates):
    """Two Gaussians 2 apart: the best classifier splits halfway, plain training far from there."""
    accuracies = {"none": [], "auto": []}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 3000)
        x = rng.normal(size=(3000, 4)) + np.outer(y, [2, 0, 0, 0])
        noisy = np.where(rng.random(3000) < np.where(y == 0, *rates), 1 - y, y)
        for correction, found in accuracies.items():
            model = NoisyLabelClassifier(LogisticRegression(), correction=correction, random_state=seed)
            model.fit(x[:2000], noisy[:2000])
            found.append(np.mean(model.predict(x[2000:]) == y[2000:]))
    best = 0.8413  # the normal distribution's function at 1
    assert np.mean(accuracies["auto"]) > best - 0.02
    assert np.mean(accuracies["none"]) < best - 0.03


def test_a_model_that_knows_nothing_of_the_labels_does_not_tell_them():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    guess = rng.dirichlet([5, 5], size=400)
    knows = np.where((labels == 0)[:, None], [[0.8, 0.2]], [[0.2, 0.8]])
    given = task(labels.tolist())
    assert not tells_labels(given, score(given, guess, [None, None]))
    assert tells_labels(given, score(given, knows, [None, None]))


def test_random_labels_are_never_corrected_by_t():
    """Without a signal, T from the predictions may have its classes swapped: it must not be used."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, labels = rng.normal(size=(200, 5)), rng.integers(2, size=200)
        model = NoisyLabelClassifier(LogisticRegression(), random_state=seed).fit(x, labels)
        assert model.correction_ in ("none", "confident"), model.correction_reason_
        assert "no better than their frequencies" in model.correction_reason_


def test_pruning_by_a_weak_model_is_refused():
    """Ten classes that a model hardly tells: it contradicts most labels, though all are right."""
    rng = np.random.default_rng(0)
    clean = np.arange(400) % 10
    x = 0.6 * np.eye(10)[clean] @ rng.normal(size=(10, 20)) + 1.5 * rng.normal(size=(400, 20))
    model = NoisyLabelClassifier(LogisticRegression(), random_state=0).fit(x, clean)
    probs, codes = model.out_of_sample_
    assert (probs.argmax(axis=1) != codes).mean() > 0.5
    assert model.correction_ == "none", model.correction_reason_
