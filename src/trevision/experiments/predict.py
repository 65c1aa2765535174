"""Predictions of a finished run, as a table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.data import DataError, load_rows
from trevision.data.download import Progress
from trevision.training import class_probs
from trevision.training.checkpoint import write_atomically
from trevision.training.folder import load_model


@dataclass(frozen=True)
class Predicted:
    """How many rows were predicted, and how often rightly, where the source has labels to tell."""

    rows: int
    accuracy: float | None


def predict_to_csv(
    folder: Path,
    source: str,
    out: Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Predicted:
    """Write a row a sample: its number, the most probable clean label, and every class's probability."""
    saved = load_model(folder)
    x, labels = load_rows(source, data_dir, progress)
    if tuple(x.shape[1:]) != saved.card.shape:
        raise DataError(
            f"{source} must have samples of shape {saved.card.shape}, as {folder} was trained on, "
            f"got {tuple(x.shape[1:])}"
        )
    probs = class_probs(saved.model, x).numpy()
    predicted = saved.card.classes[probs.argmax(axis=1)]

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["row", "label", *(f"P({name})" for name in saved.card.classes)])
            for number, (label, row) in enumerate(zip(predicted, probs, strict=True)):
                rows.writerow([number, label, *(f"{p:.6g}" for p in row)])

    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, write)
    accuracy = None
    if labels is not None:
        accuracy = float(np.mean(predicted.astype(str) == labels.astype(str)))
    return Predicted(len(x), accuracy)
