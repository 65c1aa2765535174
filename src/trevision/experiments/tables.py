"""The paper's tables and figures as data, and finished runs as tables.

A table is a pure function of the config.json and result.json in run folders: rows are methods with or without
anchor points ("A", "N/A"), columns are noises, and every cell has ours beside the published number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trevision.experiments.run import Settings, canonical, run_config
from trevision.experiments.sharing import run_name
from trevision.methods import METHODS, Options, find_method

Anchors = Literal["A", "N/A"]
REAL = "real"  # the noise that data come with

BASELINES = ("decoupling", "mentornet", "co-teaching")
CONSISTENT = ("forward", "reweight", "forward-r", "reweight-r")
ALL = (*BASELINES, *CONSISTENT)

PRETRAINED = "clothing1m"
"""The data set whose network starts from ImageNet's weights in the paper."""

REMOVED = {"cifar10": 0.2, "cifar100": 0.2}
REMOVED_ELSEWHERE = 0.4
"""The share of each class that the "N/A" data lack: 20 % of CIFAR, 40 % of MNIST, in the paper."""


@dataclass(frozen=True)
class Spec:
    """One table or figure of the paper."""

    name: str
    title: str
    datasets: tuple[str, ...]
    noises: tuple[str, ...]
    methods: tuple[str, ...]
    anchors: tuple[Anchors, ...]
    measure: Literal["test_accuracy", "transition_error"] = "test_accuracy"


IMAGES = ("mnist", "cifar10", "cifar100")
SPECS = {
    spec.name: spec
    for spec in (
        Spec("table1", "Accuracy with anchor points", IMAGES, ("sym-20", "sym-50"), ALL, ("A",)),
        Spec("table2", "Accuracy without anchor points", IMAGES, ("sym-20", "sym-50"), ALL, ("N/A",)),
        Spec(
            "table3",
            "Accuracy with more noise",
            ("mnist",),
            ("sym-60", "sym-70", "sym-80"),
            ("forward", "forward-r", "reweight", "reweight-r"),
            ("A", "N/A"),
        ),
        Spec("table4", "Accuracy on real noise", ("clothing1m",), (REAL,), ALL, ("A",)),
        Spec(
            "figure3",
            "Error of T by epoch of the revision",
            IMAGES,
            ("sym-20", "sym-50"),
            ("forward-r", "reweight-r"),
            ("A", "N/A"),
            "transition_error",
        ),
    )
}


@dataclass(frozen=True)
class Row:
    """One row of a table: a method, the choices it is run with, and whether anchor points are left in."""

    name: str
    method: str
    anchors: Anchors
    options: Options = field(default_factory=Options)

    @property
    def label(self) -> str:
        return f"{self.name}-{self.anchors}"


@dataclass(frozen=True)
class Plan:
    """What is asked for: a table, for one data set, with some of its rows and columns."""

    spec: Spec
    dataset: str
    rows: tuple[Row, ...]
    noises: tuple[str, ...]
    seeds: int = 3
    schedule: str = "quick"
    network: str | None = None
    train_size: int | None = None
    weights: str | None = None
    trusted: bool = False

    @property
    def stem(self) -> str:
        """The name of the plan's files: what, on what, how."""
        parts = [self.spec.name, Path(self.dataset).stem, self.schedule, self.network]
        parts.append(None if self.train_size is None else f"n{self.train_size}")
        parts.append(None if self.weights is None else Path(self.weights).stem)
        parts.append("trusted" if self.trusted else None)
        return "-".join(part for part in parts if part)

    @property
    def departures(self) -> list[str]:
        """How data and network are not the paper's; if there is anything, its numbers are not shown."""
        found = [] if self.train_size is None else [f"{self.train_size} training rows"]
        found += [] if self.network is None else [f"network {self.network}"]
        if self.dataset == PRETRAINED:
            found += ["no pretrained weights"] if self.weights is None else []
        else:
            found += [] if self.weights is None else ["pretrained weights"]
        return found


@dataclass(frozen=True)
class Planned:
    """One run of a plan."""

    row: Row
    noise: str
    source: str
    settings: Settings

    @property
    def name(self) -> str:
        return run_name(self.source, self.settings)

    @property
    def label(self) -> str:
        return f"{self.row.label} on {self.source}, {self.noise}, seed {self.settings.seed}"

    @property
    def is_available(self) -> bool:
        return self.row.method in METHODS


def make_plan(
    name: str, dataset: str, methods: Sequence[str] = (), noises: Sequence[str] = (), **how: Any
) -> Plan:
    """The plan of a table for a data set, narrowed to some methods and noises where they are given."""
    if name not in SPECS:
        raise ValueError(f"the table must be one of {', '.join(SPECS)}, got {name!r}")
    spec = SPECS[name]
    rows = tuple(read_row(one, anchors) for anchors in spec.anchors for one in methods or spec.methods)
    plan = Plan(spec, dataset, rows, tuple(noises) or spec.noises, **how)
    if plan.seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {plan.seeds}")
    return plan


