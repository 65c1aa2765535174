"""Decoupling, MentorNet and Co-teaching: which samples they choose, and what that is good for.

Here, too, is what all methods that train fresh networks have in common: that they go on after a stop, and
that long training hurts most of them less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from trevision import TRevisionClassifier, noise
from trevision.data.noisy import Truth, split
from trevision.estimation import noise_rate, solve_class_prior
from trevision.methods import mentor
from trevision.methods.co_teaching import exchange_step
from trevision.methods.decoupling import disagreement_step
from trevision.methods.mentornet import rehearse, self_paced_step, train_with_mentor
from trevision.methods.options import Options
from trevision.methods.problem import Learned, Problem, network_seed
from trevision.methods.registry import find_method
from trevision.methods.schedules import schedule_for
from trevision.methods.selection import Pair, kept_share, ramp_epochs, rate_to_go_by, smallest
from trevision.methods.stages import estimate_transition, fit_noisy_posterior, predicted_probs
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.checkpoint import FolderStore
from trevision.training.evaluate import measure_against, measure_nothing
from trevision.training.loop import Batch
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.training.progress import NoProgress
from trevision.training.runtime import Runtime, launch

QUICK = schedule_for("quick", "arrays", 1080, 4)
SHORT = replace(
    QUICK,
    noisy_posterior=Phase(3, lr=0.02, batch_size=64),
    classifier=Phase(3, lr=0.02, batch_size=64),
    select_by="error",
)
# Long enough, at a rate that stays high, for plain cross-entropy to learn the wrong labels by heart.
LONG = replace(
    SHORT,
    noisy_posterior=Phase(6, lr=0.02, batch_size=32),
    classifier=Phase(30, lr=0.02, batch_size=32),
    revision=Phase(1, lr=1e-6, batch_size=32),
)
BASELINES = {
    "decoupling": ("decoupling", {}),
    "self-paced mentor": ("mentornet", {}),
    "learned mentor": ("mentornet", {"mentor": "learned"}),
    "co-teaching": ("co-teaching", {}),
    "gce": ("gce", {}),
    "sce": ("sce", {}),
    "tv": ("tv", {}),
}


def make_problem(blobs, noisy, *, seed=0, schedule=SHORT, truth=True, store=None, progress=None, **options):
    data = split(torch.from_numpy(blobs.x), noisy, num_classes=4, random_state=seed)
    known = Truth(None, torch.from_numpy(blobs.test_x), torch.from_numpy(blobs.test_y)) if truth else None
    runtime = Runtime(launch("cpu"))
    if store is not None:
        runtime = replace(runtime, store=store)
    if progress is not None:
        runtime = replace(runtime, progress=progress)
    return Problem(
        data=data,
        measure=measure_nothing if known is None else measure_against(known),
        make_network=lambda number=0: build("mlp", (8,), 4, network_seed(seed, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=schedule,
        seed=seed,
        runtime=runtime,
        options=Options(**options),
    )


def learn(blobs, method: str, **arguments) -> Learned:
    return find_method(method)(make_problem(blobs, blobs.noisy, **arguments))


# --- which samples are chosen, against slow loops ---------------------------------------------------------


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(12, 3, generator=generator)
    return Batch(x, torch.randint(4, (12,), generator=generator), torch.arange(12), epoch=0)


def linear(seed: int) -> nn.Module:
    layer = nn.Linear(3, 4)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return layer


def paired() -> NoisyLabelModel:
    return NoisyLabelModel(nn.Identity(), Pair(linear(1), linear(2)), None).train()


def slow_losses(network: nn.Module, batch: Batch) -> list[torch.Tensor]:
    """-log softmax of the given label, a sample at a time."""
    losses = []
    for x, label in zip(batch.x, batch.noisy_labels, strict=True):
        exponentials = torch.exp(network(x[None])[0])
        losses.append(-torch.log(exponentials[label] / exponentials.sum()))
    return losses


def slow_small(losses: list[torch.Tensor], count: int) -> list[int]:
    return sorted(sorted(range(len(losses)), key=lambda i: losses[i].item())[:count])


def gradient_of_mean(network: nn.Module, losses: list[torch.Tensor], chosen: list[int]) -> torch.Tensor:
    mean = sum(losses[i] for i in chosen) / len(chosen)
    return torch.autograd.grad(mean, network.weight)[0]


def test_co_teaching_trains_each_network_on_the_small_losses_of_the_other(batch):
    model = paired()
    first, second = model.network.first, model.network.second
    losses = [slow_losses(network, batch) for network in (first, second)]
    small = [slow_small(one, 5) for one in losses]
    assert small[0] != small[1]
    loss = exchange_step(launch("cpu"), lambda epoch: 5 / 12)(model, batch)
    gradients = torch.autograd.grad(loss, [first.weight, second.weight])
    for me, (network, gradient) in enumerate(zip((first, second), gradients, strict=True)):
        from_other = gradient_of_mean(network, slow_losses(network, batch), small[1 - me])
        from_own = gradient_of_mean(network, slow_losses(network, batch), small[me])
        assert torch.allclose(gradient, from_other, atol=1e-6)
        assert not torch.allclose(gradient, from_own, atol=1e-3)


def test_decoupling_trains_both_networks_on_their_disagreement_only(batch):
    model = paired()
    first, second = model.network.first, model.network.second
    differ = [
        i
        for i, x in enumerate(batch.x)
        if first(x[None])[0].tolist().index(first(x[None]).max().item())
        != second(x[None])[0].tolist().index(second(x[None]).max().item())
    ]
    assert 0 < len(differ) < 12
    loss = disagreement_step(launch("cpu"))(model, batch)
    gradients = torch.autograd.grad(loss, [first.weight, second.weight])
    for network, gradient in zip((first, second), gradients, strict=True):
        expected = gradient_of_mean(network, slow_losses(network, batch), differ)
        assert torch.allclose(gradient, expected, atol=1e-6)


def test_a_batch_without_disagreement_has_loss_zero_and_gradient_zero(batch):
    model = paired()
    with torch.no_grad():
        model.network.second.weight.copy_(2 * model.network.first.weight)
        model.network.second.bias.copy_(2 * model.network.first.bias)
    loss = disagreement_step(launch("cpu"))(model, batch)
    loss.backward()
    assert loss.item() == 0
    assert all(parameter.grad.abs().max() == 0 for parameter in model.parameters())


def test_a_self_paced_mentor_keeps_the_small_losses(batch):
    network = linear(1)
    losses = slow_losses(network, batch)
    small = slow_small(losses, 5)
    loss = self_paced_step(launch("cpu"), lambda epoch: 5 / 12)(
        NoisyLabelModel(nn.Identity(), network, None), batch
    )
    assert loss.item() == pytest.approx(sum(losses[i].item() for i in small) / 5, rel=1e-5)
    gradient = torch.autograd.grad(loss, network.weight)[0]
    assert torch.allclose(gradient, gradient_of_mean(network, losses, small), atol=1e-6)


def test_the_loss_of_kept_samples_is_a_mean_whatever_their_number(batch):
    """Every sample twice: the same samples are kept, twice, and a mean does not notice."""
    twice = Batch(batch.x.repeat(2, 1), batch.noisy_labels.repeat(2), torch.arange(24), epoch=batch.epoch)
    fabric, model = launch("cpu"), paired()
    for step in (exchange_step(fabric, lambda epoch: 0.5), disagreement_step(fabric)):
        assert step(model, twice).item() == pytest.approx(step(model, batch).item(), rel=1e-5)
    one = NoisyLabelModel(nn.Identity(), linear(1), None)
    step = self_paced_step(fabric, lambda epoch: 0.5)
    assert step(one, twice).item() == pytest.approx(step(one, batch).item(), rel=1e-5)


def test_the_kept_share_falls_in_a_line_and_stays():
    assert [kept_share(0.4, t) for t in (0, 1, 5, 10, 11, 199)] == pytest.approx(
        [1, 0.96, 0.8, 0.6, 0.6, 0.6]
    )
    assert [kept_share(0.5, t, ramp=2) for t in (0, 1, 2, 3)] == pytest.approx([1, 0.75, 0.5, 0.5])
    assert [ramp_epochs(epochs) for epochs in (200, 30, 15, 2, 1)] == [10, 10, 5, 1, 1]


def test_at_least_one_sample_is_kept_and_ties_keep_the_count():
    assert smallest(torch.tensor([3.0, 1.0, 2.0]), 0.0).tolist() == [False, True, False]
    assert smallest(torch.ones(2, 10), 0.7).sum(dim=1).tolist() == [7, 7]
    assert smallest(torch.tensor([[3.0, 1.0], [0.0, 2.0]]), 0.5).tolist() == [[False, True], [True, False]]


# --- the noise rate --------------------------------------------------------------------------------------


def test_the_rate_of_a_planted_asymmetric_t_is_recovered_for_unequal_classes(blobs):
    rng = np.random.default_rng(1)
    clean = rng.choice(4, size=50_000, p=[0.55, 0.05, 0.3, 0.1])
    planted = np.array([[0.9, 0.1, 0, 0], [0.5, 0.4, 0.1, 0], [0, 0.2, 0.7, 0.1], [0.3, 0.3, 0, 0.4]])
    noisy = noise.corrupt(clean, planted, rng)
    class_prior = solve_class_prior(planted, np.bincount(noisy) / len(noisy))
    assert class_prior == pytest.approx([0.55, 0.05, 0.3, 0.1], abs=0.02)
    assert noise_rate(planted, class_prior) == pytest.approx(np.mean(noisy != clean), abs=0.01)
    assert (
        abs(noise_rate(planted) - np.mean(noisy != clean)) > 0.1
    )  # classes that count the same would not do


def test_a_t_that_does_not_explain_the_labels_has_no_class_prior_and_its_rate_is_a_mean():
    assert solve_class_prior(np.full((2, 2), 0.5), [0.3, 0.7]) is None
    lopsided = np.array([[0.6, 0.4], [0.4, 0.6]])
    assert solve_class_prior(lopsided, [1.0, 0.0]) is None  # no mixture of its rows is that sure
    assert noise_rate(np.array([[0.9, 0.1], [0.5, 0.5]])) == pytest.approx(0.3)


def test_the_estimated_rate_is_near_the_true_one_and_knows_nothing_of_it(blobs):
    learned = learn(blobs, "co-teaching", schedule=replace(SHORT, noisy_posterior=LONG.noisy_posterior))
    assert learned.noise_rate == pytest.approx(np.mean(blobs.noisy != blobs.clean), abs=0.1)
    blind = learn(
        blobs, "co-teaching", schedule=replace(SHORT, noisy_posterior=LONG.noisy_posterior), truth=False
    )
    assert blind.noise_rate == learned.noise_rate
    assert all(map(torch.equal, blind.model.state_dict().values(), learned.model.state_dict().values()))


@pytest.mark.parametrize("method", ["mentornet", "co-teaching"])
def test_the_users_rate_is_used(blobs, method):
    low, high = (learn(blobs, method, noise_rate=rate) for rate in (0.05, 0.6))
    assert (low.noise_rate, high.noise_rate) == (0.05, 0.6)
    # Fewer samples of smaller loss are kept, so the loss over them is smaller.
    assert high.history[-1]["train_loss"] < 0.7 * low.history[-1]["train_loss"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_rate": 50}, r"noise_rate must lie in \[0, 1\), got 50; a percentage"),
        ({"noise_rate": float("nan")}, "noise_rate must lie in"),
        ({"mentor": "lerned"}, "mentor must be one of self-paced, learned"),
    ],
)
def test_bad_choices_are_named(blobs, options, message):
    with pytest.raises(ValueError, match=message):
        TRevisionClassifier("mentornet", **options).fit(blobs.x, blobs.noisy)


# --- stopping and going on -------------------------------------------------------------------------------


class StopsIn(NoProgress):
    def __init__(self, stage: str, epoch: int) -> None:
        self.where = (stage, epoch)

    def epoch(self, metrics) -> None:
        if (metrics["stage"], metrics["epoch"]) == self.where:
            raise KeyboardInterrupt


@pytest.fixture
def hasty_mentor(monkeypatch) -> None:
    """A mentor that learns for a moment only, where it matters that it learns but not how well."""
    monkeypatch.setattr(mentor, "PREDEFINED_STEPS", 5)
    monkeypatch.setattr(mentor, "LEARNED_STEPS", 15)


def timeless(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("decoupling", "decoupling"),
        ("self-paced mentor", "mentornet"),
        ("learned mentor", "mentor-rehearsal"),
        ("learned mentor", "mentornet"),
        ("co-teaching", "co-teaching"),
        ("gce", "gce"),
        ("volminnet", "volminnet"),
        ("tv", "tv"),
    ],
)
@pytest.mark.usefixtures("hasty_mentor", "every_epoch_kept")
def test_an_interrupted_run_resumes_to_the_same_bits(blobs, tmp_path, name, stage):
    method, options = BASELINES.get(name, (name, {}))
    whole = learn(blobs, method, **options)
    store = FolderStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        learn(blobs, method, store=store, progress=StopsIn(stage, 5), **options)
    assert len(store.load(stage)["history"]) == 4
    resumed = learn(blobs, method, store=store, **options)
    assert timeless(resumed.history) == timeless(whole.history)
    state, expected = resumed.model.state_dict(), whole.model.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[key], expected[key]) for key in expected)
    assert resumed.selected["stage"] == method


# --- what they are for -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half_wrong(blobs) -> np.ndarray:
    return noise.corrupt(blobs.clean, noise.symmetric(4, 0.5), np.random.default_rng(2))


def late_accuracy(learned: Learned, stage: str) -> float:
    """Test accuracy over the last five epochs: without any selection, as these methods' papers report it."""
    return float(np.mean([r["test_accuracy"] for r in learned.history if r["stage"] == stage][-5:]))


