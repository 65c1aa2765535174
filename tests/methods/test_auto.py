"""`auto` corrects where that helps, leaves labels alone where it does not, and says why."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision import TransitionWarning, TRevisionClassifier
from trevision.data.files.reading import Reading
from trevision.data.noisy import Truth, split
from trevision.estimation import ProbabilityRows, Solution
from trevision.methods import auto
from trevision.methods.cross_fit import with_out_of_sample
from trevision.methods.problem import EstimatedTransition, Learned, Problem, network_seed
from trevision.methods.registry import METHODS, find_method
from trevision.methods.schedules import schedule_for
from trevision.methods.trusted_transition import doubt_of_spread, doubt_of_transition, fit_of_labels
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.refit.held_out import HeldOut, Score
from trevision.refit.scoring import Gain
from trevision.runs.model_choice import UNSAID, settle_model
from trevision.runs.settings import Hardware, usual_method
from trevision.training.checkpoint import FolderStore, MemoryStore
from trevision.training.evaluate import measure_against
from trevision.training.phase import Phase
from trevision.training.progress import NoProgress
from trevision.training.runtime import Runtime, launch

SCHEDULE = replace(
    schedule_for("quick", "arrays", 1080, 4),
    noisy_posterior=Phase(6, lr=0.02, batch_size=32),
    classifier=Phase(8, lr=0.02, batch_size=32, decay="one-cycle"),
    revision=Phase(3, optimizer="adam", lr=1e-4, lr_transition=1e-3, batch_size=32),
    folds=2,
)


def problem_of(
    x, labels, test_x, test_y, transition, seed=0, store=None, progress=None, schedule=SCHEDULE
) -> Problem:
    classes = len(transition)
    data = split(torch.from_numpy(x), labels, num_classes=classes, random_state=seed)
    truth = Truth(transition, torch.from_numpy(test_x), torch.from_numpy(test_y))
    return Problem(
        data=data,
        measure=measure_against(truth),
        make_network=lambda number=0: build("mlp", x.shape[1:], classes, network_seed(seed, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=schedule,
        seed=seed,
        runtime=Runtime(launch("cpu"), store or MemoryStore(), progress or NoProgress()),
    )


def learn(blobs, method: str = "auto", labels=None, **given) -> Learned:
    labels = blobs.noisy if labels is None else labels
    problem = problem_of(blobs.x, labels, blobs.test_x, blobs.test_y, blobs.transition, **given)
    return find_method(method)(with_out_of_sample(problem))


def test_under_asymmetric_noise_it_corrects_and_beats_plain_training(blobs):
    learned, plain = learn(blobs), learn(blobs, "standard")
    assert learned.choice["correction"] != "none"
    assert learned.choice["reason"].startswith(learned.choice["correction"])
    assert learned.model.transition is not None
    assert learned.selected["test_accuracy"] > plain.selected["test_accuracy"] + 0.03


def test_on_clean_labels_it_ends_where_plain_training_does(blobs):
    learned, plain = learn(blobs, labels=blobs.clean), learn(blobs, "standard", labels=blobs.clean)
    assert abs(learned.selected["test_accuracy"] - plain.selected["test_accuracy"]) <= 0.005
    assert all(abs(each["gain"]) < 0.05 for each in learned.choice["scores"].values())


def scored(mean: float, error: float, agreement: float = 0.0) -> Score:
    hits = Gain(agreement, 0.01)
    return Score(-1 + mean, Gain(mean, error), np.eye(2)[[0, 1] * 50], np.zeros(100), 0.05, hits, hits)


@pytest.mark.parametrize(
    ("told", "forward", "reweight", "chosen"),
    [
        (False, scored(0.003, 0.005), scored(-0.01, 0.005), "none"),
        (True, scored(0.003, 0.005), scored(-0.01, 0.005), "forward"),
        (True, scored(0.003, 0.005, -0.015), scored(-0.01, 0.005), "forward"),
        (True, scored(0.003, 0.005, -0.025), scored(-0.01, 0.005), "none"),
        (True, scored(-0.006, 0.005), scored(-0.01, 0.005), "none"),
        (True, scored(-0.004, 0.005), scored(0.001, 0.005), "reweight"),
    ],
)
def test_a_told_pattern_of_mistakes_is_corrected_unless_held_out_labels_refute_it(
    told, forward, reweight, chosen
):
    scores = {"none": scored(0, 0), "forward": forward, "reweight": reweight}
    task = HeldOut(np.array([0, 1] * 50), np.ones(100), [np.arange(100) < 50, np.arange(100) >= 50], 2)
    scores["none"] = replace(scores["none"], rows=np.log(np.linspace(0.8, 0.9, 100)))
    name, reason = auto.choose(task, scores, told)
    assert name == chosen
    assert reason.startswith(name)


def test_large_data_are_compared_on_the_validation_rows(blobs, monkeypatch):
    monkeypatch.setattr(auto, "SMALL", 100)
    learned = learn(blobs)
    assert learned.choice["correction"] != "none"
    stages = [record["stage"] for record in learned.history]
    assert not any(stage.startswith("forward-") for stage in stages)
    # Every candidate was trained on all rows, once.
    assert {stages.count(name) for name in ("classifier", "forward", "half")} == {8}


def forced(monkeypatch, transition: np.ndarray) -> None:
    """Make `auto` believe that this T was estimated."""
    monkeypatch.setattr(auto, "estimate_transition", lambda *_: EstimatedTransition(transition))
    monkeypatch.setattr(auto, "estimated_without", lambda *_: transition)


@pytest.mark.parametrize(
    ("corner", "doubt"),
    [
        ([[0.4, 0.6], [0, 1]], "labelled 1 more often"),
        ([[0.502, 0.498], [0.498, 0.502]], "nearly singular"),
    ],
)
def test_a_degenerate_transition_is_refused_and_training_is_plain_to_the_bit(
    blobs, monkeypatch, corner, doubt
):
    transition = np.eye(4)
    transition[:2, :2] = corner
    forced(monkeypatch, transition)
    with pytest.warns(TransitionWarning, match="T was not used"):
        learned = learn(blobs)
    assert learned.choice["correction"] == "none"
    assert doubt in learned.choice["reason"]
    assert any(doubt in message for message in learned.warnings)
    assert learned.model.transition is None
    state, expected = learned.model.state_dict(), learn(blobs, "standard").model.state_dict()
    assert all(torch.equal(state[key], expected[key]) for key in expected)


def two_classes(seed: int = 0, rows: int = 1500):
    """Two classes that overlap, with right labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=rows)
    x = (1.2 * labels[:, None] + rng.normal(size=(rows, 4))).astype(np.float32)
    return x[:1000], labels[:1000], x[1000:], labels[1000:]


