"""Show tables and figures for `trevision reproduce`: on the terminal, in files, pages and pictures."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from trevision.cli.terminal import table as terminal_table
from trevision.reproduce import floor_table, rendering
from trevision.reproduce.cells import Table, tabulate
from trevision.reproduce.curves import draw_curves, error_curves, write_curves
from trevision.reproduce.dot_plots import draw_accuracy, draw_error_to_floor, draw_table
from trevision.reproduce.plans import Plan
from trevision.reproduce.spec import Spec


def show(plan: Plan, results: Path, docs: Path | None, console: Console) -> dict[str, str]:
    """Show a plan from recorded runs, and write it to files.

    Parameters
    ----------
    plan
        What to show.
    results
        The folder of results; files go to its folder tables.
    docs
        A folder for a page of documentation with its pictures; none is written if None.
    console
        Where it is printed.

    Returns
    -------
    dict of str to str
        Why runs failed, by their label.
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
    # Measured without the console's limit: a width measured within the limit could never exceed it.
    if console.measure(shown, options=console.options.update(max_width=10_000)).maximum > console.width:
        shown = terminal_table(*rendering.long(table), title=rendering.title(table))
    console.print(shown)
    _print_note(table.older, console)
    paths = [*rendering.write_table(table, files), _draw(table, results, files)]
    if docs is not None:
        picture = _draw(table, results, docs)
        paths.append(docs / f"{plan.stem}.md")
        rendering.write_text(paths[-1], rendering.docs_page(table, picture.name))
    return paths, table.failures


def _draw(table: Table, results: Path, folder: Path) -> Path:
    plan = table.plan
    path = folder / f"{plan.stem}.svg"
    if plan.spec.curves_of:
        curves = error_curves(plan, results)
        draw_curves(path, plan, curves)
        write_curves(folder / f"{plan.stem}-epochs.csv", curves)
    else:
        draw_table(path, table)
    return path


def _print_note(older: dict[str, int], console: Console) -> None:
    if note := rendering.older_note(older):
        console.print(note, soft_wrap=True)


def _show_floor(
    plan: Plan, results: Path, files: Path, docs: Path | None, console: Console
) -> tuple[list[Path], dict[str, str]]:
    table = floor_table.tabulate_floor(plan, results)
    console.print(floor_table.title(table), soft_wrap=True)
    for column in table.columns:
        title = floor_table.column_title(table, column)
        console.print(terminal_table(*floor_table.by_column(table, column), title=title))
    _print_note(table.older, console)
    paths = [*floor_table.write_floor(table, files), *_draw_floor(table, files)]
    if docs is not None:
        pictures = _draw_floor(table, docs)
        paths.append(docs / f"{plan.stem}.md")
        rendering.write_text(paths[-1], floor_table.floor_page(table, *(path.name for path in pictures)))
    return paths, table.failures


def _draw_floor(table: floor_table.FloorTable, folder: Path) -> tuple[Path, Path]:
    stem = table.plan.stem
    error, accuracy = folder / f"{stem}.svg", folder / f"{stem}-accuracy.svg"
    draw_error_to_floor(error, table)
    draw_accuracy(accuracy, table)
    return error, accuracy


def show_picture(spec: Spec, folder: Path, console: Console) -> None:
    """A figure that needs no runs: its numbers on the terminal, its picture in `folder`.

    Parameters
    ----------
    spec
        The figure.
    folder
        Where the picture is written.
    console
        Where the numbers are printed.
    """
    assert spec.draw is not None
    path = folder / f"{spec.name}.svg"
    title, grid = spec.draw(path)
    console.print(terminal_table(*grid, title))
    console.print(f"Written: {path}", soft_wrap=True)
