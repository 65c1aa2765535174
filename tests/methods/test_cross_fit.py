"""Out-of-sample predictions: no row is predicted by a network that saw its label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision import estimation
from trevision.data.folds import fold_of
from trevision.data.noisy import split
from trevision.estimation import ProbabilityRows, dual_transition, trusted_transition
from trevision.methods.cross_fit import cross_fit, with_out_of_sample
from trevision.methods.options import Options
from trevision.methods.problem import OutOfSample, Problem, network_seed
from trevision.methods.registry import check_options
from trevision.methods.schedules import ESTIMATORS, schedule_for
from trevision.methods.stages import (
    TransitionWarning,
    estimate_transition,
    fit_noisy_posterior,
    predicted_probs,
    without_zeros,
)
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch


def problem(x: torch.Tensor, labels: np.ndarray, **schedule) -> Problem:
    data = split(x, labels, num_classes=2, random_state=0)
    preset = replace(
        schedule_for("quick", "arrays", len(x), 2),
        noisy_posterior=Phase(30, lr=0.05, batch_size=32),
        folds=4,
        **schedule,
    )
    return Problem(
        data=data,
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


def test_a_fold_that_ends_early_as_it_was_told_to_is_nothing_doubtful():
    x = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    setting = problem(x, (x[:, 0] > 0).long().numpy(), select_by="error")
    patient = replace(setting.schedule.noisy_posterior, patience=1)
    setting = replace(setting, schedule=replace(setting.schedule, noisy_posterior=patient))
    found = cross_fit(setting)
    assert len(found.history) < 4 * patient.epochs
    assert found.warnings == ()


def test_folds_have_equal_shares_of_each_label():
    labels = np.repeat([0, 1, 2], [50, 30, 7])
    assigned = fold_of(labels, 4, np.random.default_rng(0))
    for label, count in ((0, 50), (1, 30), (2, 7)):
        sizes = np.bincount(assigned[labels == label], minlength=4)
        assert sizes.sum() == count
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("reason", ["anchor", "pairs"])
def test_nothing_is_cross_fitted_where_t_comes_from_elsewhere(reason: str):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    labels = (x[:, 0] > 0).long().numpy()
    setting = problem(x, labels)
    if reason == "anchor":
        setting = replace(setting, schedule=replace(setting.schedule, estimator="anchor"))
    else:
        data = replace(setting.data, label_pairs=(labels[:4], labels[:4]))
        setting = replace(setting, data=data)
    assert with_out_of_sample(setting) is setting


@pytest.mark.parametrize("estimator", ["latent", "anchor"])
def test_a_chosen_estimator_is_not_overruled_by_a_trusted_set(estimator: str):
    x = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    labels = (x[:, 0] > 0).long().numpy()
    setting = problem(x, labels, estimator=estimator, select_by="error")
    data = replace(setting.data, trusted_x=x[:4], trusted_y=torch.from_numpy(labels[:4]))
    setting = replace(setting, data=data, options=Options(estimator=estimator))
    setting = with_out_of_sample(setting)
    assert (setting.out_of_sample is not None) == (estimator == "latent")
    posterior = fit_noisy_posterior(setting)
    trusted = trusted_transition(predicted_probs(setting, posterior, x[:4]), labels[:4])
    assert not np.allclose(estimate_transition(setting, posterior).matrix, trusted, atol=1e-3)


def test_a_trusted_set_takes_the_place_of_anchor_points_that_nobody_chose():
    x = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    labels = (x[:, 0] > 0).long().numpy()
    setting = problem(x, labels, estimator="anchor")
    data = replace(setting.data, trusted_x=x[:4], trusted_y=torch.from_numpy(labels[:4]))
    setting = with_out_of_sample(replace(setting, data=data))
    posterior = fit_noisy_posterior(setting)
    trusted = trusted_transition(predicted_probs(setting, posterior, x[:4]), labels[:4])
    np.testing.assert_allclose(estimate_transition(setting, posterior).matrix, trusted)


def predicted_problem(estimator: str, **schedule) -> Problem:
    """A problem with out-of-sample predictions that were made elsewhere: no network is trained."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.3, 0.3], size=400) @ np.array([[0.9, 0.1], [0.3, 0.7]])
    labels = (rng.random(400) < probs[:, 1]).astype(np.int64)
    setting = problem(torch.randn(400, 3), labels, estimator=estimator, **schedule)
    data = setting.data
    found = OutOfSample(probs[data.train_rows], probs[data.valid_rows], 4, [])
    return replace(setting, out_of_sample=found)