def test_doubt_that_is_taken_for_noise_is_caught(monkeypatch):
    """T = [[.65, .35], [0, 1]] on labels that are right: through it, unsure rows would go to class 0."""
    mistaken = np.array([[0.65, 0.35], [0.0, 1.0]])
    problem = problem_of(*two_classes(), mistaken)
    forced(monkeypatch, mistaken)
    learned = METHODS["auto"](with_out_of_sample(problem))
    assert learned.choice["correction"] in ("none", "forward through half of T")
    plain = METHODS["standard"](problem_of(*two_classes(), mistaken))
    assert learned.selected["test_accuracy"] >= plain.selected["test_accuracy"] - 0.005
    through = learned.choice["scores"]["forward"]
    assert through["gain"] < 0 or through["more_hits"] < 0


def test_a_transition_that_moves_with_every_fold_is_not_identified():
    steady = [np.array([[0.8, 0.2], [0.1, 0.9]]) + move for move in (0, 0.01, -0.01)]
    assert doubt_of_spread(steady) == ""
    unsteady = [np.array([[right, 1 - right], [0.1, 0.9]]) for right in (0.6, 0.99, 0.7)]
    assert "between 60% and 99% of the labels of class 0" in doubt_of_spread(unsteady)
    so_so = [np.array([[right, 1 - right], [0.1, 0.9]]) for right in (0.65, 0.8, 0.75)]
    assert doubt_of_spread(so_so) == ""
    assert "the search for it did not converge" in doubt_of_spread(so_so, converged=False)


