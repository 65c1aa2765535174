"""Plans: a table for one data set, with some of its rows and columns, and the runs that fill it.

Rows are methods, or estimators of T alone, with or without anchor points ("A", "N/A"); columns are noises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from trevision.data.files.reading import Reading
from trevision.data.sources import SOURCES
from trevision.files import did_you_mean
from trevision.methods.options import Options
from trevision.methods.registry import METHODS, check_options, check_schedule
from trevision.reproduce.estimators import ESTIMATORS, estimator_names, lacking
from trevision.reproduce.sharing import run_name
from trevision.reproduce.spec import REAL, Anchors, Spec
from trevision.reproduce.tables import find_spec
from trevision.runs.prepare import network_for, papers_network
from trevision.runs.settings import Settings

PRETRAINED = "clothing1m"
"""In the paper, the network for this data set starts from ImageNet weights."""

REMOVED = {"cifar10": 0.2, "cifar100": 0.2}
REMOVED_ELSEWHERE = 0.4
"""The share of each class that is removed for "N/A"; in the paper, 20 % of CIFAR and 40 % of MNIST."""


@dataclass(frozen=True)
class Row:
    """One row of a table: a method with its options, with or without anchor points.

    Its schedule is the plan's, unless the row names another.
    A row for an estimator alone has the estimator's name; its method is the comparison of all estimators.
    """

    name: str
    method: str
    anchors: Anchors
    options: Options = field(default_factory=Options)
    schedule: str | None = None

    @property
    def label(self) -> str:
        return f"{self.name}-{self.anchors}"

    @property
    def is_estimator(self) -> bool:
        return self.method == ESTIMATORS

    @property
    def lacking(self) -> str:
        """Why this version cannot fill the row; empty if it can."""
        if self.is_estimator:
            return lacking(self.name)
        if self.method not in METHODS:
            return f"there is no method {self.method} in this version"
        try:
            check_options(self.options, self.method)
        except ValueError as error:
            return str(error)
        return ""


@dataclass(frozen=True)
class Plan:
    """A table for one data set, with some of its rows and columns."""

    spec: Spec
    dataset: str
    rows: tuple[Row, ...]
    noises: tuple[str, ...]
    schedule: str
    seeds: int = 3
    seeds_without_anchors: int = 3
    network: str | None = None
    train_size: int | None = None
    pretrained: str | None = None
    trusted: bool = False

    @property
    def record_name(self) -> str:
        """The name of the files in which its runs are recorded: table, data set, schedule and so on."""
        parts = [self.spec.name, Path(self.dataset).stem, self.schedule, self.network]
        parts.append(None if self.train_size is None else f"n{self.train_size}")
        parts.append(None if self.pretrained is None else Path(self.pretrained).stem)
        parts.append("trusted" if self.trusted else None)
        return "-".join(part for part in parts if part)

    @property
    def stem(self) -> str:
        """The name of the files that show it. A part of a table gets another name than the whole table."""
        names = tuple(dict.fromkeys(row.name for row in self.rows))
        is_whole = names == self.spec.row_names and self.noises == self.spec.noises
        return self.record_name if is_whole else f"{self.record_name}-part"

    @property
    def departures(self) -> list[str]:
        """How data and network differ from the paper's. If they do, published numbers are not shown."""
        departures = [] if self.train_size is None else [f"{self.train_size} training rows"]
        departures += [] if self.network is None else [f"network {self.network}"]
        if self.dataset == PRETRAINED:
            departures += ["no pretrained weights"] if self.pretrained is None else []
        else:
            departures += [] if self.pretrained is None else ["pretrained weights"]
        return departures

    @property
    def smaller_network(self) -> str:
        """The network that a CPU gets in place of the paper's; empty if there is none."""
        if self.network is not None or self.dataset not in SOURCES:
            return ""
        how = Settings(schedule=self.schedule, pretrained=self.pretrained)
        shape = SOURCES[self.dataset].shape
        name = network_for(self.dataset, how, shape, "cpu")
        return "" if name == papers_network(self.dataset, shape) else name

    @property
    def anchors(self) -> tuple[Anchors, ...]:
        """Whether its rows are with anchor points, without, or both."""
        return tuple(dict.fromkeys(row.anchors for row in self.rows))

    def seeds_of(self, row: Row) -> range:
        return range(self.seeds if row.anchors == "A" else self.seeds_without_anchors)


@dataclass(frozen=True)
class Planned:
    """One run of a plan."""

    row: Row
    noise: str
    source: str
    settings: Settings
    table: str
    """The name of the files in which it is recorded."""

    @property
    def name(self) -> str:
        return run_name(self.source, self.settings)

    @property
    def label(self) -> str:
        what = f"{ESTIMATORS}-{self.row.anchors}" if self.row.is_estimator else self.row.label
        return f"{what} on {self.source}, {self.noise}, seed {self.settings.seed}"

    @property
    def is_available(self) -> bool:
        return not self.row.lacking


