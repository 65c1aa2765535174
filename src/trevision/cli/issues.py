"""`trevision issues`: the labels of a run that are probably wrong."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.progress import RichProgress, data_bar, reading_bar
from trevision.cli.terminal import RunPath, console, errors, table
from trevision.estimation import BOOTSTRAP
from trevision.report.exports import Exported, check_export, export_suspects
from trevision.report.page import suffix_of_labels
from trevision.runs.issue_files import ISSUES_CSV
from trevision.runs.label_issues import RunIssues, find_run_issues
from trevision.runs.run_folder import RunFolder

PAIRS_SHOWN = 8


def issues(
    run_folder: RunPath,
    /,
    show: int = 10,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    data_dir: Path | None = None,
    top: int | None = None,
    export: Path | None = None,
) -> None:
    """List the labels of a run that are probably wrong, most suspicious first, and how many there are.

    Every label is judged by a model that was not trained on it. Writes issues.csv, issues.parquet and
    noise.json to the run folder. A line of the first two has a row's name, its given and its suggested label,
    and the probabilities of both.

    For example:

    $ trevision issues runs/mine
    $ trevision issues runs/mine --show 50 --level 0.95
    $ trevision issues runs/mine --top 100    (the 100 most suspicious, whatever the count)
    $ trevision issues runs/mine --export tasks.json    (to review them in Label Studio)
    $ trevision issues runs/mine --export suspects.csv    (to review them in a spreadsheet)

    Args:
        run_folder: The folder that `trevision fit` wrote.
        show: Print this many of the most suspicious labels.
        bootstrap: Number of bootstrap replicates for the intervals; 0 for no intervals.
        level: Confidence of the intervals.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
        top: Mark this many labels as suspects; if not given, as many as seem wrong.
        export: Also write the suspects as tasks for Label Studio (.json), or as a table with a column to fill
            in (.csv). `trevision apply` reads what comes back.
    """
    if show < 0:
        raise ValueError(f"show must be a number of labels to print, 0 or more, got {show}")
    if export is not None:
        check_export(export)
    with data_bar(errors, "the run's source") as reading:
        run = RunFolder(run_folder, data_dir, reading)
        list_issues(run, show, bootstrap, level, top)
    if export is not None:
        with data_bar(errors, "the run's source") as reading:
            # Read anew: the issues that this folder holds are those just written.
            done = export_suspects(RunFolder(run_folder, data_dir, reading), export, data_dir, reading)
        _print_export(done, run_folder)


def _print_export(done: Exported, folder: Path) -> None:
    """What was written for another tool, and how its corrections come back."""
    first, *interface = done.paths
    console.print(f"{done.suspects:,} suspects: {first}", soft_wrap=True)
    if interface:
        console.print(
            f"In Label Studio: paste {interface[0]} into the code of the labelling interface, import "
            f"{first}, correct, and export as JSON or JSON_MIN.",
            soft_wrap=True,
        )
        back = "EXPORT.json"
    else:
        console.print("Fill in the column corrected where you have decided, and save it as CSV.")
        back = str(first)
    console.print(f"then: trevision apply {folder} {back} --out cleaned{suffix_of(folder)}", soft_wrap=True)


def suffix_of(folder: Path) -> str:
    """The suffix of a corrected copy of a run's source."""
    return suffix_of_labels(RunFolder(folder).source)


def list_issues(
    run: RunFolder,
    show: int = 10,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    top: int | None = None,
) -> None:
    """Score the labels of a run and print the most suspicious; arguments as for `issues`."""
    with RichProgress(str(run.path), errors) as progress, reading_bar(errors) as watch:
        scored = find_run_issues(run, bootstrap, level, progress=progress, watch=watch, top=top)
    _print(scored, show, run.path)
    console.print(f"All {len(scored.table):,} labels: {run.path / ISSUES_CSV}", soft_wrap=True)


def _print_count(scored: RunIssues, folder: Path) -> None:
    """How many labels are wrong; where that cannot be told, why, both readings, and what would tell it."""
    count, estimate = scored.issues.count, scored.issues.estimate
    if count is None:
        wrong, low, high = scored.issues.wrong
        interval = "" if low is None else f"; {estimate.level:.0%} interval {low:,.0f} to {high:,.0f}"
        share = f"{wrong / estimate.rows:.1%}"
        said = f"about {wrong:,.0f} of {estimate.rows:,} labels are wrong ({share}{interval})"
        console.print(said, soft_wrap=True)
        return
    if count.told:
        console.print(count.headline(), soft_wrap=True)
        return
    console.print(f"{count.headline()}: {count.reason}", soft_wrap=True)
    console.print(count.readings(), soft_wrap=True)
    console.print(f"To count them, look at 100 rows: trevision audit {folder} --rows 100", soft_wrap=True)


def _print(scored: RunIssues, show: int, folder: Path) -> None:
    estimate, names = scored.issues.estimate, scored.class_names
    _print_count(scored, folder)
    pairs = [(estimate.joint[i, j], i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    rows = [
        (names[i], names[j], f"{count:,.0f}", f"{estimate.transition[i, j]:.1%}")
        for count, i, j in sorted(pairs, reverse=True)[:PAIRS_SHOWN]
        if count >= 0.5
    ]
    if rows:
        console.print(table(["should be", "is labelled", "labels, about", "of its class"], rows))
    first = scored.table.head(show)
    lines = [
        (str(line.name_), line.given, line.suggested, f"{line.p_given:.3f}")
        for line in first.rename(columns={"name": "name_"}).itertuples()
    ]
    if lines:
        console.print(table(["row", "given", "suggested", "P(given is right)"], lines))
    for finding in scored.findings:
        console.print(f"{finding.verdict:>7}: {finding.sentence}", soft_wrap=True)
