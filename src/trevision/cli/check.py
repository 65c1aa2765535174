"""`trevision check`: from a file to the page of its suspect labels, in one go."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from trevision.cli.fit import HARDWARE, FitHardware, FitSettings, fitted, is_first_process
from trevision.cli.outcome import print_outcome
from trevision.cli.progress import data_bar
from trevision.cli.terminal import Source, console, errors
from trevision.report.page import apply_command, write_report
from trevision.runs.label_issues import can_be_scored
from trevision.runs.model_choice import UNSAID
from trevision.runs.run_folder import RunFolder


def check(
    source: Source,
    /,
    out: Path | None = None,
    open: bool = True,
    settings: FitSettings = UNSAID,
    hardware: FitHardware = HARDWARE,
    data_dir: Path | None = None,
) -> None:
    """Find the labels that are probably wrong, and open a page to review them on: fit, issues, report.

    Takes every flag of `trevision fit`, and like it goes to runs/NAME if no folder is named. The same command
    continues what was stopped, and what is finished is only shown.

    For example:

    $ trevision check customers.csv
    $ trevision check reviews.csv --label-column stars --text-column review
    $ trevision check photos/ --no-open                 (photos/cat/1.jpg, photos/dog/2.jpg, ...)

    Args:
        source: A table (.csv, .parquet), a folder of images by class, an .npz file of x and y, or a named
            data set.
        out: The run folder to write; runs/NAME if not given.
        open: Open the page in a browser, if there is one.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    run = fitted(source, out, settings, hardware, data_dir)
    if not is_first_process():
        return
    if not can_be_scored(run):
        from trevision.cli.issues import score_labels

        score_labels(run)
    print_outcome(run)
    with data_bar(errors, "the run's source") as reading:
        page = write_report(RunFolder(run.path, data_dir, reading), None, None, data_dir, reading)
    console.print(f"Review the {page.listed:,} most suspicious labels: {page.path}", soft_wrap=True)
    if run.settings.noise is None:  # else no file has wrong labels
        following = apply_command(run.source, run.path)
        console.print(f"Then: {following}    (with the file that the page downloads)", soft_wrap=True)
    if open and has_browser():
        webbrowser.open(page.path.resolve().as_uri())


def has_browser() -> bool:
    """Whether a person sits at a screen: scripts and remote shells get the path of the page alone."""
    if not console.is_terminal:
        return False
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(screen) or sys.platform in ("darwin", "win32")
