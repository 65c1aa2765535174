"""Tables as text: for a terminal, Markdown, CSV, LaTeX, and a page of documentation."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from trevision.experiments.tables import Cell, Row, Table
from trevision.training.checkpoint import write_atomically

DASH = "-"
CSV_HEADER = (
    *("table", "dataset", "schedule", "method", "anchors", "noise", "measure", "n", "mean", "std"),
    *("published_mean", "published_std", "difference", "failed", "missing"),
)
Grid = tuple[list[str], list[list[str]]]  # a header and rows


def ours(cell: Cell, digits: int = 2) -> str:
    """Mean ± std (n), with what is lacking: `98.31 ± 0.10 (2), 1 failed`."""
    parts = []
    if cell.mean is not None:
        spread = "" if cell.std is None else f" ± {cell.std:.{digits}f}"
        parts.append(f"{cell.mean:.{digits}f}{spread} ({cell.n})")
    if cell.failed:
        parts.append(f"{len(cell.failed)} failed")
    if cell.missing:
        parts.append(f"{len(cell.missing)} missing")
    return ", ".join(parts) or DASH


def paper(cell: Cell, digits: int = 2) -> str:
    """The published mean ± std; a dash where the paper has no number."""
    if cell.published is None:
        return DASH
    mean, std = cell.published
    return f"{mean:.{digits}f}" if std is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def difference(cell: Cell, digits: int = 2) -> str:
    """Ours minus the paper's, with its sign."""
    return DASH if cell.difference is None else f"{cell.difference:+.{digits}f}"


def _digits(table: Table) -> int:
    return 2 if table.plan.spec.measure == "test_accuracy" else 4


def wide(table: Table) -> Grid:
    """A row a method, and for each noise ours, the paper's and the difference: the paper's own form."""
    plan, digits = table.plan, _digits(table)
    header = ["method"]
    compared = [noise for noise in plan.noises if any(table.cells[r, noise].published for r in plan.rows)]
    for noise in plan.noises:
        header += [f"{noise}, ours (n)"]
        header += [f"{noise}, paper", "difference"] if noise in compared else []
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
    """A row a cell, for narrow terminals."""
    digits = _digits(table)
    header = ["method", "noise", "ours (n)", "paper", "difference"]
    rows = [
        [row.label, noise, ours(cell, digits), paper(cell, digits), difference(cell, digits)]
        for (row, noise), cell in _by_noise(table)
    ]
    return header, rows


def _by_noise(table: Table) -> list[tuple[tuple[Row, str], Cell]]:
    return [((row, n), table.cells[row, n]) for n in table.plan.noises for row in table.plan.rows]


def title(table: Table) -> str:
    """What the numbers are, of what, and how they were made."""
    plan = table.plan
    what = "test accuracy in percent" if plan.spec.measure == "test_accuracy" else "|T - T-hat| / |T|"
    text = (
        f"{plan.spec.name}: {plan.spec.title}; {Path(plan.dataset).name}, schedule {plan.schedule}; "
        f"{what}, mean ± standard deviation (number of runs)"
    )
    if plan.trusted:
        text += "; epochs selected by clean validation labels"
    if plan.departures:
        unlike = ", ".join(plan.departures)
        text += f". Unlike in the paper: {unlike}; hence not comparable with its numbers"
    return text


def markdown(table: Table) -> str:
    """The wide table in Markdown, under its title."""
    return f"{escape_markdown(title(table))}.\n\n{markdown_grid(*wide(table))}"


def markdown_grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(map(escape_markdown, header)) + " |"]
    lines.append("|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|")
    lines += ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is: no cell, emphasis, link or tag begins in it."""
    return re.sub(r"([\\`*_\[\]<>|~&])", r"\\\1", text)


def latex(table: Table) -> str:
    """The wide table in LaTeX, for booktabs."""
    header, rows = wide(table)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(title(table))}.}}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        " & ".join(map(escape_latex, header)) + r" \\",
        r"\midrule",
        *(" & ".join(map(escape_latex, row)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def to_csv(table: Table) -> str:
    """A line a cell with every number apart, for other programs."""
    plan = table.plan
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(CSV_HEADER)
    for (row, noise), cell in _by_noise(table):
        mean, std = cell.published or (None, None)
        numbers = (cell.mean, cell.std, mean, std, cell.difference)
        ours_mean, ours_std, *theirs = ("" if v is None else f"{v:.6g}" for v in numbers)
        what = [plan.spec.name, plan.dataset, plan.schedule, row.name, row.anchors, noise, plan.spec.measure]
        lacking = [len(cell.failed), len(cell.missing)]
        rows.writerow([*what, cell.n, ours_mean, ours_std, *theirs, *lacking])
    return text.getvalue()


def write_table(table: Table, folder: Path) -> list[Path]:
    """The table as Markdown, CSV and LaTeX in `folder`, each file replaced in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".md": markdown(table), ".csv": to_csv(table), ".tex": latex(table)}
    paths = []
    for suffix, text in texts.items():
        paths.append(folder / f"{table.plan.stem}{suffix}")
        write_text(paths[-1], text)
    return paths


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def command(table: Table) -> str:
    """The command that fills this table."""
    plan = table.plan
    words = ["trevision", "reproduce", plan.spec.name, "--dataset", plan.dataset]
    words += ["--schedule", plan.schedule, "--seeds", str(plan.seeds)]
    methods = tuple(dict.fromkeys(row.name for row in plan.rows))
    if methods != plan.spec.methods:
        words += ["--methods", *methods]
    if plan.noises != plan.spec.noises:
        words += ["--noise", *plan.noises]
    if plan.network is not None:
        words += ["--network", plan.network]
    if plan.train_size is not None:
        words += ["--train-size", str(plan.train_size)]
    if plan.weights is not None:
        words += ["--weights", plan.weights]
    if plan.trusted:
        words += ["--trusted"]
    return shlex.join(words)


def docs_page(table: Table, picture: str) -> str:
    """A page of documentation: the command, the table, the picture, and what it took."""
    plan = table.plan
    seconds = sum(cell.seconds for cell in table.cells.values())
    lines = [
        f"# {plan.spec.name}: {plan.spec.title}, {escape_markdown(Path(plan.dataset).name)}, "
        f"`{plan.schedule}`",
        "",
        "<!-- Written by `trevision reproduce ... --docs`; do not edit. -->",
        "",
        "```",
        command(table),
        "```",
        "",
        markdown(table),
        f"![{plan.spec.title}]({picture})",
        "",
        "## Runs",
        f"{table.runs} runs are recorded. Seconds are of training and evaluation in one process of one "
        f"thread, {seconds:.0f} in all; stages that several methods share are counted in each of them.",
        "",
        markdown_grid(
            ["method", "noise", "n", "mean", "std", "seconds a run", "failed", "missing"],
            [_record(row, noise, cell, _digits(table)) for (row, noise), cell in _by_noise(table)],
        ),
    ]
    if table.failures:
        lines += ["## Failed", *(f"- {escape_markdown(f'{k}: {v}')}" for k, v in table.failures.items()), ""]
    return "\n".join(lines)


def _record(row: Row, noise: str, cell: Cell, digits: int) -> list[str]:
    mean, std = (DASH if v is None else f"{v:.{digits}f}" for v in (cell.mean, cell.std))
    seconds = f"{cell.seconds / cell.n:.0f}" if cell.n else DASH
    return [row.label, noise, str(cell.n), mean, std, seconds, str(len(cell.failed)), str(len(cell.missing))]
