"""Annotators against planted ones, a slow loop, and the vote of the majority."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from trevision.arguments import MISSING
from trevision.estimation.annotators import Answers, fit_annotators
from trevision.noise import corrupt

CLASSES = 3


def planted(seed: int, rows: int = 800, careful: int = 3, careless: int = 5, asked: int = 4):
    """Clean labels, answers of `asked` annotators a row, and the annotators' T."""
    rng = np.random.default_rng(seed)
    clean = rng.choice(CLASSES, size=rows, p=[0.5, 0.3, 0.2])
    transitions = []
    for annotator in range(careful + careless):
        right = 0.95 if annotator < careful else 0.5
        others = rng.dirichlet(np.ones(CLASSES - 1), size=CLASSES) * (1 - right)
        matrix = np.full((CLASSES, CLASSES), right)
        matrix[~np.eye(CLASSES, dtype=bool)] = others.ravel()
        transitions.append(matrix)
    answers = np.stack([corrupt(clean, matrix, rng) for matrix in transitions], axis=1)
    for row in range(rows):
        silent = rng.permutation(careful + careless)[asked:]
        answers[row, silent] = MISSING
    return clean, answers, np.array(transitions)


def majority(answers: np.ndarray) -> np.ndarray:
    return np.array([np.bincount(row[row != MISSING], minlength=CLASSES).argmax() for row in answers])


def test_planted_annotators_are_recovered():
    clean, answers, transitions = planted(0, rows=4000)
    crowd = fit_annotators(answers, CLASSES)
    assert crowd.converged
    np.testing.assert_allclose(crowd.transitions, transitions, atol=0.06)
    hits = np.array([(answers[:, a] == clean)[answers[:, a] != MISSING].mean() for a in range(8)])
    np.testing.assert_allclose(crowd.right, hits, atol=0.03)
    assert ((crowd.right_low < hits) & (hits < crowd.right_high)).mean() >= 0.75


@pytest.mark.parametrize("seed", range(3))
def test_inferred_labels_are_better_than_the_majoritys(seed):
    clean, answers, _ = planted(seed)
    inferred = fit_annotators(answers, CLASSES).clean_posterior.argmax(axis=1)
    assert (inferred == clean).mean() > (majority(answers) == clean).mean() + 0.02


def test_a_classifier_that_knows_something_makes_them_better_still():
    clean, answers, _ = planted(5, rows=600, asked=2)
    rng = np.random.default_rng(0)
    hint = np.where(np.arange(CLASSES) == corrupt(clean, 0.7 * np.eye(CLASSES) + 0.1, rng)[:, None], 0.8, 0.1)
    alone = fit_annotators(answers, CLASSES).clean_posterior.argmax(axis=1)
    helped = fit_annotators(answers, CLASSES, hint).clean_posterior.argmax(axis=1)
    assert (helped == clean).mean() > (alone == clean).mean() + 0.02


def test_at_the_solution_bayes_rule_holds_row_by_row():
    _, answers, _ = planted(1, rows=120)
    crowd = fit_annotators(answers, CLASSES)
    prior = crowd.clean_posterior.mean(axis=0)
    for row, given in enumerate(answers):
        joint = prior.copy()
        for annotator, label in enumerate(given):
            if label != MISSING:
                joint *= crowd.transitions[annotator][:, label]
        np.testing.assert_allclose(crowd.clean_posterior[row], joint / joint.sum(), atol=1e-3)


def test_few_answers_learn_from_the_crowd():
    _, answers, _ = planted(2, careful=6, careless=0)
    answers = np.column_stack([answers, np.full(len(answers), MISSING)])
    answers[0, -1] = answers[0][answers[0] != MISSING][0]
    crowd = fit_annotators(answers, CLASSES)
    assert crowd.answers[-1] == 1
    np.testing.assert_allclose(crowd.transitions[-1], crowd.crowd, atol=0.2)
    assert crowd.right_high[-1] - crowd.right_low[-1] > crowd.right_high[0] - crowd.right_low[0]
    low = beta.ppf(0.05, *_parameters(crowd, -1))
    assert crowd.right_low[-1] == pytest.approx(low, abs=1e-6)


