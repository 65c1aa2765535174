"""rent, forward-gce and forward-sce: what is drawn, what is selected by, and how a stopped run goes on.

That they beat plain cross-entropy is tested beside the other methods (test_methods.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.methods.test_baselines import SHORT, StopsIn, learn, make_problem, timeless
from tests.methods.test_methods import learn as learn_asymmetric
from torch import nn

from trevision.data.noisy import NoisyData
from trevision.losses import importance_weights, resampled_counts
from trevision.methods.registry import find_method
from trevision.methods.rent import resampling_step
from trevision.networks.mlp import MLP
from trevision.reproduce.sharing import shared_stages
from trevision.runs.settings import Hardware, Settings
from trevision.training.checkpoint import FolderStore
from trevision.training.evaluate import class_probs
from trevision.training.loop import Batch
from trevision.training.runtime import launch

METHODS = ("rent", "forward-gce", "forward-sce")
CPU = Hardware(accelerator="cpu")
T = np.array([[0.6, 0.4, 0.0], [0.1, 0.7, 0.2], [0.3, 0.0, 0.7]])


# --- what is drawn ---------------------------------------------------------------------------------------


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(8, 3))


LABELS = [0, 1, 2, 1, 0, 2, 2, 1]


def drawn_loss(logits, *, seed=5, epoch=2, rows=range(8), weights=None, labels=LABELS) -> torch.Tensor:
    batch = Batch(torch.zeros(len(labels), 1), torch.tensor(labels), torch.tensor(list(rows)), epoch, weights)
    return resampling_step(launch("cpu"), seed)(
        lambda _: (torch.from_numpy(logits), torch.from_numpy(T)), batch
    )


def slow_drawn_loss(logits, rng: np.random.Generator) -> float:
    """The mean loss of eight rows, drawn by g_y / (T'g)_y."""
    g = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    weights = np.array([g[n, y] / sum(T[i, y] * g[n, i] for i in range(3)) for n, y in enumerate(LABELS)])
    counts = rng.multinomial(8, weights / weights.sum())
    return sum(count * -math.log(g[n, LABELS[n]]) for n, count in enumerate(counts)) / 8


def test_a_step_of_rent_is_cross_entropy_of_rows_drawn_by_seed_epoch_and_first_row(logits):
    for seed, epoch, rows in ((5, 2, range(8)), (5, 3, range(8)), (6, 2, range(8)), (5, 2, range(90, 98))):
        expected = slow_drawn_loss(logits, np.random.default_rng([seed, *b"rent", epoch, rows[0]]))
        found = drawn_loss(logits, seed=seed, epoch=epoch, rows=rows)
        assert found.item() == pytest.approx(expected, rel=1e-9)


def test_every_epoch_and_every_batch_draws_anew(logits):
    losses = [
        drawn_loss(logits, epoch=epoch, rows=range(first, first + 8)).item()
        for epoch in range(6)
        for first in range(0, 48, 8)
    ]
    assert len(set(losses)) > 30
    assert drawn_loss(logits).item() == drawn_loss(logits).item()


def test_a_row_of_no_weight_is_never_drawn_and_one_of_weight_two_is_drawn_as_two(logits):
    zero = torch.tensor([1.0, 1, 0, 1, 1, 1, 1, 1])
    large = logits.copy()
    large[2] = [9.0, 0.0, -9.0]  # its label, 2, costs 18: a mean that holds it would tell
    means = [
        np.mean([drawn_loss(logits_, epoch=epoch, weights=zero).item() for epoch in range(50)])
        for logits_ in (logits, large)
    ]
    assert means[0] == pytest.approx(means[1], rel=1e-9)
    twice = torch.tensor([2.0, 1, 1, 1, 1, 1, 1, 1])
    copied, labels = np.concatenate([logits[:1], logits]), [LABELS[0], *LABELS]
    by_weight = [drawn_loss(logits, epoch=epoch, weights=twice).item() for epoch in range(800)]
    by_copy = [drawn_loss(copied, epoch=epoch, rows=range(9), labels=labels).item() for epoch in range(800)]
    error = math.hypot(np.std(by_weight), np.std(by_copy)) / math.sqrt(800)
    assert np.mean(by_weight) == pytest.approx(np.mean(by_copy), abs=4 * error)


def test_dropout_does_not_change_which_rows_are_drawn(blobs):
    """The draw has a generator of its own: what the network draws does not move it."""
    x, labels = torch.from_numpy(blobs.x[:32]), torch.from_numpy(blobs.noisy[:32])
    batch = Batch(x, labels, torch.arange(32), 0)
    logits = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    matrix = torch.tensor(blobs.transition, dtype=torch.float32)

    def model(_):
        torch.rand(int(next(sizes)))
        return logits, matrix

    sizes = iter([1, 100])
    step = resampling_step(launch("cpu"), 0)
    assert step(model, batch).item() == step(model, batch).item()


# --- stopping and going on -------------------------------------------------------------------------------


def with_dropout(problem):
    def made(number: int = 0) -> nn.Module:
        network = original(number)
        assert isinstance(network, MLP)
        network.dropout = 0.2
        return network

    original = problem.make_network
    return replace(problem, make_network=made)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("every_epoch_kept")
def test_an_interrupted_run_resumes_to_the_same_bits(blobs, tmp_path, method):
    def fit(**how):
        return find_method(method)(with_dropout(make_problem(blobs, blobs.noisy, **how)))

    whole, store = fit(), FolderStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(store=store, progress=StopsIn("classifier", 3))
    assert len(store.load("classifier")["history"]) == 2
    resumed = fit(store=store)
    assert timeless(resumed.history) == timeless(whole.history)
    state, expected = resumed.model.state_dict(), whole.model.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[key], expected[key]) for key in expected)


