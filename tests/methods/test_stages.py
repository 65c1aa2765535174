"""The stages one by one, on a problem so small that each can be judged by a loop or by hand."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trevision import Prior, TransitionWarning, losses
from trevision.admissible import penalty
from trevision.data.noisy import NoisyData
from trevision.estimation import Solution
from trevision.methods import stages
from trevision.methods.objectives import forward_objective
from trevision.methods.options import Options
from trevision.methods.problem import EstimatedTransition, OutOfSample, Problem
from trevision.methods.schedules import Schedule
from trevision.training.loop import Batch, StageResult
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch
from trevision.transition import Transition

CLASSES = 3
TRAIN, VALID = 24, 9
T = np.array([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.1, 0.6]])
SCHEDULE = Schedule(
    Phase(1, lr=0.1, batch_size=8),
    Phase(2, lr=0.2, batch_size=8),
    Phase(1, optimizer="adam", lr=1e-3, lr_transition=1e-2, batch_size=8),
    anchor_percentile=80.0,
)
TRUSTED = {"trusted_x": torch.eye(3, 2), "trusted_y": torch.tensor([0, 1, 2])}


@dataclass(frozen=True)
class Given(Problem):
    """A problem whose estimator gives what it is told to, and keeps what it was asked."""

    answers: tuple[Solution, ...] = ()
    asked: list[dict[str, Any]] = field(default_factory=list)
    apart: bool = True

    @property
    def estimator(self) -> Any:
        return self

    @property
    def needs_out_of_sample(self) -> bool:
        return self.apart

    def solve(self, rows, weights=None, *, start=None, knowledge=None) -> Solution:
        self.asked.append({"rows": rows, "weights": weights, "start": start, "knowledge": knowledge})
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def some_data(**changes) -> NoisyData:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(np.arange(TRAIN + VALID) % CLASSES)
    x = torch.from_numpy(rng.normal(size=(TRAIN + VALID, 2))).float()
    numbers = np.arange(TRAIN + VALID)
    parts = (x[:TRAIN], labels[:TRAIN], x[TRAIN:], labels[TRAIN:])
    return NoisyData(*parts, CLASSES, numbers[:TRAIN], numbers[TRAIN:], **changes)


def make_network(number: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(number)
        return nn.Linear(2, CLASSES)


def problem_of(kind: type[Problem] = Problem, data: NoisyData | None = None, **changes) -> Any:
    parts = {"schedule": SCHEDULE, "seed": 0, "runtime": Runtime(launch("cpu"))} | changes
    return kind(data or some_data(), make_network, nn.Identity(), **parts)


def result_of(network: nn.Module, **changes) -> StageResult:
    """A stage that ended with a network."""
    state = NoisyLabelModel(nn.Identity(), network, None).state_dict()
    return replace(StageResult(state, {}, [], "all epochs done"), **changes)


def constant_network() -> nn.Module:
    network = make_network()
    nn.init.zeros_(network.weight)
    network.bias.data = torch.tensor([0.0, 1.0, 0.0])
    return network


def drawn(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(CLASSES), size=rows)


# T-hat


def test_half_a_label_is_added_to_each_class_and_a_class_counts_as_at_least_c_rows():
    rows = [40.0, 2.5, 3.0]
    found = stages.without_zeros(T, np.array(rows))
    for i in range(CLASSES):
        count = max(rows[i], CLASSES)
        for j in range(CLASSES):
            assert found[i, j] == pytest.approx((count * T[i, j] + 0.5 / CLASSES) / (count + 0.5))


def test_t_is_estimated_from_all_rows_out_of_sample_first_of_all():
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=TRAIN + VALID)
    data = some_data(
        label_pairs=(np.arange(3), np.arange(3)),
        train_weights=torch.from_numpy(weights[:TRAIN]),
        valid_weights=torch.from_numpy(weights[TRAIN:]),
        **TRUSTED,
    )
    predicted = OutOfSample(drawn(TRAIN), drawn(VALID, 1), 5, [])
    prior_of_classes = np.array([0.5, 0.3, 0.2])
    problem = problem_of(Given, data, out_of_sample=predicted, answers=(Solution(T, prior_of_classes),))
    found = stages.estimate_transition(problem, result_of(make_network()))
    (asked,) = problem.asked
    np.testing.assert_allclose(asked["weights"], weights)
    np.testing.assert_allclose(
        asked["rows"].at(np.arange(TRAIN + VALID)), np.concatenate([drawn(TRAIN), drawn(VALID, 1)])
    )
    expected = stages.without_zeros(T, (TRAIN + VALID) * prior_of_classes)
    np.testing.assert_allclose(found.matrix, expected, atol=1e-12)
    assert found.matrix.min() > 0
    assert found.warnings == ()
    assert found.seconds >= 0
    np.testing.assert_allclose(found.solution.transition, expected)


def test_rows_with_both_labels_are_counted_unless_an_estimator_was_chosen():
    clean, given = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2, 2])
    data = some_data(label_pairs=(clean, given), **TRUSTED)
    posterior = result_of(make_network())
    found = stages.estimate_transition(problem_of(data=data), posterior)
    np.testing.assert_allclose(found.matrix, [[2 / 3, 1 / 3, 0], [0, 0.5, 0.5], [0, 0, 1]])
    np.testing.assert_allclose(found.solution.class_prior, 1 / 3)
    chosen = problem_of(
        Given, data, options=Options(estimator="anchor"), apart=False, answers=(Solution(T, np.ones(3) / 3),)
    )
    np.testing.assert_array_equal(stages.estimate_transition(chosen, posterior).matrix, T)


def test_a_trusted_set_gives_the_mean_prediction_of_each_class_unless_an_estimator_was_chosen():
    x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [-1.0, 0.5]]), torch.tensor([0, 1, 2, 0])
    data, network = some_data(trusted_x=x, trusted_y=y), make_network()
    found = stages.estimate_transition(problem_of(data=data), result_of(network))
    with torch.no_grad():
        probs = torch.softmax(network(x), dim=1).double().numpy()
    expected = [(probs[0] + probs[3]) / 2, probs[1], probs[2]]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-6)
    chosen = problem_of(
        Given, data, options=Options(estimator="anchor"), apart=False, answers=(Solution(T, np.ones(3) / 3),)
    )
    np.testing.assert_array_equal(stages.estimate_transition(chosen, result_of(network)).matrix, T)


def test_else_t_is_read_from_the_predictions_for_the_training_rows():
    weights = torch.arange(TRAIN) % 4 + 1
    data, network = some_data(train_weights=weights), make_network()
    answers = (Solution(T, np.array([0.5, 0.25, 0.25])),)
    with torch.no_grad():
        probs = torch.softmax(network(data.train_x), dim=1).double().numpy()
    plain = problem_of(Given, data, apart=False, answers=answers)
    np.testing.assert_array_equal(stages.estimate_transition(plain, result_of(network)).matrix, T)
    np.testing.assert_array_equal(plain.asked[0]["weights"], weights)
    np.testing.assert_allclose(plain.asked[0]["rows"].at(np.arange(TRAIN)), probs, atol=1e-6)
    in_sample = Options(estimator="dual-t", posterior="in-sample")
    same = problem_of(Given, data, options=in_sample, answers=answers)
    found = stages.estimate_transition(same, result_of(network)).matrix
    np.testing.assert_allclose(found, stages.without_zeros(T, TRAIN * answers[0].class_prior))
    # Any other estimator is replaced by anchor points: the row at the schedule's percentile.
    unweighted = problem_of(Given, replace(data, train_weights=None), answers=answers)
    found = stages.estimate_transition(unweighted, result_of(network)).matrix
    assert unweighted.asked == []
    rank = int(0.8 * (TRAIN - 1))
    expected = [probs[sorted(range(TRAIN), key=lambda row: probs[row, i])[rank]] for i in range(CLASSES)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_search_that_did_not_arrive_is_told():
    answers = (Solution(T, np.ones(3) / 3, converged=False),)
    with pytest.warns(TransitionWarning, match="had arrived"):
        found = stages.estimate_transition(
            problem_of(Given, apart=False, answers=answers), result_of(make_network())
        )
    assert found.warnings == (stages.NOT_CONVERGED,)


@pytest.mark.parametrize(("lowered", "told"), [(0.09, False), (0.12, True)])
def test_a_prior_that_lowers_an_entry_by_more_than_a_tenth_is_said_to_contradict_the_labels(lowered, told):
    support = np.ones((3, 3), dtype=bool)
    support[2, 0] = False
    estimate = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [lowered, 0.1, 0.9 - lowered]])
    answers = (Solution(estimate, np.ones(3) / 3),) * 2
    prior = Prior(support=support)
    problem = problem_of(Given, prior=prior, apart=False, answers=answers)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = stages.estimate_transition(problem, result_of(make_network()))
    assert [each.category for each in said] == [TransitionWarning] * told
    assert found.matrix[2, 0] == 0
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1)
    assert [
        f"class 2 seems to be labelled 0 with probability {lowered:.2f}" in word for word in found.warnings
    ] == [True] * told


def test_a_label_that_the_prior_rules_out_is_counted_and_one_that_does_not_occur_is_not_told_of():
    support = np.ones((3, 3), dtype=bool)
    support[:2, 2] = False
    prior = Prior(support=support, known_rows={2: np.array([0.5, 0.5, 0.0])})
    answers = (
        Solution(np.full((3, 3), 1 / 3), np.ones(3) / 3),
        Solution(np.full((3, 3), 1 / 3), np.ones(3) / 3),
    )
    posterior = result_of(make_network())
    with pytest.warns(TransitionWarning):
        found = stages.estimate_transition(
            problem_of(Given, prior=prior, apart=False, answers=answers), posterior
        )
    told = [word for word in found.warnings if word.startswith("label ")]
    assert len(told) == 1
    assert told[0].startswith(f"label 2 occurs {TRAIN // 3} times")
    data = some_data()
    data = replace(data, train_y=data.train_y % 2)
    with pytest.warns(TransitionWarning):
        found = stages.estimate_transition(
            problem_of(Given, data, prior=prior, apart=False, answers=answers), posterior
        )
    assert not any(word.startswith("label ") for word in found.warnings)


def test_without_some_rows_t_is_estimated_from_the_others_alone():
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=TRAIN + VALID)
    data = some_data(
        train_weights=torch.from_numpy(weights[:TRAIN]), valid_weights=torch.from_numpy(weights[TRAIN:])
    )
    predicted = OutOfSample(drawn(TRAIN), drawn(VALID, 1), 5, [])
    left_out = np.arange(TRAIN + VALID) % 4 == 0
    solution = Solution(T, np.array([0.5, 0.3, 0.2]))
    whole = EstimatedTransition(T, solution=solution)
    problem = problem_of(Given, data, out_of_sample=predicted, answers=(solution,))
    found = stages.estimated_without(problem, left_out, whole)
    np.testing.assert_allclose(problem.asked[0]["weights"], weights[~left_out])
    probs = np.concatenate([drawn(TRAIN), drawn(VALID, 1)])[~left_out]
    np.testing.assert_allclose(problem.asked[0]["rows"].at(np.arange(len(probs))), probs)
    np.testing.assert_allclose(found, stages.without_zeros(T, len(probs) * solution.class_prior))
    support = np.ones((3, 3), dtype=bool)
    support[2, 0] = False
    informed = problem_of(
        Given, some_data(), out_of_sample=predicted, answers=(solution,), prior=Prior(support=support)
    )
    found = stages.estimated_without(informed, left_out, whole)
    assert informed.asked[0]["knowledge"] is informed.prior
    assert informed.asked[0]["weights"] is None
    filled = stages.without_zeros(T, len(probs) * solution.class_prior)
    np.testing.assert_allclose(found, informed.prior.project(filled))


def test_a_prior_that_only_prefers_does_not_change_t_hat():
    answers = (Solution(T, np.ones(3) / 3),)
    predicted = OutOfSample(drawn(TRAIN), drawn(VALID, 1), 5, [])
    sparse = problem_of(Given, prior=Prior(sparsity=0.5), answers=answers, out_of_sample=predicted)
    found = stages.estimate_transition(sparse, result_of(make_network()))
    assert [each["knowledge"] for each in sparse.asked] == [None]
    whole = EstimatedTransition(T, solution=answers[0])
    np.testing.assert_allclose(
        stages.estimated_without(sparse, np.zeros(TRAIN + VALID, dtype=bool), whole), found.matrix
    )


# Steps


def batch_of(**changes) -> tuple[torch.Tensor, Batch]:
    logits = torch.from_numpy(np.random.default_rng(2).normal(size=(4, CLASSES)))
    return logits, Batch(logits, torch.tensor([0, 1, 2, 1]), torch.arange(4), 0, **changes)


def through(matrix: torch.Tensor | None):
    """A model whose rows are its logits."""
    return lambda x: (x, matrix)


def test_a_corrected_step_is_the_mean_loss_weighted_and_with_known_labels_believed():
    weights, known = torch.tensor([0.5, 2.0, 1.0, 0.5]), torch.tensor([True, False, False, True])
    matrix = torch.from_numpy(T)
    logits, batch = batch_of(weights=weights, known=known)
    expected = 0.0
    for n in range(4):
        g = torch.softmax(logits[n], dim=0)
        label = int(batch.noisy_labels[n])
        seen = g[label] if known[n] else sum(T[i, label] * g[i] for i in range(CLASSES))
        expected += weights[n].item() * -np.log(float(seen)) / 4
    step = stages.corrected_step(forward_objective)
    assert step(through(matrix), batch).item() == pytest.approx(expected, rel=1e-6)
    _, unweighted = batch_of(known=known)
    each = [
        step(
            through(matrix),
            Batch(
                logits[n : n + 1],
                batch.noisy_labels[n : n + 1],
                batch.rows[n : n + 1],
                0,
                known=known[n : n + 1],
            ),
        ).item()
        for n in range(4)
    ]
    assert step(through(matrix), unweighted).item() == pytest.approx(np.mean(each), rel=1e-6)
    _, doubted = batch_of()
    plain = losses.forward_nll(logits, batch.noisy_labels, matrix)
    assert step(through(matrix), doubted).item() == pytest.approx(plain.item())


def test_a_penalised_step_adds_the_penalty():
    prior, matrix = Prior(sparsity=0.5), torch.from_numpy(T)
    _, batch = batch_of()
    plain = stages.corrected_step(forward_objective)(through(matrix), batch)
    penalised = stages.corrected_step(forward_objective, prior)(through(matrix), batch)
    added = penalty(prior, matrix).item()
    assert added > 0.01
    assert penalised.item() - plain.item() == pytest.approx(added)


# Training


def test_stage_1_selects_by_noisy_labels_though_trusted_rows_are_there_and_the_next_stage_by_these():
    data = some_data(**TRUSTED)
    problem = problem_of(
        data=data, schedule=replace(SCHEDULE, noisy_posterior=Phase(6, lr=0.5, batch_size=4))
    )
    trained = stages.fit_noisy_posterior(problem)
    errors = [record["noisy_validation_error"] for record in trained.history]
    assert trained.selected["noisy_validation_error"] == min(errors)
    assert trained.selected["stage"] == "noisy-posterior"
    further = stages.continue_plainly(problem, trained, "further", Phase(6, lr=0.5, batch_size=4))
    trusted = [record["trusted_error"] for record in further.history]
    assert further.selected["trusted_error"] == min(trusted)
    assert [record["epoch"] for record in further.history] == list(range(1, 7))


@pytest.mark.parametrize("stage", ["plain", "through", "anew", "revise"])
def test_later_stages_learn_from_trusted_rows_if_these_are_to_be_learnt(monkeypatch, stage):
    seen = []
    real = stages.run_stage

    def watched(given, evaluation, runtime, seed):
        seen.append((given, evaluation))
        return real(given, evaluation, runtime, seed)

    monkeypatch.setattr(stages, "run_stage", watched)
    problem = problem_of(data=some_data(trusted_is_learnt=True, **TRUSTED))
    first = stages.fit_noisy_posterior(problem)
    assert len(seen[0][1].data.train_y) == TRAIN  # which learns the noise
    initial = EstimatedTransition(T)
    if stage == "plain":
        stages.continue_plainly(problem, first, "further", SCHEDULE.classifier)
    elif stage == "through":
        trained = stages.train_classifier(problem, first, initial, forward_objective, weighted=False)
        assert {record["stage"] for record in trained.history} == {"classifier"}
        assert [record["epoch"] for record in trained.history] == [1, 2]
    elif stage == "anew":
        trained = stages.train_anew(problem, T, "anew", 3)
        assert [record["epoch"] for record in trained.history] == [1, 2, 3]
    else:
        trained = stages.revise(problem, first, initial, forward_objective)
        assert [record["epoch"] for record in trained.history] == [0, 1]
        assert {record["stage"] for record in trained.history} == {"revision"}
    assert len(seen[-1][1].data.train_y) == TRAIN + 3
    assert bool(seen[-1][1].data.train_known[-3:].all())


def test_weighted_losses_get_the_rate_that_a_gentle_schedule_has_for_them(monkeypatch):
    seen = {}

    def watched(given, *rest):
        seen["phase"] = given.phase
        return result_of(make_network())

    monkeypatch.setattr(stages, "run_stage", watched)
    problem = problem_of(schedule=replace(SCHEDULE, gentle=True))
    noisy = EstimatedTransition(np.full((3, 3), 0.4) - 0.2 * np.eye(3))
    for weighted, rate in ((True, 0.05 * 0.4**2), (False, 0.2)):
        stages.train_classifier(
            problem, result_of(make_network()), noisy, forward_objective, weighted=weighted
        )
        assert seen["phase"].lr == pytest.approx(rate)
    stages.train_anew(problem, noisy.matrix, "anew", 1)
    assert seen["phase"].lr == pytest.approx(0.2)


def test_a_revision_is_penalised_where_the_prior_prefers_sparse_mistakes(monkeypatch):
    given = []
    monkeypatch.setattr(stages, "corrected_step", lambda objective, by=None: given.append(by))
    monkeypatch.setattr(stages, "run_stage", lambda *_: result_of(make_network()))
    start, initial = result_of(make_network()), EstimatedTransition(T)
    sparse, free = Prior(sparsity=0.5), Prior(support=np.ones((3, 3), dtype=bool))
    for prior in (sparse, free, None):
        schedule = replace(SCHEDULE, parameterisation="simplex")
        stages.revise(problem_of(prior=prior, schedule=schedule), start, initial, forward_objective)
    assert given == [sparse, None, None]


def test_a_batch_is_no_larger_than_the_data_and_a_stage_of_no_epochs_returns_its_start(monkeypatch):
    seen = []
    real = stages.run_stage
    monkeypatch.setattr(stages, "run_stage", lambda given, *rest: seen.append(given) or real(given, *rest))
    problem, network = problem_of(), make_network(3)
    for size, taken in ((8, 8), (1000, TRAIN)):
        stages.continue_plainly(problem, result_of(network), "further", Phase(1, batch_size=size))
        assert seen[-1].phase.batch_size == taken
        assert not seen[-1].record_start
    ended = stages.continue_plainly(problem, result_of(network), "none", Phase(0))
    assert [record["epoch"] for record in ended.history] == [0]
    for name, value in NoisyLabelModel.network_state(ended.state).items():
        assert torch.equal(value, network.state_dict()[name])
    recorded = stages.continue_plainly(problem, result_of(network), "r", Phase(1), record_start=True)
    assert [record["epoch"] for record in recorded.history] == [0, 1]


@pytest.mark.parametrize("guarded", [True, False])
def test_only_a_guarded_schedule_keeps_the_start_of_a_stage_that_made_labels_less_likely(guarded):
    # A rate at which the network is thrown out of where it was.
    problem = problem_of(schedule=replace(SCHEDULE, guarded=guarded))
    start = result_of(make_network())
    astray = Phase(1, lr=500.0, batch_size=8)
    trained = stages.continue_plainly(problem, start, "astray", astray, record_start=True)
    same = all(torch.equal(value, trained.state[name]) for name, value in start.state.items())
    assert same == guarded
    unrecorded = stages.continue_plainly(problem, start, "astray", astray)
    assert not all(torch.equal(value, unrecorded.state[name]) for name, value in start.state.items())


def test_a_constant_prediction_is_trained_again_at_half_the_rate_three_times_in_all():
    asked = []

    def train(name: str, phase: Phase) -> StageResult:
        asked.append((name, phase.lr))
        return result_of(constant_network(), history=[{"stage": name}], warnings=("w",))

    with pytest.warns(RuntimeWarning, match="constant prediction"):
        trained = stages.train_steadily(problem_of(), "fresh", Phase(1, lr=0.8), train)
    assert asked == [("fresh", 0.8), ("fresh-2", 0.4), ("fresh-3", 0.2)]
    assert [record["stage"] for record in trained.history] == ["fresh", "fresh-2", "fresh-3"]
    assert trained.warnings[0] == "w"
    assert [word.split(" and ")[1] for word in trained.warnings[1:]] == [
        "was trained again at half of it",
        "was trained again at half of it",
        "is left so",
    ]
    assert "rate of 0.4 " in trained.warnings[2]


def test_a_network_that_tells_classes_apart_is_trained_once():
    network, asked = make_network(), []
    network.weight.data = torch.tensor([[5.0, 0.0], [-5.0, 0.0], [0.0, 5.0]])

    def train(name: str, phase: Phase) -> StageResult:
        asked.append(name)
        return result_of(network)

    assert stages.train_steadily(problem_of(), "fresh", Phase(1), train).warnings == ()
    assert asked == ["fresh"]


@pytest.mark.parametrize(("share", "trained"), [(16, 3), (17, 1)])
def test_a_constant_prediction_may_be_right_where_more_than_two_thirds_of_the_labels_are_one(share, trained):
    labels = torch.zeros(TRAIN, dtype=torch.int64)
    labels[share:] = torch.arange(TRAIN - share) % 2 + 1
    assert attempts(replace(some_data(), train_y=labels)) == trained
    # Weights count rows as often as they say.
    if share == 16:
        weights = torch.ones(TRAIN)
        weights[0] = 5.0
        assert attempts(replace(some_data(), train_y=labels, train_weights=weights)) == 1


def attempts(data: NoisyData, network: nn.Module | None = None) -> int:
    """How often a network is trained that comes out so."""
    asked = []

    def train(name: str, phase: Phase) -> StageResult:
        asked.append(name)
        return result_of(network or constant_network())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stages.train_steadily(problem_of(data=data), "fresh", Phase(1), train)
    return len(asked)


def test_two_thousand_rows_are_looked_at():
    x = torch.zeros(2001, 2)
    network = constant_network()
    network.weight.data[0, 0] = 5.0
    for other, trained in ((1999, 1), (2000, 3)):
        x = torch.zeros(2001, 2)
        x[other, 0] = 1.0
        data = replace(some_data(), train_x=x, train_y=torch.arange(2001) % 3)
        assert attempts(data, network) == trained


# What a method returns


def learnt(sums: tuple[float, ...] = (), problem: Problem | None = None, **changes):
    model = NoisyLabelModel(nn.Identity(), make_network(), Transition(torch.tensor(T), "frozen"))
    first = result_of(
        make_network(), history=[{"epoch": 1}], warnings=("of the first",), guard=({"stage": "a"},)
    )
    last = StageResult(
        model.state_dict(),
        {"epoch": 7},
        [{"epoch": 7, "transition_row_sums": list(sums)}],
        "all epochs done",
        **changes,
    )
    initial = EstimatedTransition(np.eye(3), 2.5, ("of T",))
    return stages.conclude(problem or problem_of(warnings=("of the problem",)), initial, [first, last])


def test_a_result_is_the_last_stages_model_and_all_stages_history_and_doubts():
    found = learnt(guard=({"stage": "b"},))
    np.testing.assert_allclose(found.transition, T)
    np.testing.assert_array_equal(found.initial_transition, np.eye(3))
    assert [record["epoch"] for record in found.history] == [1, 7]
    assert found.selected == {"epoch": 7}
    assert found.warnings == ["of the problem", "of T", "of the first"]
    assert [each["stage"] for each in found.guard] == ["a", "b"]
    assert found.seconds_estimating == 2.5
    assert found.stopped_because == "all epochs done"
    assert not found.model.training
    assert not found.transition_ran_away
    early = learnt(problem=problem_of(), guard=())
    assert early.warnings == ["of T", "of the first"]


def test_doubts_about_out_of_sample_predictions_are_told_and_why_a_stage_ended_early():
    predicted = OutOfSample(drawn(TRAIN), drawn(VALID), 5, [], ("of folds",))
    problem = problem_of(out_of_sample=predicted)
    first = result_of(make_network(), stopped_because="no better")
    last = result_of(make_network(), stopped_because="the loss became nan")
    found = stages.conclude(problem, EstimatedTransition(T), [first, result_of(make_network()), last])
    assert found.warnings == ["of folds"]
    assert found.stopped_because == "no better; the loss became nan"
    np.testing.assert_array_equal(found.transition, T)  # the model has none of its own


@pytest.mark.parametrize(("total", "away"), [(1.09, False), (0.91, False), (1.11, True), (0.89, True)])
def test_a_t_whose_rows_left_one_by_more_than_a_tenth_has_run_away(total, away):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = learnt((1.0, total))
    assert found.transition_ran_away == away
    assert [each.category for each in said] == [TransitionWarning] * away
    if away:
        low, high = sorted((1.0, total))
        assert f"from {low:.2f} to {high:.2f}" in found.warnings[-1]