@pytest.mark.parametrize(
    "estimator", [name for name, one in estimation.ESTIMATORS.items() if one.needs_out_of_sample]
)
def test_every_estimator_but_anchor_has_the_out_of_sample_predictions_and_its_zeros_filled(estimator: str):
    check_options(Options(estimator=estimator), "forward")
    setting = predicted_problem(estimator)
    made = estimate_transition(setting, None).matrix
    found = estimation.ESTIMATORS[estimator].solve(ProbabilityRows(*setting.out_of_sample.rows(setting.data)))
    for i in range(2):
        rows = 400 * found.class_prior[i]
        for j in range(2):
            # Half a label of each class, shared out among two labels.
            expected = (rows * found.transition[i, j] + 0.25) / (rows + 0.5)
            assert made[i, j] == pytest.approx(expected)
    assert made.min() > 0


def test_a_class_without_rows_keeps_its_row_of_t():
    matrix = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]])
    filled = without_zeros(matrix, np.array([800.0, 0.0, 200.0]))
    assert filled.min() > 0
    np.testing.assert_allclose(filled, matrix, atol=0.06)  # half a label shared out, beside three rows
    np.testing.assert_allclose(filled.sum(axis=1), 1)


def test_a_single_row_cannot_be_predicted_out_of_sample():
    setting = problem(torch.randn(2, 3), np.array([0, 1]))
    assert len(setting.data.train_x) == 1
    with pytest.raises(ValueError, match="at least 2 training rows"):
        cross_fit(setting)


def test_estimators_of_a_fit_are_those_of_an_estimate():
    assert set(ESTIMATORS) == set(estimation.ESTIMATORS)
    with pytest.raises(ValueError, match=r"estimator must be one of latent, .*hoc.*, got 'magic'"):
        Options(estimator="magic").check()
    with pytest.raises(ValueError, match=r"estimator must be one of .*, got 'magic'"):
        replace(schedule_for("quick", "arrays", 100, 2), estimator="magic").with_options(Options())


def test_dual_t_has_its_anchors_at_the_percentile_of_the_schedule():
    made = []
    for percentile in (60.0, None):
        setting = predicted_problem("dual-t", anchor_percentile=percentile)
        rows = ProbabilityRows(*setting.out_of_sample.rows(setting.data))
        made.append(estimate_transition(setting, None).matrix)
        np.testing.assert_allclose(made[-1], dual_transition(rows, None, percentile), atol=0.005)
    assert not np.allclose(*made, atol=0.05)


@pytest.mark.parametrize("estimator", ["latent", "hoc"])
def test_with_too_few_rows_for_folds_there_are_no_predictions_and_a_warning_is_kept(estimator: str):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    setting = problem(x, (x[:, 0] > 0).long().numpy(), estimator=estimator)
    setting = replace(setting, schedule=replace(setting.schedule, folds=36))
    with pytest.warns(TransitionWarning, match=f"not estimated by {estimator}, .* more .* than 36"):
        found = with_out_of_sample(setting)
    assert found.out_of_sample is None
    (warning,) = found.warnings
    assert "needs predictions out of sample by 36 folds" in warning


@pytest.mark.parametrize("method", ["forward", "mentornet"])
def test_an_estimator_that_falls_away_is_told_in_the_result(tmp_path, method: str):
    settings = Settings(noise="sym-20", method=method, train_size=5, options=Options(estimator="dual-t"))
    with pytest.warns(TransitionWarning, match="not estimated by dual-t"):
        result = run("digits", settings, tmp_path / "run", Hardware(accelerator="cpu", threads=1))
    assert any("T is not estimated by dual-t" in one for one in result["warnings"])


def test_too_many_classes_for_a_chosen_estimator_are_refused_before_anything_is_trained():
    data = split(torch.randn(400, 3), np.arange(400) % 101, num_classes=101, random_state=0)
    setting = problem(torch.randn(40, 3), np.zeros(40, dtype=int), estimator="hoc")
    setting = replace(setting, data=data, options=Options(estimator="hoc"))
    with pytest.raises(ValueError, match="estimator hoc is for up to 100 classes, got 101"):
        with_out_of_sample(setting)
