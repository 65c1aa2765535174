"""How good a run's model is on rows with noisy labels: as the labels are, and corrected by T."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.data.progress import Progress
from trevision.files import DataError
from trevision.metrics import Score, score
from trevision.runs.noise_files import read_noise
from trevision.runs.predict import predicted_rows
from trevision.runs.run_folder import RunFolder

OWN_TRANSITION = (
    "T was learnt with the model that is judged: what both take for label noise counts as right. A T from "
    "elsewhere (--transition) would be safer."
)
EXACT_TRANSITION = "T is taken as exact: the intervals do not carry its uncertainty."


@dataclass(frozen=True)
class RunScores:
    """The scores by name, how many rows they are of, and what is doubtful about them."""

    scores: dict[str, Score]
    rows: int
    level: float
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def score_run(
    folder: Path,
    source: str,
    transition: str | None = None,
    transition_rows: float | None = None,
    level: float = 0.9,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> RunScores:
    """Measure the model of a run on rows whose labels are noisy.

    Parameters
    ----------
    folder
        The folder of a finished run or a saved classifier.
    source
        Rows with labels, a name or a path as for `fit`.
    transition
        T of those labels: a noise name or a .csv or .npy file. If not given, T as the run learnt it.
    transition_rows
        How many rows each row of T was counted from; None takes T as exact.
    level
        Confidence of the intervals.
    data_dir, progress
        Where a named data set is looked for first, and what is told how reading comes along.

    Raises
    ------
    DataError
        If the rows cannot be read, or have no labels of the run's classes.
    ValueError
        If T is too near to singular to be undone.
    """
    run = RunFolder(folder)
    rows, probs = predicted_rows(run, source, data_dir, progress)
    names = [str(name) for name in run.card.classes]
    if rows.labels is None:
        raise DataError(f"{source} must have labels to score against, and has none")
    codes = {name: code for code, name in enumerate(names)}
    labels = np.array([codes.get(str(label), -1) for label in rows.labels])
    known = labels >= 0
    if not known.any():
        raise DataError(f"{source} must have labels of the run's classes {', '.join(names)}, and has none")
    notes = list(rows.notes)
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a label of the run's classes were left out.")
    warnings = [OWN_TRANSITION] if transition is None else []
    warnings += [EXACT_TRANSITION] if transition_rows is None else []
    matrix = run.transitions[1] if transition is None else read_noise(transition, len(names))
    scores = score(
        labels[known],
        probs[known].argmax(axis=1),
        matrix,
        probabilities=probs[known] / probs[known].sum(axis=1, keepdims=True),
        transition_rows=transition_rows,
        class_names=names,
        level=level,
    )
    return RunScores(scores, int(known.sum()), level, tuple(warnings), tuple(notes))
