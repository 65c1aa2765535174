"""The guard of `quick` and `strong`: what held-out noisy labels speak against is not kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.methods.test_auto import SCHEDULE, learn

from trevision import Schedule
from trevision.methods import forward, forward_robust, rent, t_revision
from trevision.methods.problem import EstimatedTransition
from trevision.methods.schedules import SCHEDULES, schedule_for
from trevision.training.loop import StageResult, start_unless_likelier
from trevision.training.phase import Phase

ASTRAY = replace(SCHEDULE, revision=Phase(2, optimizer="adam", lr=0.5, lr_transition=0.5, batch_size=32))
ANCHORS = {"estimator": "anchor"}


def test_quick_and_strong_are_guarded_and_the_papers_protocol_is_not():
    guarded = {name: schedule_for(name, "mnist", 54_000, 10).guarded for name in SCHEDULES}
    assert guarded == {"paper": False, "quick": True, "strong": True}
    assert not Schedule(Phase(1), Phase(1), Phase(1)).guarded


@pytest.mark.parametrize("method", ["forward-r", "reweight-r"])
def test_a_revision_that_makes_held_out_labels_less_likely_is_not_kept(blobs, method):
    guarded = learn(blobs, method, schedule=replace(ASTRAY, **ANCHORS))
    assert np.abs(guarded.transition - guarded.initial_transition).max() < 1e-6
    assert (guarded.selected["stage"], guarded.selected["epoch"]) == ("revision", 0)
    assert "revision was not kept: noisy validation loss" in guarded.stopped_because
    told = guarded.guard[0]
    assert told["stage"] == "revision"
    assert not told["kept"]
    assert told["noisy_validation_loss_after"] > told["noisy_validation_loss_before"]
    free = learn(blobs, method, schedule=replace(ASTRAY, guarded=False, **ANCHORS))
    assert free.guard == []
    assert np.abs(free.transition - free.initial_transition).max() > 0.05
    assert guarded.selected["test_accuracy"] > free.selected["test_accuracy"]


def test_a_delta_t_is_kept_where_it_mends_a_wrong_t_and_dropped_where_t_was_right(blobs, monkeypatch):
    starts = {"right": 0.99 * blobs.transition + 0.0025, "wrong": 0.6 * blobs.transition + 0.1}
    moving = Phase(20, optimizer="adam", lr=1e-4, lr_transition=0.02, batch_size=32)
    schedule = replace(SCHEDULE, revision=moving, parameterisation="simplex", **ANCHORS)
    kept = {}
    for name, start in starts.items():
        monkeypatch.setattr(t_revision, "estimate_transition", lambda *_, t=start: EstimatedTransition(t))
        learned = learn(blobs, "forward-r", schedule=schedule)
        (told,) = (each for each in learned.guard if each["stage"] == "Delta T")
        kept[name] = told["kept"]
        moved = np.abs(learned.transition - learned.initial_transition).max()
        assert (moved > 1e-6) == told["kept"]
        assert told["kept"] == (told["likelier_with_it"] > told["standard_error"])
    assert kept == {"right": False, "wrong": True}


def test_a_revision_that_makes_them_likelier_is_kept():
    def record(epoch: int, loss: float, **more) -> dict:
        return {"stage": "revision", "epoch": epoch, "noisy_validation_loss": loss, **more}

    def result(after: dict, before: dict) -> StageResult:
        return StageResult({"w": 1}, after, [before, after], "all epochs done")

    start = {"w": 0}
    kept = start_unless_likelier(result(record(2, 0.9), record(0, 1.0)), start)
    assert kept.state == {"w": 1}
    assert kept.guard[0]["kept"]
    assert kept.stopped_because == "all epochs done"
    same = start_unless_likelier(result(record(2, 1.0), record(0, 1.0)), start)
    assert same.state == start
    fewer = start_unless_likelier(
        result(record(2, 0.9, trusted_error=0.2), record(0, 1.0, trusted_error=0.1)), start
    )
    assert fewer.state == start


@pytest.mark.parametrize(
    ("method", "module"),
    [
        ("forward", forward),
        ("rent", rent),
        ("forward-gce", forward_robust),
        ("forward-sce", forward_robust),
    ],
)
def test_a_correction_through_a_wrong_transition_falls_back_to_plain_training(
    blobs, monkeypatch, method, module
):
    rolled = 0.2 * np.eye(4) + 0.8 * np.roll(np.eye(4), 2, axis=1)
    monkeypatch.setattr(module, "estimate_transition", lambda *_: EstimatedTransition(rolled))
    schedule = replace(SCHEDULE, **ANCHORS)
    learned = learn(blobs, method, schedule=schedule)
    assert learned.model.transition is None
    assert any("the correction through T was not kept" in message for message in learned.warnings)
    assert not learned.guard[-1]["kept"]
    plain = learn(blobs, "standard", schedule=schedule)
    assert learned.selected["test_accuracy"] > plain.selected["test_accuracy"] - 0.02
    if method != "rent":  # which learns the labels given, whatever T is
        astray = learn(blobs, method, schedule=replace(schedule, guarded=False))
        assert astray.selected["test_accuracy"] < 0.5


def test_a_good_correction_passes_the_guard(blobs):
    learned = learn(blobs, "forward", schedule=replace(SCHEDULE, **ANCHORS))
    assert learned.model.transition is not None
    told = learned.guard[-1]
    assert told["stage"] == "correction"
    assert told["kept"]
