"""gce, sce, volminnet and tv: what they record, what they make of T, and that all the rest works with them.

That they beat plain cross-entropy is tested beside the other methods (test_methods.py, test_baselines.py).
So is that they resume to the same bits.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trevision import TRevisionClassifier, noise
from trevision.data.noisy import Truth, split
from trevision.estimation import transition_error
from trevision.methods import stages
from trevision.methods.problem import Learned, Problem, network_seed
from trevision.methods.registry import find_method
from trevision.methods.sce import weights_for
from trevision.methods.schedules import schedule_for
from trevision.methods.stages import train_steadily
from trevision.methods.tv import _drawn_classes, count_pairs, counting_step
from trevision.methods.volminnet import _step as volminnet_step
from trevision.methods.volminnet import starting_transition
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.report.page import write_report
from trevision.reproduce.bound import bound_of_run
from trevision.reproduce.sharing import shared_stages
from trevision.runs.label_issues import find_run_issues
from trevision.runs.predict import predict_to_csv
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.evaluate import class_probs, measure_against, measure_nothing
from trevision.training.loop import Batch, StageResult
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch
from trevision.transition import DirichletTransition

END_TO_END = ("volminnet", "tv")
CPU = Hardware(accelerator="cpu")
SHORT = replace(
    schedule_for("quick", "arrays", 1080, 4),
    noisy_posterior=Phase(2, lr=0.02, batch_size=32),
    classifier=Phase(4, lr=0.01, batch_size=32),
)


ONE_CYCLE = replace(SHORT, classifier=Phase(4, lr=0.02, batch_size=32, decay="one-cycle"))


def make_problem(x, noisy, truth: Truth | None = None, select_by="error", schedule=SHORT, seed=0) -> Problem:
    data = split(torch.from_numpy(x), noisy, num_classes=4, random_state=seed)
    return Problem(
        data=data,
        measure=measure_nothing if truth is None else measure_against(truth),
        make_network=lambda number=0: build("mlp", (8,), 4, network_seed(seed, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=replace(schedule, select_by=select_by),
        seed=seed,
        runtime=Runtime(launch("cpu")),
    )


# --- the validation loss ---------------------------------------------------------------------------------


def robust_loss(method: str, p: float) -> float:
    """Of one row, from the probability of its label, by the papers' equations."""
    if method == "gce":
        return (1 - p**0.7) / 0.7
    return 0.1 * -math.log(p) + 4 * (1 - p)


@pytest.mark.parametrize("method", ["gce", "sce"])
def test_the_validation_loss_is_the_one_that_is_trained_with_and_can_select(blobs, method):
    problem = make_problem(blobs.x, blobs.noisy, select_by="loss")
    learned = find_method(method)(problem)
    records = [record for record in learned.history if record["stage"] == method]
    assert learned.selected == min(records, key=lambda record: record["noisy_validation_loss"])
    probs = class_probs(learned.model, problem.data.valid_x).tolist()
    rows = list(zip(probs, problem.data.valid_y.tolist(), strict=True))
    expected = sum(robust_loss(method, g[y]) for g, y in rows) / len(rows)
    assert learned.selected["noisy_validation_loss"] == pytest.approx(expected, rel=1e-4)
    # Stage 1, which is there for T-hat alone, is selected by cross-entropy, as for every other method.
    other = find_method("standard")(problem)
    assert learned.history[0]["noisy_validation_loss"] == other.history[0]["noisy_validation_loss"]
    assert np.array_equal(learned.transition, other.initial_transition)
    assert learned.model.transition is None


def test_gce_takes_a_high_rate_down_to_the_gentle_one_where_the_schedule_is_gentle(blobs):
    def learnt_at(rate: float, gentle: bool) -> np.ndarray:
        schedule = replace(SHORT, classifier=replace(SHORT.classifier, lr=rate), gentle=gentle)
        problem = make_problem(blobs.x, blobs.noisy, schedule=schedule)
        return class_probs(find_method("gce")(problem).model, problem.data.valid_x).numpy()

    gentle = learnt_at(0.4, gentle=True)
    assert np.array_equal(gentle, learnt_at(0.05, gentle=False))
    assert not np.array_equal(gentle, learnt_at(0.4, gentle=False))
    assert np.array_equal(learnt_at(0.01, gentle=True), learnt_at(0.01, gentle=False))


def test_the_weights_of_sce_are_the_published_ones_of_the_data_set_that_is_nearer():
    assert [weights_for(classes) for classes in (2, 10, 31)] == [(0.1, 1.0)] * 3
    assert [weights_for(classes) for classes in (32, 100)] == [(6.0, 0.1)] * 2


