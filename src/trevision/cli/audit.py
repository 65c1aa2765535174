"""`trevision audit`: how many labels are wrong, from a few dozen rows that a person looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from trevision.audit import AuditEstimate, Interval
from trevision.cli.progress import data_bar
from trevision.cli.terminal import RunPath, console, errors, table
from trevision.runs.run_folder import RunFolder


def audit(
    run_folder: RunPath,
    answers: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="ANSWERS")] = None,
    /,
    rows: int | None = None,
    seed: int | None = None,
    until: str | None = None,
    level: float = 0.9,
    out: Path | None = None,
    data_dir: Path | None = None,
) -> None:
    """Tell how many labels are wrong, whatever the noise is, from a few rows that you look at.

    Without ANSWERS, draws rows, more of them where labels are suspicious, and writes a page on which to say
    what each one is. Asking for more rows later continues the same draw, and earlier answers stay valid. With
    ANSWERS, the CSV file downloaded from that page, prints the estimate and writes RUN/audit.json.

    For example:

    $ trevision audit runs/mine --rows 100
    $ trevision audit runs/mine audit-mine.csv --until 2%
    $ trevision audit runs/mine --rows 150
    $ trevision apply runs/mine audit-mine.csv --out cleaned.csv

    Args:
        run_folder: The folder that `trevision fit` wrote.
        answers: The CSV file with columns plan, row, name, given, answer and told.
        rows: Rows to look at, 100 for a new audit; with ANSWERS, use only the first so many of the plan.
        seed: Seed of the draw, 0 if not given.
        until: Say whether the interval has come to plus or minus this share (2%), and if not what it takes.
        level: Confidence of the intervals.
        out: The page to write; RUN/audit.html if not given.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    share = None if until is None else parse_share(until)
    with data_bar(errors, "the run's source") as reading:
        run = RunFolder(run_folder, data_dir, reading)
        if answers is not None:
            if seed is not None or out is not None:
                raise ValueError("seed and out are choices for drawing rows; leave them out with ANSWERS")
            _tell(run, answers, rows, level, share)
            return
        if share is not None:
            raise ValueError("until is a choice for ANSWERS; leave it out when drawing rows")
        from trevision.report.audit_page import write_audit_page
        from trevision.runs.audit_files import plan_audit
        from trevision.runs.outputs import check_output

        if not run.has_issues:
            from trevision.cli.issues import list_issues

            list_issues(run)
        check_output(out or run.path / "audit.html", *run.inputs)
        plan = plan_audit(run, rows, seed)
        page = write_audit_page(run, plan, out, data_dir, reading)
    console.print(f"{len(plan.plan.rows)} rows to look at: open {page.path}", soft_wrap=True)
    console.print(f"then: trevision audit {run_folder} {page.answers}", soft_wrap=True)


def parse_share(text: str) -> float:
    """2% or 0.02."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise ValueError(f"until must be a share of the labels such as 2% or 0.02, got {text!r}")
    return share


def _tell(run: RunFolder, answers: Path, rows: int | None, level: float, until: float | None) -> None:
    from trevision.runs.audit_files import ASSUMES, AUDIT_JSON, estimate_run_audit, headline

    told, classes = estimate_run_audit(run, answers, rows, level)
    console.print(headline(told), soft_wrap=True)
    console.print(ASSUMES, soft_wrap=True)
    _print_classes(told, classes)
    _print_list(told)
    _print_next(told, until)
    console.print(f"All of it: {run.path / AUDIT_JSON}", soft_wrap=True)
    console.print(
        f"Train on what you know now: trevision apply {run.path} {answers} --out cleaned{_suffix(run)}",
        soft_wrap=True,
    )


def _suffix(run: RunFolder) -> str:
    from trevision.report.page import suffix_of_labels

    return suffix_of_labels(run.source)


def _print_classes(told: AuditEstimate, classes: tuple[str, ...]) -> None:
    lines = [
        (classes[one.given], f"{one.audited}", _counted(one.wrong), _shares(one.wrong, one.rows))
        for one in told.by_class
        if one.told
    ]
    if lines:
        console.print(table(["given label", "audited", "wrong", "of its labels"], lines))
    unknown = sum(not one.told for one in told.by_class)
    if unknown:
        console.print(f"{unknown} of {len(classes)} classes: too few audited rows to tell.", soft_wrap=True)
    pairs = [
        (classes[one.clean], classes[one.given], f"{one.found}", _counted(one.wrong))
        for one in told.pairs
        if one.told
    ]
    if pairs:
        console.print(table(["should be", "is labelled", "found", "labels"], pairs))
    elif told.found:
        console.print("Which classes are mixed up cannot be told: no pair was found three times.")


def _print_list(told: AuditEstimate) -> None:
    if told.listed is not None:
        one = told.listed
        console.print(
            f"Of the {one.depth:,} suspects, {_counted(one.within)} are wrong "
            f"({_shares(one.within, one.depth)}); {_counted(one.beyond)} wrong labels are not among them.",
            soft_wrap=True,
        )
    lines = [
        (f"{one.depth:,}", f"{one.audited}", _shares(one.within, one.depth), _counted(one.beyond))
        for one in told.depths
    ]
    header = ["most suspicious", "audited", "of them wrong", "wrong beyond them"]
    console.print(table(header, lines))


def _print_next(told: AuditEstimate, until: float | None) -> None:
    half = told.wrong.width / 2 / told.rows
    if told.more_rows:
        console.print(
            f"The interval is plus or minus {half:.1%}; {told.more_rows} more rows would bring it to about "
            f"{told.width_then / 2 / told.rows:.1%}.",
            soft_wrap=True,
        )
    if until is not None:
        needed = told.rows_until(until)
        console.print(
            f"Plus or minus {until:.2%} is reached: you can stop."
            if needed == 0
            else f"Plus or minus {until:.2%} is not reached; it takes about {needed:,} rows in all.",
            soft_wrap=True,
        )


def _counted(interval: Interval) -> str:
    return f"{interval.estimate:,.0f} ({interval.low:,.0f} to {interval.high:,.0f})"


def _shares(interval: Interval, rows: int) -> str:
    return f"{interval.estimate / rows:.0%} ({interval.low / rows:.0%} to {interval.high / rows:.0%})"
