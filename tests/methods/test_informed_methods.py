"""Methods that are told something of T: what they learn with it, and when they object."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from trevision import Prior, TransitionWarning, TRevisionClassifier, noise
from trevision.data.noisy import Truth, split
from trevision.estimation import transition_error
from trevision.methods.options import Options
from trevision.methods.problem import Learned, Problem, network_seed
from trevision.methods.registry import find_method, pose
from trevision.methods.schedules import schedule_for
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.evaluate import measure_against
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch

PAIR = noise.pair_flip(4, 0.3)
SCHEDULE = replace(
    schedule_for("quick", "digits", 540, 4),
    guarded=False,  # what the revision does is looked at, not whether it is kept
    noisy_posterior=Phase(8, lr=0.02, batch_size=32),
    classifier=Phase(6, lr=0.02, batch_size=32, decay="one-cycle"),
    revision=Phase(4, optimizer="adam", lr=1e-5, lr_transition=5e-2, batch_size=32),
)


def pair_data(seed: int = 0, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Separated Gaussian classes, and labels of which 30% are those of the next class."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(4, size=n)
    x = 4 * np.eye(4, 8)[clean] + rng.normal(size=(n, 8))
    return x.astype(np.float32), noise.corrupt(clean, PAIR, rng)


def problem_of(
    prior: Prior | None, labels: np.ndarray | None = None, method: str = "reweight-r", **options
) -> Problem:
    x, noisy = pair_data()
    data = split(torch.from_numpy(x), noisy if labels is None else labels, num_classes=4, random_state=0)
    return pose(
        method,
        data,
        measure=measure_against(Truth(PAIR, None, None)),
        make_network=lambda number=0: build("mlp", (8,), 4, network_seed(0, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=SCHEDULE,
        options=Options(**options),
        seed=0,
        runtime=Runtime(launch("cpu")),
        prior=prior,
    )


def learn(method: str, prior: Prior | None, **options) -> Learned:
    return find_method(method)(problem_of(prior, method=method, **options))


def error(learned: Learned) -> float:
    return transition_error(learned.transition, PAIR)


@pytest.fixture(scope="module")
def uninformed() -> dict[str, Learned]:
    return {method: learn(method, None) for method in ("forward-r", "reweight-r")}


@pytest.mark.parametrize("method", ["forward-r", "reweight-r"])
def test_a_true_support_is_kept_to_the_end_and_t_starts_nearer_the_truth(uninformed, method):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TransitionWarning)
        informed = learn(method, Prior(support=PAIR > 0))
    for matrix in (informed.initial_transition, informed.transition):
        assert np.array_equal(matrix > 0, PAIR > 0)
    starts = [one.initial_transition for one in (informed, uninformed[method])]
    assert transition_error(starts[0], PAIR) < transition_error(starts[1], PAIR) - 0.005
    assert np.abs(informed.transition - informed.initial_transition).max() > 0.01  # and it is revised


@pytest.mark.parametrize("method", ["forward-r", "reweight-r"])
def test_a_false_symmetry_is_kept_to_the_end_and_raises_the_error_of_t(uninformed, method):
    informed = learn(method, Prior(symmetric=True))
    np.testing.assert_allclose(informed.transition, informed.transition.T, atol=1e-6)
    np.testing.assert_allclose(informed.transition.sum(axis=1), 1, atol=1e-6)
    assert error(informed) > error(uninformed[method]) + 0.1


def test_a_support_that_forbids_a_real_flip_raises_the_error_and_names_the_flip(uninformed):
    support = PAIR > 0
    support[2, 3] = False
    with pytest.warns(TransitionWarning, match=r"class 2 seems to be labelled 3 .* makes that 0\.00"):
        informed = learn("reweight-r", Prior(support=support))
    assert informed.transition[2, 3] == 0
    assert "labels contradict the prior" in informed.warnings[0]
    assert error(informed) > error(uninformed["reweight-r"]) + 0.05
    assert all(np.isfinite(record.get("train_loss", 0)) for record in informed.history)


def test_labels_that_no_class_can_have_are_counted_and_break_nothing():
    # Class 3 is known to be labelled 0 always, and no other class may be labelled 3.
    support = np.ones((4, 4), dtype=bool)
    support[:3, 3] = False
    prior = Prior(support=support, known_rows={3: np.eye(4)[0]})
    count = int((problem_of(None).data.train_y == 3).sum())
    with pytest.warns(TransitionWarning, match=f"label 3 occurs {count} times"):
        informed = learn("forward-r", prior)
    assert np.array_equal(informed.transition[:, 3], np.zeros(4))
    assert all(np.isfinite(record.get("train_loss", 0)) for record in informed.history)
    assert all(torch.isfinite(value).all() for value in informed.model.state_dict().values())


def test_sparsity_pulls_mistakes_together_in_the_revision_alone(uninformed):
    informed = learn("forward-r", Prior(sparsity=1.0))
    plain = uninformed["forward-r"]
    np.testing.assert_allclose(informed.initial_transition, plain.initial_transition, atol=1e-12)
    astray = [1 - one.transition[PAIR > 0].sum() / 4 for one in (informed, plain)]
    assert astray[0] < astray[1] / 2
    assert error(informed) < error(plain) - 0.03


def test_a_frozen_revision_keeps_the_projected_estimate():
    informed = learn("reweight-r", Prior(dominant=True, known_rows={0: PAIR[0]}), revision="frozen")
    np.testing.assert_allclose(informed.transition[0], PAIR[0], atol=1e-6)
    np.testing.assert_allclose(informed.transition, informed.initial_transition, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "prior", "options", "message"),
    [
        ("reweight-r", Prior(symmetric=True), {"revision": "slack"}, "simplex or frozen, .* got slack"),
        ("forward-r", Prior(sparsity=0.1), {"revision": "frozen"}, "sparse is a penalty .* revision frozen"),
        ("forward", Prior(sparsity=0.1), {}, "sparse is a penalty .* got method forward"),
        (
            "standard",
            Prior(symmetric=True),
            {},
            "choice of auto, backward, forward, .* got method standard",
        ),
        ("forward", Prior(support=np.eye(5)), {}, r"\(C, C\) for 4 classes, got shape \(5, 5\)"),
    ],
)
def test_a_prior_that_would_not_be_kept_is_refused_before_training(method, prior, options, message):
    with pytest.raises(ValueError, match=message):
        problem_of(prior, method=method, **options)


@pytest.mark.filterwarnings("ignore::trevision.TransitionWarning")
def test_the_classifier_takes_a_prior_fits_under_it_and_can_be_cloned():
    x, noisy = pair_data()
    prior = Prior(support=PAIR > 0, known_rows={2: PAIR[2]})
    model = clone(TRevisionClassifier(schedule=SCHEDULE, estimator="anchor", prior=prior, random_state=0))
    model.fit(x, np.array(list("abcd"))[noisy])
    assert np.array_equal(model.transition_matrix_ > 0, PAIR > 0)
    np.testing.assert_allclose(model.transition_matrix_[2], PAIR[2], atol=1e-6)
    with pytest.raises(ValueError, match="got method standard"):
        model.set_params(method="standard").fit(x, noisy)


def test_the_likelihood_estimator_is_fitted_under_the_prior():
    x, noisy = pair_data()
    schedule = replace(SCHEDULE, folds=2, revision=Phase(0), classifier=Phase(1, batch_size=64))
    support = PAIR > 0
    model = TRevisionClassifier(
        "forward", schedule=schedule, estimator="latent", prior=Prior(support=support), random_state=0
    ).fit(x, noisy)
    assert np.array_equal(model.initial_transition_matrix_ > 0, support)
    assert transition_error(model.initial_transition_matrix_, PAIR) < 0.2
    support[2, 3] = False
    with pytest.warns(TransitionWarning, match="class 2 seems to be labelled 3"):
        model.set_params(prior=Prior(support=support)).fit(x, noisy)
