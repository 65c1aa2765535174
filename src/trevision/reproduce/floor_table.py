"""Tables beyond the paper: the error of T compared with its sampling floor, and other measures.

Columns are noises with anchor points ("A") and without ("N/A"). The terminal shows a small table per column
with all measures; files have a table per measure with all columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trevision.reproduce.cells import Cell, Table, tabulate_each
from trevision.reproduce.plans import Plan, Row
from trevision.reproduce.rendering import (
    ABOUT_SECONDS,
    DASH,
    SPREAD,
    escape_markdown,
    lacking,
    latex_grid,
    markdown_grid,
    marked,
    older_note,
    page_head,
    reasons,
    spread,
    subject,
    to_csv,
    write_texts,
)
from trevision.reproduce.spec import Anchors, Grid

ANCHORS: dict[Anchors, str] = {"A": "with anchor points", "N/A": "without anchor points"}
SECTIONS = {
    "transition_error": "Error of T, and how many times the floor that is",
    "test_accuracy": "Test accuracy in percent",
    "wrong_label_auc": "Wrong labels found: area under the ROC curve",
    "seconds": "Seconds a run",
}
ABOUT_ERROR = (
    "The error of T is |T - T-hat| / |T|, entries summed. The sampling floor is the error of counting the "
    "noisy labels against the true ones on all rows that have noisy labels: the noise of the sample, which "
    "no estimator that assumes nothing about T can be expected to beat. One that lets classes learn from "
    "each other can, where they are alike."
)
ABOUT_ESTIMATORS = (
    "Rows marked (T only) train no classifier. All of them read T off the same predictions: those of stage "
    "1, trained once for each fold, for the rows that it was not trained on. Their wrong labels are looked "
    "for with these predictions; cleanlab's with its own score."
)
ABOUT_WRONG_LABELS = (
    "Wrong labels are looked for among the training rows, by P(clean = given | x, given), with the selected "
    "model and T on the very rows that it was trained on; without a T, by the model's probability of the "
    "given label."
)
ABOUT_COLLAPSE = (
    "A run is called collapsed if its classifier is right on less than half of the test rows, or if its T is "
    "not made of numbers; its numbers count in the means."
)


@dataclass(frozen=True)
class Column:
    """A noise, with or without anchor points."""

    noise: str
    anchors: Anchors

    @property
    def label(self) -> str:
        return f"{self.noise}, {self.anchors}"


@dataclass(frozen=True)
class FloorTable:
    """A plan with its cells in every measure, by row and column."""

    plan: Plan
    tables: dict[str, Table]

    @cached_property
    def columns(self) -> list[Column]:
        return [Column(noise, anchors) for anchors in self.plan.anchors for noise in self.plan.noises]

    @cached_property
    def rows(self) -> list[Row]:
        """Each row once, although a plan may have it both with and without anchor points."""
        return [row for row in self.plan.rows if row.anchors == self.plan.anchors[0]]

    @cached_property
    def _cells(self) -> dict[tuple[str, str, Column], Cell]:
        return {
            (measure, row.name, Column(noise, row.anchors)): cell
            for measure, table in self.tables.items()
            for (row, noise), cell in table.cells.items()
        }

    @property
    def failures(self) -> dict[str, str]:
        return self.tables["transition_error"].failures

    @property
    def older(self) -> dict[str, int]:
        """The numerics of the runs made by older code, by name of the run."""
        return self.tables["transition_error"].older

    def cell(self, measure: str, row: Row, column: Column) -> Cell:
        return self._cells[measure, row.name, column]

    def digits(self, measure: str) -> int:
        return self.tables[measure].measure.digits

    def floor(self, column: Column) -> str:
        """The sampling floor of a column, from the row with the most runs: all rows have the same samples."""
        cells = [self.cell("transition_floor", row, column) for row in self.rows]
        return spread(max(cells, key=lambda cell: cell.n), self.digits("transition_floor")) or DASH

    @property
    def most_runs(self) -> int:
        return max(cell.n for cell in self.tables["seconds"].cells.values())

    def rows_of(self, measure: str) -> list[Row]:
        """The rows that have this measure, or may have it once they are run; all rows if none has it.

        An estimator alone has no accuracy, and some methods have no T.
        """

        def has(row: Row, what: str) -> bool:
            return any(self.cell(what, row, column).n for column in self.columns)

        if measure == "test_accuracy":
            rows = [row for row in self.rows if not row.is_estimator]
        else:
            rows = [row for row in self.rows if has(row, measure) or not has(row, "seconds")]
        return rows or self.rows


def tabulate_floor(plan: Plan, results: Path) -> FloorTable:
    """The table of a plan, in all its measures, from the runs in the folder `results`."""
    return FloorTable(plan, tabulate_each(plan, results))


def row_label(row: Row) -> str:
    return f"{row.name} (T only)" if row.is_estimator else row.name


def by_column(table: FloorTable, column: Column) -> Grid:
    """All measures in one column."""
    measures = {
        "transition_error": "error of T",
        "error_to_floor": "/ floor",
        "test_accuracy": "accuracy",
        "wrong_label_auc": "AUC",
        "seconds": "seconds",
    }
    rows = []
    for row in table.rows:
        cells = {measure: table.cell(measure, row, column) for measure in measures}
        runs = cells["seconds"]
        numbers = [spread(cell, table.digits(measure), runs.n) or DASH for measure, cell in cells.items()]
        rows.append([row_label(row), marked(str(runs.n), runs), *numbers, lacking(runs)])
    return ["", "n", *measures.values(), "remarks"], rows


def column_title(table: FloorTable, column: Column) -> str:
    return f"{column.noise}, {ANCHORS[column.anchors]}; sampling floor of T: {table.floor(column)}"


def by_measure(table: FloorTable, measure: str, anchors: Anchors) -> Grid:
    """One measure in the columns with or without anchor points. The error of T has its floor above it.

    Parameters
    ----------
    table
        All cells.
    measure
        One of SECTIONS.
    anchors
        Which columns.

    Returns
    -------
    Grid
    """
    columns = [column for column in table.columns if column.anchors == anchors]

    def shown(row: Row, column: Column) -> str:
        cell = table.cell(measure, row, column)
        ratio = table.cell("error_to_floor", row, column).mean if measure == "transition_error" else None
        multiple = "" if ratio is None else f"x{ratio:.2f}"
        parts = (marked(spread(cell, table.digits(measure)), cell), multiple, lacking(cell))
        return ", ".join(filter(None, parts)) or DASH

    rows = [[row_label(row), *(shown(row, column) for column in columns)] for row in table.rows_of(measure)]
    if measure == "transition_error":
        rows.insert(0, ["sampling floor", *(table.floor(column) for column in columns)])
    return ["", *(column.label for column in columns)], rows


def title(table: FloorTable) -> str:
    """The table's title: subject, and departures from the paper."""
    return "; ".join([subject(table.plan), *table.plan.departures, SPREAD])