# --- a rate that is too high -----------------------------------------------------------------------------


def falling_above(problem: Problem, rate: float, tried: list[tuple[str, float]]):
    """Training that ends with one class for all rows if the rate is above `rate`."""
    fresh = {f"network.{name}": value for name, value in problem.make_network().state_dict().items()}
    last = list(fresh)[-1]  # the bias of the last layer
    fallen = fresh | {last: fresh[last] + torch.tensor([0.0, 0.0, 1e6, 0.0])}

    def train(name: str, phase: Phase) -> StageResult:
        tried.append((name, phase.lr))
        record = {"stage": name, "epoch": 1, "train_loss": 1.0}
        return StageResult(fallen if phase.lr > rate else fresh, record, [record], "all epochs done")

    return train


def test_a_network_that_falls_is_trained_again_at_half_the_rate_and_that_is_told(blobs):
    problem, tried = make_problem(blobs.x, blobs.noisy), []
    with pytest.warns(RuntimeWarning, match=r"tv fell into a constant prediction at a learning rate of 0\.4"):
        found = train_steadily(problem, "tv", Phase(1, lr=0.4), falling_above(problem, 0.1, tried))
    assert tried == [("tv", 0.4), ("tv-2", 0.2), ("tv-3", 0.1)]
    assert found.selected["stage"] == "tv-3"
    assert [record["stage"] for record in found.history] == ["tv", "tv-2", "tv-3"]
    assert [doubt.split("rate of ")[1] for doubt in found.warnings] == [
        "0.4 and was trained again at half of it",
        "0.2 and was trained again at half of it",
    ]


def test_a_network_that_falls_every_time_is_left_so_and_one_that_does_not_is_trained_once(blobs):
    problem, tried = make_problem(blobs.x, blobs.noisy), []
    with pytest.warns(RuntimeWarning):
        fallen = train_steadily(problem, "gce", Phase(1, lr=0.4), falling_above(problem, 0.0, tried))
    assert len(tried) == 3
    assert fallen.warnings[-1].endswith("at a learning rate of 0.1 and is left so")
    tried.clear()
    steady = train_steadily(problem, "gce", Phase(1, lr=0.4), falling_above(problem, 1.0, tried))
    assert (len(tried), steady.warnings) == (1, ())


def test_one_class_for_all_rows_may_be_right_where_most_labels_are_of_one(blobs):
    mostly = np.where(np.arange(len(blobs.noisy)) % 4 < 3, 2, blobs.noisy)
    problem, tried = make_problem(blobs.x, mostly), []
    trained = train_steadily(problem, "tv", Phase(1, lr=0.4), falling_above(problem, 0.1, tried))
    assert (len(tried), trained.warnings) == (1, ())


@pytest.mark.parametrize("method", ["gce", "sce", "volminnet", "tv", "recursive"])
def test_methods_that_begin_with_a_fresh_network_begin_again_from_nothing(blobs, method, monkeypatch):
    answers = iter([True])
    monkeypatch.setattr(stages, "_is_constant", lambda *_: next(answers, False))
    problem = make_problem(blobs.x, blobs.noisy, select_by="last", schedule=replace(SHORT, select_by="last"))
    with pytest.warns(RuntimeWarning, match=r"fell into a constant prediction at a learning rate of 0\.01"):
        again = find_method(method)(problem)
    assert any(record["stage"].endswith("-2") for record in again.history)
    # At the rate that is left, what fell before makes no difference but in the order of the rows.
    half = replace(SHORT, classifier=replace(SHORT.classifier, lr=0.005), select_by="last")
    once = find_method(method)(make_problem(blobs.x, blobs.noisy, select_by="last", schedule=half))
    first, second = (model.transition for model in (again, once))
    np.testing.assert_allclose(first, second, atol=0.06)
    right = [
        (class_probs(one.model, torch.from_numpy(blobs.test_x)).argmax(dim=1).numpy() == blobs.test_y).mean()
        for one in (again, once)
    ]
    assert right[0] == pytest.approx(right[1], abs=0.06)
    assert right[0] > 0.6


