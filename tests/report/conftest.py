"""Run folders in the agreed format, made up from random numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from trevision.experiments.run import Settings, run_config
from trevision.networks import Standardise, build
from trevision.training.folder import ModelCard, save_model, write_json
from trevision.training.model import NoisyLabelModel

SCRIPT = "<script>alert(1)</script>"


def write_found(
    folder: Path,
    classes: Sequence[str],
    rows: int,
    suspects: int,
    seed: int = 0,
    names: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """issues.parquet and noise.json: `suspects` likely wrong labels, and a tenth as many unlikely ones."""
    rng, size = np.random.default_rng(seed), len(classes)
    flips = rng.dirichlet(np.full(size, 0.4), size)
    transition = 0.8 * np.eye(size) + 0.2 * flips
    joint = transition * rows / size
    # Made-up intervals: what matters here is that they lie around the estimate and differ from it.
    low, high = np.maximum(transition - 0.03, 0), np.minimum(transition + 0.05, 1)
    wrong = float(joint.sum() - np.trace(joint))
    write_json(
        folder / "noise.json",
        {
            "classes": list(classes),
            "rows": rows,
            "level": 0.9,
            "wrong": {"estimate": wrong, "low": 0.9 * wrong, "high": 1.15 * wrong},
            "prior": [1 / size] * size,
            "transition": transition.tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
            "joint": joint.tolist(),
            "diagnosis": [
                {"check": "Condition", "verdict": "good", "value": 1.4,
                 "sentence": "The matrix is far from singular: its condition number is 1.4."},
                {"check": "Rare classes", "verdict": "caution", "value": 31.0,
                 "sentence": f"The class {classes[0]} has only 31 rows, too few to tell its row of T well."},
            ],
            "scored_by": "Each row was scored by a model that had not seen it, in 5 folds.",
        },
    )  # fmt: skip
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
    shape: tuple[int, ...] = (1, 8, 8),
    **changes: Any,
) -> None:
    """The files that `trevision fit` leaves, without the fit; `changes` go into result.json."""
    folder.mkdir(parents=True)
    settings = Settings(noise=changes.pop("noise", None))
    rng, size = np.random.default_rng(1), len(classes)
    initial = 0.75 * np.eye(size) + 0.25 * rng.dirichlet(np.ones(size), size)
    revised = 0.8 * np.eye(size) + 0.2 * rng.dirichlet(np.ones(size), size)
    network = build("mlp", shape, size, seed=0)
    model = NoisyLabelModel(Standardise.from_data(_any_rows(shape)), network, None)
    save_model(folder / "model.safetensors", model, initial, revised)
    card = ModelCard("mlp", shape, np.array(classes))
    write_json(folder / "config.json", run_config(str(source), settings) | {"model": card.to_json()})
    history = [
        {
            "stage": stage,
            "epoch": epoch,
            "train_loss": 2.0 / (epoch + 1),
            "noisy_validation_error": 0.5 / epoch,
        }
        for stage in ("noisy-posterior", "classifier", "revision")
        for epoch in range(1, 6)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in history))
    write_json(
        folder / "result.json",
        {
            "method": "reweight-r",
            "test_accuracy": None,
            "noisy_validation_accuracy": 0.75,
            "selected_stage": "revision",
            "selected_epoch": 3,
            "warnings": [],
            "versions": {"trevision": "0.1.0"},
        }
        | changes,
    )


def _any_rows(shape: tuple[int, ...]) -> Any:
    import torch

    return torch.rand(4, *shape)


RunMaker = Callable[..., tuple[Path, list[dict[str, Any]]]]


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    """Makes a run on pictures in an .npz file; returns its folder and its issues."""

    def make(
        classes: Sequence[str] = ("cat", "dog", "eel", "fox"),
        rows: int = 400,
        suspects: int = 40,
        **changes: Any,
    ) -> tuple[Path, list[dict[str, Any]]]:
        rng = np.random.default_rng(2)
        source = tmp_path / "pictures.npz"
        # Labels by position, so that every class occurs; the made-up issues name labels of their own.
        labels = np.array(classes)[np.arange(rows) % len(classes)]
        np.savez(source, x=rng.integers(256, size=(rows, 8, 8), dtype=np.uint8), y=labels)
        folder = tmp_path / "run"
        names = changes.pop("names", None)
        write_run(folder, source, classes, **changes)
        return folder, write_found(folder, classes, rows, suspects, names=names)

    return make
