"""`trevision reproduce`: run and show a table or figure, of the paper or beyond it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from trevision.cli.grid_watch import make_watch
from trevision.cli.show_table import show, show_picture
from trevision.cli.terminal import console, errors
from trevision.data.sources import SOURCES
from trevision.files import did_you_mean
from trevision.networks.choose import NETWORKS
from trevision.noise import canonical_name
from trevision.reproduce.durations import Estimate, Record, in_words
from trevision.reproduce.grid import Conditions, record_finished, remove_stages, run_grid
from trevision.reproduce.outcomes import outcome, unfinished
from trevision.reproduce.plans import Plan, Planned, make_plan, planned_runs
from trevision.reproduce.spec import REAL, Spec
from trevision.reproduce.tables import SPECS, find_spec
from trevision.reproduce.workers import make_workers, usable_cores
from trevision.runs import provenance
from trevision.runs.settings import Hardware


def _listed(spec: Spec) -> str:
    """A table's line in the help: its name, its title and what is unusual about it."""
    how = "" if spec.schedule == "quick" else f" ({spec.schedule})"
    return f"{spec.name}: {spec.title}{how}{'' if spec.in_paper else ', beyond the paper'}"


HELP = "One of\n" + "\n".join(map(_listed, SPECS.values()))
What = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WHAT", help=HELP)]


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
    refresh: bool = False,
    keep_models: bool = False,
    clean_stages: bool = False,
    docs: Path | None = None,
) -> None:
    """Do the missing runs of a table or figure of the paper, and show it with the published numbers.

    Finished runs are recorded in the folder of results, one file per table. Without --refresh they are not
    run again. A stopped run continues; a failed run is tried again. Tables and pictures go to the subfolder
    tables. The exit status is 1 if a run failed.

    For example:

    $ trevision reproduce table1 --dataset mnist --schedule quick --seeds 3 --workers 2
    $ trevision reproduce table3 --dry-run
    $ trevision reproduce table1 --methods reweight-r reweight-r:revision=frozen --noise sym-50
    $ trevision reproduce figure3 --ray local
    $ trevision reproduce floor --noise sym-50 pair-45 --methods latent cleanlab reweight-r

    Args:
        what: The table or figure.
        dataset: Data sets, by name or .npz file; the first of the table's if not given.
        schedule: quick (for two CPU cores), strong (longer, averaged weights) or paper (as published); for
            rows volminnet and tv also released (their authors' recipe). If not given, the table's own: quick,
            unless the list above says otherwise.
        seeds: Runs per cell, with the seeds 0, 1, ...
        seeds_without_anchors: Runs per cell without anchor points; 0 leaves these cells out. If not given, as
            many as seeds, or the table's own limit.
        methods: Rows: methods, optionally with options as in reweight-r:revision=frozen or with another
            schedule as in volminnet:schedule=released; in floor also estimators of T. All rows if not given.
        noise: Columns: names such as sym-50. All columns if not given.
        network: A network other than the data's own.
        train_size: Use only this many training rows, drawn at random.
        pretrained: A .safetensors or .pth file of torchvision's weights that the networks start from.
        trusted: Select epochs by the clean validation labels that come with the data (clothing1m).
        workers: Runs at a time, each in a process with one thread; one per core if not given.
        ray: Run on a Ray cluster: its address, or local to start one here.
        accelerator: cpu, cuda or mps.
        results: The folder of recorded runs.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
        dry_run: Only list the missing runs, their estimated time, and the runs made by older code.
        refresh: Repeat runs made by older code. The recorded run stays until the new one is finished.
        keep_models: Keep the model of each run.
        clean_stages: At the end, remove shared stages that no unfinished run needs.
        docs: Also write a documentation page with its picture to this folder.
    """
    spec = find_spec(what)
    if spec.draw is not None:
        if methods or noise or dataset or dry_run or refresh:
            raise ValueError(f"{what} needs no runs: leave out methods, noise, dataset, dry_run and refresh")
        show_picture(spec, docs or results / "tables", console)
        return
    plans = _plans(
        *(spec, dataset, schedule, methods, noise),
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
        _tell_plan(runs, conditions, workers or usable_cores(), refresh)
        return
    title = f"{what} on {', '.join(plan.dataset for plan in plans)}"
    failures = _fill(title, runs, conditions, workers, ray, refresh)
    for plan in plans:
        failures |= show(plan, results, docs, console)
    for name, reason in failures.items():
        errors.print(f"failed: {name}: {reason}", soft_wrap=True)
    if clean_stages:
        console.print(f"{remove_stages(runs, conditions)} shared stages removed")
    if failures:
        sys.exit(1)


def _noise(name: str, datasets: Sequence[str]) -> str:
    """The usual spelling of a noise's name. Files, which must exist, and sets of labels keep their names."""
    own = {each for dataset in datasets if dataset in SOURCES for each in SOURCES[dataset].noise_sets}
    if name == REAL or name in own:
        return name
    if Path(name).suffix in (".csv", ".npy"):
        if not Path(name).is_file():
            raise ValueError(f"noise must be a name such as sym-50 or a file with a matrix: no file {name}")
        return name
    return canonical_name(name)


def _plans(
    spec: Spec,
    datasets: Sequence[str],
    schedule: str | None,
    methods: Sequence[str],
    noises: Sequence[str],
    **how: Any,
) -> list[Plan]:
    """Check the arguments, and make a plan for each data set."""
    names = list(dict.fromkeys(datasets)) or [spec.datasets[0]]
    noises = [_noise(name, names) for name in noises]
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
    plans = [make_plan(spec.name, name, methods, noises, schedule, **how) for name in names]
    if len({plan.stem for plan in plans}) < len(plans):
        raise ValueError("dataset must not name two files of one name: their tables would be one file")
    return plans


def _fill(
    title: str,
    runs: Sequence[Planned],
    conditions: Conditions,
    workers: int | None,
    ray: str | None,
    refresh: bool,
) -> dict[str, str]:
    """Do the runs that have no result yet; return why runs failed, by their label."""
    to_do = unfinished(runs, conditions.results, refresh)
    if not to_do:
        record_finished(runs, conditions.results)
        return {}
    pool = make_workers(workers, ray, gpus=int(conditions.hardware.accelerator == "cuda"))
    watch = make_watch(errors, title, runs, to_do, conditions, pool.count)
    try:
        with watch:
            ends = run_grid(runs, conditions, pool, watch, refresh)
    finally:
        pool.close()
    labels = {run.name: run.label for run in to_do}
    return {labels[name]: f"{done.error}: {done.reason}" for name, done in ends.items() if done.error}


def _tell_plan(runs: Sequence[Planned], conditions: Conditions, workers: int, refresh: bool) -> None:
    """Print the missing runs, their number and estimated time, and the rows made by older code."""
    to_do = unfinished(runs, conditions.results, refresh)
    for run in to_do:
        console.print(f"{run.name}  {run.label}")
    older: dict[str, dict[str, int]] = {}  # by row, the numerics of its runs by their name
    for run in runs:
        if (how := outcome(run, conditions.results)).is_older:
            older.setdefault(run.row.label, {})[run.name] = how.numerics
    for label, of_row in older.items():
        numerics = ", ".join(map(str, sorted(set(of_row.values()))))
        number = "1 run" if len(of_row) == 1 else f"{len(of_row)} runs"
        console.print(f"older: {label}: {number} (numerics {numerics}; now {provenance.NUMERICS})")
    unavailable = dict.fromkeys(run.row.name for run in runs if not run.is_available)
    if unavailable:
        console.print(f"not in this version: {', '.join(unavailable)}")
    console.print(f"{len(to_do)} of {len({run.name for run in runs})} runs to do")
    if older and not refresh:
        count = len({name for of_row in older.values() for name in of_row})
        console.print(f"{count} runs were made by older code; --refresh runs them anew")
    if to_do:
        console.print(_in_words(Record(conditions.results).estimate(to_do, conditions.hardware), workers))


def _in_words(estimate: Estimate, workers: int) -> str:
    """An estimate as a sentence, with the number of runs it does not cover."""
    methods = ", ".join(dict.fromkeys(run.row.method for run in estimate.unknown))
    lacking = f"nothing like {len(estimate.unknown)} of them ({methods}) is recorded" if methods else ""
    if not estimate.seconds:
        return f"no estimate of the time: {lacking}" if lacking else "almost no time"
    words = f"about {in_words(estimate.seconds / workers)} with {workers} workers, from recorded runs"
    return f"{words}; {lacking}" if lacking else words
