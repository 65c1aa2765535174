"""`trevision report`: one page about a run, with its suspect labels to review."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.progress import data_bar
from trevision.cli.terminal import RunPath, console, errors
from trevision.report.page import write_report
from trevision.runs.run_folder import RunFolder


def report(
    run_folder: RunPath,
    /,
    out: Path | None = None,
    suspects: int | None = None,
    data_dir: Path | None = None,
) -> None:
    """Write one HTML page about a run: how many labels are wrong, the suspects to review, what was learnt.

    The page is one file that opens from disk and needs no network. The review gives a CSV file of corrections
    for `trevision apply`, and the page has the commands that follow. If `trevision issues RUN` was not run
    before, it is run first.

    For example:

    $ trevision report runs/mine
    $ trevision report runs/mine --out page.html --suspects 500

    Args:
        run_folder: The folder that `trevision fit` wrote.
        out: The page to write; RUN/report.html if not given.
        suspects: Number of labels to list; if not given, all that are probably wrong.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with data_bar(errors, "the run's source") as reading:
        run = RunFolder(run_folder, data_dir, reading)
        if not run.has_issues:
            from trevision.cli.issues import list_issues  # imports scipy, which the page does not need

            list_issues(run)
        done = write_report(run, out, suspects, data_dir, reading)
    console.print(
        f"the {done.listed} most suspicious of {done.labels} labels are listed in {done.path}", soft_wrap=True
    )
