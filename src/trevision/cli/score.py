"""`trevision score`: how good a model is, from a test set whose labels are noisy too."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.progress import data_bar
from trevision.cli.terminal import RunPath, Source, console, errors, table

CLASSES_SHOWN = 20


def score(
    run_folder: RunPath,
    source: Source,
    /,
    transition: str | None = None,
    transition_rows: float | None = None,
    level: float = 0.9,
    data_dir: Path | None = None,
) -> None:
    """Score the model of a run on rows with noisy labels: as the labels are, and corrected by T.

    Against noisy labels a perfect classifier looks imperfect. If mistakes depend on the class alone, T tells
    by how much. Prints accuracy, balanced accuracy, F1, log loss, for two classes the area under the ROC
    curve, and recall and precision of each class, with intervals.

    For example:

    $ trevision score runs/churn held-out.csv
    $ trevision score runs/churn held-out.csv --transition T.csv --transition-rows 300
    $ trevision score runs/a mnist --transition sym-20

    Args:
        run_folder: The folder that `trevision fit` or `TRevisionClassifier.save` wrote.
        source: Rows with labels, as in `trevision fit`.
        transition: T of those labels: a noise name such as sym-20, or a .csv or .npy file. If not given, T as
            the run learnt it.
        transition_rows: How many rows each row of T was counted from; if not given, T is taken as exact.
        level: Confidence of the intervals.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    from trevision.runs.score import score_run

    with data_bar(errors, source) as reading:
        scored = score_run(run_folder, source, transition, transition_rows, level, data_dir, reading)
    of_classes = [name for name in scored.scores if name.startswith(("recall ", "precision "))]
    hidden = set(of_classes[2 * CLASSES_SHOWN :])
    rows = [
        (
            measure.name,
            f"{measure.noisy:.4f}",
            f"{measure.corrected:.4f}",
            f"{measure.low:.4f} to {measure.high:.4f}",
        )
        for measure in scored.scores.values()
        if measure.name not in hidden
    ]
    console.print(table([f"{scored.rows} rows", "noisy", "corrected", f"{level:.0%} interval"], rows))
    console.print("Corrected scores hold if mistakes depend on the class alone.", soft_wrap=True)
    for note in scored.notes:
        errors.print(f"note: {note}", soft_wrap=True)
    for warning in scored.warnings:
        errors.print(f"warning: {warning}", soft_wrap=True)
