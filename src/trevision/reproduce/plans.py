"""The tables and figures as data: the paper's, and one beyond it, each with the runs that fill it.

Rows are methods, or estimators of T alone, with or without anchor points ("A", "N/A"); columns are noises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from trevision.files import did_you_mean, read_json
from trevision.methods.options import Options
from trevision.methods.registry import METHODS, check_options
from trevision.reproduce.estimators import ESTIMATORS, estimator_names, lacking
from trevision.reproduce.sharing import run_name
from trevision.runs.named_files import check_unchanged
from trevision.runs.settings import Settings, canonical, run_config

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
    """One table or figure."""

    name: str
    title: str
    datasets: tuple[str, ...]
    noises: tuple[str, ...]
    methods: tuple[str, ...]
    anchors: tuple[Anchors, ...]
    measures: tuple[str, ...] = ("test_accuracy",)
    """What the cells are of: names in `cells.MEASURES`."""
    estimators: tuple[str, ...] = ()
    """Rows that are an estimator of T alone, without a classifier."""
    schedule: str = "quick"
    """The schedule of its runs, unless another is asked for."""
    seeds_without_anchors: int | None = None
    """The most runs of a cell without anchor points, unless others are asked for; None: as with them."""

    @property
    def row_names(self) -> tuple[str, ...]:
        return (*self.estimators, *self.methods)

    def seeds_of_rest(self, seeds: int) -> int:
        """The runs of each cell without anchor points, where those with them have `seeds`."""
        return min(seeds, self.seeds_without_anchors or seeds)


OF_TRANSITION = (
    *("transition_error", "transition_floor", "error_to_floor"),
    *("test_accuracy", "wrong_label_auc", "seconds"),
)
"""What tables beyond the paper measure: T beside its sampling floor, and what it is good for."""

ON_REQUEST = ("latent-unpooled",)
"""Estimators that are rows of a table only where they are named."""

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
            ("transition_error",),
        ),
        Spec(
            "floor",
            "How near T comes to the sampling floor",
            ("mnist",),
            ("sym-20", "sym-50", "sym-80", "pair-20", "pair-45"),
            (
                *("standard", "sce", "forward:estimator=latent", "reweight-r"),
                *("volminnet", "tv", "recursive"),
            ),
            ("A", "N/A"),
            OF_TRANSITION,
            estimators=tuple(name for name in estimator_names() if name not in ON_REQUEST),
            schedule="strong",
            seeds_without_anchors=1,
        ),
        Spec(
            "revisions",
            "What a revision gains, by how Delta T may move",
            ("mnist",),
            ("sym-50", "pair-45"),
            (
                *("reweight", "reweight-r", "reweight-r:lr-transition=0.01", "reweight-r:revision=frozen"),
                *("reweight-r:revision=slack", "reweight-r:revision=slack,revision-loss=released"),
                *("forward", "forward-r", "forward-r:lr-transition=0.01", "forward-r:revision=frozen"),
            ),
            ("A",),
            OF_TRANSITION,
        ),
        Spec(
            "priors",
            "What knowing something of T gains where it is true, and costs where it is false",
            ("mnist",),
            ("pair-45", "sym-50"),
            (
                *("reweight-r", "reweight-r:prior=sparse=0.1", "reweight-r:prior=support=pair-45"),
                *("reweight-r:prior=known=pair-45", "reweight-r:prior=dominant"),
                "reweight-r:prior=symmetric",
            ),
            ("A",),
            OF_TRANSITION,
        ),
    )
}


@dataclass(frozen=True)
class Row:
    """One row of a table: a method, the choices it is run with, and whether anchor points are left in.

    The method of a row that is an estimator alone, by its name, is the comparison of all of them.
    """

    name: str
    method: str
    anchors: Anchors
    options: Options = field(default_factory=Options)

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
    """What is asked for: a table, for one data set, with some of its rows and columns."""

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
    def stem(self) -> str:
        """The name of the plan's files: what, on what, how; a part of a table does not replace the whole."""
        parts = [self.spec.name, Path(self.dataset).stem, self.schedule, self.network]
        parts.append(None if self.train_size is None else f"n{self.train_size}")
        parts.append(None if self.pretrained is None else Path(self.pretrained).stem)
        parts.append("trusted" if self.trusted else None)
        names = tuple(dict.fromkeys(row.name for row in self.rows))
        is_whole = names == self.spec.row_names and self.noises == self.spec.noises
        parts.append(None if is_whole else "part")
        return "-".join(part for part in parts if part)

    @property
    def departures(self) -> list[str]:
        """How data and network are not the paper's; if there is anything, its numbers are not shown."""
        found = [] if self.train_size is None else [f"{self.train_size} training rows"]
        found += [] if self.network is None else [f"network {self.network}"]
        if self.dataset == PRETRAINED:
            found += ["no pretrained weights"] if self.pretrained is None else []
        else:
            found += [] if self.pretrained is None else ["pretrained weights"]
        return found

    @property
    def anchors(self) -> tuple[Anchors, ...]:
        """What its rows are with and without."""
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
    """The plan of a table for a data set, narrowed to some rows and noises where they are given."""
    if name not in SPECS:
        raise ValueError(f"the table must be one of {', '.join(SPECS)}, got {name!r}")
    spec = SPECS[name]
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
    return Plan(
        spec=spec,
        dataset=dataset,
        rows=tuple(
            read_row(one, anchors, spec)
            for anchors in kept
            for one in dict.fromkeys(methods or spec.row_names)
        ),
        noises=tuple(dict.fromkeys(noises)) or spec.noises,
        schedule=schedule or spec.schedule,
        seeds=seeds,
        seeds_without_anchors=seeds_without_anchors,
        **how,
    )


