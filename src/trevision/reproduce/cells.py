"""Cells of a table, computed from recorded configs and results only."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from trevision.methods.options import Options
from trevision.reproduce.outcomes import Outcome, outcome
from trevision.reproduce.plans import Plan, Row, planned_runs

COLLAPSED_BELOW = 0.5
"""The test accuracy below which a run counts as collapsed."""

Result = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A number in a run's result, and how it is printed. `of` returns None if a result has no such number."""

    name: str
    title: str
    of: Callable[[Result], float | None]
    digits: int


def _accuracy(result: Result) -> float | None:
    share = result.get("test_accuracy")
    return None if share is None else 100 * share


def _transition_error(result: Result) -> float | None:
    """Methods without T report no T error."""
    return result.get("transition_error") if result.get("uses_transition", True) else None


def _error_to_floor(result: Result) -> float | None:
    error, floor = _transition_error(result), result.get("transition_floor")
    return None if error is None or not floor else error / floor


MEASURES = {
    measure.name: measure
    for measure in (
        Measure("test_accuracy", "test accuracy in percent", _accuracy, 2),
        Measure("transition_error", "|T - T-hat| / |T| at the selected epoch", _transition_error, 4),
        Measure("transition_floor", "sampling floor of T", lambda result: result.get("transition_floor"), 4),
        Measure("error_to_floor", "error of T / sampling floor", _error_to_floor, 2),
        Measure("wrong_label_auc", "wrong-label AUC", lambda result: result.get("wrong_label_auc"), 4),
        Measure("seconds", "seconds", lambda result: result["seconds"], 0),
    )
}


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    values : tuple of float
        The numbers of its finished runs.
    published : tuple of float, or None
        The published mean and standard deviation.
    failed, missing : tuple of int
        Seeds of failed and of missing runs.
    collapsed : tuple of int
        Seeds of finished runs whose classifier or T is useless.
    older : tuple of int
        Seeds of finished runs made by older code.
    unavailable : str
        Why this version cannot do the runs; empty if it can.
    seconds : float
        The total time of its runs.
    """

    values: tuple[float, ...]
    published: tuple[float, float | None] | None = None
    failed: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    collapsed: tuple[int, ...] = ()
    older: tuple[int, ...] = ()
    unavailable: str = ""
    seconds: float = 0.0

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation of the sample (ddof=1); None for a single run."""
        return float(np.std(self.values, ddof=1)) if self.n > 1 else None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.published is None else self.mean - self.published[0]


@dataclass(frozen=True)
class Table:
    """A plan with its cells for one measure."""

    plan: Plan
    measure: Measure
    cells: dict[tuple[Row, str], Cell]
    failures: dict[str, str]
    """Why runs failed, by their label."""
    older: dict[str, int]
    """The numerics of the runs made by older code, by name of the run."""

    @property
    def runs(self) -> int:
        return sum(cell.n for cell in self.cells.values())


def tabulate(plan: Plan, results: Path) -> Table:
    """The table of a plan in its first measure, from the runs in the folder `results`."""
    return tabulate_each(plan, results)[plan.spec.measures[0]]


def tabulate_each(plan: Plan, results: Path) -> dict[str, Table]:
    """A table of the plan for each of its measures, by their names."""
    runs = [(run, outcome(run, results)) for run in planned_runs(plan)]
    by_cell: dict[tuple[Row, str], list[tuple[int, Outcome]]] = {
        (row, noise): [] for row in plan.rows for noise in plan.noises
    }
    for run, how in runs:
        by_cell[run.row, run.noise].append((run.settings.seed, how))
    failures = {
        run.label if how.state == "failed" else f"{run.row.name}, {run.label}": how.reason
        for run, how in runs
        if how.has_failed
    }
    older = {run.name: how.numerics for run, how in runs if how.is_older}

    def table(measure: Measure) -> Table:
        cells = {key: _cell(plan, *key, measure, of_cell) for key, of_cell in by_cell.items()}
        return Table(plan, measure, cells, failures, older)

    return {name: table(MEASURES[name]) for name in plan.spec.measures}


def _cell(plan: Plan, row: Row, noise: str, measure: Measure, runs: list[tuple[int, Outcome]]) -> Cell:
    done = [how.result for _, how in runs if how.state == "finished"]
    states = {seed: how.state for seed, how in runs}
    return Cell(
        values=tuple(value for result in done if (value := measure.of(result)) is not None),
        published=_published(plan, row, noise, measure),
        failed=tuple(seed for seed, how in runs if how.has_failed),
        missing=tuple(seed for seed, state in states.items() if state in ("missing", "unavailable")),
        collapsed=tuple(seed for seed, how in runs if _collapsed(plan, how)),
        older=tuple(seed for seed, how in runs if how.is_older),
        unavailable=row.lacking if "unavailable" in states.values() else "",
        seconds=sum(result["seconds"] for result in done),
    )


def _collapsed(plan: Plan, how: Outcome) -> bool:
    """Whether a run is useless: test accuracy below 50 %, or a T that is not finite.

    Only for tables that measure T against its floor: on CIFAR-100, 50 % would be a success.
    """
    result = how.result
    if how.state != "finished" or how.reason or "transition_floor" not in plan.spec.measures:
        return False
    accuracy = result.get("test_accuracy")
    known = result.get("transition_floor") is not None and result.get("uses_transition", True)
    lost = known and result.get("transition_error") is None
    return lost or (accuracy is not None and accuracy < COLLAPSED_BELOW)


def _published(plan: Plan, row: Row, noise: str, measure: Measure) -> tuple[float, float | None] | None:
    if measure.name != "test_accuracy" or row.options != Options() or plan.departures:
        return None
    return published().get((plan.dataset, noise, row.method, row.anchors))


@cache
def published() -> dict[tuple[str, str, str, str], tuple[float, float | None]]:
    """Accuracy (%), mean and standard deviation, by data set, noise, method and anchors."""
    text = files("trevision.reproduce").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["dataset"], line["noise"], line["method"], line["anchors"]): (
            float(line["mean"]),
            float(line["std"]) if line["std"] else None,
        )
        for line in csv.DictReader(text.splitlines())
    }