def _parameters(crowd, annotator: int) -> tuple[float, float]:
    """Of the Beta distribution with the shrunk share as its mean."""
    total = crowd.answers[annotator] + crowd.strength
    return crowd.right[annotator] * total, (1 - crowd.right[annotator]) * total


def test_few_rows_do_not_make_all_annotators_alike():
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=300)
    careful, careless = (corrupt(clean, (1 - r) * np.eye(3) + r / 3, rng) for r in (0.2, 0.8))
    crowd = fit_annotators(np.stack([careful, careful, careless], axis=1), 3)
    assert crowd.right[0] > crowd.right[2] + 0.2


def test_the_rows_on_which_they_disagree_most_are_the_least_certain():
    answers = np.array([[0, 0, 0], [1, 1, 1], [0, 1, MISSING]] * 10)
    crowd = fit_annotators(answers, 2)
    assert set(np.argsort(-crowd.disagreement)[:10] % 3) == {2}


def test_what_answers_cannot_tell_is_said():
    alone = np.full((6, 2), MISSING)
    alone[:3, 0], alone[3:, 1] = [0, 1, 0], [1, 1, 0]
    assert "no row has answers of two annotators" in fit_annotators(alone, 2).warnings[0]
    assert "rests on the classifier alone" in fit_annotators(alone, 2, np.full((6, 2), 0.5)).warnings[0]
    assert "all annotators agree" in fit_annotators(np.array([[0, 0], [1, 1]]), 2).warnings[0]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (np.array([0, 1, 1]), r"answers must be \(n, annotators\), got shape \(3,\)"),
        (np.array([[0, 2]]), "integers from 0 to 1, and -1 where there is none, got 0 to 2"),
        (np.array([[0.0, 1.0]]), "of dtype float64"),
        (np.array([[0, 1], [MISSING, MISSING]]), "at least one for each row, and row 1 has none"),
    ],
)
def test_answers_of_another_form_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        fit_annotators(answers, 2)
    with pytest.raises(ValueError, match=r"clean_probs must be \(1, 2\)"):
        fit_annotators(np.array([[0, 1]]), 2, np.ones((3, 2)))


def test_answers_are_numbered_and_voted_as_a_loop_says():
    _, answers, _ = planted(3, rows=60)
    given = Answers.of_table(answers, CLASSES, names=[f"person {a}" for a in range(8)])
    assert given.names[7] == "person 7"
    taken = given.take(np.array([5, 0, 59]))
    for place, row in enumerate((5, 0, 59)):
        said = [label for label in answers[row] if label != MISSING]
        assert taken.votes()[place].tolist() == [said.count(label) for label in range(CLASSES)]
        assert taken.vote()[place] == max(range(CLASSES), key=said.count)
    again = fit_annotators(given, CLASSES)
    assert np.array_equal(again.clean_posterior, fit_annotators(answers, CLASSES).clean_posterior)
    assert again.names == given.names


def test_rows_count_by_their_weights():
    """Rows with weight 2 are rows given twice, and weight 0 leaves them out, but for their P(clean)."""
    _, answers, _ = planted(4, rows=300)
    weights = np.random.default_rng(0).integers(0, 3, size=300)
    weighted = fit_annotators(answers, CLASSES, sample_weight=weights)
    repeated = fit_annotators(np.repeat(answers, weights, axis=0), CLASSES)
    for name in ("transitions", "class_prior", "right", "right_low"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-4)
    assert weighted.clean_posterior.shape == (300, CLASSES)
    with pytest.raises(ValueError, match="sample_weight must not be negative, got -1 in row 0"):
        fit_annotators(answers, CLASSES, sample_weight=-np.ones(300))


def test_an_annotator_with_one_answer_is_named():
    _, answers, _ = planted(2)
    answers = np.column_stack([answers, np.full((len(answers), 2), MISSING)])
    answers[0, -1] = 1
    given = Answers.of_table(answers, CLASSES, names=[*"abcdefgh", "silent", "newcomer"])
    silent, single = fit_annotators(given, CLASSES).warnings
    assert silent.startswith("annotator silent gave no answer")
    assert single.startswith("annotator newcomer gave one answer: what is said of them is nearly")
