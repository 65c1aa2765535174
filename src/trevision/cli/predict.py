"""`trevision predict`: clean labels for new rows."""

from __future__ import annotations

import os
from pathlib import Path

from trevision.cli.progress import data_bar
from trevision.cli.terminal import RunPath, Source, accuracy, console, errors
from trevision.files import TrevisionError, is_stream


def predict(
    run_folder: RunPath,
    source: Source,
    /,
    out: Path = Path("predictions.csv"),
    data_dir: Path | None = None,
    force: bool = False,
    paths_anywhere: bool = False,
) -> None:
    """Predict clean labels with the model of a run; write them, with their probabilities, to a CSV file.

    Predicts all rows of a table, all images of a folder, x_test or else x of an .npz file, and the test rows
    of a named data set. A table must have the columns of the training table; other columns are ignored. If
    there are labels, it prints the accuracy on them.

    For example:

    $ trevision predict runs/churn new-customers.csv --out churn.csv
    $ trevision predict runs/photos new-photos/
    $ trevision predict runs/mine new-data.npz
    $ trevision predict runs/a mnist --out mnist-test.csv

    Args:
        run_folder: The folder that `trevision fit` or `TRevisionClassifier.save` wrote.
        source: Where the data comes from, as in `trevision fit`.
        out: The CSV file to write.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
        force: Whether a file that is there already is replaced.
        paths_anywhere: Let the paths of a table of images lead out of its folder.
    """
    if os.path.lexists(out) and not (force or out.is_dir() or is_stream(out)):
        raise TrevisionError(f"{out} exists; choose another --out, or replace it with --force", path=out)
    from trevision.runs.predict import predict_to_csv

    with data_bar(errors, source) as reading:
        done = predict_to_csv(run_folder, source, out, data_dir, reading, paths_anywhere)
    console.print(f"{done.rows} predictions written to {out}", soft_wrap=True)
    for note in done.notes:
        errors.print(f"note: {note}", soft_wrap=True)
    if done.accuracy is not None:
        console.print(f"accuracy on the labels of {source}: {accuracy(done.accuracy)}", soft_wrap=True)