@pytest.fixture(scope="module")
def plain_accuracy(blobs, half_wrong) -> float:
    fits = [
        find_method("standard")(make_problem(blobs, half_wrong, seed=seed, schedule=LONG))
        for seed in range(3)
    ]
    return float(np.mean([late_accuracy(one, "classifier") for one in fits]))


@pytest.mark.parametrize("name", BASELINES)
def test_long_training_on_half_wrong_labels_hurts_less_than_plain_cross_entropy(
    blobs, half_wrong, plain_accuracy, name
):
    method, options = BASELINES[name]
    fits = [
        find_method(method)(make_problem(blobs, half_wrong, seed=seed, schedule=LONG, **options))
        for seed in range(3)
    ]
    mean = float(np.mean([late_accuracy(one, method) for one in fits]))
    assert mean > plain_accuracy + 0.05, (mean, plain_accuracy)


def test_the_learned_mentor_trusts_right_labels_more_than_wrong_ones(blobs, half_wrong):
    problem = make_problem(blobs, half_wrong, schedule=LONG)
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    rate = rate_to_go_by(problem, initial).value
    predicted = predicted_probs(problem, posterior, problem.data.train_x).argmax(axis=1)
    _, learned_mentor = rehearse(problem, predicted, initial.matrix, rate)
    _, student = train_with_mentor(problem, learned_mentor, rate)
    epoch, labels = int(student.epochs_begun) - 1, problem.data.train_y
    trust = student.trust(epoch, torch.arange(len(labels)), labels)
    clean = {x.tobytes(): y for x, y in zip(blobs.x, blobs.clean, strict=True)}
    truth = np.array([clean[x.numpy().tobytes()] for x in problem.data.train_x])
    assert roc_auc_score(labels.numpy() == truth, trust.numpy()) > 0.7
    assert 0 <= trust.min() < 0.5 < trust.max() <= 1