def markdown(table: FloorTable) -> str:
    """One section per measure."""
    note = older_note(table.older)
    parts = [f"{escape_markdown(title(table))}.\n", *([f"{escape_markdown(note)}.\n"] if note else [])]
    for measure, heading in SECTIONS.items():
        parts.append(f"## {heading}")
        parts += [markdown_grid(*by_measure(table, measure, anchors)) for anchors in table.plan.anchors]
    return "\n".join(parts)


def latex(table: FloorTable) -> str:
    """One table per measure, for booktabs."""
    return "\n".join(
        latex_grid(
            f"{title(table)}. {heading}", *by_measure(table, measure, anchors), older_note(table.older)
        )
        for measure, heading in SECTIONS.items()
        for anchors in table.plan.anchors
    )


def write_floor(table: FloorTable, folder: Path) -> list[Path]:
    """The table as Markdown, CSV and LaTeX in `folder`."""
    csv = to_csv(*table.tables.values())
    return write_texts(folder, table.plan.stem, markdown(table), csv, latex(table))


def floor_page(table: FloorTable, error_picture: str, accuracy_picture: str) -> str:
    """A page of documentation: the command, what is measured, the pictures and the tables.

    Parameters
    ----------
    table
        All cells.
    error_picture, accuracy_picture
        Names of the files of the pictures.

    Returns
    -------
    str
    """
    lines = [
        *page_head(table.plan),
        *(f"- {escape_markdown(note)}" for note in _notes(table)),
        "",
        f"![The error of T as a multiple of the sampling floor]({error_picture})",
        "",
        f"![Test accuracy]({accuracy_picture})",
        "",
        markdown(table),
        *reasons("Unavailable", {row_label(row): row.lacking for row in table.rows if row.lacking}),
        *reasons("Failed", table.failures),
    ]
    return "\n".join(lines)


def _notes(table: FloorTable) -> list[str]:
    """Notes on how to read the numbers."""
    of_estimators = [ABOUT_ESTIMATORS] if any(row.is_estimator for row in table.rows) else []
    shown = {row.name for row in table.rows}
    of_rows = [note for name, note in table.plan.spec.notes.items() if name in shown]
    return [ABOUT_ERROR, *of_estimators, *of_rows, ABOUT_WRONG_LABELS, ABOUT_SECONDS, ABOUT_COLLAPSE]
