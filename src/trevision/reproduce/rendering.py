"""Tables as text: for a terminal, Markdown, CSV, LaTeX, and a page of documentation."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from trevision.files import write_atomically
from trevision.reproduce.cells import Cell, Table
from trevision.reproduce.plans import Plan, Row
from trevision.reproduce.spec import Grid
from trevision.runs import provenance

DASH = "-"
DAGGER = "†"
SPREAD = "mean ± sample standard deviation (number of runs)"
ABOUT_SECONDS = (
    "Seconds are wall clock, of training, evaluation and the estimation of T in one process of one thread, "
    "and longer where the machine had other work; stages that several runs share are counted in each."
)
CSV_HEADER = (
    *("table", "dataset", "schedule", "method", "anchors", "noise", "measure", "n", "mean", "std"),
    *("published_mean", "published_std", "difference", "failed", "missing", "collapsed", "older"),
)


def ours(cell: Cell, digits: int = 2) -> str:
    """Mean ± std (n) and what is missing: `98.31 ± 0.10 (2), 1 failed`. A dagger marks older code."""
    return ", ".join(filter(None, (marked(spread(cell, digits), cell), lacking(cell)))) or DASH


def marked(text: str, cell: Cell) -> str:
    """The text of a cell, with a dagger if one of its runs was made by older code."""
    return f"{text}{DAGGER}" if text and cell.older else text


def older_note(older: Mapping[str, int]) -> str:
    """The line below a table that explains its daggers; empty if it has none."""
    if not older:
        return ""
    runs = "1 run was" if len(older) == 1 else f"{len(older)} runs were"
    numerics = ", ".join(map(str, sorted(set(older.values()))))
    them = "it" if len(older) == 1 else "them"
    return (
        f"{DAGGER} {runs} made by older code (numerics {numerics}; now {provenance.NUMERICS}); "
        f"--refresh runs {them} anew"
    )


def spread(cell: Cell, digits: int = 2, said: int | None = None) -> str:
    """Mean ± std (n), as in `98.31 ± 0.10 (3)`; empty if there is no number.

    Parameters
    ----------
    cell
        The numbers.
    digits
        Decimals.
    said
        A number of runs that is shown elsewhere; n is left out if it is equal.

    Returns
    -------
    str
    """
    if cell.mean is None:
        return ""
    std = "" if cell.std is None else f" ± {cell.std:.{digits}f}"
    return f"{cell.mean:.{digits}f}{std}" + ("" if cell.n == said else f" ({cell.n})")


def lacking(cell: Cell) -> str:
    """What is missing in a cell: `1 failed, 1 missing`; empty if nothing."""
    if cell.unavailable and not cell.n:
        return "unavailable"
    counts = {"failed": cell.failed, "missing": cell.missing, "collapsed": cell.collapsed}
    return ", ".join(f"{len(seeds)} {word}" for word, seeds in counts.items() if seeds)


def paper(cell: Cell, digits: int = 2) -> str:
    """The published mean ± std; a dash if the paper has no number."""
    if cell.published is None:
        return DASH
    mean, std = cell.published
    return f"{mean:.{digits}f}" if std is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def difference(cell: Cell, digits: int = 2) -> str:
    """Ours minus the paper's, with its sign."""
    return DASH if cell.difference is None else f"{cell.difference:+.{digits}f}"


def wide(table: Table) -> Grid:
    """One row per method; for each noise our number, the paper's and the difference."""
    plan, digits = table.plan, table.measure.digits
    header = ["method"]
    compared = [noise for noise in plan.noises if any(table.cells[r, noise].published for r in plan.rows)]
    for noise in plan.noises:
        header += [f"{noise}, ours (n)"]
        header += [f"{noise}, {plan.spec.published_by}", "difference"] if noise in compared else []
    rows = []
    for row in plan.rows:
        line = [row.label]
        for noise in plan.noises:
            cell = table.cells[row, noise]
            line += [ours(cell, digits)]
            line += [paper(cell, digits), difference(cell, digits)] if noise in compared else []
        rows.append(line)
    return header, rows


def long(table: Table) -> Grid:
    """One row per cell, for narrow terminals."""
    digits = table.measure.digits
    header = ["method", "noise", "ours (n)", table.plan.spec.published_by, "difference"]
    rows = [
        [row.label, noise, ours(cell, digits), paper(cell, digits), difference(cell, digits)]
        for (row, noise), cell in _by_noise(table)
    ]
    return header, rows


def _by_noise(table: Table) -> list[tuple[tuple[Row, str], Cell]]:
    return [((row, n), table.cells[row, n]) for n in table.plan.noises for row in table.plan.rows]


def title(table: Table) -> str:
    """The table's title: subject, measure, and departures from the paper."""
    plan = table.plan
    text = f"{subject(plan)}; {table.measure.title}, {SPREAD}"
    if plan.trusted:
        text += "; epochs selected by clean validation labels"
    if plan.departures:
        unlike = ", ".join(plan.departures)
        text += f". Unlike in the paper: {unlike}; hence not comparable with its numbers"
    return text


def subject(plan: Plan) -> str:
    """The subject of a table: its name, title, data set and schedule."""
    how = f"schedule {plan.schedule}"
    if plan.smaller_network:
        how += f", network {plan.smaller_network} (CPU; {plan.spec.published_by}: ResNet)"
    return f"{plan.spec.name}: {plan.spec.title}; {Path(plan.dataset).name}, {how}"