# --- T ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_rows() -> tuple[np.ndarray, np.ndarray, Truth]:
    """Four classes whose labels go wrong by an asymmetric T, in rows enough to tell what it is."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(4, 8))
    clean = rng.integers(4, size=6400)
    x = (centres[clean] + 1.5 * rng.normal(size=(6400, 8))).astype(np.float32)
    transition = np.array(
        [[0.6, 0.4, 0.0, 0.0], [0.0, 0.7, 0.3, 0.0], [0.1, 0.1, 0.6, 0.2], [0.0, 0.3, 0.1, 0.6]]
    )
    noisy = noise.corrupt(clean[:6000], transition, rng)
    return x[:6000], noisy, Truth(transition, torch.from_numpy(x[6000:]), torch.from_numpy(clean[6000:]))


@pytest.fixture(scope="module")
def learnt(many_rows) -> dict[str, Learned]:
    problem = make_problem(*many_rows, select_by="loss", schedule=ONE_CYCLE)
    return {method: find_method(method)(problem) for method in END_TO_END}


@pytest.mark.parametrize("method", END_TO_END)
def test_t_comes_nearer_to_the_truth_than_where_it_started(learnt, many_rows, method):
    learned, truth = learnt[method], many_rows[2].transition
    before = transition_error(learned.initial_transition, truth)
    after = transition_error(learned.transition, truth)
    assert after < 0.7 * before, (before, after)
    assert learned.selected["test_accuracy"] > 0.98


def test_steps_regularise_as_their_papers_say(many_rows):
    """The terms are small beside Forward's, and no accuracy would tell if one were missing."""
    rng = np.random.default_rng(0)
    logits, given = rng.normal(size=(6, 4)), [0, 1, 2, 3, 1, 2]
    g = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    batch = Batch(torch.zeros(6, 8), torch.tensor(given), torch.arange(6), 0)

    def forward(matrix: np.ndarray) -> float:
        return -sum(math.log(g[n] @ matrix[:, y]) for n, y in enumerate(given)) / 6

    matrix = many_rows[2].transition
    step = volminnet_step(lambda _: (torch.from_numpy(logits), torch.from_numpy(matrix)), batch)
    assert step.item() == pytest.approx(forward(matrix) + 1e-4 * math.log(np.linalg.det(matrix)), abs=1e-7)

    transition, seed = DirichletTransition(torch.eye(4)), 5
    sampled = transition.sample(np.random.default_rng([seed, *b"tv", 0])).double().numpy()
    pairs = [(n, m) for n in range(6) for m in range(n)]
    variation = sum(0.5 * np.abs(g[n] - g[m]).sum() for n, m in pairs) / len(pairs)
    step = counting_step(launch("cpu"), transition, seed)(lambda _: (torch.from_numpy(logits), None), batch)
    assert step.item() == pytest.approx(forward(sampled) - 0.1 * variation, abs=1e-6)


def test_the_initial_t_is_where_each_method_starts(learnt):
    assert learnt["volminnet"].initial_transition == pytest.approx(starting_transition(4), abs=1e-7)
    assert np.array_equal(learnt["tv"].initial_transition, np.eye(4))


@pytest.mark.parametrize("method", END_TO_END)
def test_what_is_learnt_is_the_selected_epoch_and_the_model_holds_it(learnt, many_rows, method):
    learned, truth = learnt[method], many_rows[2]
    assert learned.transition.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert learned.model.transition.matrix.numpy() == pytest.approx(learned.transition, abs=1e-7)
    error = transition_error(learned.transition, truth.transition)
    assert error == pytest.approx(learned.selected["transition_error"], abs=1e-5)
    accuracy = (class_probs(learned.model, truth.test_x).argmax(1) == truth.test_y).float().mean().item()
    assert accuracy == pytest.approx(learned.selected["test_accuracy"])
    assert {record["stage"] for record in learned.history} == {method}  # there is no stage 1


def test_volminnet_learns_t_by_adam_at_the_released_rate_of_a_hundredth(blobs):
    # Adam's first step moves every weight by its rate, whatever the slope: from -2 to -2 +- 0.01.
    one_step = Phase(1, lr=0.02, batch_size=len(blobs.x))
    schedule = replace(SHORT, noisy_posterior=Phase(0), classifier=one_step)
    learned = find_method("volminnet")(make_problem(blobs.x, blobs.noisy, schedule=schedule))
    ratios = learned.transition / learned.transition.diagonal()[:, None]
    weights = [math.log(r / (1 - r)) for r in ratios[~np.eye(4, dtype=bool)]]
    assert [abs(weight + 2) for weight in weights] == pytest.approx([0.01] * 12, rel=0.01)


def test_volminnet_starts_as_released_for_ten_classes_and_for_a_hundred():
    ten, hundred = starting_transition(10), starting_transition(100)
    assert ten[0, 1] / ten[0, 0] == pytest.approx(1 / (1 + math.exp(2)))
    assert hundred[3, 4] / hundred[3, 3] == pytest.approx(1 / (1 + math.exp(4.5)), rel=0.02)
    assert starting_transition(2).sum(axis=1) == pytest.approx([1, 1])


# --- what tv counts ---------------------------------------------------------------------------------------


