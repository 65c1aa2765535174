"""The schedule `released`: the recipes of the authors of volminnet and tv, and where it is refused.

The numbers are those of the released settings. VolMinNet (Li et al., ICML 2021): main.py of
github.com/xuefeng-li1/Provably-end-to-end-label-noise-learning-without-anchor-points. Total variation (Zhang,
Niu and Sugiyama, ICML 2021): ex/transition-matrix/ex.py of github.com/YivanZhang/lio.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from trevision import TRevisionClassifier
from trevision.cli import main
from trevision.data.noisy import split
from trevision.methods import tv
from trevision.methods.problem import Problem
from trevision.methods.registry import METHODS, find_method, schedule_of
from trevision.methods.schedules import SCHEDULES
from trevision.methods.tv import Recipe, counting_step
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.reproduce.plans import make_plan, planned_runs
from trevision.runs.out_of_sample import predict_out_of_sample
from trevision.runs.prepare import network_for
from trevision.runs.run import run
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Hardware, Settings
from trevision.training.loop import Batch
from trevision.training.phase import learning_rate
from trevision.training.runtime import Runtime, launch
from trevision.transition import DirichletTransition

CPU = Hardware(accelerator="cpu", threads=1)
TEN, HUNDRED = 10, 100


def released(method: str, source: str, rows: int, classes: int = TEN):
    schedule = schedule_of("released", method, source, rows, classes)
    schedule.check()
    return schedule


# --- the published numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "classes", "epochs", "milestones", "of_transition"),
    [
        ("mnist", TEN, 60, (), "adam"),
        ("cifar10", TEN, 80, (30, 60), "sgd"),
        ("cifar100", HUNDRED, 80, (30, 60), "adam"),
    ],
)
def test_volminnet_has_the_released_numbers(source, classes, epochs, milestones, of_transition):
    schedule = released("volminnet", source, 54_000, classes)
    phase = schedule.classifier
    assert (phase.optimizer, phase.lr, phase.momentum, phase.nesterov) == ("sgd", 1e-2, 0.9, False)
    assert (phase.weight_decay, phase.batch_size) == (1e-4, 128)
    assert (phase.lr_transition, phase.optimizer_transition) == (1e-2, of_transition)
    assert phase.average == 0
    assert schedule.whole_epochs == schedule.epochs == epochs
    assert schedule.select_by == "loss"
    rates = [learning_rate(phase, epoch) for epoch in range(epochs)]
    assert rates == pytest.approx([0.1 ** sum(epoch >= m for m in milestones) for epoch in range(epochs)])


def test_tv_has_the_released_numbers_for_grey_images():
    for source in ("mnist", "fashion-mnist"):
        schedule = released("tv", source, 54_000)
        phase = schedule.classifier
        assert (phase.optimizer, phase.lr, phase.weight_decay, phase.batch_size) == ("adam", 1e-3, 0.0, 512)
        batches = schedule.whole_epochs * 106  # 54,000 rows are 106 batches
        assert batches == pytest.approx(2000, abs=53)
        assert [learning_rate(phase, t) for t in (0, 9.5, 19)] == pytest.approx([1, 0.1**0.5, 0.1])
        assert (schedule.strength, schedule.pairs, schedule.select_by) == (10, 512, "last")


def test_tv_has_the_released_numbers_for_colour_images():
    for source in ("cifar10", "cifar100"):
        schedule = released("tv", source, 45_000)
        phase = schedule.classifier
        assert (phase.optimizer, phase.lr, phase.momentum, phase.weight_decay) == ("sgd", 0.1, 0.9, 1e-4)
        assert phase.batch_size == 512
        assert schedule.whole_epochs * 88 == pytest.approx(4000, abs=44)
        # Up from 0 in 400 of 4,000 batches, then along a line to 0.
        done = [schedule.whole_epochs * share for share in (0, 0.05, 0.1, 0.55, 1)]
        assert [learning_rate(phase, t) for t in done] == pytest.approx([0, 0.5, 1, 0.5, 0])
        assert (schedule.strength, schedule.pairs, schedule.select_by) == (100, 512, "last")


def test_factors_of_counts_and_the_weight_of_the_variation_are_as_released():
    transition = DirichletTransition(torch.eye(2))
    assert (transition.keep, transition.rate) == (0.999, 0.01)
    assert tv.TOTAL_VARIATION_WEIGHT == 0.1


def test_small_colour_images_get_the_published_network_on_a_cpu():
    def on_a_cpu(source: str, **how: str) -> str:
        return network_for(source, Settings(**how), (3, 32, 32), "cpu")

    assert on_a_cpu("cifar10", method="tv", schedule="released") == "resnet18"
    assert on_a_cpu("cifar100", schedule="paper") == "resnet34"
    assert on_a_cpu("cifar100", schedule="quick") == "narrow"


# --- what tv does with its recipe ---------------------------------------------------------------------------


def test_tv_compares_as_many_drawn_pairs_as_it_is_told():
    rng = np.random.default_rng(0)
    logits, given = torch.from_numpy(rng.normal(size=(6, 4))), [0, 1, 2, 3, 1, 2]
    g = torch.softmax(logits, dim=1).numpy()
    batch = Batch(torch.zeros(6, 8), torch.tensor(given), torch.arange(6), 0)

    def loss(pairs: int | None) -> float:
        step = counting_step(launch("cpu"), DirichletTransition(torch.eye(4)), 5, pairs)
        return step(lambda _: (logits, None), batch).item()

    # The same T is drawn, then a class for each row, then the pairs.
    drawn = np.random.default_rng([5, *b"tv", 0])
    DirichletTransition(torch.eye(4)).sample(drawn)
    drawn.random(6)
    pairs = drawn.integers(6, size=(2, 3)).T
    some = sum(0.5 * abs(g[n] - g[m]).sum() for n, m in pairs) / 3
    every = [0.5 * abs(g[n] - g[m]).sum() for n in range(6) for m in range(n)]
    assert loss(None) - loss(3) == pytest.approx(-0.1 * (np.mean(every) - some), abs=1e-6)


def test_tv_starts_with_the_recipes_counts(blobs, monkeypatch):
    started = []

    class Spy(DirichletTransition):
        def __init__(self, initial, *strength):
            super().__init__(initial, *strength)
            started.append(self.concentration.diagonal().tolist())

    monkeypatch.setattr(tv, "DirichletTransition", Spy)
    recipe = released("tv", "cifar10", 1080)
    recipe = replace(recipe, classifier=replace(recipe.classifier, epochs=1, batch_size=64, lr=0.01))
    assert isinstance(recipe, Recipe)
    data = split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=0)
    problem = Problem(
        data=data,
        make_network=lambda number=0: build("mlp", (8,), 4, number),
        standardise=Standardise.from_data(data.train_x),
        schedule=recipe,
        seed=0,
        runtime=Runtime(launch("cpu")),
    )
    find_method("tv")(problem)
    assert started[0] == [100.0] * 4


# --- end to end ---------------------------------------------------------------------------------------------


def write_small_mnist(folder: Path) -> None:
    """400 + 100 images in MNIST's format; a bright bar stands at the height of the class."""
    folder.mkdir(parents=True)
    for part, count in (("train", 400), ("t10k", 100)):
        rng = np.random.default_rng(count)
        labels = np.tile(np.arange(10), count // 10)
        rng.shuffle(labels)
        images = rng.integers(60, size=(count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[4 + 2 * label : 6 + 2 * label] += 180
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (folder / f"{part}-{what}-ubyte").write_bytes(head + array.astype(np.uint8).tobytes())


@pytest.mark.parametrize("method", ["volminnet", "tv"])
def test_a_released_recipe_runs_from_images_to_a_result(tmp_path, monkeypatch, method):
    write_small_mnist(tmp_path / "data" / "mnist")
    recipe = METHODS[method].released["mnist"]

    def short(rows: int):
        schedule = recipe(rows)
        few = replace(schedule.classifier, epochs=15, batch_size=20)
        return replace(schedule, classifier=few)

    monkeypatch.setitem(METHODS[method].released, "mnist", short)
    settings = Settings(noise="pair-20", method=method, schedule="released")
    result = run("mnist", settings, tmp_path / "run", CPU, tmp_path / "data")
    assert (result["method"], result["schedule"]) == (method, "released")
    assert result["test_accuracy"] > 0.8
    assert {row["stage"] for row in epochs_of(tmp_path / "run")} == {method}
    # The recipe has no stage 1. Folds that are trained later have that of `quick`.
    folder = RunFolder(tmp_path / "run", tmp_path / "data")
    predict_out_of_sample(folder)
    predicted = folder.probabilities
    assert (predicted.probs.argmax(axis=1) == predicted.labels).mean() > 0.4


def epochs_of(folder: Path) -> list[dict]:

    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# --- where it is refused ------------------------------------------------------------------------------------


def refused(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1, said
    return said


def test_methods_without_a_recipe_refuse_it_in_one_line_that_names_those_with_one(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    said = refused(["fit", "mnist", "--method", "forward", "--schedule", "released", *out], capsys)
    having = [method.name for method in METHODS.values() if method.released]
    assert sorted(having) == ["tv", "volminnet"]
    assert all(name in said for name in (*having, *SCHEDULES))
    assert "got method forward" in said
    assert not (tmp_path / "run").exists()


def test_data_without_a_recipe_are_refused_in_one_line_that_names_those_with_one(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    said = refused(["fit", "digits", "--method", "tv", "--schedule", "released", *out], capsys)
    assert "schedule released of tv is for mnist, fashion-mnist, cifar10, cifar100, got digits" in said
    with pytest.raises(ValueError, match="is for mnist, cifar10, cifar100, got arrays"):
        TRevisionClassifier("volminnet", schedule="released").fit(np.eye(20, 3), np.arange(20) % 2)


def test_an_unknown_schedule_is_refused_with_all_names(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    said = refused(["fit", "digits", "--schedule", "relesed", *out], capsys)
    assert "schedule must be one of paper, quick, strong or released, got 'relesed'" in said


# --- in tables ----------------------------------------------------------------------------------------------


def test_a_row_may_have_the_released_recipe_beside_rows_of_the_tables_schedule():
    plan = make_plan("floor", "mnist", ("volminnet", "volminnet:schedule=released"), ("sym-50",), seeds=1)
    with_anchors = [run for run in planned_runs(plan) if run.row.anchors == "A"]
    ours, theirs = (run.settings for run in with_anchors)
    assert (ours.schedule, theirs.schedule) == ("strong", "released")
    assert asdict(replace(theirs, schedule="strong")) == asdict(ours)
    assert len({run.name for run in with_anchors}) == 2
    assert {run.table for run in with_anchors} == {"floor-mnist-strong"}


@pytest.mark.parametrize(
    ("rows", "schedule"),
    [
        (("forward:schedule=released",), None),
        (("volminnet", "forward"), "released"),
        (("volminnet", "latent"), "released"),
    ],
)
def test_rows_without_a_recipe_are_refused(rows, schedule):
    with pytest.raises(ValueError, match=r"schedule released is for .*volminnet.*, got method"):
        make_plan("floor", "mnist", rows, ("sym-50",), schedule)
    assert make_plan("floor", "mnist", ("volminnet", "tv"), (), "released").record_name.endswith("released")
