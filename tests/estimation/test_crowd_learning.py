"""A classifier as witness: independent answers count as one, hard rows make them count less."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.estimation import Answers, fit_annotators, learn_with_classifier
from trevision.estimation.annotators import discounted
from trevision.estimation.crowd_learning import independent_share, sharpened, targets_of
from trevision.noise import corrupt

ROWS, PEOPLE = 3000, 5


def crowd(seed: int, hard: float):
    """Clean labels, answers that are guesses in a share of rows, and an outside classifier's opinion."""
    rng = np.random.default_rng(seed)
    clean = rng.choice(3, size=ROWS, p=[0.5, 0.3, 0.2])
    right = 0.75 if hard == 0 else 0.95
    each = right * np.eye(3) + (1 - right) * np.array([[0, 0.6, 0.4], [0.3, 0, 0.7], [0.5, 0.5, 0]])
    is_hard = rng.random((ROWS, 1)) < hard
    guess = np.full((3, 3), 1 / 3)
    answers = np.stack([corrupt(clean, each, rng) for _ in range(PEOPLE)], axis=1)
    guesses = np.stack([corrupt(clean, guess, rng) for _ in range(PEOPLE)], axis=1)
    answers = np.where(is_hard, guesses, answers)
    hint = 0.6 * np.eye(3)[corrupt(clean, 0.7 * np.eye(3) + 0.1, rng)] + 0.4 / 3
    return clean, answers, hint


def test_a_mistake_that_everybody_makes_is_not_seen():
    """Everybody takes a fifth of the rows for the next class: the documented limit."""
    clean, _, hint = crowd(0, hard=0.0)
    rng = np.random.default_rng(0)
    tempting = np.where(rng.random(ROWS) < 0.2, (clean + 1) % 3, clean)
    answers = np.stack([corrupt(tempting, 0.85 * np.eye(3) + 0.05, rng) for _ in range(PEOPLE)], axis=1)
    learnt = learn_with_classifier(Answers.of_table(answers, 3), lambda targets: hint)
    assert learnt.annotators.counts_as > 0.75
    truly = (learnt.annotators.clean_posterior.argmax(axis=1) != clean).sum()
    assert (1 - learnt.annotators.clean_posterior.max(axis=1)).sum() < 0.5 * truly


@pytest.mark.parametrize("seed", range(3))
def test_independent_answers_count_as_one(seed):
    clean, answers, hint = crowd(seed, hard=0.0)
    learnt = learn_with_classifier(Answers.of_table(answers, 3), lambda targets: hint)
    assert learnt.annotators.counts_as > 0.75
    expected = (1 - learnt.annotators.clean_posterior.max(axis=1)).sum()
    truly = (learnt.annotators.clean_posterior.argmax(axis=1) != clean).sum()
    assert expected == pytest.approx(truly, rel=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_hard_rows_make_an_answer_count_less_and_p_clean_honest(seed):
    clean, answers, hint = crowd(seed, hard=0.35)
    learnt = learn_with_classifier(Answers.of_table(answers, 3), lambda targets: hint)
    assert learnt.annotators.counts_as < 0.7
    own = np.arange(ROWS), clean

    def log_loss(posterior: np.ndarray) -> float:
        return float(-np.log(np.maximum(posterior[own], 1e-12)).mean())

    independent = learnt.annotators.independent_posterior
    assert log_loss(learnt.annotators.clean_posterior) < log_loss(independent) - 0.05
    truly = (learnt.annotators.clean_posterior.argmax(axis=1) != clean).sum()
    expected, naive = ((1 - p.max(axis=1)).sum() for p in (learnt.annotators.clean_posterior, independent))
    assert abs(expected - truly) < abs(naive - truly)


def test_discounting_changes_no_likeliest_class_and_can_be_undone():
    _, answers, hint = crowd(0, hard=0.35)
    annotators = learn_with_classifier(Answers.of_table(answers, 3), lambda targets: hint).annotators
    independent = annotators.independent_posterior
    assert np.array_equal(independent.argmax(axis=1), annotators.clean_posterior.argmax(axis=1))
    np.testing.assert_allclose(discounted(independent, annotators.counts_as), annotators.clean_posterior)


def test_a_classifier_that_knows_nothing_changes_nothing():
    _, answers, _ = crowd(0, hard=0.35)
    given = Answers.of_table(answers, 3)
    noise = np.random.default_rng(0).dirichlet(np.ones(3), size=ROWS)
    share, evidence = independent_share(given, fit_annotators(given, 3), noise, np.ones(ROWS))
    assert share == 1
    assert evidence < 7
    flat = np.full((ROWS, 3), 1 / 3)
    assert independent_share(given, fit_annotators(given, 3), flat, np.ones(ROWS)) == (1.0, 0.0)


def test_the_classifier_is_given_the_answers_and_not_its_own_opinion():
    """Where the classifier is sure and wrong, its targets still are what the annotators said."""
    _, answers, _ = crowd(1, hard=0.0)
    given = Answers.of_table(answers, 3)
    sure = np.eye(3)[np.zeros(ROWS, dtype=int)]
    learnt = learn_with_classifier(given, lambda targets: sure, discount=False)
    agreed = (given.votes().max(axis=1) == PEOPLE) & (given.vote() != 0)
    assert (learnt.targets.argmax(axis=1) == given.vote())[agreed].all()
    assert learnt.annotators.counts_as == 1


def test_targets_are_bayes_rule_with_answers_to_a_power():
    _, answers, _ = crowd(2, hard=0.0)
    given = Answers.of_table(answers[:50], 3)
    annotators = fit_annotators(given, 3)
    found = targets_of(given, annotators, counts_as=0.4)
    for row in range(50):
        joint = annotators.class_prior.copy()
        for who, label in enumerate(answers[row]):
            joint *= annotators.transitions[who][:, label] ** 0.4
        np.testing.assert_allclose(found[row], joint / joint.sum())


def test_sharpened_predictions_have_the_power_that_explains_p_clean():
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.ones(3), size=5000)
    labels = np.eye(3)[[rng.choice(3, p=p) for p in true]]
    blunt = true**0.4 / (true**0.4).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sharpened(blunt, labels, np.ones(5000)), true, atol=0.03)