def test_pairs_are_counted_with_predictions_in_rows():
    predicted, labels = torch.tensor([0, 0, 2, 1, 0]), torch.tensor([1, 1, 0, 1, 0])
    assert count_pairs(predicted, labels, 3).tolist() == [[1, 2, 0], [0, 1, 0], [1, 0, 0]]


def process(rank: int, processes: int) -> SimpleNamespace:
    return SimpleNamespace(global_rank=rank, world_size=processes)


def test_classes_are_drawn_as_often_as_they_are_predicted():
    logits = torch.tensor([0.6, 0.3, 0.0, 0.1]).log().repeat(20_000, 1)
    drawn = _drawn_classes(process(0, 1), logits, np.random.default_rng(0))
    shares = torch.bincount(drawn, minlength=4) / 20_000
    assert shares.tolist() == pytest.approx([0.6, 0.3, 0, 0.1], abs=0.02)


def test_several_processes_draw_the_classes_that_one_would():
    logits = torch.randn(33, 4, generator=torch.Generator().manual_seed(0))
    whole = _drawn_classes(process(0, 1), logits, np.random.default_rng(1))
    for rank in range(2):
        part = _drawn_classes(process(rank, 2), logits[rank::2], np.random.default_rng(1))
        assert torch.equal(part, whole[rank::2])


def test_each_step_of_tv_counts_its_batch_once_and_draws_anew(blobs):
    transition = DirichletTransition(torch.eye(4))
    standardise = Standardise.from_data(torch.from_numpy(blobs.x))
    model = NoisyLabelModel(standardise, build("mlp", (8,), 4, 0), transition)
    step = counting_step(launch("cpu"), transition, seed=0)
    batch = Batch(torch.from_numpy(blobs.x[:50]), torch.from_numpy(blobs.noisy[:50]), torch.arange(50), 0)
    losses = [step(model, batch).item() for _ in range(3)]
    assert transition.updates.item() == 3
    # 40 to begin with, and 50 samples in every batch.
    expected = 40.0
    for _ in range(3):
        expected = 0.999 * expected + 0.01 * 50
    assert transition.concentration.sum().item() == pytest.approx(expected, rel=1e-5)
    by_label = transition.concentration.sum(dim=0) - 0.999**3 * 10
    given = np.bincount(blobs.noisy[:50], minlength=4)
    assert by_label.numpy() == pytest.approx(0.01 * given * (1 + 0.999 + 0.999**2), rel=1e-3)
    assert len(set(losses)) == 3


# --- in their surroundings -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", END_TO_END)
def test_the_estimator_fits_saves_and_loads(blobs, tmp_path, method):
    model = TRevisionClassifier(method, schedule=SHORT, random_state=0)
    model.fit(blobs.x, blobs.noisy).save(tmp_path)
    assert model.score(blobs.test_x, blobs.test_y) > 0.9
    loaded = TRevisionClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_noisy_proba(blobs.test_x), model.predict_noisy_proba(blobs.test_x))
    assert np.array_equal(loaded.transition_matrix_, model.transition_matrix_)
    assert np.array_equal(loaded.initial_transition_matrix_, model.initial_transition_matrix_)
    noisy = model.predict_proba(blobs.test_x) @ model.transition_matrix_
    assert model.predict_noisy_proba(blobs.test_x) == pytest.approx(noisy, abs=1e-6)


@pytest.mark.parametrize("method", END_TO_END)
def test_a_run_is_predicted_with_bounded_and_reported(blobs_file, tmp_path, method):
    folder = tmp_path / "run"
    result = run(str(blobs_file), Settings(noise="pair-30", method=method, train_size=400), folder, CPU)
    assert result["transition_error"] < result["initial_transition_error"]
    learnt = np.loadtxt(folder / "transition.csv", delimiter=",")
    assert transition_error(learnt, noise.pair_flip(4, 0.3)) == pytest.approx(result["transition_error"])
    done = predict_to_csv(folder, str(blobs_file), tmp_path / "predictions.csv")
    assert done.accuracy == pytest.approx(result["test_accuracy"])
    assert math.isfinite(bound_of_run(folder).bound.total)
    find_run_issues(folder, bootstrap=10)
    written = write_report(folder)
    assert written.listed > 0
    assert "Before revision" not in written.path.read_text(encoding="utf-8")
    assert json.loads((folder / "result.json").read_text()) == result


def test_methods_without_a_stage_1_share_none():
    for method in END_TO_END:
        assert shared_stages("digits", Settings(method=method), CPU) == {}
    assert list(shared_stages("digits", Settings(method="gce"), CPU)) == ["noisy-posterior"]
