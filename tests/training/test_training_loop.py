"""The loop: the same bits after a stop, the selection it promises, and the caller's randomness left alone."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from trevision import losses
from trevision.data.noisy import NoisyData, split
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.average import WeightAverage
from trevision.training.checkpoint import FolderStore, MemoryStore
from trevision.training.evaluate import Evaluation
from trevision.training.loop import Batch, Stage, TrainingDiverged, run_stage
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase, learning_rate
from trevision.training.progress import NoProgress
from trevision.training.runtime import Runtime, launch
from trevision.transition import Transition

PHASE = Phase(epochs=6, lr=0.05, decay="one-cycle", batch_size=64)


@pytest.fixture
def data(blobs) -> NoisyData:
    return split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=0)


def plain_step(model: nn.Module, batch: Batch) -> torch.Tensor:
    return losses.cross_entropy(model(batch.x)[0], batch.noisy_labels)


def make_stage(
    data: NoisyData, phase: Phase = PHASE, network: nn.Module | None = None, step=plain_step
) -> Stage:
    network = network or build("mlp", (8,), 4, seed=1)
    return Stage("stage", NoisyLabelModel(Standardise.from_data(data.train_x), network, None), step, phase)


def without_times(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


class StopsAfter(NoProgress):
    """Ends the process's work after some epochs, as a kill would."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def epoch(self, metrics) -> None:
        # The epoch that is told of here is not stored yet: the work on it is lost.
        if metrics["epoch"] == self.epochs:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("optimizer", "average"), [("sgd", 0.0), ("adam", 0.0), ("sgd", 1.5)])
@pytest.mark.usefixtures("every_epoch_kept")
def test_an_interrupted_stage_resumes_to_the_same_bits(data, tmp_path, optimizer, average):
    phase = replace(PHASE, optimizer=optimizer, lr=0.05 if optimizer == "sgd" else 1e-3, average=average)
    dropout = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))

    def fresh() -> Stage:
        network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
        network.load_state_dict(dropout.state_dict())
        return make_stage(data, phase, network)

    whole = run_stage(fresh(), Evaluation(data), Runtime(launch("cpu")), seed=3)
    store = FolderStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_stage(fresh(), Evaluation(data), Runtime(launch("cpu"), store, StopsAfter(4)), seed=3)
    assert len(store.load("stage")["history"]) == 3
    resumed = run_stage(fresh(), Evaluation(data), Runtime(launch("cpu"), store), seed=3)

    assert without_times(resumed.history) == without_times(whole.history)
    assert resumed.state.keys() == whole.state.keys()
    assert all(torch.equal(resumed.state[name], whole.state[name]) for name in whole.state)


class SlowStore(FolderStore):
    """Takes far longer to keep an epoch than the epoch took."""

    saves = 0

    def save(self, name: str, state: dict) -> None:
        self.saves += 1
        time.sleep(0.2)
        super().save(name, state)


def test_epochs_too_short_to_be_kept_one_by_one_are_repeated_to_the_same_bits(data, tmp_path):
    phase = replace(PHASE, epochs=12)

    def fresh() -> Stage:
        return make_stage(data, phase, build("mlp", (8,), 4, seed=0))

    whole = run_stage(fresh(), Evaluation(data), Runtime(launch("cpu")), seed=3)
    store = SlowStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_stage(fresh(), Evaluation(data), Runtime(launch("cpu"), store, StopsAfter(11)), seed=3)
    assert 1 <= store.saves < 10
    resumed = run_stage(fresh(), Evaluation(data), Runtime(launch("cpu"), store), seed=3)
    assert without_times(resumed.history) == without_times(whole.history)
    assert all(torch.equal(resumed.state[name], whole.state[name]) for name in whole.state)


def test_averaged_weights_are_the_mean_of_all_and_later_mostly_of_the_latest(data):
    model = make_stage(data).model
    average = WeightAverage(model, steps=4)
    weight = next(model.parameters())
    for value in (1.0, 2.0, 6.0):
        weight.data.fill_(value)
        average.update()
    mine = next(average.model.parameters())
    torch.testing.assert_close(mine, torch.full_like(mine, 3.0))
    for expected in (3 + 1 / 4 * (8 - 3), 4.25 + 1 / 4 * (8 - 4.25)):
        weight.data.fill_(8.0)
        average.update()
        torch.testing.assert_close(mine, torch.full_like(mine, expected))


