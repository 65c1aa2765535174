"""The recursion: a T that gets better, a start that is checked, and steps that are taken back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision import noise
from trevision.data import Truth, split
from trevision.estimation import counted_transition, transition_error
from trevision.methods import Options, OutOfSample, Problem, network_seed, recursive, schedule_for
from trevision.methods.recursive import Round, reestimate, why_not
from trevision.networks import Standardise, build
from trevision.training import Evaluation, Phase, Runtime, launch

PHASE = Phase(8, lr=0.02, batch_size=32, decay="one-cycle")
SCHEDULE = replace(
    schedule_for("quick", "arrays", 1080, 4), noisy_posterior=replace(PHASE, epochs=4), classifier=PHASE
)


def problem(blobs, **schedule) -> Problem:
    data = split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=0)
    truth = Truth(blobs.transition, torch.from_numpy(blobs.test_x), torch.from_numpy(blobs.test_y))
    return problem_of(data, truth, **schedule)


def problem_of(data, truth=None, **schedule) -> Problem:
    preset = replace(SCHEDULE, **schedule)
    return Problem(
        evaluation=Evaluation(data, truth, preset.select_by),
        make_network=lambda number=0: build("mlp", (8,), 4, network_seed(0, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=preset,
        seed=0,
        runtime=Runtime(launch("cpu")),
    )


def test_rounds_bring_a_poor_start_near_the_sampling_floor(blobs):
    # Nobody made out-of-sample predictions here, so T starts from anchor points.
    learned = recursive.fit(problem(blobs))
    before = transition_error(learned.initial_transition, blobs.transition)
    after = transition_error(learned.transition, blobs.transition)
    floor = transition_error(counted_transition(blobs.clean, blobs.noisy, 4), blobs.transition)
    assert before > 3 * floor
    # 1,080 of the 1,200 rows that the floor counts are trained on, and their classes overlap a little.
    assert after < 1.6 * floor
    assert learned.selected["test_accuracy"] > 0.95
    stages = list(dict.fromkeys(record["stage"] for record in learned.history))
    assert stages[:3] == ["noisy-posterior", "round-1-1", "round-1-2"]
    assert stages[-1] == "classifier"


def test_a_round_that_predicts_validation_labels_no_better_is_taken_back(blobs, monkeypatch):
    worse = Round(np.full((4, 4), 0.25), np.full(4, 0.25), validation_loss=9.0)
    monkeypatch.setattr(recursive, "reestimate", lambda *_: worse)
    learned = recursive.fit(problem(blobs))
    np.testing.assert_allclose(learned.transition, learned.initial_transition, atol=1e-6)
    assert "round 1 was not kept: noisy validation loss 9.0000" in learned.stopped_because
    assert not any(record["stage"].startswith("round-2") for record in learned.history)


def test_a_round_that_hardly_moves_t_is_kept_and_the_last(blobs, monkeypatch):
    def nearly_the_same(problem, found, before):
        return Round(0.998 * before + 0.002 * np.eye(4), np.full(4, 0.25), validation_loss=0.1)

    monkeypatch.setattr(recursive, "reestimate", nearly_the_same)
    learned = recursive.fit(problem(blobs))
    np.testing.assert_allclose(
        learned.transition, 0.998 * learned.initial_transition + 0.002 * np.eye(4), atol=1e-6
    )
    assert "T settled in round 1" in learned.stopped_because
    assert not any(record["stage"].startswith("round-2") for record in learned.history)


def test_the_first_round_too_may_not_lose_a_class(blobs, monkeypatch):
    def without_a_class(problem, found, before):
        return Round(before, np.array([0.3, 0.3, 0.4, 0.0]), validation_loss=0.1)

    monkeypatch.setattr(recursive, "reestimate", without_a_class)
    learned = recursive.fit(problem(blobs))
    assert "round 1 was not kept: class 3 lost more than half of its rows" in learned.stopped_because


def test_more_classes_than_the_likelihood_is_for_are_refused_before_any_training():
    labels = torch.arange(606) % 101
    data = split(torch.rand(606, 3), labels, num_classes=101, random_state=0)
    many = replace(problem_of(data), schedule=SCHEDULE)
    with pytest.raises(ValueError, match="recursive is for up to 100 classes, got 101"):
        many.check("recursive")
    many.check("forward")


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (Round(np.full((2, 2), np.nan), np.array([0.5, 0.5]), 0.1), "not finite"),
        (Round(np.eye(2), np.array([0.9, 0.1]), 0.1), "class 1 lost more than half of its rows"),
        (Round(np.eye(2), np.array([0.5, 0.5]), 0.7), "noisy validation loss 0.7000, not below 0.7000"),
        (Round(np.eye(2), np.array([0.5, 0.5]), float("nan")), "not below"),
        (Round(np.eye(2), np.array([0.6, 0.4]), 0.6), ""),
    ],
)
def test_a_step_is_refused_with_its_reason(candidate: Round, reason: str):
    best = Round(np.eye(2), np.array([0.5, 0.5]), 0.7)
    assert reason in why_not(candidate, best)
    assert bool(why_not(candidate, best)) == bool(reason)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0], ids=["too soft", "exact", "too sharp"])
def test_a_classifiers_own_mistakes_are_not_taken_for_label_noise(blobs, power):
    # Overlapping classes in one dimension, so that the best classifier errs in a tenth of the rows.
    rng = np.random.default_rng(1)
    transition = np.array([[0.7, 0.3, 0.0], [0.05, 0.8, 0.15], [0.3, 0.1, 0.6]])
    centres = np.array([0.0, 3.0, 6.0])
    clean = rng.integers(3, size=30_000)
    x = centres[clean] + rng.normal(size=len(clean))
    given = noise.corrupt(clean, transition, rng)
    g = np.exp(-((x[:, None] - centres) ** 2) / 2) ** power
    g /= g.sum(axis=1, keepdims=True)
    data = split(torch.from_numpy(x[:, None].astype(np.float32)), given, num_classes=3, random_state=0)
    found = OutOfSample(g[data.train_rows], g[data.valid_rows], 2, [])
    setting = replace(problem(blobs), evaluation=Evaluation(data))
    start = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    step = reestimate(setting, found, start)
    counted = counted_transition(g.argmax(axis=1), given, 3)
    floor = transition_error(counted_transition(clean, given, 3), transition)
    assert transition_error(counted, transition) > 6 * floor
    assert transition_error(step.transition, transition) < 3 * floor
    assert step.validation_loss < np.log(3)


def test_recursion_starts_from_the_latent_estimate_unless_told_otherwise():
    anchored = schedule_for("quick", "mnist", 54_000, 10)
    assert anchored.estimator == "anchor"
    assert Options().applied_to(anchored, "recursive").estimator == "latent"
    assert Options(estimator="anchor").applied_to(anchored, "recursive").estimator == "anchor"
    assert Options().applied_to(anchored, "reweight-r").estimator == "anchor"
