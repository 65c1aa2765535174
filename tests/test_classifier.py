"""The scikit-learn estimator: its contract, and that it does what it is for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from short_schedule import FAST
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from trevision import Phase, Schedule, TRevisionClassifier
from trevision.methods.schedules import SCHEDULES, quick


def shortened(*problem) -> Schedule:
    """`quick` as it is for a problem, with a fifth of its epochs and two folds instead of five."""

    def fifth(phase: Phase) -> Phase:
        return replace(phase, epochs=math.ceil(phase.epochs / 5))

    schedule = quick(*problem)
    phases = {name: fifth(getattr(schedule, name)) for name in ("noisy_posterior", "classifier", "revision")}
    return replace(schedule, **phases, folds=2)


def expected_failures(estimator) -> dict[str, str]:
    reason = (
        "batches are drawn at random: a row of weight 2 is in one batch of an epoch, a row given twice in "
        "two. "
        "That a weight of 0 is the row left out holds to the bit, and is tested in test_sample_weight.py"
    )
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


# They are hundreds of fits about the interface, so a short training will do. Most are of labels that have
# nothing to do with the rows, or of a handful of rows: doubts about T are right there.
@pytest.mark.filterwarnings("ignore::trevision.TransitionWarning")
@parametrize_with_checks([TRevisionClassifier()], expected_failed_checks=expected_failures)
def test_scikit_learns_own_checks_pass(estimator, check, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "quick", shortened)
    check(estimator)


@pytest.fixture(scope="module")
def fitted(blobs) -> TRevisionClassifier:
    return TRevisionClassifier(random_state=0).fit(blobs.x, blobs.noisy)


def test_it_predicts_clean_labels_from_noisy_ones(blobs, fitted):
    assert fitted.score(blobs.test_x, blobs.test_y) > 0.9
    assert np.mean(blobs.noisy == blobs.clean) < 0.65


def test_clean_and_noisy_probabilities_are_related_by_t(blobs):
    fitted = TRevisionClassifier("forward", random_state=0).fit(blobs.x, blobs.noisy)
    clean, noisy = fitted.predict_proba(blobs.test_x), fitted.predict_noisy_proba(blobs.test_x)
    for row in range(5):
        expected = [sum(clean[row, i] * fitted.transition_matrix_[i, j] for i in range(4)) for j in range(4)]
        assert noisy[row] == pytest.approx(expected, abs=1e-5)
    assert clean.sum(axis=1) == pytest.approx(1)


def test_predicted_noisy_probabilities_match_how_often_noisy_labels_occur(blobs, fitted):
    assert fitted.predict_noisy_proba(blobs.x).mean(axis=0) == pytest.approx(
        np.bincount(blobs.noisy) / len(blobs.noisy), abs=0.08
    )
    # With that tolerance the clean frequencies, 0.12 away for one class, would not pass.
    assert np.abs(np.bincount(blobs.clean) - np.bincount(blobs.noisy)).max() > 0.1 * len(blobs.noisy)


def test_fitted_attributes_follow_the_order_of_the_classes(blobs):
    """Renaming the classes in reverse order turns both axes of T round."""
    straight = TRevisionClassifier(schedule=FAST, random_state=0).fit(blobs.x, blobs.noisy)
    names = np.array(["d", "c", "b", "a"])
    turned = TRevisionClassifier(schedule=FAST, random_state=0).fit(blobs.x, names[blobs.noisy])
    assert turned.classes_.tolist() == ["a", "b", "c", "d"]
    assert set(turned.predict(blobs.test_x)) <= set(names)
    # Different rows of the last layer start from different weights, so only roughly equal.
    assert np.abs(turned.transition_matrix_[::-1, ::-1] - straight.transition_matrix_).max() < 0.2
    assert np.abs(turned.transition_matrix_[::-1, ::-1].T - straight.transition_matrix_).max() > 0.2


@pytest.mark.parametrize(
    "labels", [np.array([10, -3, 7, 2**40]), np.array(["x", "y", "ä", "w w"]), np.array([1.0, 2.0, 5.0, 4.0])]
)
def test_labels_of_any_values_come_back(blobs, labels):
    model = TRevisionClassifier(schedule=FAST, random_state=0).fit(blobs.x, labels[blobs.noisy])
    assert sorted(model.classes_.tolist()) == sorted(labels.tolist())
    assert np.mean(model.predict(blobs.test_x) == labels[blobs.test_y]) > 0.8


def test_arrays_tensors_and_frames_give_the_same_model(blobs):
    def probs(x, y) -> np.ndarray:
        return TRevisionClassifier(schedule=FAST, random_state=0).fit(x, y).predict_proba(x)

    plain = probs(blobs.x, blobs.noisy)
    assert np.array_equal(plain, probs(torch.from_numpy(blobs.x), torch.from_numpy(blobs.noisy)))
    frame = pd.DataFrame(blobs.x, columns=[f"column {i}" for i in range(8)])
    assert np.array_equal(plain, probs(frame, pd.Series(blobs.noisy)))


def test_string_labels_of_a_frame_column_are_accepted(blobs):
    column = pd.Series(np.array(["p", "q", "r", "s"])[blobs.noisy])
    model = TRevisionClassifier(schedule=FAST, random_state=0).fit(blobs.x, column)
    assert model.classes_.tolist() == ["p", "q", "r", "s"]


def test_it_works_in_a_pipeline_a_grid_search_and_clone(blobs):
    pipeline = make_pipeline(PolynomialFeatures(1), TRevisionClassifier(schedule=FAST, random_state=0))
    search = GridSearchCV(pipeline, {"trevisionclassifier__method": ["standard", "forward"]}, cv=2)
    search.fit(blobs.x, blobs.noisy)
    assert search.predict(blobs.test_x).shape == (400,)
    assert (
        clone(search.best_estimator_[-1]).get_params()["method"]
        == search.best_params_["trevisionclassifier__method"]
    )


def test_a_saved_classifier_loads_to_the_same_predictions(blobs, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = TRevisionClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(blobs.test_x), fitted.predict_proba(blobs.test_x))
    assert np.array_equal(loaded.transition_matrix_, fitted.transition_matrix_)
    assert np.array_equal(loaded.initial_transition_matrix_, fitted.initial_transition_matrix_)
    assert loaded.history_ == fitted.history_
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}


@pytest.mark.parametrize("form", ["module", "function"])
def test_a_network_of_the_users_own_is_trained_and_left_as_it_was(blobs, tmp_path, form):
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))

    network = make()
    before = [parameter.clone() for parameter in network.parameters()]
    given = network if form == "module" else make
    model = TRevisionClassifier(network=given, schedule=FAST, random_state=0).fit(blobs.x, blobs.noisy)
    assert model.score(blobs.test_x, blobs.test_y) > 0.8
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    model.save(tmp_path)
    loaded = TRevisionClassifier.load(tmp_path, network=make())
    assert np.array_equal(loaded.predict(blobs.test_x), model.predict(blobs.test_x))


def test_images_go_through_a_convolutional_network():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    images = rng.integers(0, 60, size=(200, 24, 24), dtype=np.uint8)
    images[labels == 1, 4:12, 4:12] += 150
    model = TRevisionClassifier(schedule=FAST, random_state=0).fit(images, labels)
    assert "conv1" in dict(model.model_.network.named_children())
    assert model.score(images, labels) > 0.95


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_model(blobs):
    def probs(seed: int) -> np.ndarray:
        return (
            TRevisionClassifier(schedule=FAST, random_state=seed)
            .fit(blobs.x, blobs.noisy)
            .predict_proba(blobs.x)
        )

    assert np.array_equal(probs(1), probs(1))
    assert not np.array_equal(probs(1), probs(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"schedule": "slow"}, "schedule must be one of"),
        ({"network": "vgg"}, "must be one of lenet"),
        ({"validation_share": 10}, "strictly between 0 and 1"),
        ({"revision": "free"}, "revision must be one of"),
    ],
)
def test_bad_parameters_are_named_at_fit(blobs, change, message):
    with pytest.raises(ValueError, match=message):
        TRevisionClassifier(**change).fit(blobs.x, blobs.noisy)


@pytest.mark.parametrize(
    ("method", "choice"),
    [
        ("forward-r", {"reweight_gradient": "live"}),
        ("reweight", {"revision": "slack"}),
        ("forward", {"lr_revision": 1e-4}),
        ("standard", {"lr_transition": 1e-4}),
        ("decoupling", {"noise_rate": 0.4}),
        ("co-teaching", {"mentor": "learned"}),
    ],
)
def test_a_choice_that_does_not_serve_the_method_is_refused_at_fit_and_not_before(blobs, method, choice):
    model = clone(TRevisionClassifier(method, **choice))
    (name,) = choice
    with pytest.raises(ValueError, match=f"{name} is a choice of .*, got method {method}; leave it out"):
        model.fit(blobs.x, blobs.noisy)


def test_a_trusted_set_is_checked(blobs):
    model = TRevisionClassifier(schedule=FAST)
    with pytest.raises(ValueError, match="given together"):
        model.fit(blobs.x, blobs.noisy, clean_X=blobs.x[:5])
    with pytest.raises(ValueError, match="never take"):
        model.fit(blobs.x, blobs.noisy, clean_X=blobs.x[:2], clean_y=[0, 9])
    with pytest.raises(ValueError, match="one length"):
        model.fit(blobs.x, blobs.noisy, clean_X=blobs.x[:2], clean_y=[0, 1, 1])


def test_rows_of_another_shape_are_refused_at_prediction(blobs, fitted):
    with pytest.raises(ValueError, match="features"):
        fitted.predict(blobs.test_x[:, :5])


def test_columns_that_vary_little_are_not_blurred():
    """Iris plus a hundred million: in single precision its petals have one length."""
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    plain = TRevisionClassifier("standard", estimator="anchor", random_state=0).fit(x[:100], y[:100])
    shifted = TRevisionClassifier("standard", estimator="anchor", random_state=0).fit(x[:100] + 1e8, y[:100])
    assert shifted.score(x[100:] + 1e8, y[100:]) == plain.score(x[100:], y[100:]) > 0.9


def test_a_shifted_model_is_the_same_after_it_was_saved(tmp_path):
    x, y = load_iris(return_X_y=True)
    model = TRevisionClassifier("standard", estimator="anchor", random_state=0).fit(x + 1e8, y)
    model.save(tmp_path / "model")
    loaded = TRevisionClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(x + 1e8), model.predict_proba(x + 1e8), atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None] * 10, "y must hold a label in every row, got None in row 1"),
        (np.linspace(0, 1, 20), "y must hold classes, got fractions such as 0.0526"),
    ],
)
def test_labels_that_are_none_or_fractions_are_refused_in_a_sentence(labels, message):
    with pytest.raises(ValueError, match=message):
        TRevisionClassifier().fit(np.arange(40.0).reshape(20, 2), labels)


def test_label_issues_are_told_in_the_labels_of_fit(blobs):
    names = np.array(["d", "c", "b", "a"])
    schedule = replace(FAST, estimator="latent", folds=2)
    model = TRevisionClassifier(schedule=schedule, random_state=0).fit(blobs.x, names[blobs.noisy])
    issues = model.find_label_issues(bootstrap=0)
    table = issues.to_frame()
    assert (table["given"] == names[blobs.noisy][table["row"]]).all()
    suspects = table[table["suspect"]]
    right = names[blobs.clean][suspects["row"]]
    # Labels are suspected because they are wrong, and the suggestion is mostly the clean label.
    assert np.mean(suspects["given"] != right) > 0.8
    assert np.mean(suspects["suggested"] == right) > 0.75
    assert f"<td>{table['given'][0]}</td>" in issues._repr_html_()