def test_statistics_of_batch_normalisation_are_averaged_with_the_weights_and_its_counter_is_copied():
    network = nn.Sequential(nn.BatchNorm1d(2))
    average = WeightAverage(NoisyLabelModel(nn.Identity(), network, None), steps=10)
    for number, value in enumerate((1.0, 2.0, 6.0), start=1):
        network[0].running_mean.fill_(value)
        network[0].num_batches_tracked.fill_(number)
        average.update()
    mine = average.model.network[0]
    assert mine.running_mean.tolist() == pytest.approx([3.0, 3.0])
    assert int(mine.num_batches_tracked) == 3


def test_a_model_that_moves_leaves_the_standardisation_it_was_made_with_where_it_is():
    standardise = Standardise.from_data(torch.rand(9, 3))
    model = NoisyLabelModel(standardise, nn.Linear(3, 2), None).to("meta")
    assert model.standardise.mean.device.type == "meta"
    assert standardise.mean.device.type == "cpu"


def test_what_is_measured_and_selected_is_the_average(data):
    phase = replace(PHASE, epochs=1, average=100.0)
    seen = []

    def watched(model, batch):
        seen.append(next(p.detach().clone() for p in model.parameters()))
        return plain_step(model, batch)

    stage = make_stage(data, phase, step=watched)
    result = run_stage(stage, Evaluation(data), Runtime(launch("cpu")), seed=3)
    # The step sees weights before its update: the first state is left out, the last is the model's.
    states = [*seen[1:], next(stage.model.parameters()).detach()]
    name = next(name for name, _ in stage.model.named_parameters())
    torch.testing.assert_close(result.state[name], torch.stack(states).mean(dim=0))
    averaged = NoisyLabelModel(stage.model.standardise, build("mlp", (8,), 4, seed=1), None)
    averaged.load_state_dict(result.state)
    assert result.selected["noisy_validation_loss"] == pytest.approx(
        Evaluation(data).measure(averaged, None)["noisy_validation_loss"]
    )


def test_a_phase_may_vary_images_otherwise_than_their_data_set():
    images = torch.randint(0, 255, (40, 1, 6, 6), dtype=torch.uint8)
    data = split(images, torch.arange(40) % 2, num_classes=2, random_state=0)
    originals = {image.numpy().tobytes() for image in data.train_x}
    unchanged = []

    def step(model, batch):
        unchanged.extend(image.numpy().tobytes() in originals for image in batch.x)
        return plain_step(model, batch)

    for augmentation in (None, "affine"):
        unchanged.clear()
        model = NoisyLabelModel(nn.Identity(), nn.Sequential(nn.Flatten(), nn.Linear(36, 2)), None)
        model.network[0].register_forward_pre_hook(lambda _, args: (args[0].float() / 255,))
        phase = Phase(1, lr=1e-3, augmentation=augmentation)
        run_stage(Stage("stage", model, step, phase), Evaluation(data), Runtime(launch("cpu")), seed=0)
        assert all(unchanged) if augmentation is None else not any(unchanged)


def test_a_finished_stage_is_not_trained_again(data, tmp_path):
    store = FolderStore(tmp_path)
    first = run_stage(make_stage(data), Evaluation(data), Runtime(launch("cpu"), store), seed=3)

    def must_not_run(model, batch):
        raise AssertionError("trained again")

    again = run_stage(
        make_stage(data, step=must_not_run), Evaluation(data), Runtime(launch("cpu"), store), seed=3
    )
    assert again.history == first.history
    assert all(torch.equal(again.state[name], first.state[name]) for name in first.state)


@pytest.mark.parametrize("criterion", ["error", "loss"])
def test_the_selected_epoch_has_the_least_noisy_validation_score(data, criterion):
    evaluation = Evaluation(data, criterion=criterion)
    result = run_stage(make_stage(data), evaluation, Runtime(launch("cpu")), seed=3)
    scores = [record[f"noisy_validation_{criterion}"] for record in result.history]
    assert result.selected["epoch"] == 1 + int(np.argmin(scores))
    # The state that is returned is that epoch's: measured again, it scores the same.
    stage = make_stage(data)
    stage.model.load_state_dict(result.state)
    measured = evaluation.measure(stage.model, None)
    assert measured[f"noisy_validation_{criterion}"] == min(scores)


def test_the_last_epoch_is_taken_where_no_score_is_to_select(data):
    result = run_stage(make_stage(data), Evaluation(data, criterion="last"), Runtime(launch("cpu")), seed=3)
    assert len(result.history) > 1
    assert result.selected == result.history[-1]


def test_noisy_validation_error_compares_noisy_labels_with_the_noisy_posterior(data):
    transition = Transition(torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]))
    stage = make_stage(data)
    model = NoisyLabelModel(stage.model.standardise, stage.model.network, transition)
    with torch.no_grad():
        clean = model(data.valid_x)[0].argmax(dim=1)
    wrong = sum((int(c) + 1) % 4 != int(y) for c, y in zip(clean, data.valid_y, strict=True))
    measured = Evaluation(data).measure(model, transition.matrix)
    assert measured["noisy_validation_error"] == wrong / len(data.valid_y)


