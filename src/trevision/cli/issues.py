"""`trevision issues`: the labels of a run that are probably wrong."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.outcome import print_findings, wrong_labels
from trevision.cli.progress import RichProgress, data_bar, reading_bar
from trevision.cli.terminal import RunPath, console, errors, table
from trevision.data.files.corrections import row_fields
from trevision.data.files.reading import kind_of
from trevision.estimation import BOOTSTRAP
from trevision.report.exports import Exported, check_export, export_suspects
from trevision.report.page import suffix_of_labels
from trevision.runs.issue_files import ISSUES_CSV, NOISE_JSON
from trevision.runs.label_issues import RunIssues, find_run_issues
from trevision.runs.run_folder import RunFolder

PAIRS_SHOWN = 8
LETTERS = 60
"""The letters of a row that are printed."""
MOST_BYTES = 100_000_000
"""A larger table is not read once more to print a few rows of it."""


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
    the probabilities of both, and the score that the order is by: the trust in the label, from 0 to 1.

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
    scored = score_labels(run, bootstrap, level, top)
    _print(scored, show, run)
    listed = f"All {len(scored.table):,} labels, the most suspicious first: {run.path / ISSUES_CSV}"
    console.print(listed, soft_wrap=True)


def score_labels(
    run: RunFolder, bootstrap: int = BOOTSTRAP, level: float = 0.9, top: int | None = None
) -> RunIssues:
    """Score the labels of a run and write its issues; arguments as for `issues`."""
    with RichProgress(str(run.path), errors) as progress, reading_bar(errors) as watch:
        return find_run_issues(run, bootstrap, level, progress=progress, watch=watch, top=top)


def _print(scored: RunIssues, show: int, run: RunFolder) -> None:
    estimate, names = scored.issues.estimate, scored.class_names
    written = RunFolder(run.path)
    for line in wrong_labels(written):
        console.print(line, soft_wrap=True)
    if written.noise.interval_meaning:
        console.print(f"details: {written.noise.interval_meaning}", soft_wrap=True)
    pairs = [(estimate.joint[i, j], i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    rows = [
        (names[i], names[j], f"{count:,.0f}", f"{estimate.transition[i, j]:.1%}")
        for count, i, j in sorted(pairs, reverse=True)[:PAIRS_SHOWN]
        if count >= 0.5
    ]
    if rows:
        header = ["should be", "is labelled", "labels, about", "of its class"]
        console.print(table(header, rows, title="Mix-ups: how labels go wrong (T)"))
    first = scored.table.head(show)
    held = _contents(run, first["row"].tolist())
    lines = [
        (str(name), *([] if held is None else [held[place]]), given, suggested, f"{score:.1%}")
        for place, (name, given, suggested, score) in enumerate(
            first[["name", "given", "suggested", "score"]].itertuples(index=False)
        )
    ]
    if lines:
        what = [] if held is None else ["what it holds"]
        header = ["row", *what, "is labelled", "should be", "trust in its label"]
        title = "The most suspicious labels"
        console.print(table(header, lines, title, words=len(header) - 1))
    print_findings(scored.findings, run.path / NOISE_JSON)


def _contents(run: RunFolder, rows: list[int]) -> list[str] | None:
    """The beginning of what rows of a table hold; None for other sources, and for tables slow to read."""
    source = Path(run.source).expanduser()
    if kind_of(source) != "table" or source.stat().st_size > MOST_BYTES:
        return None
    reading = run.reading
    hidden = {reading.label_column, reading.name_column, "label", "y"}
    found = []
    for fields in row_fields(source, reading, rows):
        texts = [fields[name] for name in reading.text_column if name in fields]
        others = [f"{name} {text}" for name, text in fields.items() if name not in hidden]
        words = " ".join(" ".join(texts or others).split())
        found.append(words if len(words) <= LETTERS else f"{words[: LETTERS - 1]}…")
    return found
