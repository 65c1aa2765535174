"""The recursion: a poor T gets better, a good one is left, and steps that mislead are not taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision import noise
from trevision.data.noisy import Truth, split
from trevision.estimation import Latent, counted_transition, transition_error
from trevision.methods import recursive
from trevision.methods.cross_fit import with_out_of_sample
from trevision.methods.options import Options
from trevision.methods.problem import OutOfSample, Problem, network_seed
from trevision.methods.recursive import Step, reestimate, why_not
from trevision.methods.registry import find_method, pose
from trevision.methods.schedules import schedule_for
from trevision.methods.stages import train_anew
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.evaluate import measure_against, measure_nothing
from trevision.training.loop import TrainingDiverged
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch

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
        data=data,
        measure=measure_nothing if truth is None else measure_against(truth),
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
    assert before > 2 * floor
    # 1,080 of the 1,200 rows that the floor counts are trained on, and their classes overlap a little.
    assert after < 1.6 * floor
    assert learned.selected["test_accuracy"] > 0.95
    stages = list(dict.fromkeys(record["stage"] for record in learned.history))
    assert stages[:3] == ["noisy-posterior", "round-1-1", "round-1-2"]
    assert stages[-1] == "classifier"


def test_a_good_start_is_left_as_it_is(blobs):
    """From the folds and the likelihood, as a user has it: labels then do not contradict T."""
    start = with_out_of_sample(problem(blobs, estimator="latent"))
    learned = recursive.fit(start)
    floor = transition_error(counted_transition(blobs.clean, blobs.noisy, 4), blobs.transition)
    before = transition_error(learned.initial_transition, blobs.transition)
    assert before < 1.6 * floor
    assert transition_error(learned.transition, blobs.transition) <= before + 1e-6
    assert "round 1 was not kept: the labels do not contradict the T before it" in learned.stopped_because
    assert learned.selected["test_accuracy"] > 0.95


def test_the_classifier_has_the_epochs_of_stage_1_too(blobs):
    learned = recursive.fit(problem(blobs))
    epochs = Counter(record["stage"] for record in learned.history)
    assert epochs["round-1-1"] == PHASE.epochs
    assert epochs["classifier"] == 4 + PHASE.epochs


GOOD = Step(
    np.eye(2),
    evidence=100.0,
    gain=0.01,
    chance=0.002,
    shares=np.array([0.6, 0.4]),
    shares_before=np.array([0.5, 0.5]),
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"transition": np.full((2, 2), np.nan)}, "not finite"),
        ({"shares": np.array([0.9, 0.1])}, "class 1 lost more than half of its rows"),
        # Two free numbers: the 99th percentile of chi2 is -2 log 0.01.
        ({"evidence": 9.2}, "do not contradict the T before it (chi2 9.2, limit 9.2)"),
        ({"evidence": 9.22}, ""),
        ({"evidence": float("nan")}, "do not contradict"),
        ({"gain": -0.0019}, ""),  # a tenth of the rows cannot overrule the others for so little
        ({"gain": -0.0021}, "noisy validation loss higher by 0.0021, its standard error 0.0020"),
        ({"gain": float("nan")}, "noisy validation loss"),
        ({}, ""),
    ],
)
def test_a_step_is_refused_with_its_reason(change: dict[str, object], reason: str):
    told = why_not(replace(GOOD, **change))
    assert reason in told
    assert bool(told) == bool(reason)


def test_a_refused_step_leaves_t_and_ends_the_recursion(blobs, monkeypatch):
    worse = replace(GOOD, transition=np.full((4, 4), 0.25), evidence=1e3, gain=-9.0)
    monkeypatch.setattr(recursive, "reestimate", lambda *_: worse)
    learned = recursive.fit(problem(blobs))
    np.testing.assert_allclose(learned.transition, learned.initial_transition, atol=1e-6)
    assert "round 1 was not kept: noisy validation loss higher by 9.0000" in learned.stopped_because
    assert not any(record["stage"].startswith("round-2") for record in learned.history)


def test_a_round_that_diverges_leaves_t_as_it_was(blobs, monkeypatch):
    def diverging(part, transition, name, epochs):
        if name.startswith("round"):
            raise TrainingDiverged(f"the loss became nan in epoch 1 of {name}")
        return train_anew(part, transition, name, epochs)

    monkeypatch.setattr(recursive, "train_anew", diverging)
    learned = recursive.fit(problem(blobs))
    np.testing.assert_allclose(learned.transition, learned.initial_transition, atol=1e-6)
    assert "round 1 was not kept: the loss became nan in epoch 1 of round-1-1" in learned.stopped_because


def test_a_half_that_ended_early_is_told_of(blobs, monkeypatch):
    def early(part, transition, name, epochs):
        trained = train_anew(part, transition, name, epochs)
        return replace(trained, stopped_because=f"the loss became nan in epoch 2 of {name}")

    monkeypatch.setattr(recursive, "train_anew", early)
    learned = recursive.fit(problem(blobs))
    assert "the loss became nan in epoch 2 of round-1-2" in learned.warnings


def test_more_classes_than_the_likelihood_is_for_are_refused_before_any_training():
    labels = torch.arange(606) % 101
    data = split(torch.rand(606, 3), labels, num_classes=101, random_state=0)
    many = problem_of(data)
    parts = {
        "make_network": many.make_network,
        "standardise": many.standardise,
        "schedule": SCHEDULE,
        "seed": 0,
        "runtime": many.runtime,
    }
    with pytest.raises(ValueError, match="recursive is for up to 100 classes, got 101"):
        pose("recursive", data, **parts)
    pose("forward", data, **parts)


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
    setting = replace(problem(blobs), data=data)
    start = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    step = reestimate(setting, found, start)
    counted = counted_transition(g.argmax(axis=1), given, 3)
    floor = transition_error(counted_transition(clean, given, 3), transition)
    assert transition_error(counted, transition) > 6 * floor
    assert transition_error(step.transition, transition) < 3 * floor
    assert not why_not(step)
    # The same labels do not contradict the T that made them: beside it, no step is taken.
    assert "do not contradict" in why_not(reestimate(setting, found, transition))
    np.testing.assert_allclose(step.shares, 1 / 3, atol=0.03)
    # A better T for every row, and by about as much: the gain is far beyond chance.
    assert step.gain > 3 * step.chance > 0


def test_evidence_is_that_of_the_rows_that_were_fitted(blobs, monkeypatch):
    """A T that is off by as much has a third of the evidence against it in a third of the rows."""
    rng = np.random.default_rng(0)
    transition = np.array([[0.7, 0.3], [0.1, 0.9]])
    clean = rng.integers(2, size=9_000)
    given = noise.corrupt(clean, transition, rng)
    g = np.where(np.eye(2)[clean] > 0, 0.99, 0.01)
    data = split(torch.from_numpy(g.astype(np.float32)), given, num_classes=2, random_state=0)
    found = OutOfSample(g[data.train_rows], g[data.valid_rows], 2, [])
    setting = replace(problem(blobs), data=data)
    off = np.array([[0.8, 0.2], [0.2, 0.8]])
    whole = reestimate(setting, found, off).evidence
    monkeypatch.setattr(recursive, "LATENT", Latent(most_numbers=2 * len(data.train_x) // 3))
    assert reestimate(setting, found, off).evidence == pytest.approx(whole / 3, rel=0.3)


def test_recursion_starts_from_the_latent_estimate_unless_told_otherwise():
    anchored = schedule_for("quick", "mnist", 54_000, 10)
    assert anchored.estimator == "anchor"
    assert anchored.with_options(Options(), find_method("recursive").own_estimator).estimator == "latent"
    assert anchored.with_options(Options(estimator="anchor"), "latent").estimator == "anchor"
    assert anchored.with_options(Options(), find_method("reweight-r").own_estimator).estimator == "anchor"