def test_epochs_are_selected_by_the_noisy_posterior_t_g_and_not_by_g():
    """A network that is sure of the clean class, and labels that are all those of the next one."""
    matrix = torch.tensor([[0.2, 0.8, 0.0], [0.0, 0.3, 0.7], [0.6, 0.0, 0.4]])
    x, labels = torch.eye(3), torch.tensor([1, 2, 0])
    network = nn.Linear(3, 3, bias=False)
    network.weight.data = 3 * torch.eye(3)
    rows = np.arange(3)
    weights = torch.tensor([1.0, 2.0, 5.0])
    data = NoisyData(x, labels, x, labels, 3, rows, rows, valid_weights=weights, train_weights=weights)
    model = NoisyLabelModel(nn.Identity(), network, Transition(matrix, "frozen"))
    measured = Evaluation(data).measure(model, matrix)
    assert measured["noisy_validation_error"] == 0
    sure = math.exp(3) / (math.exp(3) + 2)
    other = (1 - sure) / 2
    loss = 0.0
    for row, weight in enumerate((1, 2, 5)):
        g = [sure if each == row else other for each in range(3)]
        label = (row + 1) % 3
        loss -= weight * math.log(sum(g[clean] * float(matrix[clean, label]) for clean in range(3))) / 8
    assert measured["noisy_validation_loss"] == pytest.approx(loss, rel=1e-5)
    assert Evaluation(data).measure(model, None)["noisy_validation_error"] == 1


def test_patience_ends_a_stage_and_the_reason_is_told(data):
    frozen = replace(PHASE, lr=0.0, patience=2)
    result = run_stage(make_stage(data, frozen), Evaluation(data), Runtime(launch("cpu")), seed=3)
    assert [record["epoch"] for record in result.history] == [1, 2, 3]
    assert "2 epochs" in result.stopped_because


def test_a_loss_that_is_not_a_number_stops_the_run_with_the_learning_rate_named(data):
    def broken(model, batch):
        return model(batch.x)[0].sum() * math.nan

    with pytest.raises(TrainingDiverged, match=r"epoch 1 .* lower learning rate than 0\.05"):
        run_stage(make_stage(data, step=broken), Evaluation(data), Runtime(launch("cpu")), seed=3)


def test_a_stage_that_diverges_late_falls_back_to_its_best_epoch_and_says_so(data):
    def breaks_in_the_third_epoch(model, batch):
        return plain_step(model, batch) * (math.nan if batch.epoch == 2 else 1.0)

    stage = make_stage(data, step=breaks_in_the_third_epoch)
    with pytest.warns(RuntimeWarning, match="an earlier epoch is taken"):
        result = run_stage(stage, Evaluation(data), Runtime(launch("cpu")), seed=3)
    assert [record["epoch"] for record in result.history] == [1, 2]
    assert "nan in epoch 3" in result.stopped_because
    assert all(value.isfinite().all() for value in result.state.values())


def test_training_leaves_the_callers_random_generators_alone(data):
    torch.manual_seed(7)
    np_state = np.random.get_state()[1].tolist()  # noqa: NPY002
    before = torch.get_rng_state()
    run_stage(make_stage(data), Evaluation(data), Runtime(launch("cpu")), seed=3)
    assert torch.equal(before, torch.get_rng_state())
    assert np_state == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_weight_decay_pulls_the_network_but_never_delta_t(data):
    """Under a loss without any gradient of its own, only what decays moves."""

    def no_gradient(model, batch):
        logits, matrix = model(batch.x)
        return 0.0 * (logits.sum() + matrix.sum())

    transition = Transition(torch.full((4, 4), 0.25), "slack")
    with torch.no_grad():
        transition.free.fill_(0.1)
    network = build("mlp", (8,), 4, seed=1)
    weights = sum(p.abs().sum().item() for p in network.parameters())
    stage = Stage(
        "stage",
        NoisyLabelModel(Standardise.from_data(data.train_x), network, transition),
        no_gradient,
        replace(PHASE, weight_decay=0.1, epochs=2),
    )
    run_stage(stage, Evaluation(data), Runtime(launch("cpu")), seed=3)
    assert sum(p.abs().sum().item() for p in network.parameters()) < 0.9 * weights
    assert torch.equal(transition.free, torch.full((4, 4), 0.1))


