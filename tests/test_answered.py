"""Several labels a row in both estimators: annotators, P(clean), names, and what is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import short_schedule
import torch
from sklearn.linear_model import LogisticRegression

from trevision import NoisyLabelClassifier, Prior, TRevisionClassifier, noise
from trevision.estimation import fit_annotators

FAST = replace(short_schedule.FAST, folds=2)
CAREFUL, CARELESS, LIAR = 0.9, 0.5, 0.1
PEOPLE = ("ann", "bob", "cleo", "dan")


def network() -> TRevisionClassifier:
    return TRevisionClassifier(schedule=FAST, random_state=0)


def any_model() -> NoisyLabelClassifier:
    return NoisyLabelClassifier(LogisticRegression(), cv=3, random_state=0)


BOTH = pytest.mark.parametrize("make", [network, any_model])


def even(right: float) -> np.ndarray:
    matrix = np.full((4, 4), (1 - right) / 3)
    np.fill_diagonal(matrix, right)
    return matrix


@pytest.fixture(scope="module")
def crowd(blobs):
    """Answers of two careful people, a careless one, and one who calls most things the next class."""
    rng = np.random.default_rng(2)
    liar = noise.pair_flip(4, 1 - LIAR)
    people = [even(CAREFUL), even(CAREFUL), even(CARELESS), liar]
    answers = np.stack([noise.corrupt(blobs.clean, matrix, rng) for matrix in people], axis=1)
    for row in range(len(answers)):
        answers[row, rng.permutation(4)[: rng.integers(1, 3)]] = -1
    return answers, np.array(people)


@BOTH
def test_planted_annotators_are_recovered_and_the_classifier_predicts_the_clean_class(make, blobs, crowd):
    answers, people = crowd
    model = make().fit(blobs.x, answers)
    np.testing.assert_allclose(model.annotators_.transitions, people, atol=0.12)
    assert model.score(blobs.test_x, blobs.test_y) > 0.9
    inferred = model.classes_[model.annotators_.clean_posterior.argmax(axis=1)]
    alone = fit_annotators(answers, 4).clean_posterior.argmax(axis=1)
    assert (inferred == blobs.clean).mean() > (alone == blobs.clean).mean() + 0.02
    np.testing.assert_allclose(model.transition_matrix_, model.annotators_.crowd, atol=1e-6)
    clean = model.predict_proba(blobs.test_x)
    np.testing.assert_allclose(
        model.predict_noisy_proba(blobs.test_x), clean @ model.transition_matrix_, atol=1e-5
    )
    # They were planted to err independently.
    assert model.annotators_.counts_as > 0.7
    assert model.history_


@BOTH
def test_label_issues_judge_the_vote_by_p_clean(make, blobs, crowd):
    answers, _ = crowd
    model = make().fit(blobs.x, answers)
    issues = model.find_label_issues(bootstrap=20)
    clean = model.annotators_.clean_posterior
    for row in range(0, len(answers), 97):
        votes = np.array([(answers[row] == label).sum() for label in range(4)])
        assert votes[issues.given[row]] == votes.max()
        assert votes[: issues.given[row]].max(initial=0) < votes.max()
        assert issues.p_given[row] == clean[row, issues.given[row]]
    number, low, high = issues.wrong
    assert number == pytest.approx(sum(1 - issues.p_given))
    assert low < number < high
    assert issues.suspect.sum() == round(number)
    truly = (issues.given != blobs.clean).sum()
    assert number == pytest.approx(truly, rel=0.25)


@BOTH
def test_missing_answers_are_nan_none_or_minus_one_alike(make, blobs, crowd):
    answers, _ = crowd
    floats = np.where(answers < 0, np.nan, answers)
    nones = np.where(answers < 0, None, answers.astype(object))
    frame = pd.DataFrame(floats, columns=PEOPLE)
    nullable = pd.DataFrame({name: pd.array(nones[:, a], dtype="Int64") for a, name in enumerate(PEOPLE)})
    texts = np.where(answers < 0, None, np.array(["p", "q", "r", "s"], dtype=object)[answers])
    plain = make().fit(blobs.x, answers)
    assert plain.annotators_.names == ("0", "1", "2", "3")
    expected = plain.predict_proba(blobs.test_x)
    for other in (floats, nones, frame, nullable, texts, torch.from_numpy(answers), nones.tolist()):
        model = make().fit(blobs.x, other)
        assert np.array_equal(model.predict_proba(blobs.test_x), expected)
        if isinstance(other, pd.DataFrame):
            assert model.annotators_.names == PEOPLE
            assert model.classes_.tolist() == [0, 1, 2, 3]
    assert make().fit(blobs.x, texts).classes_.tolist() == ["p", "q", "r", "s"]


@BOTH
def test_one_column_is_one_label_a_row(make, blobs):
    with pytest.warns(UserWarning, match="column-vector"):
        model = make().fit(blobs.x, blobs.noisy[:, None])
    assert model.annotators_ is None
    assert np.array_equal(
        model.predict_proba(blobs.test_x), make().fit(blobs.x, blobs.noisy).predict_proba(blobs.test_x)
    )


@BOTH
def test_rows_of_weight_zero_say_nothing_of_annotators(make, blobs, crowd):
    """The careless one is careful where it counts."""
    answers = crowd[0].copy()
    weights = (np.arange(len(answers)) % 2).astype(float)
    counts = (weights == 1) & (answers[:, 2] >= 0)
    answers[counts, 2] = blobs.clean[counts]
    model = make().fit(blobs.x, answers, sample_weight=weights)
    assert model.annotators_.right[2] > 0.95
    assert make().fit(blobs.x, answers).annotators_.right[2] < 0.9


@BOTH
def test_doubtful_answers_work_and_are_warned_of(make, blobs, crowd):
    once = np.column_stack([crowd[0], np.full(len(crowd[0]), -1)])
    once[3, 4] = 2
    with pytest.warns(UserWarning, match="annotator 4 gave one answer"):
        model = make().fit(blobs.x, once)
    assert any("annotator 4 gave one answer" in doubt for doubt in model.warnings_)
    assert model.annotators_.right_high[4] - model.annotators_.right_low[4] > 0.1
    agreeing = np.stack([blobs.clean, blobs.clean], axis=1)
    with pytest.warns(UserWarning, match="all annotators agree wherever two answered"):
        make().fit(blobs.x, agreeing)
    apart = np.full((len(blobs.clean), 2), -1)
    apart[::2, 0], apart[1::2, 1] = blobs.noisy[::2], blobs.clean[1::2]
    with pytest.warns(UserWarning, match="no row has answers of two annotators"):
        model = make().fit(blobs.x, apart)
    assert model.score(blobs.test_x, blobs.test_y) > 0.8


@BOTH
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((6, 2, 2), dtype=int), r"y must be \(n,\) labels or \(n, annotators\) answers, got shape"),
        ([[0, 1], [1], [0, 1], [1, 1], [0, 0], [1, 0]], "y must have rows of one length"),
        ([[0, 1], [1, 1], [0, 0]], "X and y must be of one length, got 6 and 3"),
        ([[0, 1], [1, 1], [-1, -1], [0, 1], [1, 1], [0, 0]], "at least one answer a row, got none in row 2"),
        ([["a", 1], ["a", 1], ["a", 1], ["a", 1], ["a", 1], ["a", 1]], "labels of one type, got int, str"),
        ([[0.5, 1], [1, 1], [0, 1], [0, 1], [1, 1], [0, 0]], "must hold classes, got 0.5"),
        ([[1, -1]] * 6, "at least two classes, got only 1 in 6 rows; -1 stands for an answer"),
        (np.eye(3, dtype=int)[[0, 1, 2, 0, 1, 2]], "for one-hot codes write"),
    ],
)
def test_answers_of_another_form_are_refused_in_a_sentence(make, y, message):
    with pytest.raises(ValueError, match=message):
        make().fit(np.arange(12.0).reshape(6, 2), y)


@BOTH
def test_negative_weights_are_refused_with_several_labels(make):
    answers = [[0, 1], [1, 1], [0, 0], [0, 1], [1, 1], [0, 0]]
    with pytest.raises(ValueError, match="must not be negative, got -1 in row 0"):
        make().fit(np.arange(12.0).reshape(6, 2), answers, [-1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TRevisionClassifier("forward"), "method must be left out with several labels a row, got forward"),
        (TRevisionClassifier(estimator="hoc"), "estimator must be left out"),
        (TRevisionClassifier(prior=Prior(symmetric=True)), "prior must be left out"),
        (TRevisionClassifier(revision="slack"), "revision is a choice of"),
        (NoisyLabelClassifier(LogisticRegression(), correction="prune"), "correction must be left out"),
        (
            NoisyLabelClassifier(LogisticRegression(), transition_estimator="hoc"),
            "transition_estimator must be left out",
        ),
    ],
)
def test_choices_that_mean_nothing_with_several_labels_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(np.arange(12.0).reshape(6, 2), [[0, 1], [1, 1], [0, 0], [0, 1], [1, 1], [0, 0]])


def test_a_saved_classifier_keeps_its_annotators(blobs, crowd, tmp_path):
    model = network().fit(blobs.x, pd.DataFrame(crowd[0], columns=PEOPLE))
    model.save(tmp_path)
    loaded = TRevisionClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(blobs.test_x), model.predict_proba(blobs.test_x))
    assert np.array_equal(loaded.predict_noisy_proba(blobs.test_x), model.predict_noisy_proba(blobs.test_x))
    for name in ("transitions", "crowd", "clean_posterior", "right", "right_low", "answers", "class_prior"):
        assert np.array_equal(getattr(loaded.annotators_, name), getattr(model.annotators_, name))
    assert loaded.annotators_.names == PEOPLE
    (tmp_path / "annotators.json").write_text('{"annotators": []}')
    with pytest.raises(ValueError, match=r"annotators.json: .*Fit again"):
        TRevisionClassifier.load(tmp_path)


def test_the_same_seed_gives_the_same_bits(blobs, crowd):
    first, second = (network().fit(blobs.x, crowd[0]) for _ in range(2))
    assert np.array_equal(first.predict_proba(blobs.test_x), second.predict_proba(blobs.test_x))
    assert np.array_equal(first.annotators_.clean_posterior, second.annotators_.clean_posterior)


def test_very_few_rows_leave_the_network_without_a_say_and_that_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TRevisionClassifier(random_state=0)
        model.fit(np.arange(12.0).reshape(6, 2), [[0, 1], [1, 1], [0, 0], [0, 1], [1, 1], [0, 0]])
    assert any("the network had no say in P(clean)" in doubt for doubt in model.warnings_)
