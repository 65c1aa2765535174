"""Clothing1M from end to end, on a small tree of real JPEGs in the official layout with a planted T."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from trevision.cli import main
from trevision.data.load import load
from trevision.data.named.clothing1m import CLOTHING1M
from trevision.estimation import transition_error
from trevision.files import DataError
from trevision.methods.schedules import SCHEDULES, Schedule, schedule_for
from trevision.networks.choose import build
from trevision.reproduce.job import work
from trevision.runs.prepare import prepare, starting_network
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.inputs import standardise_for
from trevision.training.model_files import load_model
from trevision.training.phase import Phase
from trevision.training.progress import NoProgress

CPU = Hardware(accelerator="cpu", threads=1)
NAMES = (
    "T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker",
    "Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear",
)  # fmt: skip
PER_CLASS = {"noisy_train": 14, "clean_train": 140, "clean_val": 3, "clean_test": 5}


@dataclass(frozen=True)
class Tree:
    folder: Path
    transition: np.ndarray


def planted() -> np.ndarray:
    """Each class keeps a share of its own and gives the rest to its neighbour: nothing symmetric about it."""
    keep = np.linspace(0.65, 0.9, 14)
    return np.diag(keep) + np.roll(np.diag(1 - keep), 1, axis=1)


def picture(label: int, rng: np.random.Generator) -> Image.Image:
    """A colour and a direction of stripes for each class, in images of many sizes."""
    width, height = rng.integers(64, 101, size=2)
    y, x = np.mgrid[:height, :width]
    angle = np.pi * label / 14
    stripes = 0.75 + 0.25 * np.sin((x * np.cos(angle) + y * np.sin(angle)) / 3 + rng.uniform(0, 6))
    colour = 0.5 + 0.5 * np.cos(2 * np.pi * (label / 14 + np.array([0, 1 / 3, 2 / 3])))
    pixels = 255 * stripes[..., None] * colour + rng.normal(0, 12, size=(height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Tree:
    """The official files; half of the clean training images have a noisy label too."""
    base = tmp_path_factory.mktemp("data")
    folder, rng, transition = base / "clothing1m", np.random.default_rng(0), planted()
    noisy, clean, number = [], [], 0
    for part, count in PER_CLASS.items():
        keys = []
        for place in range(14 * count):
            label, number = place % 14, number + 1
            key = f"images/{number % 10}/{number % 7}/{number},{label}.jpg"
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            picture(label, rng).save(folder / key)
            keys.append(key)
            if part != "noisy_train":
                clean.append(f"{key} {label}")
            if part == "noisy_train" or (part == "clean_train" and place % 28 < 25):
                noisy.append(f"{key} {rng.choice(14, p=transition[label])}")
        rng.shuffle(keys)
        (folder / f"{part}_key_list.txt").write_text("\n".join(keys) + "\n")
    for name, lines in (("noisy_label_kv", noisy), ("clean_label_kv", clean), ("category_names_eng", NAMES)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return Tree(base, transition)


@pytest.fixture
def short_schedule(monkeypatch) -> None:
    """The stages of `paper`, short enough for a test."""
    schedule = Schedule(
        noisy_posterior=Phase(0),
        classifier=Phase(3, optimizer="adam", lr=1e-3, batch_size=8),
        revision=Phase(1, optimizer="adam", lr=5e-7, batch_size=8),
    )
    monkeypatch.setitem(SCHEDULES, "short", lambda *_: schedule)


class InThisProcess:
    """Workers of a grid that do a job at once: a process of its own would not know a schedule of the test."""

    count = free = 1

    def start(self, job):
        self.ended = [(job, work(job))]

    def wait(self, seconds):
        return self.ended

    def close(self): ...


def key_of_image(row_name: bytes) -> int:
    return int(row_name.decode().rsplit(",")[-1].removesuffix(".jpg"))


def test_every_list_of_the_official_layout_ends_where_it_belongs(tree):
    dataset = load("clothing1m", tree.folder)
    assert dataset.class_names == NAMES
    assert len(dataset.train_x) == len(dataset.train_y) == 14 * 14
    # The file names tell the true class: test and validation labels are clean, training labels are not.
    for x, y, clean in (
        (dataset.test_x, dataset.test_y, True),
        (dataset.trusted_x, dataset.trusted_y, True),
        (dataset.train_x, dataset.train_y, False),
    ):
        right = np.mean(
            [key_of_image(name) == label for name, label in zip(x.names, y.tolist(), strict=True)]
        )
        assert right == 1 if clean else 0.65 < right < 0.9
    clean, noisy = dataset.label_pairs
    assert len(clean) == len(noisy) == 14 * 70 + 11 * 70
    assert CLOTHING1M.load(tree.folder / "clothing1m").class_names == NAMES  # the folder itself, too


def test_it_trains_counts_t_and_resumes_to_the_same_bits(tree, short_schedule, tmp_path):
    settings = Settings(method="reweight-r", schedule="short", network="lenet", seed=1)
    whole = run("clothing1m", settings, tmp_path / "whole", CPU, tree.folder)
    assert whole["test_accuracy"] > 0.5  # chance is 0.07
    saved = load_model(tmp_path / "whole")
    assert transition_error(saved.initial_transition, tree.transition) < 0.1
    assert np.abs(saved.initial_transition - tree.transition.T).sum() / 14 > 0.3  # the wrong way round
    assert transition_error(saved.transition, tree.transition) < 0.1
    assert saved.card.shape == (3, 224, 224)
    assert saved.model.standardise.mean.flatten().tolist() == pytest.approx([123.675, 116.28, 103.53])

    class Stops(NoProgress):
        def epoch(self, metrics):
            if (metrics["stage"], metrics["epoch"]) == ("classifier", 2):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("clothing1m", settings, tmp_path / "stopped", CPU, tree.folder, Stops())
    assert not (tmp_path / "stopped" / "result.json").exists()
    resumed = run("clothing1m", settings, tmp_path / "stopped", CPU, tree.folder)
    assert resumed["test_accuracy"] == whole["test_accuracy"]
    for name in ("model.safetensors", "transition.csv"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    out = tmp_path / "predictions.csv"
    main(
        ["predict", str(tmp_path / "whole"), "clothing1m", "--data-dir", str(tree.folder), "--out", str(out)]
    )
    rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
    truth = load("clothing1m", tree.folder).test_y.tolist()
    right = np.mean([row[1] == NAMES[label] for row, label in zip(rows, truth, strict=True)])
    assert right == pytest.approx(whole["test_accuracy"])


def test_a_truncated_jpeg_ends_the_command_with_one_line_that_names_it(
    tree, short_schedule, tmp_path, capsys
):
    dataset = load("clothing1m", tree.folder)
    path = dataset.train_x.path(7)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    try:
        with pytest.raises(SystemExit) as ended:
            main(
                ["fit", "clothing1m", "--data-dir", str(tree.folder), "--schedule", "short", "--network",
                 "lenet", "--method", "reweight", "--accelerator", "cpu", "--out", str(tmp_path / "run")]
            )  # fmt: skip
    finally:
        path.write_bytes(content)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert "truncated" in line


def test_trusted_labels_select_only_where_they_are_asked_for(tree):
    dataset = load("clothing1m", tree.folder)
    plain, _ = prepare(dataset, Settings())
    assert plain.trusted_x is None
    trusted, truth = prepare(dataset, Settings(trusted=True))
    assert len(trusted.trusted_x) == 14 * 3
    assert truth.transition is None
    assert len(truth.test_x) == 14 * 5
    with pytest.raises(DataError, match="noise must be left out for clothing1m"):
        prepare(dataset, Settings(noise="sym-20"))
    with pytest.raises(DataError, match="trusted must be left out for digits"):
        prepare(load("digits"), Settings(trusted=True))


def test_photographs_in_files_are_standardised_as_imagenet_is(tree):
    standardise = standardise_for(load("clothing1m", tree.folder).train_x)
    white = standardise(torch.full((1, 3, 2, 2), 255, dtype=torch.uint8))
    expected = [(1 - m) / s for m, s in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))]
    assert white[0, :, 0, 0].tolist() == pytest.approx(expected, rel=1e-5)


def test_the_network_starts_from_the_weights_file_except_for_its_last_layer(tmp_path):
    given = build("resnet18", (3, 32, 32), 1000, seed=9).state_dict()
    save_file({name: value.contiguous() for name, value in given.items()}, tmp_path / "weights.safetensors")
    settings = Settings(pretrained=str(tmp_path / "weights.safetensors"))
    state = starting_network("resnet18", (3, 32, 32), 14, settings).state_dict()
    assert all(torch.equal(state[name], given[name]) for name in state if not name.startswith("fc."))
    fresh = build("resnet18", (3, 32, 32), 14, seed=0).state_dict()
    assert torch.equal(state["fc.weight"], fresh["fc.weight"])


def test_table_4_starts_its_networks_from_the_weights_and_selects_by_trusted_labels(
    tree, tmp_path, capsys, monkeypatch
):
    given = build("resnet8", (3, 224, 224), 1000, seed=9).state_dict()
    weights = tmp_path / "weights.safetensors"
    save_file({name: value.contiguous() for name, value in given.items()}, weights)
    command = [
        *("reproduce", "table4", "--methods", "forward", "--seeds", "1", "--network", "resnet8"),
        *("--train-size", "40", "--schedule", "tiny", "--data-dir", str(tree.folder)),
        *("--results", str(tmp_path / "results"), "--pretrained", str(weights), "--trusted"),
    ]
    still = Phase(1, lr=0.0, weight_decay=0.0, batch_size=20)
    monkeypatch.setitem(SCHEDULES, "tiny", lambda *_: Schedule(Phase(0), still, still))

    main([*command, "--dry-run"])
    assert "1 of 1 runs to do" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()

    monkeypatch.setattr("trevision.cli.reproduce.make_workers", lambda *_, **__: InThisProcess())
    main([*command, "--keep-models"])
    (folder,) = (path.parent for path in (tmp_path / "results").glob("runs/*/result.json"))
    config = json.loads((folder / "config.json").read_text())
    assert (config["pretrained"], config["trusted"]) == (str(weights), True)
    # At a rate of zero the weights that the network started from are those it ends with.
    learnt = load_model(folder).model.network.state_dict()
    assert torch.equal(learnt["conv1.weight"], given["conv1.weight"])
    epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all("trusted_error" in epoch for epoch in epochs)
    tables = {path.stem for path in (tmp_path / "results" / "tables").iterdir()}
    assert tables == {"table4-clothing1m-tiny-resnet8-n40-weights-trusted-part"}


def test_the_paper_schedule_for_clothing1m_is_the_published_one():
    schedule = schedule_for("paper", "clothing1m", 900_000, 14)
    first, second = schedule.classifier, schedule.revision
    assert schedule.noisy_posterior.epochs == 0
    assert (first.optimizer, first.lr, first.momentum, first.weight_decay) == ("sgd", 1e-3, 0.9, 1e-3)
    assert (first.epochs, first.milestones, first.decay, first.batch_size) == (10, (5,), "steps", 32)
    assert (second.optimizer, second.lr, schedule.parameterisation) == ("adam", 5e-7, "slack")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("noisy_label_kv.txt", "images/0/1.jpg 14\n", r"noisy_label_kv\.txt: entry 1 must be .*\[0, 13\]"),
        ("noisy_label_kv.txt", "images/0/1.jpg\n", r"entry 1 must be a path and a label"),
        ("clean_label_kv.txt", "images/0/1.jpg 3\n", r"clean_label_kv\.txt: has no label for images/"),
        ("clean_test_key_list.txt", "\n", r"clean_test_key_list\.txt: is empty"),
        ("category_names_eng.txt", "Shirt\n", r"must name 14 classes, got 1"),
    ],
)
def test_label_files_that_do_not_fit_are_named(tree, tmp_path, file, content, message):
    for path in (tree.folder / "clothing1m").glob("*.txt"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).write_text(content)
    with pytest.raises(DataError, match=message):
        load("clothing1m", tmp_path)


def test_a_missing_copy_says_where_to_ask_for_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TREVISION_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"noisy_label_kv\.txt.*on request, see https://"):
        load("clothing1m")
    main(["data"])
    line = next(line for line in capsys.readouterr().out.splitlines() if "clothing1m" in line)
    assert "not found" in line
    assert "download" not in line