# --- in their surroundings -------------------------------------------------------------------------------


def test_the_model_is_the_first_network_and_what_was_selected(blobs):
    learned = learn(blobs, "co-teaching")
    accuracy = (learned.model(torch.from_numpy(blobs.test_x))[0].argmax(1).numpy() == blobs.test_y).mean()
    assert accuracy == pytest.approx(learned.selected["test_accuracy"])
    assert learned.model.state_dict().keys() == (
        NoisyLabelModel(learned.model.standardise, build("mlp", (8,), 4, 0), None).state_dict().keys()
    )
    assert np.array_equal(learned.transition, learned.initial_transition)


def test_decoupling_has_no_rate_but_a_t(blobs):
    learned, other = learn(blobs, "decoupling"), learn(blobs, "forward")
    assert learned.noise_rate is None
    assert np.array_equal(learned.transition, other.initial_transition)


def test_a_module_cannot_be_two_networks_but_a_function_can(blobs):
    def make() -> nn.Module:
        return nn.Linear(8, 4)

    with pytest.raises(ValueError, match="pass a function"):
        TRevisionClassifier("co-teaching", network=make(), schedule=SHORT).fit(blobs.x, blobs.noisy)
    model = TRevisionClassifier("co-teaching", network=make, schedule=SHORT, random_state=0)
    assert model.fit(blobs.x, blobs.noisy).score(blobs.test_x, blobs.test_y) > 0.8


