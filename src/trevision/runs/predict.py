"""Predictions of a finished run, as a table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.data.files.preprocessing import PREPROCESSING_FILE, load_preprocessing
from trevision.data.files.reading import Reading
from trevision.data.load import load_rows
from trevision.data.named.download import Progress
from trevision.files import DataError, write_atomically
from trevision.training.evaluate import class_probs
from trevision.training.model_files import load_model


@dataclass(frozen=True)
class Predicted:
    """How many rows were predicted, how often rightly where the source has labels to tell, and notes."""

    rows: int
    accuracy: float | None
    notes: tuple[str, ...] = ()


def predict_to_csv(
    folder: Path,
    source: str,
    out: Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Predicted:
    """Write a row a sample: its number, its name if it has one, the most probable clean label, and every
    class's probability.
    """
    saved = load_model(folder)
    preprocessing = None
    if (folder / PREPROCESSING_FILE).exists():
        preprocessing = load_preprocessing(folder / PREPROCESSING_FILE)
    reading = Reading.from_json(saved.config.get("reading", {}))
    found = load_rows(source, data_dir, progress, reading, preprocessing, saved.card.shape)
    x, labels = found.x, found.labels
    if tuple(x.shape[1:]) != saved.card.shape:
        raise DataError(
            f"{source} must have samples of shape {saved.card.shape}, as {folder} was trained on, "
            f"got {tuple(x.shape[1:])}"
        )
    probs = class_probs(saved.model, x).numpy()
    predicted = saved.card.classes[probs.argmax(axis=1)]
    identity = {"row": range(len(x)) if found.row_numbers is None else found.row_numbers.tolist()}
    if found.names is not None:
        identity["name"] = found.names.tolist()

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow([*identity, "label", *(f"P({name})" for name in saved.card.classes)])
            for row in zip(*identity.values(), predicted, probs, strict=True):
                rows.writerow([*row[:-1], *(f"{p:.6g}" for p in row[-1])])

    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, write)
    accuracy, notes = None, found.notes
    if labels is not None:
        texts = labels.astype(str)
        given = texts != ""
        if np.isin(texts, saved.card.classes.astype(str)).any():
            accuracy = float(np.mean((predicted.astype(str) == texts)[given]))
        elif given.any():
            first = str(texts[np.flatnonzero(given)[0]])
            none_known = f"No label of {source} is a class of the run (the first is {first!r}): no accuracy."
            notes = (*notes, none_known)
    return Predicted(len(x), accuracy, notes)
