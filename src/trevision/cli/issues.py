"""`trevision issues`: the labels of a run that are probably wrong."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.progress import RichProgress, data_bar, reading_bar
from trevision.cli.terminal import RunPath, console, errors, table
from trevision.estimation import BOOTSTRAP
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
) -> None:
    """List the labels of a run that are probably wrong, most suspicious first, and how many there are.

    Every label is judged by a network that was not trained on it. Writes issues.csv and issues.parquet (a
    line a row: its name, given and suggested label, their probabilities) and noise.json to the run folder.

    For example:

    $ trevision issues runs/mine
    $ trevision issues runs/mine --show 50 --level 0.95

    Args:
        run_folder: The folder that `trevision fit` wrote.
        show: Print this many of the most suspicious labels.
        bootstrap: Replicates that the intervals are made of; 0 for no intervals.
        level: Confidence of the intervals.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    if show < 0:
        raise ValueError(f"show must be a number of labels to print, 0 or more, got {show}")
    with data_bar(errors, "the run's source") as reading:
        list_issues(RunFolder(run_folder, data_dir, reading), show, bootstrap, level)


def list_issues(run: RunFolder, show: int = 10, bootstrap: int = BOOTSTRAP, level: float = 0.9) -> None:
    """Score the labels of a run and print the most suspicious; arguments as for `issues`."""
    with RichProgress(str(run.path), errors) as progress, reading_bar(errors) as watch:
        scored = find_run_issues(run, bootstrap, level, progress=progress, watch=watch)
    _print(scored, show)
    console.print(f"All {len(scored.table):,} labels: {run.path / ISSUES_CSV}", soft_wrap=True)


def _print(scored: RunIssues, show: int) -> None:
    made, names = scored.issues.estimate, scored.class_names
    wrong, low, high = scored.issues.wrong
    interval = "" if low is None else f"; {made.level:.0%} interval {low:,.0f} to {high:,.0f}"
    console.print(
        f"about {wrong:,.0f} of {made.rows:,} labels are wrong ({wrong / made.rows:.1%}{interval})",
        soft_wrap=True,
    )
    pairs = [(made.joint[i, j], i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    rows = [
        (names[i], names[j], f"{count:,.0f}", f"{made.transition[i, j]:.1%}")
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
