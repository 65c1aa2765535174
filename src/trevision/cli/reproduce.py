"""`trevision reproduce`: a table or figure of the paper, or the one beyond it, run and shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from trevision.cli.grid_watch import make_watch
from trevision.cli.show_table import show, show_figure1
from trevision.cli.terminal import console, errors
from trevision.data.sources import SOURCES
from trevision.files import did_you_mean
from trevision.methods.schedules import SCHEDULES
from trevision.networks.choose import NETWORKS
from trevision.noise import canonical_name
from trevision.reproduce.durations import Estimate, Record, in_words
from trevision.reproduce.grid import Conditions, remove_stages, run_grid, unfinished
from trevision.reproduce.plans import REAL, SPECS, Plan, Planned, make_plan, planned_runs
from trevision.reproduce.workers import make_workers, usable_cores
from trevision.runs.settings import Hardware

Which = Literal["table1", "table2", "table3", "table4", "figure1", "figure3", "floor", "revisions", "priors"]
What = Annotated[tyro.conf.Positional[Which], tyro.conf.arg(metavar="WHAT")]


def reproduce(
    what: What,
    /,
    dataset: tuple[str, ...] = (),
    schedule: str | None = None,
    seeds: int = 3,
    seeds_without_anchors: int | None = None,
    methods: tuple[str, ...] = (),
    noise: tuple[str, ...] = (),
    network: str | None = None,
    train_size: int | None = None,
    pretrained: str | None = None,
    trusted: bool = False,
    workers: int | None = None,
    ray: str | None = None,
    accelerator: str = "cpu",
    results: Path = Path("results"),
    data_dir: Path | None = None,
    dry_run: bool = False,
    keep_models: bool = False,
    clean_stages: bool = False,
    docs: Path | None = None,
) -> None:
    """Run what is missing of a table or figure of the paper, and show it beside the published numbers.

    WHAT is table1 to table4, figure1 or figure3; or a table beyond the paper: floor, how near estimators of T
    and learning methods come to the sampling floor, the error of a T that is counted from the true labels;
    revisions, the ways in which Delta T may move; priors, knowledge of T that is true or false.
    Finished runs in the folder of results are never run again, a stopped one continues, a failed one is tried
    again. Tables and pictures go to its folder tables. The exit status is 1 if a run failed.

    For example:

    $ trevision reproduce table1 --dataset mnist --schedule quick --seeds 3 --workers 2
    $ trevision reproduce table3 --dry-run
    $ trevision reproduce table1 --methods reweight-r reweight-r:revision=frozen --noise sym-50
    $ trevision reproduce figure3 --ray local
    $ trevision reproduce floor --noise sym-50 pair-45 --methods latent cleanlab reweight-r

    Args:
        what: The table or figure.
        dataset: Data sets, by name or .npz file: the first of the table's if none is given.
        schedule: quick (for two CPU cores), strong (longer, averaged weights) or paper (the published one).
            If not given, strong for floor and quick for the others.
        seeds: Runs of each cell, with the seeds 0, 1, ...
        seeds_without_anchors: Runs of each cell without anchor points, 0 to leave these out. If not given, 1
            for floor and as many as seeds for the others.
        methods: Rows: methods, each perhaps with choices as in reweight-r:revision=frozen; in floor also
            estimators of T. All by default.
        noise: Columns: names such as sym-50. All of the table's by default.
        network: Another network than the data's own.
        train_size: Use only this many training rows, drawn at random.
        pretrained: A .safetensors or .pth file of torchvision's weights that the networks start from.
        trusted: Select epochs by the clean validation labels that come with the data (clothing1m).
        workers: Runs at a time, each in a process of one thread; as many as there are cores if not given.
        ray: Run on a Ray cluster: its address, or local to start one here.
        accelerator: cpu, cuda or mps.
        results: The folder of the runs.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
        dry_run: Only tell which runs there are to do, and about how long they take.
        keep_models: Keep the model of each run too.
        clean_stages: In the end remove the stages that runs share, if no unfinished one needs them.
        docs: Also write a page of documentation with its picture to this folder.
    """
    if what == "figure1":
        if methods or noise or dataset or dry_run:
            raise ValueError("figure1 needs no runs: leave out methods, noise, dataset and dry_run")
        show_figure1(docs or results / "tables", console)
        return
    plans = _plans(
        *(what, dataset, schedule, methods, noise),
        seeds=seeds,
        seeds_without_anchors=seeds_without_anchors,
        network=network,
        train_size=train_size,
        pretrained=pretrained,
        trusted=trusted,
    )
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    conditions = Conditions(
        results, Hardware(accelerator=accelerator, threads=1), data_dir, keep_models=keep_models
    )
    runs = [run for plan in plans for run in planned_runs(plan)]
    if dry_run:
        _tell_plan(runs, conditions, workers or usable_cores())
        return
    _fill(f"{what} on {', '.join(plan.dataset for plan in plans)}", runs, conditions, workers, ray)
    failures: dict[str, str] = {}
    for plan in plans:
        failures |= show(plan, results, docs, console)
    for name, reason in failures.items():
        errors.print(f"failed: {name}: {reason}", soft_wrap=True)
    if clean_stages:
        console.print(f"{remove_stages(runs, conditions)} shared stages removed")
    if failures:
        sys.exit(1)


def _noise(name: str) -> str:
    """A noise by its one name; a file is read with the data, whose classes it must have."""
    if name == REAL:
        return name
    if Path(name).suffix in (".csv", ".npy"):
        if not Path(name).is_file():
            raise ValueError(f"noise must be a name such as sym-50 or a file with a matrix: no file {name}")
        return name
    return canonical_name(name)


def _plans(
    what: str,
    datasets: Sequence[str],
    schedule: str | None,
    methods: Sequence[str],
    noises: Sequence[str],
    **how: Any,
) -> list[Plan]:
    """The plans, one a data set, once the names in them are known to mean something."""
    spec = SPECS[what]
    schedule = schedule or spec.schedule
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {schedule!r}")
    noises = [_noise(name) for name in noises]
    names = list(dict.fromkeys(datasets)) or [spec.datasets[0]]
    for name in names:
        if name not in (*SOURCES, *spec.datasets) and not name.lower().endswith(".npz"):
            hint = did_you_mean(name, SOURCES)
            raise ValueError(
                f"dataset must be one of {', '.join(SOURCES)}, or an .npz file, got {name!r}{hint}"
            )
        if name not in SOURCES and not Path(name).is_file():
            raise ValueError(f"dataset: there is no file {name}")
    if how["network"] not in (None, *NETWORKS):
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}, got {how['network']!r}")
    if how["train_size"] is not None and how["train_size"] < 1:
        raise ValueError(f"train_size must be at least 1, got {how['train_size']}")
    if how["pretrained"] is not None and not Path(how["pretrained"]).is_file():
        raise ValueError(f"pretrained: there is no file {how['pretrained']}")
    plans = [make_plan(what, name, methods, noises, schedule, **how) for name in names]
    if len({plan.stem for plan in plans}) < len(plans):
        raise ValueError("dataset must not name two files of one name: their tables would be one file")
    return plans


def _fill(
    title: str, runs: Sequence[Planned], conditions: Conditions, workers: int | None, ray: str | None
) -> None:
    """Do the runs that have no result yet."""
    to_do = unfinished(runs, conditions.results)
    if not to_do:
        return
    pool = make_workers(workers, ray, gpus=int(conditions.hardware.accelerator == "cuda"))
    watch = make_watch(errors, title, runs, to_do, conditions, pool.count)
    try:
        with watch:
            run_grid(runs, conditions, pool, watch)
    finally:
        pool.close()


def _tell_plan(runs: Sequence[Planned], conditions: Conditions, workers: int) -> None:
    """The runs to do, their number, and about how long they take."""
    to_do = unfinished(runs, conditions.results)
    for run in to_do:
        console.print(f"{run.name}  {run.label}")
    unavailable = dict.fromkeys(run.row.name for run in runs if not run.is_available)
    if unavailable:
        console.print(f"not in this version: {', '.join(unavailable)}")
    console.print(f"{len(to_do)} of {len({run.name for run in runs})} runs to do")
    if to_do:
        console.print(_in_words(Record(conditions.results).estimate(to_do, conditions.hardware), workers))


def _in_words(estimate: Estimate, workers: int) -> str:
    """An estimate as a sentence that says what it does not cover."""
    methods = ", ".join(dict.fromkeys(run.row.method for run in estimate.unknown))
    lacking = f"nothing like {len(estimate.unknown)} of them ({methods}) is recorded" if methods else ""
    if not estimate.seconds:
        return f"no estimate of the time: {lacking}" if lacking else "almost no time"
    told = f"about {in_words(estimate.seconds / workers)} with {workers} workers, from recorded runs"
    return f"{told}; {lacking}" if lacking else told
