"""Scores from noisy test labels, against what clean labels would have said."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)

from trevision import noise
from trevision.estimation import counted_transition, estimate
from trevision.metrics import score

DENSE = np.array(
    [
        [0.70, 0.10, 0.05, 0.10, 0.05],
        [0.02, 0.65, 0.20, 0.08, 0.05],
        [0.15, 0.05, 0.60, 0.10, 0.10],
        [0.05, 0.15, 0.05, 0.70, 0.05],
        [0.10, 0.05, 0.10, 0.15, 0.60],
    ]
)
TRANSITIONS = {"sym-30": noise.symmetric(5, 0.3), "pair-30": noise.pair_flip(5, 0.3), "dense": DENSE}
PRIOR = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
CONFUSION = 0.75 * np.eye(5) + 0.25 * np.roll(np.eye(5), 2, axis=1)  # P(predicted | clean)


def draw(rng, rows: int, transition: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean labels, predictions that are right in 75 %, and noisy labels."""
    clean = rng.choice(5, size=rows, p=PRIOR)
    return clean, noise.corrupt(clean, CONFUSION, rng), noise.corrupt(clean, transition, rng)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_many_noisy_labels_give_the_scores_of_clean_ones(name):
    clean, predicted, noisy = draw(np.random.default_rng(0), 400_000, TRANSITIONS[name])
    scores = score(noisy, predicted, TRANSITIONS[name])
    expected = {
        "accuracy": (predicted == clean).mean(),
        "balanced accuracy": balanced_accuracy_score(clean, predicted),
        "F1": f1_score(clean, predicted, average="macro"),
        **{f"recall {c}": r for c, r in enumerate(recall_score(clean, predicted, average=None))},
        **{f"precision {c}": p for c, p in enumerate(precision_score(clean, predicted, average=None))},
    }
    assert scores.keys() == expected.keys()
    for key, value in expected.items():
        assert scores[key].corrected == pytest.approx(value, abs=0.02), key
    assert scores["accuracy"].noisy == pytest.approx((predicted == noisy).mean())
    assert scores["accuracy"].noisy < 0.6 < scores["accuracy"].corrected


def test_without_noise_nothing_is_corrected():
    rng = np.random.default_rng(1)
    clean, predicted, _ = draw(rng, 3000, np.eye(5))
    probs = rng.dirichlet(np.ones(5), size=3000)
    for measure in score(clean, predicted, np.eye(5), probabilities=probs).values():
        assert measure.corrected == pytest.approx(measure.noisy)
        assert measure.low <= measure.corrected <= measure.high


def test_log_loss_and_area_are_those_of_clean_labels():
    rng = np.random.default_rng(2)
    clean = (rng.random(300_000) < 0.3).astype(int)
    logit = 1.5 * rng.normal(size=len(clean)) + 2 * clean - 1
    probs = np.stack([1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit))], axis=1)
    transition = np.array([[0.9, 0.1], [0.35, 0.65]])
    noisy = noise.corrupt(clean, transition, rng)
    scores = score(noisy, probs.argmax(axis=1), transition, probabilities=probs)
    assert scores["log loss"].corrected == pytest.approx(log_loss(clean, probs), abs=0.01)
    assert scores["ROC AUC"].corrected == pytest.approx(roc_auc_score(clean, probs[:, 1]), abs=0.01)
    assert scores["ROC AUC"].noisy == pytest.approx(roc_auc_score(noisy, probs[:, 1]))
    assert scores["ROC AUC"].noisy < scores["ROC AUC"].low


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("known", [True, False], ids=["T known", "T counted"])
def test_ninety_per_cent_intervals_hold_the_accuracy_in_about_ninety_per_cent(name, known):
    """200 draws: the count of hits is binomial with standard deviation 4.2, so 85 to 95 % is 2.4 of those."""
    truth = float(PRIOR @ CONFUSION.diagonal())
    held = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 7])
        _, predicted, noisy = draw(rng, 1000, TRANSITIONS[name])
        transition, rows = TRANSITIONS[name], None
        if not known:
            clean, _, given = draw(rng, 1500, transition)
            transition, rows = counted_transition(clean, given, 5), np.bincount(clean, minlength=5)
        accuracy = score(noisy, predicted, transition, transition_rows=rows, random_state=seed)["accuracy"]
        held += accuracy.low <= truth <= accuracy.high
    assert 170 <= held <= 190, held


def test_labels_of_one_class_are_scored_without_an_area():
    probs = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])
    scores = score([0, 0, 0], [0, 1, 0], np.eye(2), probabilities=probs)
    assert "ROC AUC" not in scores
    assert scores["recall 0"].corrected == pytest.approx(2 / 3)


def test_a_class_without_a_mistake_may_still_have_some():
    """Of 30 rows none is wrong: the exact binomial bound of 90 % is 1 - 0.05^(1/30)."""
    labels = np.repeat([0, 1], [30, 300])
    recall = score(labels, labels, np.eye(2))["recall 0"]
    assert (recall.corrected, recall.high) == (1.0, 1.0)
    assert recall.low == pytest.approx(0.05 ** (1 / 30))


def test_an_estimate_brings_its_own_uncertainty():
    rng = np.random.default_rng(3)
    transition = noise.pair_flip(3, 0.2)
    clean = rng.integers(3, size=900)
    sure = np.where(clean[:, None] == np.arange(3), 0.98, 0.01) @ transition
    noisy = noise.corrupt(clean, transition, rng)
    made = estimate(sure, noisy, "confident-joint")
    vague = score(noisy, clean, made)["accuracy"]
    sharp = score(noisy, clean, made.transition)["accuracy"]
    assert vague.corrected == sharp.corrected
    assert vague.high - vague.low >= sharp.high - sharp.low
    with pytest.raises(ValueError, match="with intervals"):
        score(noisy, clean, estimate(sure, noisy, "confident-joint", bootstrap=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, 1], [[0.5, 0.5], [0.5, 0.5]]), "far enough from singular .* condition number"),
        (([0, 1], [0], np.eye(2)), "one length above 0, got 2 and 1"),
        (([0, 2], [0, 1], np.eye(2)), r"noisy_labels must lie in 0\.\.1"),
        (([0, 1], [0, 1], [[0.9, 0.2], [0.1, 0.8]]), "rows that sum to 1"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        score(*arguments)
    with pytest.raises(ValueError, match=r"probabilities must be \(2, 2\)"):
        score([0, 1], [0, 1], np.eye(2), probabilities=[[1.0, 0.0]])
