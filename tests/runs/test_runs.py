"""Whole runs: on MNIST where it is at hand, and the demonstration."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from trevision.data.load import load
from trevision.files import DataError
from trevision.noise import pair_flip
from trevision.reproduce.demo import LATENT, METHODS, SEEDS, compare, find_misfiled, names_written
from trevision.runs.noise_files import read_noise
from trevision.runs.pictures import draw_transitions
from trevision.runs.prepare import prepare
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.progress import NoProgress

CPU = Hardware(accelerator="cpu", threads=1)
MNIST = Path(os.environ.get("TREVISION_DATA", "")) / "mnist"


class Silent(NoProgress):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.mark.skipif(
    not (os.environ.get("TREVISION_DATA") and MNIST.is_dir()), reason="TREVISION_DATA has no mnist folder"
)
def test_mnist_with_half_of_its_labels_wrong_is_learnt_from_a_fifth_of_its_images(tmp_path):
    # A fifth is no longer small to the schedule, and so takes fewer epochs than a tenth: half the time.
    result = run("mnist", Settings(noise="sym-50", train_size=12_000, seed=1), tmp_path / "run", CPU)
    assert result["test_accuracy"] > 0.95
    assert result["transition_error"] < 0.35


def test_the_demonstration_shows_a_gain_and_draws_four_matrices_with_their_errors(tmp_path):
    demo = compare(tmp_path / "demo", lambda title: Silent())
    assert demo.mean("reweight-r", "test_accuracy") > demo.mean("standard", "test_accuracy")
    assert set(demo.results) == {(method, seed) for method in METHODS for seed in SEEDS}
    picture = demo.picture.read_text(encoding="utf-8")
    assert "true (sym-50)" in picture
    errors = [
        float(re.search(rf"{re.escape(name)}: error (0\.\d+)", picture)[1])
        for name in ("from anchor points", "revised (T-Revision)", "from latent")
    ]
    assert errors[2] < errors[1] < errors[0]
    drawn = demo.results["reweight-r", demo.picture_seed]
    assert errors[1] == pytest.approx(drawn["transition_error"], abs=5e-4)
    # The same budget, except where the guard had a plain network trained to compare with.
    budgets = {
        result["epochs"]
        for (method, _), result in demo.results.items()
        if method != LATENT and not any("plain_likelier" in told for told in result["guard"])
    }
    assert len(budgets) == 1


def test_the_demonstration_finds_most_of_the_digits_in_wrong_folders(tmp_path):
    found = find_misfiled(tmp_path / "demo", lambda title: Silent(), images=300)
    assert 15 < found.misfiled < 50
    assert found.rightly_listed > 0.7 * found.misfiled
    assert found.rightly_listed > 0.7 * found.listed
    assert {path.name for path in (tmp_path / "demo").iterdir()} <= names_written()


def test_a_method_sees_noisy_labels_only_and_the_truth_is_kept_apart():
    digits = load("digits")
    data, truth = prepare(digits, Settings(noise="pair-40", seed=3))
    clean = {x.numpy().tobytes(): int(y) for x, y in zip(digits.train_x, digits.train_y, strict=True)}
    flips = np.zeros((10, 10))
    for x, y in ((data.train_x, data.train_y), (data.valid_x, data.valid_y)):
        for image, label in zip(x, y, strict=True):
            flips[clean[image.numpy().tobytes()], int(label)] += 1
    shares = flips / flips.sum(axis=1, keepdims=True)
    assert np.abs(shares - pair_flip(10, 0.4)).max() < 4 * np.sqrt(0.24 / flips.sum(axis=1).min())
    assert np.array_equal(truth.transition, pair_flip(10, 0.4))
    assert torch.equal(truth.test_y, digits.test_y)
    assert len(data.valid_x) == round(0.1 * len(digits.train_x))


def test_another_seed_draws_other_noise_and_another_split():
    digits = load("digits")
    (a, _), (b, _) = (prepare(digits, Settings(noise="sym-50", seed=seed)) for seed in (1, 2))
    assert not torch.equal(a.train_x, b.train_x)
    assert not torch.equal(a.train_y, b.train_y)


def test_noise_files_are_read_and_checked(tmp_path):
    np.save(tmp_path / "t.npy", pair_flip(3, 0.2))
    assert np.array_equal(read_noise(str(tmp_path / "t.npy"), 3), pair_flip(3, 0.2))
    np.savetxt(tmp_path / "t.csv", pair_flip(3, 0.2), delimiter=",")
    assert np.allclose(read_noise(str(tmp_path / "t.csv"), 3), pair_flip(3, 0.2))
    with pytest.raises(DataError, match=r"t\.csv: .*each of the 4 classes"):
        read_noise(str(tmp_path / "t.csv"), 4)
    with pytest.raises(DataError, match="does not exist"):
        read_noise(str(tmp_path / "none.csv"), 3)


@pytest.mark.parametrize("classes", [3, 30])
@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_matrices_of_any_size_are_drawn_with_escaped_names(tmp_path, classes, suffix):
    names = ["<b>&", *(f"class {i}" for i in range(1, classes))]
    path = tmp_path / f"t{suffix}"
    draw_transitions(path, {"one": np.eye(classes), "two": pair_flip(classes, 0.3)}, names)
    content = path.read_bytes()
    assert len(content) > 1000
    assert b"<b>&" not in content
