"""Tables as dot plots: a panel per noise, a line per row, a dot per cell with its standard deviation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trevision.plot import bare
from trevision.reproduce.cells import Cell, Table
from trevision.reproduce.floor_table import ANCHORS, Column, FloorTable, row_label
from trevision.reproduce.plans import Plan, Row
from trevision.runs.pictures import save_picture

BLUE, ORANGE, RED = "#1f6fb4", "#d9730d", "#b8303f"
PANELS_ABREAST = 3
ACCURACIES = (10, 50, 80, 90, 95, 98, 99, 99.5, 99.8)
"""The marks of an axis that is logarithmic in the error."""
LEAST_RATIO, LEAST_WRONG = 0.1, 0.05
"""Minimum of the logarithmic axes (multiples of the floor, percent wrong); smaller values are clipped."""

Dot = tuple[float, float]  # mean and standard deviation; nan if there is no number
NOWHERE = (math.nan, 0.0)


@dataclass(frozen=True)
class Dots:
    """The dots of one kind of number, one per row in each panel, and their style."""

    label: str
    colour: str
    offset: float
    panels: Mapping[str, Sequence[Dot]]
    filled: bool = True
    crossed: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    """Which of the dots are crossed out."""

    @property
    def means(self) -> list[float]:
        return [mean for dots in self.panels.values() for mean, _ in dots if math.isfinite(mean)]


def draw_table(path: Path, table: Table) -> None:
    """Ours and the paper's numbers side by side."""
    plan = table.plan
    what = "test accuracy (%)" if table.measure.name == "test_accuracy" else table.measure.title
    columns = {noise: [table.cells[row, noise] for row in plan.rows] for noise in plan.noises}
    measured = {noise: [_measured(cell) for cell in cells] for noise, cells in columns.items()}
    published = {noise: [_published(cell) for cell in cells] for noise, cells in columns.items()}
    theirs = Dots("paper", ORANGE, -0.14, published, filled=False)
    kinds = [Dots("ours", BLUE, 0.14, measured), *([theirs] if theirs.means else [])]
    most = max(cell.n for cell in table.cells.values())
    labels = [row.label for row in plan.rows]
    _draw(path, labels, kinds, what, _title(plan.spec.title, plan, most))


def draw_error_to_floor(path: Path, table: FloorTable) -> None:
    """The error of T as a multiple of its sampling floor, with and without anchor points."""
    rows = table.rows_of("error_to_floor")
    kinds = _by_anchors(table, "error_to_floor", rows, _at_least(LEAST_RATIO, _measured))
    means = [mean for kind in kinds for mean in kind.means]
    low, high = 0.8 * min([1.0, *means]), 1.3 * max([2.0, *means])

    # Not 0.2: the first mark is so wide that the two would overlap.
    marks = {LEAST_RATIO: f"\N{LESS-THAN OR EQUAL TO} {LEAST_RATIO:g}", 0.5: "0.5"}
    marks |= {m * 10.0**k: f"{m * 10.0**k:g}" for k in range(6) for m in (1, 2, 5)}

    def finish(axis: Any) -> None:
        _logarithmic(axis, low, high, marks)
        axis.axvline(1, color="#333333", linewidth=1)

    title = _title("Error of T as a multiple of the sampling floor", table.plan, table.most_runs)
    _draw(path, _labels(table, rows), kinds, "error of T / floor", title, finish)


def draw_accuracy(path: Path, table: FloorTable) -> None:
    """Test accuracy, with and without anchor points, on an axis that is logarithmic in the error."""
    rows = table.rows_of("test_accuracy")
    kinds = _by_anchors(table, "test_accuracy", rows, _at_least(LEAST_WRONG, _wrong_percent))
    errors = [mean for kind in kinds for mean in kind.means]
    low, high = 0.7 * min([5.0, *errors]), min(100.0, 1.3 * max([10.0, *errors]))

    def finish(axis: Any) -> None:
        _logarithmic(axis, low, high, {100 - accuracy: f"{accuracy:g}" for accuracy in ACCURACIES})
        axis.invert_xaxis()

    title = _title("Test accuracy, the axis logarithmic in the error", table.plan, table.most_runs)
    _draw(path, _labels(table, rows), kinds, "test accuracy (%)", title, finish)


