"""Tables and figures as `trevision reproduce` shows them: on the terminal, in files, pages and pictures."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from trevision.cli.terminal import table as terminal_table
from trevision.reproduce import floor, rendering
from trevision.reproduce.cells import Table, tabulate
from trevision.reproduce.dot_plots import draw_accuracy, draw_error_to_floor, draw_table
from trevision.reproduce.plans import Plan
from trevision.reproduce.plots import (
    EXAMPLE_MISTAKEN,
    EXAMPLE_TRUE,
    draw_revision,
    draw_worked_example,
    inferred,
    revision_curves,
    write_curves,
)


def show(plan: Plan, results: Path, docs: Path | None, console: Console) -> dict[str, str]:
    """Show a plan from the runs in `results` and write it to its folder tables; return what failed, and why.

    With `docs`, also write a page of documentation with its pictures there.
    """
    files = results / "tables"
    if "transition_floor" in plan.spec.measures:
        paths, failures = _show_floor(plan, results, files, docs, console)
    else:
        paths, failures = _show_table(plan, results, files, docs, console)
    console.print("Written: " + ", ".join(map(str, paths)), soft_wrap=True)
    return failures


def _show_table(
    plan: Plan, results: Path, files: Path, docs: Path | None, console: Console
) -> tuple[list[Path], dict[str, str]]:
    table = tabulate(plan, results)
    shown = terminal_table(*rendering.wide(table), title=rendering.title(table))
    # Measured as on an endless line: what is asked for its width within the console's never exceeds it.
    if console.measure(shown, options=console.options.update(max_width=10_000)).maximum > console.width:
        shown = terminal_table(*rendering.long(table), title=rendering.title(table))
    console.print(shown)
    paths = [*rendering.write_table(table, files), _draw(table, results, files)]
    if docs is not None:
        picture = _draw(table, results, docs)
        paths.append(docs / f"{plan.stem}.md")
        rendering.write_text(paths[-1], rendering.docs_page(table, picture.name))
    return paths, table.failures


def _draw(table: Table, results: Path, folder: Path) -> Path:
    plan = table.plan
    path = folder / f"{plan.stem}.svg"
    if table.measure.name == "test_accuracy":
        draw_table(path, table)
    else:
        curves = revision_curves(plan, results)
        draw_revision(path, plan, curves)
        write_curves(folder / f"{plan.stem}-epochs.csv", curves)
    return path


def _show_floor(
    plan: Plan, results: Path, files: Path, docs: Path | None, console: Console
) -> tuple[list[Path], dict[str, str]]:
    table = floor.tabulate_floor(plan, results)
    console.print(floor.title(table), soft_wrap=True)
    for column in table.columns:
        title = floor.column_title(table, column)
        console.print(terminal_table(*floor.by_column(table, column), title=title))
    paths = [*floor.write_floor(table, files), *_draw_floor(table, files)]
    if docs is not None:
        pictures = _draw_floor(table, docs)
        paths.append(docs / f"{plan.stem}.md")
        rendering.write_text(paths[-1], floor.floor_page(table, *(path.name for path in pictures)))
    return paths, table.failures


def _draw_floor(table: floor.FloorTable, folder: Path) -> tuple[Path, Path]:
    stem = table.plan.stem
    error, accuracy = folder / f"{stem}.svg", folder / f"{stem}-accuracy.svg"
    draw_error_to_floor(error, table)
    draw_accuracy(accuracy, table)
    return error, accuracy


def show_figure1(folder: Path, console: Console) -> None:
    """Figure 1 of the paper: its numbers on the terminal, its picture in `folder`."""
    path = folder / "figure1.svg"
    draw_worked_example(path)
    rows = []
    for name, matrix in (("true T", EXAMPLE_TRUE), ("mistaken T", EXAMPLE_MISTAKEN)):
        posterior = inferred(matrix)
        rows.append((name, *(f"{p:.4f}" for p in posterior), str(posterior.argmax() + 1)))
    header = ["inferred with", *(f"P(clean = {k})" for k in range(1, 6)), "class"]
    console.print(terminal_table(header, rows, "figure1: two matrices, one noisy posterior, two decisions"))
    console.print(f"Written: {path}", soft_wrap=True)
