"""`posterior`: T from the predictions for the training rows themselves, as Dual-T was published."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from trevision.data.noisy import split
from trevision.methods import stages
from trevision.methods.cross_fit import with_out_of_sample
from trevision.methods.options import Options
from trevision.methods.problem import Problem, network_seed
from trevision.methods.registry import check_options
from trevision.methods.schedules import schedule_for
from trevision.methods.stages import estimate_transition, fit_noisy_posterior, predicted_probs, without_zeros
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.reproduce.plans import make_plan, planned_runs
from trevision.reproduce.sharing import shared_stages
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch

CPU = Hardware(accelerator="cpu", threads=1)
DUAL_T = {"estimator": "dual-t", "posterior": "in-sample"}


def make_problem(blobs, percentile: float = 90.0, **options) -> Problem:
    data = split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=0)
    schedule = replace(
        schedule_for("quick", "arrays", 1080, 4),
        noisy_posterior=Phase(3, lr=0.02, batch_size=32),
        anchor_percentile=percentile,
        estimator=options["estimator"],
    )
    return Problem(
        data=data,
        make_network=lambda number=0: build("mlp", (8,), 4, network_seed(0, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=schedule,
        seed=0,
        runtime=Runtime(launch("cpu")),
        options=Options(**options),
    )


def slow_dual_t(probs: np.ndarray, labels: list[int], percentile: float) -> np.ndarray:
    """T[i, j] = sum over l of P(Y' = l | clean = i) P(noisy = j | Y' = l), entry by entry."""
    n, size = probs.shape
    predicted = [max(range(size), key=lambda j, row=row: probs[row, j]) for row in range(n)]
    rank = math.floor(Fraction(str(percentile)) * (n - 1) / 100)
    matrix = np.zeros((size, size))
    for i in range(size):
        anchor = sorted(range(n), key=lambda row: probs[row, i])[rank]
        for j in range(size):
            for middle in range(size):
                given = [labels[row] for row in range(n) if predicted[row] == middle]
                matrix[i, j] += probs[anchor, middle] * given.count(j) / len(given)
    return matrix


def test_dual_t_in_sample_is_a_loop_over_the_training_rows(blobs, monkeypatch):
    """From given probabilities, of which every row has other ones."""
    problem = make_problem(blobs, **DUAL_T)
    labels = problem.data.train_y.tolist()
    drawn = np.random.default_rng(0).dirichlet(np.full(4, 0.4), size=len(labels))
    seen = []

    def given(problem, posterior, x):
        seen.append(x)
        return drawn

    monkeypatch.setattr(stages, "predicted_probs", given)
    assert with_out_of_sample(problem) is problem  # no folds
    found = estimate_transition(problem, None)
    assert seen[0] is problem.data.train_x
    slow = slow_dual_t(drawn, labels, 90.0)
    np.testing.assert_allclose(found.matrix, slow, atol=0.5 / 200)  # half a label a class is added
    rows = len(labels) * found.solution.class_prior
    np.testing.assert_allclose(found.matrix, without_zeros(slow, rows), atol=1e-9)


def test_the_posterior_is_that_of_the_epoch_that_noisy_validation_labels_choose(blobs):
    problem = make_problem(blobs, **DUAL_T)
    trained = fit_noisy_posterior(problem)
    scores = [record["noisy_validation_loss"] for record in trained.history]
    assert trained.selected["noisy_validation_loss"] == min(scores)
    probs = predicted_probs(problem, trained, problem.data.train_x).astype(np.float64)
    slow = slow_dual_t(probs / probs.sum(axis=1, keepdims=True), problem.data.train_y.tolist(), 90.0)
    np.testing.assert_allclose(estimate_transition(problem, trained).matrix, slow, atol=0.5 / 200)


def test_anchor_points_may_be_looked_for_out_of_sample(blobs):
    problem = make_problem(blobs, estimator="anchor", posterior="out-of-sample")
    predicted = with_out_of_sample(problem)
    assert predicted.out_of_sample is not None
    apart = estimate_transition(predicted, None).matrix
    same = estimate_transition(problem, fit_noisy_posterior(problem)).matrix
    assert not np.allclose(apart, same, atol=0.01)


def test_a_run_says_what_its_estimator_read(tmp_path):
    settings = Settings(noise="sym-20", method="forward", options=Options(**DUAL_T))
    result = run("digits", settings, tmp_path / "run", CPU)
    assert result["transition_error"] == pytest.approx(result["initial_transition_error"], abs=1e-6)
    assert not (tmp_path / "run" / "probabilities.npz").exists()
    apart = replace(settings, options=Options(estimator="dual-t"))
    other = run("digits", apart, tmp_path / "other", CPU)
    assert other["transition_error"] != pytest.approx(result["transition_error"], rel=1e-3)


def test_a_row_in_sample_shares_stage_1_and_trains_no_folds():
    texts = ("forward", "forward:estimator=dual-t", "forward:estimator=dual-t,posterior=in-sample")
    plan = make_plan("floor", "mnist", texts, ("sym-50",), seeds=1, seeds_without_anchors=0)
    anchored, apart, in_sample = (shared_stages(run.source, run.settings, CPU) for run in planned_runs(plan))
    assert list(in_sample) == list(anchored) == ["noisy-posterior", "classifier"]
    assert "fold-1" in apart
    assert in_sample["noisy-posterior"] == anchored["noisy-posterior"] == apart["noisy-posterior"]
    assert len({stages["classifier"] for stages in (anchored, apart, in_sample)}) == 3


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("forward", {"posterior": "in-sample"}, "must go with an estimator, got none"),
        ("forward", {"estimator": "dual-t", "posterior": "mine"}, "posterior must be one of in-sample, out"),
        ("tv", {"estimator": "dual-t", "posterior": "in-sample"}, "estimator is a choice of"),
    ],
)
def test_a_posterior_that_makes_no_sense_is_refused(method, options, says):
    with pytest.raises(ValueError, match=says):
        check_options(Options(**options), method)