def make_plan(
    name: str,
    dataset: str,
    methods: Sequence[str] = (),
    noises: Sequence[str] = (),
    schedule: str | None = None,
    seeds: int = 3,
    seeds_without_anchors: int | None = None,
    **how: Any,
) -> Plan:
    """The plan of a table for a data set.

    Parameters
    ----------
    name
        The table's name in `tables.SPECS`.
    dataset
        A named data set or a file.
    methods, noises
        Rows and columns; all of the table's if none are given.
    schedule
        The table's own if not given.
    seeds
        Runs per cell.
    seeds_without_anchors
        Runs per cell without anchor points; the table's own number if not given, none if 0.
    how
        Network, train_size, pretrained and trusted, as in `Plan`.

    Returns
    -------
    Plan
    """
    spec = find_spec(name)
    if not spec.row_names:
        raise ValueError(f"{name} needs no runs, so there is nothing to plan")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    if seeds_without_anchors is None:
        seeds_without_anchors = spec.seeds_of_rest(seeds)
    elif "N/A" not in spec.anchors:
        raise ValueError(
            f"seeds_without_anchors is for tables with such rows, and {name} has none; leave it out"
        )
    least = 0 if "A" in spec.anchors else 1
    if seeds_without_anchors < least:
        raise ValueError(f"seeds_without_anchors must be at least {least}, got {seeds_without_anchors}")
    kept = [anchors for anchors in spec.anchors if anchors == "A" or seeds_without_anchors]
    schedule = schedule or spec.schedule
    rows = tuple(
        read_row(text, anchors, spec) for anchors in kept for text in dict.fromkeys(methods or spec.row_names)
    )
    for row in rows:
        check_schedule(row.schedule or schedule, row.method, dataset)
    return Plan(
        spec=spec,
        dataset=dataset,
        rows=rows,
        noises=tuple(dict.fromkeys(noises)) or spec.noises,
        schedule=schedule,
        seeds=seeds,
        seeds_without_anchors=seeds_without_anchors,
        **how,
    )


def read_row(text: str, anchors: Anchors, spec: Spec) -> Row:
    """A row by its method, or by a method and options: `reweight-r:revision=frozen,lr-revision=1e-4`.

    A row may also have a schedule of its own: `volminnet:schedule=released`.

    Parameters
    ----------
    text
        The row's name. A row of the table may be missing in this version; any other must exist.
    anchors
        With anchor points ("A") or without.
    spec
        The table.

    Returns
    -------
    Row
    """
    if spec.estimators and text in estimator_names():
        return Row(text, ESTIMATORS, anchors)
    method, _, choices = text.partition(":")
    if method not in (*METHODS, *spec.methods):
        estimators = estimator_names() if spec.estimators else ()
        names = tuple(dict.fromkeys((*METHODS, *estimators, *spec.row_names)))
        hint = did_you_mean(method, names)
        raise ValueError(f"methods must be among {', '.join(names)}, got {text!r}{hint}")
    options, schedule = Options(), None
    known = [option.name for option in fields(Options)]
    for choice in filter(None, choices.split(",")):
        key, _, value = choice.partition("=")
        key = key.strip().replace("-", "_")
        if key == "schedule":
            schedule = value
            continue
        if key not in known:
            choosable = ", ".join(("schedule", *known))
            raise ValueError(f"methods: {text!r} must choose among {choosable}, got {key!r}")
        options = replace(options, **{key: _value(value)})
    if text not in spec.methods:
        check_options(options, method)
    return Row(text, method, anchors, options, schedule)


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def planned_runs(plan: Plan) -> list[Planned]:
    """The runs of a plan, seed by seed, so that an early stop still leaves a whole table."""
    runs = []
    for seed in range(max(plan.seeds, plan.seeds_without_anchors)):
        for noise in plan.noises:
            for row in plan.rows:
                if seed not in plan.seeds_of(row):
                    continue
                removed = REMOVED.get(plan.dataset, REMOVED_ELSEWHERE) if row.anchors == "N/A" else None
                human = plan.dataset in SOURCES and noise in SOURCES[plan.dataset].noise_sets
                settings = Settings(
                    noise=None if noise == REAL or human else noise,
                    reading=Reading(noise_set=noise if human else None),
                    method=row.method,
                    schedule=row.schedule or plan.schedule,
                    seed=seed,
                    network=plan.network,
                    train_size=plan.train_size,
                    remove_anchors=removed,
                    pretrained=plan.pretrained,
                    trusted=plan.trusted,
                    options=row.options,
                )
                runs.append(Planned(row, noise, plan.dataset, settings, plan.record_name))
    return runs
