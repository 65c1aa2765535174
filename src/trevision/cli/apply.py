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
    trust: bool = True,
    data_dir: Path | None = None,
) -> None:
    """Write a copy of the run's labels with the corrections downloaded from its report.

    The rows that you decided are marked as known to be right, so that no later run suspects them again.
    CORRECTIONS may also be the table of `trevision issues --export` filled in, Label Studio's export (JSON or
    JSON_MIN), or the answers of an audit. Every line is checked against the source. If a line does not fit,
    nothing is written. A corrected label is written as its class is called; all others stay as they are in
    the source, also where `fit` read several spellings as one class.

    For example:

    $ trevision apply runs/mine corrections-mine.csv --out cleaned.csv
    $ trevision apply runs/mine corrections-mine.csv --no-trust --out cleaned.csv
    $ trevision apply runs/mine project-1.json --out cleaned.csv    (Label Studio's export)
    $ trevision apply runs/mine audit-mine.csv --out cleaned.csv

    Args:
        run_folder: The folder that `trevision fit` wrote.
        corrections: The CSV file of the report (row, name, given, corrected, decision), of the audit or of
            `issues --export`, or Label Studio's .json.
        out: The cleaned file to write, of the same kind as the source; `trevision fit` can read it.
        trust: Mark the decided rows as known to be right. Rows of a run with a --clean-source are not marked:
            add them to that file.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with data_bar(errors, "the run's source") as reading:
        done = apply_corrections(run_folder, corrections, out, data_dir, reading, trust)
    changed = counted(done.changed, "label")
    console.print(f"{changed} changed ({done.decided} reviewed), written to {out}", soft_wrap=True)
    if done.trusted:
        rows = counted(done.trusted, "row")
        console.print(f"{rows} marked as known to be right: no later run suspects them", soft_wrap=True)
    console.print(f"next: {done.command}", soft_wrap=True)