def markdown(table: Table) -> str:
    """The wide table in Markdown, under its title."""
    note = older_note(table.older)
    below = f"\n{escape_markdown(note)}.\n" if note else ""
    return f"{escape_markdown(title(table))}.\n\n{markdown_grid(*wide(table))}{below}"


def markdown_grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(map(escape_markdown, header)) + " |"]
    lines.append("|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|")
    lines += ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it unchanged, without cells, emphasis, links or tags."""
    return re.sub(r"([\\`*_\[\]<>|~&])", r"\\\1", text)


def latex(table: Table) -> str:
    """The wide table in LaTeX, for booktabs."""
    return latex_grid(title(table), *wide(table), older_note(table.older))


def latex_grid(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table in LaTeX, for booktabs.

    Parameters
    ----------
    caption
        The text above the table.
    header, rows
        Its cells.
    note
        The small print below it.

    Returns
    -------
    str
    """
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(caption)}.}}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        " & ".join(map(escape_latex, header)) + r" \\",
        r"\midrule",
        *(" & ".join(map(escape_latex, row)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par {{\footnotesize {escape_latex(note)}.}}"] if note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    DAGGER: r"$\dagger$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def escape_latex(text: str) -> str:
    """Escape text so that LaTeX prints it unchanged."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def to_csv(*tables: Table) -> str:
    """One line per cell, each number in its own column, for other programs."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(CSV_HEADER)
    for table in tables:
        plan = table.plan
        for (row, noise), cell in _by_noise(table):
            mean, std = cell.published or (None, None)
            all_numbers = (cell.mean, cell.std, mean, std, cell.difference)
            what = [plan.spec.name, plan.dataset, plan.schedule, row.name, row.anchors, noise]
            ours_mean, ours_std, *theirs = ("" if v is None else f"{v:.6g}" for v in all_numbers)
            counts = [len(seeds) for seeds in (cell.failed, cell.missing, cell.collapsed, cell.older)]
            rows.writerow([*what, table.measure.name, cell.n, ours_mean, ours_std, *theirs, *counts])
    return text.getvalue()


def write_table(table: Table, folder: Path) -> list[Path]:
    """The table as Markdown, CSV and LaTeX in `folder`."""
    return write_texts(folder, table.plan.stem, markdown(table), to_csv(table), latex(table))


def write_texts(folder: Path, stem: str, *texts: str) -> list[Path]:
    """Markdown, CSV and LaTeX in `folder`, each file replaced in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}{suffix}" for suffix in (".md", ".csv", ".tex")]
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text)
    return paths


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def command(plan: Plan) -> str:
    """The command for the runs of this table."""
    words = ["trevision", "reproduce", plan.spec.name, "--dataset", plan.dataset]
    words += ["--schedule", plan.schedule, "--seeds", str(plan.seeds)]
    if plan.seeds_without_anchors != plan.spec.seeds_of_rest(plan.seeds):
        words += ["--seeds-without-anchors", str(plan.seeds_without_anchors)]
    methods = tuple(dict.fromkeys(row.name for row in plan.rows))
    if methods != plan.spec.row_names:
        words += ["--methods", *methods]
    if plan.noises != plan.spec.noises:
        words += ["--noise", *plan.noises]
    if plan.network is not None:
        words += ["--network", plan.network]
    if plan.train_size is not None:
        words += ["--train-size", str(plan.train_size)]
    if plan.pretrained is not None:
        words += ["--pretrained", plan.pretrained]
    if plan.trusted:
        words += ["--trusted"]
    return shlex.join(words)


def page_head(plan: Plan) -> list[str]:
    """The beginning of a documentation page: what it shows, and the command for its runs."""
    return [
        f"# {plan.spec.name}: {plan.spec.title}, {escape_markdown(Path(plan.dataset).name)}, "
        f"`{plan.schedule}`",
        "",
        "<!-- Written by `trevision reproduce ... --docs`; do not edit. -->",
        "",
        "```",
        command(plan),
        "```",
        "",
    ]


def reasons(heading: str, why: dict[str, str]) -> list[str]:
    """A section of a page that lists a reason for each run or row; empty if there are none."""
    if not why:
        return []
    return [
        f"## {heading}",
        *(f"- {escape_markdown(f'{name}: {reason}')}" for name, reason in why.items()),
        "",
    ]


def docs_page(table: Table, picture: str) -> str:
    """A page of documentation: the command, the table, the picture, and how long the runs took."""
    seconds = sum(cell.seconds for cell in table.cells.values())
    lines = [
        *page_head(table.plan),
        markdown(table),
        f"![{table.plan.spec.title}]({picture})",
        "",
        "## Runs",
        f"{table.runs} runs are recorded, of {seconds:.0f} seconds in all. {ABOUT_SECONDS}",
        "",
        markdown_grid(
            ["method", "noise", "n", "mean", "std", "seconds a run", "failed", "missing", "older"],
            [_record(row, noise, cell, table.measure.digits) for (row, noise), cell in _by_noise(table)],
        ),
        *reasons("Failed", table.failures),
    ]
    return "\n".join(lines)


def _record(row: Row, noise: str, cell: Cell, digits: int) -> list[str]:
    mean, std = (DASH if v is None else f"{v:.{digits}f}" for v in (cell.mean, cell.std))
    seconds = f"{cell.seconds / cell.n:.0f}" if cell.n else DASH
    counts = (str(len(seeds)) for seeds in (cell.failed, cell.missing, cell.older))
    return [row.label, noise, str(cell.n), mean, std, seconds, *counts]
