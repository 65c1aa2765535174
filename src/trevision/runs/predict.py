"""Predictions of a finished run, as a table."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trevision.data.dataset import SourceRows
from trevision.data.files.spelling import codes_by_spelling
from trevision.data.progress import Progress
from trevision.files import DataError, write_atomically
from trevision.runs.outputs import check_output
from trevision.runs.run_folder import RunFolder
from trevision.spreadsheets import shown_as_text


@dataclass(frozen=True)
class Predicted:
    """Number of rows, accuracy on the labels of the source (None if it has none), and notes."""

    rows: int
    accuracy: float | None
    notes: tuple[str, ...] = ()


def predict_to_csv(
    folder: Path,
    source: str,
    out: Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    paths_anywhere: bool = False,
) -> Predicted:
    """Predict rows with the model of a run and write them to a .csv file.

    A line has the row's number, its name if it has one, the most probable clean label, and the probability of
    every class.

    Parameters
    ----------
    folder
        The folder of a finished run or a saved classifier.
    source
        The rows to predict, a name or a path as for `fit`.
    out
        The .csv file to write.
    data_dir
        Where to look for a named data set first.
    progress
        Called with the progress of reading.
    paths_anywhere
        Whether the paths of a table of images may lead out of its folder, though those of the run did not.

    Raises
    ------
    DataError
        If the rows cannot be read, or are not of the shape that the run was trained on.
    """
    run = RunFolder(folder)
    check_output(out, source, *run.inputs)
    rows_read, probs = predicted_rows(run, source, data_dir, progress, paths_anywhere)
    classes, labels = run.card.classes, rows_read.labels
    predicted = classes[probs.argmax(axis=1)]
    numbers = rows_read.row_numbers
    identity = {"row": range(len(probs)) if numbers is None else numbers.tolist()}
    if rows_read.names is not None:
        identity["name"] = [
            "" if name is None else shown_as_text(str(name)) for name in rows_read.names.tolist()
        ]
    cells = [shown_as_text(str(name)) for name in classes[probs.argmax(axis=1)].tolist()]

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow([*identity, "label", *(f"P({name})" for name in classes)])
            for row in zip(*identity.values(), cells, probs, strict=True):
                rows.writerow([*row[:-1], *(f"{p:.6g}" for p in row[-1])])

    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, write)
    accuracy, notes = None, rows_read.notes
    if labels is not None:
        texts = labels.astype(str)
        given = texts != ""
        if np.isin(texts, classes.astype(str)).any():
            accuracy = float(np.mean((predicted.astype(str) == texts)[given]))
        elif given.any():
            first = str(texts[np.flatnonzero(given)[0]])
            none_known = f"No label of {source} is a class of the run (the first is {first!r}): no accuracy."
            notes = (*notes, none_known)
    return Predicted(len(probs), accuracy, notes)


def predicted_rows(
    run: RunFolder,
    source: str,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    paths_anywhere: bool = False,
) -> tuple[SourceRows, np.ndarray]:
    """The rows of a source and their clean posteriors (n, C) by the run's model."""
    card = run.card
    reading = replace(run.reading, paths_anywhere=paths_anywhere or run.reading.paths_anywhere)
    rows: SourceRows
    if card.is_network:
        from trevision.data.load import load_rows  # imports torch

        _ = run.model  # a damaged one is told of before a large file is read
        rows = load_rows(source, data_dir, progress, reading, run.preprocessing, card.shape)
    else:
        from trevision.data.load_arrays import load_array_rows

        words = run.classifier.takes_words
        rows = load_array_rows(source, reading, run.preprocessing, words, progress)
    if tuple(rows.x.shape[1:]) != card.shape:
        raise DataError(
            f"{source} must have samples of shape {card.shape}, as {run.path} was trained on, "
            f"got {tuple(rows.x.shape[1:])}"
        )
    if rows.labels is not None and not run.reading.labels_as_written:
        rows = replace(rows, labels=_spelt_as(rows.labels, [str(name) for name in card.classes]))
    if not card.is_network:
        return rows, run.classifier.fitted.predict_proba(rows.x)
    from trevision.training.evaluate import class_probs

    return rows, class_probs(run.model.model, rows.x).numpy()


def _spelt_as(labels: np.ndarray, classes: list[str]) -> np.ndarray:
    """Labels of a source with the names that their classes have in the run."""
    names, codes = np.unique(labels.astype(str), return_inverse=True)
    code_of = codes_by_spelling(names.tolist(), classes)
    if not ((code_of >= 0) & (names != np.array([*classes, ""])[code_of])).any():
        return labels
    spelt = [name if code < 0 else classes[code] for name, code in zip(names, code_of, strict=True)]
    return np.array(spelt, dtype=object)[codes]