def _by_anchors(
    table: FloorTable, measure: str, rows: Sequence[Row], dot_of: Callable[[Cell], Dot]
) -> list[Dots]:
    looks = {"A": (BLUE, -0.14, True), "N/A": (ORANGE, 0.14, False)}
    kinds = []
    for anchors in table.plan.anchors:
        columns = {
            noise: [table.cell(measure, row, Column(noise, anchors)) for row in rows]
            for noise in table.plan.noises
        }
        colour, offset, filled = looks[anchors]
        panels = {noise: [dot_of(cell) for cell in cells] for noise, cells in columns.items()}
        crossed = {noise: [bool(cell.collapsed) for cell in cells] for noise, cells in columns.items()}
        kinds.append(Dots(ANCHORS[anchors], colour, offset, panels, filled, crossed))
    return kinds


def _labels(table: FloorTable, rows: Sequence[Row]) -> list[str]:
    def lacks_all(row: Row) -> bool:
        cells = [table.cell("seconds", row, column) for column in table.columns]
        return bool(row.lacking) and not any(cell.n for cell in cells)

    return [f"{row_label(row)}: unavailable" if lacks_all(row) else row_label(row) for row in rows]


def _draw(
    path: Path,
    labels: Sequence[str],
    kinds: Sequence[Dots],
    xlabel: str,
    title: str,
    finish: Callable[[Any], None] = lambda axis: None,
) -> None:
    """Draw all panels; `finish` gives an axis its scale."""
    from matplotlib import pyplot as plt

    panels = list(kinds[0].panels)
    abreast = min(len(panels), PANELS_ABREAST)
    rows = math.ceil(len(panels) / abreast)
    size = (0.5 + 0.075 * max(map(len, labels)) + 3 * abreast, rows * (0.34 * len(labels) + 0.8) + 0.7)
    figure, axes = plt.subplots(rows, abreast, figsize=size, sharey=True, squeeze=False, layout="constrained")
    shown = [kind for kind in kinds if kind.means] or list(kinds[:1])
    for axis, panel in zip(axes.flat, panels, strict=False):
        for kind in shown:
            _draw_dots(axis, kind, panel)
        axis.set(title=panel, xlabel=xlabel)
        axis.set_yticks(range(len(labels)), labels)
        axis.set_ylim(len(labels) - 0.5, -0.5)
        axis.grid(axis="both", color="#eeeeee")
        axis.set_axisbelow(True)
        bare(axis)
        finish(axis)
        if not any(math.isfinite(mean) for kind in kinds for mean, _ in kind.panels[panel]):
            axis.text(0.5, 0.5, "no runs recorded", ha="center", va="center", transform=axis.transAxes)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(title, fontsize=10)
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save_picture(figure, path)


def _draw_dots(axis: Any, kind: Dots, panel: str) -> None:
    means, stds = np.array(kind.panels[panel]).T
    heights = np.arange(len(means)) + kind.offset
    look: dict[str, Any] = {"fmt": "o", "capsize": 2.5, "markersize": 5, "linewidth": 1.3}
    face = kind.colour if kind.filled else "white"
    axis.errorbar(means, heights, xerr=stds, color=kind.colour, mfc=face, label=kind.label, **look)
    crossed = np.array(kind.crossed.get(panel, np.zeros(len(means))), dtype=bool)
    if crossed.any():
        axis.plot(
            means[crossed], heights[crossed], "x", color=RED, markersize=10, mew=1.5, label="a run collapsed"
        )


def _logarithmic(axis: Any, low: float, high: float, marks: Mapping[float, str]) -> None:
    # If a deviation exceeds its mean, its bar is clipped at the left and does not vanish.
    axis.set_xscale("log", nonpositive="clip")
    axis.set_xlim(low, high)
    inside = {value: text for value, text in marks.items() if low <= value <= high}
    axis.set_xticks(list(inside), list(inside.values()))
    axis.set_xticks([], minor=True)


def _title(what: str, plan: Plan, most: int) -> str:
    how = ", ".join([Path(plan.dataset).name, plan.schedule, *plan.departures])
    return f"{what}: {how} (mean, standard deviation, n up to {most})"


def _measured(cell: Cell) -> Dot:
    return NOWHERE if cell.mean is None else (cell.mean, cell.std or 0.0)


def _wrong_percent(cell: Cell) -> Dot:
    return NOWHERE if cell.mean is None else (100 - cell.mean, cell.std or 0.0)


def _at_least(least: float, dot_of: Callable[[Cell], Dot]) -> Callable[[Cell], Dot]:
    """The same dots, moved up to `least` if below it; a missing dot stays missing."""

    def dot(cell: Cell) -> Dot:
        mean, std = dot_of(cell)
        return float(np.maximum(mean, least)), std

    return dot


def _published(cell: Cell) -> Dot:
    if cell.published is None:
        return NOWHERE
    mean, std = cell.published
    return mean, std or 0.0
