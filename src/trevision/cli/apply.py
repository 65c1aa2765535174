"""`trevision apply`: the labels of a run with corrections applied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from trevision.cli.progress import data_bar
from trevision.cli.terminal import RunPath, console, errors
from trevision.data.files.labels import counted
from trevision.report.corrections import apply_corrections


def apply(
    run_folder: RunPath,
    corrections: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CORRECTIONS")],
    /,
    out: Path,
    data_dir: Path | None = None,
) -> None:
    """Write a copy of the run's labels with the corrections downloaded from its report.

    Every line of CORRECTIONS is checked against the source. If a line does not fit, nothing is written.

    For example:

    $ trevision apply runs/mine corrections-mine.csv --out cleaned.csv

    Args:
        run_folder: The folder that `trevision fit` wrote.
        corrections: The CSV file with columns row, name, given, corrected and decision.
        out: The cleaned file to write, of the same kind as the source; `trevision fit` can read it.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with data_bar(errors, "the run's source") as reading:
        done = apply_corrections(run_folder, corrections, out, data_dir, reading)
    changed = counted(done.changed, "label")
    console.print(f"{changed} changed ({done.decided} reviewed), written to {out}", soft_wrap=True)