def test_the_classifier_tells_and_keeps_the_rate(blobs, tmp_path, hasty_mentor):
    model = TRevisionClassifier(
        "mentornet", schedule=SHORT, noise_rate=0.25, mentor="learned", random_state=0
    )
    model.fit(blobs.x, blobs.noisy).save(tmp_path)
    loaded = TRevisionClassifier.load(tmp_path)
    assert model.noise_rate_ == loaded.noise_rate_ == 0.25
    assert np.array_equal(loaded.predict_proba(blobs.test_x), model.predict_proba(blobs.test_x))


def test_a_run_records_the_rate(blobs_file, tmp_path):
    settings = Settings(noise="sym-40", method="co-teaching", train_size=300)
    result = run(str(blobs_file), settings, tmp_path / "run", Hardware(accelerator="cpu"))
    assert 0.2 < result["noise_rate"] < 0.6
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result


PARALLEL = """
import os, sys, numpy as np, torch
from trevision import Phase, Schedule, TRevisionClassifier
from trevision.methods import mentor as learning
torch.set_num_threads(1)
learning.PREDEFINED_STEPS, learning.LEARNED_STEPS = 5, 15
data = np.load(sys.argv[1])
phase = Phase(2, lr=0.02, batch_size=33)
schedule = Schedule(phase, phase, phase, select_by="error")
for method, mentor in (("decoupling", "self-paced"), ("mentornet", "self-paced"), ("mentornet", "learned"),
                       ("co-teaching", "self-paced"), ("volminnet", "self-paced"), ("rent", "self-paced")):
    rate = None if method in ("decoupling", "volminnet", "rent") else 0.4
    model = TRevisionClassifier(method, schedule=schedule, mentor=mentor, noise_rate=rate, random_state=0,
                                accelerator="cpu", devices=int(sys.argv[2]))
    model.fit(data["x"][:300], data["y"][:300])
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        stages = (method, "classifier")
        print(method, mentor, *(r["train_loss"] for r in model.history_ if r["stage"] in stages))
"""


def test_two_processes_choose_the_samples_that_one_would(blobs_file, tmp_path):
    """33 samples do not divide by two, so the parts differ in size."""
    script = tmp_path / "parallel.py"
    script.write_text(PARALLEL)
    lines = []
    for devices in ("1", "2"):
        done = subprocess.run(
            [sys.executable, script, blobs_file, devices],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        found = [line.split() for line in done.stdout.splitlines()]
        lines.append({(m, k): [float(v) for v in values] for m, k, *values in found})
    one, two = lines
    assert len(one) == 6
    assert all(len(values) == len(two[key]) > 0 for key, values in one.items())
    for key, values in one.items():
        assert two[key] == pytest.approx(values, rel=1e-3), key
