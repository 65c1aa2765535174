"""Run folders in the agreed format, made up from random numbers, and a browser to open their pages in."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from trevision.data.files.reading import Reading
from trevision.files import write_json
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.runs.settings import Settings, run_config
from trevision.training.model import NoisyLabelModel
from trevision.training.model_files import ModelCard, save_model

Issue = dict[str, Any]


def write_found(
    folder: Path,
    classes: Sequence[str],
    rows: int,
    suspects: int,
    names: Sequence[str] | None = None,
) -> list[Issue]:
    """issues.parquet and noise.json: `suspects` likely wrong labels, and a tenth as many unlikely ones."""
    rng, size = np.random.default_rng(0), len(classes)
    transition = 0.8 * np.eye(size) + 0.2 * rng.dirichlet(np.full(size, 0.4), size)
    joint = transition * rows / size
    # Made-up intervals: what matters here is that they lie around the estimate and differ from it.
    low, high = np.maximum(transition - 0.03, 0), np.minimum(transition + 0.05, 1)
    wrong = float(joint.sum() - np.trace(joint))
    rare = f"The class {classes[0]} has only 31 rows, too few to tell its row of T well."
    noise = {
        "classes": list(classes),
        "rows": rows,
        "level": 0.9,
        "wrong": {"estimate": wrong, "low": 0.9 * wrong, "high": 1.15 * wrong},
        "class_prior": [1 / size] * size,
        "transition": transition.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "joint": joint.tolist(),
        "diagnosis": [
            {"check": "Condition", "verdict": "good", "value": 1.4, "sentence": "T is far from singular."},
            {"check": "Rare classes", "verdict": "caution", "value": None, "sentence": rare},
        ],
        "scored_by": "Each row was scored by a model that had not seen it, in 5 folds.",
    }
    write_json(folder / "noise.json", noise)
    listed = suspects + suspects // 10
    sure = np.sort(rng.uniform(0.5, 1, listed))[::-1]
    given = rng.integers(size, size=listed)
    suggested = (given + rng.integers(1, size, size=listed)) % size
    chosen = rng.choice(rows, listed, replace=False)
    issues = [
        {
            "rank": place + 1,
            "row": int(chosen[place]),
            "name": str(chosen[place]) if names is None else names[chosen[place]],
            "given": classes[given[place]],
            "suggested": classes[suggested[place]],
            "p_given": float((1 - sure[place]) / 2),
            "p_suggested": float(sure[place]),
            "suspect": place < suspects,
        }
        for place in range(listed)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(issues), folder / "issues.parquet")
    return issues


def write_run(
    folder: Path,
    source: Path | str,
    classes: Sequence[str],
    shape: tuple[int, ...],
    settings: Settings | None = None,
    **result: Any,
) -> None:
    """The files that `trevision fit` leaves, without the fit; `result` changes result.json."""
    folder.mkdir(parents=True)
    rng, size = np.random.default_rng(1), len(classes)
    initial = 0.75 * np.eye(size) + 0.25 * rng.dirichlet(np.ones(size), size)
    revised = 0.8 * np.eye(size) + 0.2 * rng.dirichlet(np.ones(size), size)
    standardise = Standardise.from_data(torch.rand(4, *shape, generator=torch.Generator().manual_seed(0)))
    model = NoisyLabelModel(standardise, build("mlp", shape, size, seed=0), None)
    save_model(folder / "model.safetensors", model, initial, revised)
    card = ModelCard("mlp", shape, np.array(classes))
    config = run_config(str(source), settings or Settings())
    write_json(folder / "config.json", config | {"model": card.to_json()})
    history = [
        {"stage": stage, "epoch": epoch, "train_loss": 2 / epoch, "noisy_validation_error": 0.5 / epoch}
        for stage in ("noisy-posterior", "classifier", "revision")
        for epoch in range(1, 6)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in history))
    outcome = {
        "method": "reweight-r",
        "seed": 0,
        "noise": None,
        "epochs": len(history),
        "seconds": 1.5,
        "test_accuracy": None,
        "noisy_validation_accuracy": 0.75,
        "selected_stage": "revision",
        "selected_epoch": 3,
        "warnings": [],
        "versions": {"trevision": "0.1.0"},
    }
    write_json(folder / "result.json", outcome | result)


RunMaker = Callable[..., tuple[Path, list[Issue]]]


@pytest.fixture
def picture_run(tmp_path: Path) -> RunMaker:
    """Makes a run on small grey pictures in an .npz file; gives its folder and its issues."""

    def make(
        classes: Sequence[str] = ("cat", "dog", "eel", "fox"),
        rows: int = 400,
        suspects: int = 40,
        **result: Any,
    ) -> tuple[Path, list[Issue]]:
        pixels = np.random.default_rng(2).integers(17, size=(rows, 8, 8), dtype=np.uint8)
        source = tmp_path / "pictures.npz"
        np.savez(source, x=pixels, y=np.array(classes)[np.arange(rows) % len(classes)])
        write_run(tmp_path / "run", source, classes, (1, 8, 8), **result)
        return tmp_path / "run", write_found(tmp_path / "run", classes, rows, suspects)

    return make


@pytest.fixture
def table_run(tmp_path: Path) -> RunMaker:
    """Makes a run on a .csv file with a column of names, whose labels are those that the issues give."""

    def make(
        classes: Sequence[str] = ("cat", "dog", "eel", "fox"),
        rows: int = 400,
        suspects: int = 40,
        remark: str = "plain",
        settings: Settings | None = None,
        **result: Any,
    ) -> tuple[Path, list[Issue]]:
        source, folder = tmp_path / "table.csv", tmp_path / "run"
        names = [f"id {row}, {remark}" for row in range(rows)]
        settings = settings or Settings(reading=Reading(label_column="label", name_column="id"))
        write_run(folder, source, classes, (1,), settings, **result)
        issues = write_found(folder, classes, rows, suspects, names)
        given = {one["row"]: one["given"] for one in issues}
        with source.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["id", "age", "remark", "label"])
            for row in range(rows):
                label = given.get(row, classes[row % len(classes)])
                lines.writerow([names[row], row % 90, f"{remark} {row}", label])
        return folder, issues

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by chromedriver; tests that need it are skipped where it is not."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-extensions"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()