# --- stages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_stage_1_and_t_are_those_of_forward_and_t_stays(blobs, method):
    learned, other = learn(blobs, method), learn(blobs, "forward")
    first = [
        [record for record in timeless(one.history) if record["stage"] == "noisy-posterior"]
        for one in (learned, other)
    ]
    assert first[0] == first[1]
    assert np.array_equal(learned.initial_transition, other.initial_transition)
    assert np.allclose(learned.transition, learned.initial_transition, atol=1e-7)
    assert list(shared_stages("digits", Settings(method=method), CPU)) == ["noisy-posterior"]


def robust_loss(method: str, p: float) -> float:
    """Of one row, from the noisy probability of its label, by the papers' equations."""
    if method == "forward-gce":
        return (1 - p**0.7) / 0.7
    return 0.1 * -math.log(p) + 4 * (1 - p)


@pytest.mark.parametrize("method", ["forward-gce", "forward-sce"])
def test_the_validation_loss_is_the_one_that_is_trained_with_and_can_select(blobs, method):
    problem = make_problem(blobs, blobs.noisy, schedule=replace(SHORT, select_by="loss", guarded=False))
    learned = find_method(method)(problem)
    records = [record for record in learned.history if record["stage"] == "classifier"]
    assert learned.selected == min(records, key=lambda record: record["noisy_validation_loss"])
    data: NoisyData = problem.data
    noisy = class_probs(learned.model, data.valid_x).double().numpy() @ learned.transition
    expected = np.mean([robust_loss(method, p[y]) for p, y in zip(noisy, data.valid_y.tolist(), strict=True)])
    assert learned.selected["noisy_validation_loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", ["forward-gce", "forward-sce"])
def test_through_t_a_robust_loss_beats_the_same_loss_without_t_under_asymmetric_noise(blobs, method):
    through, without = (
        np.mean([learn_asymmetric(blobs, name, seed).selected["test_accuracy"] for seed in range(3)])
        for name in (method, method.removeprefix("forward-"))
    )
    assert through > without + 0.005


def test_robust_losses_through_t_take_a_high_rate_down_where_the_schedule_is_gentle(blobs):
    def learnt_at(rate: float, gentle: bool) -> np.ndarray:
        schedule = replace(SHORT, classifier=replace(SHORT.classifier, lr=rate), gentle=gentle)
        problem = make_problem(blobs, blobs.noisy, schedule=schedule)
        return class_probs(find_method("forward-gce")(problem).model, problem.data.valid_x).numpy()

    gentle = learnt_at(0.4, gentle=True)
    assert np.array_equal(gentle, learnt_at(0.05, gentle=False))
    assert not np.array_equal(gentle, learnt_at(0.4, gentle=False))


def test_rent_draws_more_right_labels_than_it_is_given(blobs):
    """With a trained network, of the rows drawn a larger share is labelled right."""
    learned = learn_asymmetric(blobs, "rent")
    with torch.no_grad():
        logits, matrix = learned.model(torch.from_numpy(blobs.x))
    weights = importance_weights(logits, torch.from_numpy(blobs.noisy), matrix)
    counts = resampled_counts(weights, np.random.default_rng(0)).numpy()
    right = blobs.noisy == blobs.clean
    assert counts[right].sum() / counts.sum() > right.mean() + 0.5 * (1 - right.mean())
