"""Out-of-sample predictions: no row is predicted by a network that saw its label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision.data import split
from trevision.estimation import trusted_transition
from trevision.methods import Options, Problem, cross_fit, network_seed, schedule_for, with_out_of_sample
from trevision.methods.cross_fit import fold_of
from trevision.methods.stages import estimate_transition, fit_noisy_posterior, noisy_probs
from trevision.networks import Standardise, build
from trevision.training import Evaluation, Phase, Runtime, launch


def problem(x: torch.Tensor, labels: np.ndarray, **schedule) -> Problem:
    data = split(x, labels, num_classes=2, random_state=0)
    preset = replace(
        schedule_for("quick", "arrays", len(x), 2),
        noisy_posterior=Phase(30, lr=0.05, batch_size=32),
        folds=4,
        **schedule,
    )
    return Problem(
        evaluation=Evaluation(data, None, preset.select_by),
        make_network=lambda number=0: build("mlp", tuple(x.shape[1:]), 2, network_seed(0, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=preset,
        seed=0,
        runtime=Runtime(launch("cpu")),
    )


def test_labels_that_are_pure_chance_cannot_be_predicted_out_of_sample():
    rng = np.random.default_rng(0)
    # As many features as rows: a network can learn every random label by heart.
    x = torch.from_numpy(rng.normal(size=(200, 100)).astype(np.float32))
    labels = rng.integers(2, size=200)
    setting = problem(x, labels, select_by="error")
    found = cross_fit(setting)
    predicted = found.train_probs.argmax(axis=1)
    right = (predicted == setting.data.train_y.numpy()).mean()
    assert right == pytest.approx(0.5, abs=0.12)  # three standard errors of 180 coins


def test_every_row_gets_probabilities_and_every_fold_its_epochs():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(120, 3)).astype(np.float32))
    setting = problem(x, (x[:, 0] > 0).long().numpy())
    found = cross_fit(setting)
    np.testing.assert_allclose(found.train_probs.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found.valid_probs.sum(axis=1), 1, atol=1e-5)
    assert {record["stage"] for record in found.history} == {"fold-1", "fold-2", "fold-3", "fold-4"}
    probs, labels = found.rows(setting.data)
    assert (probs.argmax(axis=1) == labels).mean() > 0.85


def test_folds_have_equal_shares_of_each_label():
    labels = np.repeat([0, 1, 2], [50, 30, 7])
    assigned = fold_of(labels, 4, np.random.default_rng(0))
    for label, count in ((0, 50), (1, 30), (2, 7)):
        sizes = np.bincount(assigned[labels == label], minlength=4)
        assert sizes.sum() == count
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("reason", ["anchor", "pairs", "few"])
def test_nothing_is_cross_fitted_where_t_comes_from_elsewhere(reason: str):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    labels = (x[:, 0] > 0).long().numpy()
    setting = problem(x, labels)
    if reason == "anchor":
        setting = replace(setting, schedule=replace(setting.schedule, estimator="anchor"))
    elif reason == "pairs":
        data = replace(setting.data, label_pairs=(labels[:4], labels[:4]))
        setting = replace(setting, evaluation=Evaluation(data))
    else:
        setting = replace(setting, schedule=replace(setting.schedule, folds=36))
    assert with_out_of_sample(setting).out_of_sample is None


@pytest.mark.parametrize("estimator", ["latent", "anchor"])
def test_a_chosen_estimator_is_not_overruled_by_a_trusted_set(estimator: str):
    x = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    labels = (x[:, 0] > 0).long().numpy()
    setting = problem(x, labels, estimator=estimator)
    data = replace(setting.data, trusted_x=x[:4], trusted_y=torch.from_numpy(labels[:4]))
    setting = replace(setting, evaluation=Evaluation(data), options=Options(estimator=estimator))
    setting = with_out_of_sample(setting)
    assert (setting.out_of_sample is not None) == (estimator == "latent")
    posterior = fit_noisy_posterior(setting)
    trusted = trusted_transition(noisy_probs(setting, posterior, x[:4]), labels[:4])
    assert not np.allclose(estimate_transition(setting, posterior), trusted, atol=1e-3)


def test_a_trusted_set_takes_the_place_of_anchor_points_that_nobody_chose():
    x = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    labels = (x[:, 0] > 0).long().numpy()
    setting = problem(x, labels, estimator="anchor")
    data = replace(setting.data, trusted_x=x[:4], trusted_y=torch.from_numpy(labels[:4]))
    setting = with_out_of_sample(replace(setting, evaluation=Evaluation(data)))
    posterior = fit_noisy_posterior(setting)
    trusted = trusted_transition(noisy_probs(setting, posterior, x[:4]), labels[:4])
    np.testing.assert_allclose(estimate_transition(setting, posterior), trusted)