def test_every_row_is_seen_once_an_epoch_and_in_another_order_the_next(data):
    seen: dict[int, list[int]] = {}

    def recording(model, batch):
        seen.setdefault(batch.epoch, []).extend(batch.rows.tolist())
        assert torch.equal(batch.noisy_labels, data.train_y[batch.rows])
        return plain_step(model, batch)

    run_stage(
        make_stage(data, replace(PHASE, epochs=2), step=recording),
        Evaluation(data),
        Runtime(launch("cpu")),
        3,
    )
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(len(data.train_x)))
    assert seen[0] != seen[1]


def test_a_batch_of_one_row_is_trained_on(data):
    few = replace(data, train_x=data.train_x[:65], train_y=data.train_y[:65])
    result = run_stage(make_stage(few), Evaluation(few), Runtime(launch("cpu"), MemoryStore()), seed=3)
    assert math.isfinite(result.history[-1]["train_loss"])


def test_a_row_that_is_left_over_joins_the_last_batch(data):
    """Batch normalisation cannot be trained on one row."""
    sizes = []

    def recording(model, batch):
        sizes.append(len(batch.rows))
        return plain_step(model, batch)

    for rows in (64, 65, 66, 1):
        few = replace(data, train_x=data.train_x[:rows], train_y=data.train_y[:rows])
        stage = make_stage(few, replace(PHASE, epochs=1, batch_size=32), step=recording)
        run_stage(stage, Evaluation(few), Runtime(launch("cpu"), MemoryStore()), seed=3)
    assert sizes == [32, 32, 32, 33, 32, 32, 2, 1]


def test_learning_rates_follow_their_closed_forms():
    steps = Phase(epochs=100, decay="steps", milestones=(40, 80))
    assert [learning_rate(steps, t) for t in (0, 39.9, 40, 79.9, 80)] == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    triangle = Phase(epochs=10, decay="triangular")
    assert [learning_rate(triangle, t) for t in (0, 1, 2, 6, 10)] == pytest.approx([0.1, 0.55, 1, 0.5, 0])
    cycle = Phase(epochs=10, decay="one-cycle")
    assert learning_rate(cycle, 0) == pytest.approx(0.1)
    assert learning_rate(cycle, 2) == pytest.approx(1.0)
    assert learning_rate(cycle, 6) == pytest.approx(0.5)
    assert learning_rate(cycle, 10) == pytest.approx(0.0)
    exponential = Phase(epochs=10, decay="exponential")
    assert [learning_rate(exponential, t) for t in (0, 5, 10)] == pytest.approx([1, 10**-0.5, 0.1])
    tent = Phase(epochs=10, decay="tent")
    assert [learning_rate(tent, t) for t in (0, 0.5, 1, 5.5, 10)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert learning_rate(Phase(epochs=5), 3.3) == 1.0


def test_delta_t_may_have_an_optimiser_of_its_own(data):
    """One update from known gradients: SGD moves by rate times gradient, Adam's first step by the rate."""

    def constant_gradient(model: nn.Module, batch: Batch) -> torch.Tensor:
        logits, matrix = model(batch.x)
        return 0.0 * logits.sum() + (matrix * torch.arange(16.0).view(4, 4)).sum()

    moved = {}
    for own in (None, "adam"):
        transition = Transition(torch.full((4, 4), 0.25), "slack")
        network = build("mlp", (8,), 4, seed=1)
        stage = Stage(
            "stage",
            NoisyLabelModel(Standardise.from_data(data.train_x), network, transition),
            constant_gradient,
            Phase(1, lr=0.5, lr_transition=0.01, optimizer_transition=own, batch_size=len(data.train_x)),
        )
        run_stage(stage, Evaluation(data), Runtime(launch("cpu")), seed=3)
        moved[own] = transition.free.detach()
    torch.testing.assert_close(moved[None], -0.01 * torch.arange(16.0).view(4, 4))
    assert moved["adam"][0, 0] == 0
    torch.testing.assert_close(moved["adam"].flatten()[1:], torch.full((15,), -0.01))


def test_the_validation_loss_is_the_one_that_the_evaluation_has(data):
    stage = make_stage(data)
    plain, squared = Evaluation(data), Evaluation(data, loss=lambda log_prob: log_prob**2)
    with torch.no_grad():
        stage.model.eval()
        log_probs = stage.model(data.valid_x)[0].log_softmax(dim=1)
    given = [log_probs[n, y].item() for n, y in enumerate(data.valid_y.tolist())]
    measured = [one.measure(stage.model, None)["noisy_validation_loss"] for one in (plain, squared)]
    assert measured[0] == pytest.approx(-sum(given) / len(given), rel=1e-5)
    assert measured[1] == pytest.approx(sum(value**2 for value in given) / len(given), rel=1e-5)