def test_labels_that_contradict_a_transition_refuse_it():
    """Half of a class's rows are labelled by T, the other half are all wrong: one T cannot explain both."""
    rng = np.random.default_rng(0)
    probs = np.repeat([[0.97, 0.03], [0.03, 0.97]], 2000, axis=0)
    labels = (rng.random(4000) < probs[:, 1]).astype(np.int64)
    told = Solution(np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([0.5, 0.5]))
    rows = ProbabilityRows(probs, labels)
    test = fit_of_labels(told, rows)
    assert test.unexplained > 0.1
    assert "does not explain the given labels" in doubt_of_transition(told.transition, told, rows)
    right = Solution(np.array([[0.97, 0.03], [0.03, 0.97]]), np.array([0.5, 0.5]))
    assert doubt_of_transition(right.transition, right, rows) == ""


class StopsIn(NoProgress):
    def __init__(self, stage: str, epoch: int) -> None:
        self.where = (stage, epoch)

    def epoch(self, metrics) -> None:
        if (metrics["stage"], metrics["epoch"]) == self.where:
            raise KeyboardInterrupt


def timeless(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


@pytest.mark.usefixtures("every_epoch_kept")
def test_an_interrupted_run_resumes_to_the_same_bits(blobs, tmp_path):
    whole = learn(blobs)
    store = FolderStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        learn(blobs, store=store, progress=StopsIn("forward-2", 5))
    resumed = learn(blobs, store=store)
    assert timeless(resumed.history) == timeless(whole.history)
    assert resumed.choice == whole.choice
    state, expected = resumed.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(state[key], expected[key]) for key in expected)


def test_it_is_the_default_and_the_classifier_keeps_the_reason(blobs, tmp_path):
    model = TRevisionClassifier(schedule=SCHEDULE, random_state=0).fit(blobs.x, blobs.noisy)
    assert model.method == "auto"
    assert "standard error(s)" in model.correction_reason_
    model.save(tmp_path)
    assert TRevisionClassifier.load(tmp_path).correction_reason_ == model.correction_reason_
    assert np.mean(model.predict(blobs.test_x) == blobs.test_y) > 0.85


def test_labels_without_a_signal_are_left_as_they_are():
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(400, 5)).astype(np.float32), rng.integers(2, size=400)
    model = TRevisionClassifier(schedule=SCHEDULE, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TransitionWarning)  # T may be refused before it is compared
        model.fit(x, labels)
    assert model.correction_reason_.startswith("none"), model.correction_reason_
    assert model.model_.transition is None


def test_weights_take_part_in_the_comparison(blobs):
    """Rows of weight 0 do not count: with their labels ruined, the choice stays."""
    ruined = np.where(np.arange(len(blobs.x)) % 2 == 0, blobs.noisy, 0)
    weights = (np.arange(len(blobs.x)) % 2 == 0).astype(float)
    model = TRevisionClassifier(schedule=SCHEDULE, random_state=0)
    model.fit(blobs.x, ruined, sample_weight=weights)
    alone = TRevisionClassifier(schedule=SCHEDULE, random_state=0).fit(blobs.x[::2], blobs.noisy[::2])
    assert model.correction_reason_.split(":")[0] == alone.correction_reason_.split(":")[0]


def test_a_file_is_learnt_by_auto_unless_another_method_is_said(blobs_file):
    assert settle_model(str(blobs_file), UNSAID, Hardware()).method == "auto"
    assert settle_model(str(blobs_file), replace(UNSAID, method="forward"), Hardware()).method == "forward"
    assert settle_model("digits", UNSAID, Hardware()).method == "reweight-r"
    assert usual_method("rows.csv", Reading(annotator_column="who")) == "reweight-r"