def read_row(text: str, anchors: Anchors, spec: Spec) -> Row:
    """A row by its method, or by a method and choices: `reweight-r:revision=frozen,lr-revision=1e-4`.

    A row of the table's own may be one that this version lacks; any other must exist.
    """
    if spec.estimators and text in estimator_names():
        return Row(text, ESTIMATORS, anchors)
    method, _, choices = text.partition(":")
    if method not in (*METHODS, *spec.methods):
        names = tuple(dict.fromkeys((*METHODS, *spec.row_names)))
        hint = did_you_mean(method, names)
        raise ValueError(f"methods must be among {', '.join(names)}, got {text!r}{hint}")
    options = Options()
    known = [one.name for one in fields(Options)]
    for choice in filter(None, choices.split(",")):
        key, _, value = choice.partition("=")
        key = key.strip().replace("-", "_")
        if key not in known:
            raise ValueError(f"methods: {text!r} must choose among {', '.join(known)}, got {key!r}")
        options = replace(options, **{key: _value(value)})
    if text not in spec.methods:
        check_options(options, method)
    return Row(text, method, anchors, options)


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def planned_runs(plan: Plan) -> list[Planned]:
    """The runs of a plan, whole tables of one seed first, so that an early stop still leaves a table."""
    runs = []
    for seed in range(max(plan.seeds, plan.seeds_without_anchors)):
        for noise in plan.noises:
            for row in plan.rows:
                if seed not in plan.seeds_of(row):
                    continue
                removed = REMOVED.get(plan.dataset, REMOVED_ELSEWHERE) if row.anchors == "N/A" else None
                settings = Settings(
                    noise=None if noise == REAL else noise,
                    method=row.method,
                    schedule=plan.schedule,
                    seed=seed,
                    network=plan.network,
                    train_size=plan.train_size,
                    remove_anchors=removed,
                    pretrained=plan.pretrained,
                    trusted=plan.trusted,
                    options=row.options,
                )
                runs.append(Planned(row, noise, plan.dataset, settings))
    return runs


@dataclass(frozen=True)
class Outcome:
    """How a run stands: its result, or why there is none.

    A finished comparison of estimators may have no estimate by the row's, and then tells why.
    """

    state: Literal["finished", "failed", "missing", "unavailable"]
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def outcome(run: Planned, results: Path) -> Outcome:
    """What the run's folder says; that it holds another config, or a file has changed, is an error."""
    folder = results / run.name
    found = _read_json(folder / "config.json")
    if found is not None and canonical(found) != canonical(run_config(run.source, run.settings)):
        raise ValueError(f"{folder} must hold the run its name stands for, but its config.json is another's")
    try:
        check_unchanged((found or {}).get("files", {}))
    except ValueError as changed:
        raise ValueError(f"{folder}: {changed}") from None
    result, error = _read_json(folder / "result.json"), _read_json(folder / "error.json")
    if result is not None and run.row.is_estimator:
        result = _part(result, run.row.name)
    if result is not None:
        return Outcome("finished", result, result.get("error", ""))
    if not run.is_available:
        return Outcome("unavailable", reason=run.row.lacking)
    if error is not None:
        return Outcome("failed", reason=f"{error.get('error', 'Error')}: {error.get('reason', '')}")
    return Outcome("missing")


def _part(comparison: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The result of one estimator in a comparison of several; None if it took no part."""
    part = comparison["estimates"].get(name)
    if part is None:
        return None
    return comparison | part | {"seconds": comparison["seconds"] + part.get("seconds", 0.0)}


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None
