"""Models are compared by held-out noisy labels: on the same folds, and with one failing not fatal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from trevision.data.folds import fold_of
from trevision.estimation import Answers, fit_annotators
from trevision.files import DataError
from trevision.models import comparison
from trevision.models.candidates import CANDIDATES, LINEAR
from trevision.models.comparison import SharedFolds, compare
from trevision.models.crowd import CrowdEvidence
from trevision.models.features import Features
from trevision.noise import corrupt, symmetric
from trevision.training.progress import NoProgress


@pytest.fixture
def shared(blobs) -> SharedFolds:
    """400 rows whose columns are of one scale, in five folds."""
    x, labels = blobs.x[:400] / blobs.x.std(axis=0), blobs.noisy[:400]
    assigned = fold_of(labels, 5, np.random.default_rng(3))
    return SharedFolds(Features(x), labels, [assigned == fold for fold in range(5)], 4, seed=7)


def predicted_by_a_loop(model, shared: SharedFolds) -> np.ndarray:
    x, probs = shared.features.dense, np.zeros((len(shared.labels), shared.num_classes))
    for fold in shared.folds:
        fitted = clone(model).fit(x[~fold], shared.labels[~fold])
        probs[np.ix_(fold, fitted.classes_)] = fitted.predict_proba(x[fold])
    return probs


def test_every_model_is_scored_on_the_same_folds(shared, tmp_path):
    """Each accuracy is that of a plain loop over the folds, and the network is handed the same ones."""
    given = []

    def network(handed: SharedFolds) -> np.ndarray:
        given.append(handed)
        return predicted_by_a_loop(LogisticRegression(), handed)

    compared = compare(["network", *CANDIDATES], shared, network, NoProgress(), tmp_path)
    assert len(compared) == 4
    assert given[0].folds is shared.folds
    for each in compared:
        if each.name == "network":
            continue
        loop = predicted_by_a_loop(CANDIDATES[each.name].model(each.value, 7, scaled=True), shared)
        assert each.accuracy == np.mean(loop.argmax(axis=1) == shared.labels)
    scores = [each.log_likelihood for each in compared]
    assert scores == sorted(scores, reverse=True)
    assert [each.behind for each in compared] == pytest.approx([scores[0] - score for score in scores])


def test_a_row_is_never_predicted_by_a_model_that_saw_it(shared, tmp_path, monkeypatch):
    """A model that knows its rows by heart would be always right on them."""

    class ByHeart(LogisticRegression):
        def fit(self, x, y, sample_weight=None):
            self.rows_ = {row.tobytes(): label for row, label in zip(x, y, strict=True)}
            return super().fit(x, y)

        def predict_proba(self, x):
            assert not any(row.tobytes() in self.rows_ for row in x)
            return super().predict_proba(x)

    by_heart = replace(LINEAR, values=(1.0,), make=lambda value, seed: ByHeart())
    monkeypatch.setitem(CANDIDATES, "linear", by_heart)
    (only,) = compare(["linear"], shared, None, NoProgress(), tmp_path)
    assert only.error is None


def test_the_setting_is_the_value_that_makes_held_out_labels_likeliest(shared, tmp_path):
    (linear,) = compare(["linear"], shared, None, NoProgress(), tmp_path / "all")
    alone = {}
    for value in LINEAR.values:
        with pytest.MonkeyPatch.context() as patched:
            patched.setitem(CANDIDATES, "linear", replace(LINEAR, values=(value,)))
            (one,) = compare(["linear"], shared, None, NoProgress(), tmp_path / str(value))
        alone[value] = one.log_likelihood
    assert linear.value == max(alone, key=alone.__getitem__)
    assert linear.log_likelihood == alone[linear.value]


def failing(name: str) -> object:
    def make(value, seed):
        raise ValueError(f"no {name}\ntoday")

    return replace(CANDIDATES[name], make=make)


def test_a_model_that_fails_is_told_and_the_others_are_compared(shared, tmp_path, monkeypatch):
    monkeypatch.setitem(CANDIDATES, "forest", failing("forest"))
    compared = compare(["forest", "linear"], shared, None, NoProgress(), tmp_path)
    assert [each.name for each in compared] == ["linear", "forest"]
    assert compared[1].to_json(chosen=False) == {
        "name": "forest",
        "error": "no forest today",
        "chosen": False,
    }


def test_if_every_model_fails_each_reason_is_told_in_one_line(shared, tmp_path, monkeypatch):
    for name in CANDIDATES:
        monkeypatch.setitem(CANDIDATES, name, failing(name))
    with pytest.raises(
        DataError, match=r"^no model could be fitted: boosting: no boosting today; forest: .*$"
    ):
        compare([*CANDIDATES], shared, None, NoProgress(), tmp_path)


def test_a_stopped_comparison_continues_after_the_last_model(shared, tmp_path, monkeypatch):
    first = compare(["linear"], shared, None, NoProgress(), tmp_path)
    monkeypatch.setattr(comparison, "cross_fit", None)  # nothing is fitted again
    again = compare(["linear"], shared, None, NoProgress(), tmp_path)
    assert again[0].to_json(True) == first[0].to_json(True)


def test_networks_are_trained_without_each_fold(shared):
    pytest.importorskip("torch")
    from trevision.models import network
    from trevision.training.runtime import Runtime, launch

    seen = []
    original = network.split

    def recorded(x, labels, **more):
        seen.append((x.numpy().copy(), np.asarray(labels)))
        return original(x, labels, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(network, "split", recorded)
        probs = network.network_probs(shared, "mine.csv", "quick", Runtime(launch("cpu")))
    for fold, (x, labels) in zip(shared.folds, seen, strict=True):
        assert np.array_equal(x, shared.features.dense[~fold])
        assert np.array_equal(labels, shared.labels[~fold])
    assert probs.sum(axis=1) == pytest.approx(np.ones(len(probs)), abs=1e-5)
    assert np.mean(probs.argmax(axis=1) == shared.labels) > 0.5


def test_with_several_labels_a_row_models_are_scored_by_the_answers_to_held_out_rows(blobs, tmp_path):
    """Against a loop over answers, each by its annotator's T, with the calibration found by a grid."""
    rng = np.random.default_rng(4)
    x, clean = blobs.x[:300] / blobs.x.std(axis=0), blobs.clean[:300]
    table = np.stack([corrupt(clean, blobs.transition, rng), corrupt(clean, symmetric(4, 0.2), rng)], axis=1)
    table[rng.random(300) < 0.3, 0] = -1
    answers = Answers.of_table(table, 4)
    assigned = fold_of(answers.vote(), 5, np.random.default_rng(3))
    folds = [assigned == fold for fold in range(5)]
    crowd = CrowdEvidence.of(answers)
    shared = SharedFolds(Features(x), answers.vote(), folds, 4, 7, crowd)
    (compared,) = compare(["linear"], shared, None, NoProgress(), tmp_path)

    alone = fit_annotators(table, 4)
    copies = [(row, label) for row in range(300) for label in range(4)]
    model, probs = LINEAR.model(compared.value, 7, scaled=True), np.zeros((300, 4))
    for fold in folds:
        rows, labels = np.array([pair for pair in copies if not fold[pair[0]]]).T
        weights = alone.clean_posterior[rows, labels]
        probs[fold] = clone(model).fit(x[rows], labels, sample_weight=weights).predict_proba(x[fold])
    right = alone.clean_posterior[np.arange(300), probs.argmax(axis=1)].mean()
    assert compared.accuracy == pytest.approx(right, abs=0.01)

    def score(rows: np.ndarray, power: float, share: float, frequencies: np.ndarray) -> float:
        total = 0.0
        for row in rows:
            g = probs[row] ** power
            g = (1 - share) * g / g.sum() + share * frequencies
            for who, label in enumerate(table[row]):
                if label >= 0:
                    total += np.log(sum(g[i] * alone.transitions[who, i, label] for i in range(4)))
        return total

    expected = 0.0
    for fold in folds:
        frequencies = alone.clean_posterior[~fold].mean(axis=0)
        rest = np.flatnonzero(~fold)
        grid = [(power, share) for power in (0.5, 0.7, 1.0, 1.4, 2.0) for share in (0.0, 0.05, 0.2)]
        best = max(grid, key=lambda pair: score(rest, *pair, frequencies))
        expected += score(np.flatnonzero(fold), *best, frequencies)
    assert compared.log_likelihood == pytest.approx(expected / 300, abs=0.02)