def read_row(text: str, anchors: Anchors) -> Row:
    """A row by its method, or by a method and choices: `reweight-r:revision=frozen,lr-revision=1e-4`."""
    method, _, choices = text.partition(":")
    if method not in ALL:
        find_method(method)  # one of the paper's may be missing here; any other must exist
    options = Options()
    known = [one.name for one in fields(Options)]
    for choice in filter(None, choices.split(",")):
        key, _, value = choice.partition("=")
        key = key.strip().replace("-", "_")
        if key not in known:
            raise ValueError(f"methods: {text!r} must choose among {', '.join(known)}, got {key!r}")
        options = replace(options, **{key: _value(value)})
    options.check(method)
    return Row(text, method, anchors, options)


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def planned_runs(plan: Plan) -> list[Planned]:
    """The runs of a plan, whole tables of one seed first, so that an early stop still leaves a table."""
    runs = []
    for seed in range(plan.seeds):
        for noise in plan.noises:
            for row in plan.rows:
                removed = REMOVED.get(plan.dataset, REMOVED_ELSEWHERE) if row.anchors == "N/A" else None
                settings = Settings(
                    noise=None if noise == REAL else noise,
                    method=row.method,
                    schedule=plan.schedule,
                    seed=seed,
                    network=plan.network,
                    train_size=plan.train_size,
                    remove_anchors=removed,
                    weights=plan.weights,
                    trusted=plan.trusted,
                    options=row.options,
                )
                runs.append(Planned(row, noise, plan.dataset, settings))
    return runs


@dataclass(frozen=True)
class Outcome:
    """How a run stands: its result, or why there is none."""

    state: Literal["finished", "failed", "missing", "unavailable"]
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def outcome(run: Planned, results: Path) -> Outcome:
    """What the run's folder says; a folder that holds another config is an error."""
    folder = results / run.name
    found = _read_json(folder / "config.json")
    if found is not None and canonical(found) != canonical(run_config(run.source, run.settings)):
        raise ValueError(f"{folder} must hold the run its name stands for, but its config.json is another's")
    result, error = _read_json(folder / "result.json"), _read_json(folder / "error.json")
    if result is not None:
        return Outcome("finished", result)
    if not run.is_available:
        return Outcome("unavailable", reason=f"there is no method {run.row.method} in this version")
    if error is not None:
        return Outcome("failed", reason=f"{error.get('error', 'Error')}: {error.get('reason', '')}")
    return Outcome("missing")


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be a JSON file, but is not ({error}); remove it") from None


@dataclass(frozen=True)
class Cell:
    """One cell: what was measured, what is published, and which runs are lacking.

    Accuracies are in percent, as the paper prints them.
    """

    values: tuple[float, ...]
    published: tuple[float, float | None] | None = None
    failed: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    seconds: float = 0.0

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation of the sample (ddof=1); one run has none."""
        return float(np.std(self.values, ddof=1)) if self.n > 1 else None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.published is None else self.mean - self.published[0]


@dataclass(frozen=True)
class Table:
    """A plan with its cells, and what went wrong, by run."""

    plan: Plan
    cells: dict[tuple[Row, str], Cell]
    failures: dict[str, str]

    @property
    def runs(self) -> int:
        return sum(cell.n for cell in self.cells.values())


def tabulate(plan: Plan, results: Path) -> Table:
    """The table of a plan from the runs in the folder `results`, finished or not."""
    runs = planned_runs(plan)
    outcomes = {run.name: outcome(run, results) for run in runs}
    cells = {}
    for row in plan.rows:
        for noise in plan.noises:
            mine = [run for run in runs if (run.row, run.noise) == (row, noise)]
            done = [outcomes[run.name].result for run in mine if outcomes[run.name].state == "finished"]
            cells[row, noise] = Cell(
                values=tuple(v for one in done if (v := _measured(plan.spec, one)) is not None),
                published=_published(plan, row, noise),
                failed=tuple(run.settings.seed for run in mine if outcomes[run.name].state == "failed"),
                missing=tuple(
                    run.settings.seed
                    for run in mine
                    if outcomes[run.name].state in ("missing", "unavailable")
                ),
                seconds=sum(one["seconds"] for one in done),
            )
    failures = {run.label: outcomes[run.name].reason for run in runs if outcomes[run.name].state == "failed"}
    return Table(plan, cells, failures)


def _measured(spec: Spec, result: dict[str, Any]) -> float | None:
    value = result[spec.measure]
    if value is None:
        return None
    return 100 * value if spec.measure == "test_accuracy" else value


def _published(plan: Plan, row: Row, noise: str) -> tuple[float, float | None] | None:
    if plan.spec.measure != "test_accuracy" or row.options != Options() or plan.departures:
        return None
    return published().get((plan.dataset, noise, row.method, row.anchors))


@cache
def published() -> dict[tuple[str, str, str, str], tuple[float, float | None]]:
    """Accuracy (%), mean and standard deviation, by data set, noise, method and anchors."""
    text = files("trevision.experiments").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (one["dataset"], one["noise"], one["method"], one["anchors"]): (
            float(one["mean"]),
            float(one["std"]) if one["std"] else None,
        )
        for one in csv.DictReader(text.splitlines())
    }
