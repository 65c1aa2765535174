"""`trevision reproduce`: a table or figure of the paper, ours beside the published numbers."""

from __future__ import annotations

import difflib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trevision.cli.tables import table as terminal_table
from trevision.data import SOURCES
from trevision.experiments import Hardware, rendering
from trevision.experiments.estimate import Estimate, Record, in_words
from trevision.experiments.grid import Conditions, Watch, remove_stages, run_grid, unfinished
from trevision.experiments.job import Done
from trevision.experiments.plots import (
    EXAMPLE_MISTAKEN,
    EXAMPLE_TRUE,
    draw_revision,
    draw_table,
    draw_worked_example,
    inferred,
    revision_curves,
    write_curves,
)
from trevision.experiments.run import read_noise
from trevision.experiments.tables import REAL, SPECS, Plan, Planned, Table, make_plan, planned_runs, tabulate
from trevision.experiments.workers import make_workers, usable_cores
from trevision.methods import SCHEDULES

console = Console(markup=False, highlight=False)
errors = Console(stderr=True, markup=False, highlight=False)

Which = Literal["table1", "table2", "table3", "table4", "figure1", "figure3"]
What = Annotated[tyro.conf.Positional[Which], tyro.conf.arg(metavar="WHAT")]


def reproduce(
    what: What,
    /,
    dataset: tuple[str, ...] = (),
    schedule: str = "quick",
    seeds: int = 3,
    methods: tuple[str, ...] = (),
    noise: tuple[str, ...] = (),
    network: str | None = None,
    train_size: int | None = None,
    weights: str | None = None,
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

    WHAT is table1 to table4, figure1 or figure3. Finished runs in the folder of results are never run again,
    a stopped one continues, a failed one is tried again. Tables and pictures go to its folder tables.
    The exit status is 1 if a run failed.

    For example:

    $ trevision reproduce table1 --dataset mnist --schedule quick --seeds 3 --workers 2
    $ trevision reproduce table3 --dry-run
    $ trevision reproduce table1 --methods reweight-r reweight-r:revision=frozen --noise sym-50
    $ trevision reproduce figure3 --ray local

    Args:
        what: The table or figure.
        dataset: Data sets, by name or .npz file: the first of the table's if none is given.
        schedule: quick (for two CPU cores) or paper (the published protocol).
        seeds: Runs of each cell, with the seeds 0, 1, ...
        methods: Rows: methods, each perhaps with choices as in reweight-r:revision=frozen. All by default.
        noise: Columns: names such as sym-50. All of the table's by default.
        network: Another network than the data's own.
        train_size: Use only this many training rows, drawn at random.
        weights: A .safetensors or .pth file of torchvision's weights that the networks start from.
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
    tables = results / "tables"
    if what == "figure1":
        _figure1(tables if docs is None else docs)
        return
    plans = _plans(
        *(what, dataset, schedule, methods, noise),
        seeds=seeds,
        network=network,
        train_size=train_size,
        weights=weights,
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
    if to_do := unfinished(runs, results):
        pool = make_workers(workers, ray, gpus=int(accelerator == "cuda"))
        title = f"{what} on {', '.join(plan.dataset for plan in plans)}"
        watch = _watch(title, runs, to_do, conditions, pool.count)
        try:
            with watch:
                run_grid(runs, conditions, pool, watch)
        finally:
            pool.close()
    made = [tabulate(plan, results) for plan in plans]
    for table in made:
        _show(table, results, tables, docs)
    if clean_stages:
        _clean(runs, conditions)
    if any(table.failures for table in made):
        sys.exit(1)


def _plans(
    what: str, datasets: Sequence[str], schedule: str, methods: Sequence[str], noises: Sequence[str], **how
) -> list[Plan]:
    """The plans, one a data set, once the names in them are known to mean something."""
    spec = SPECS[what]
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {schedule!r}")
    for name in noises:
        if name != REAL:
            read_noise(name, 10)
    names = list(dict.fromkeys(datasets)) or [spec.datasets[0]]
    for name in names:
        if name not in (*SOURCES, *spec.datasets) and not name.lower().endswith(".npz"):
            near = difflib.get_close_matches(name, SOURCES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"dataset must be one of {', '.join(SOURCES)}, or an .npz file, got {name!r}{hint}"
            )
    plans = [make_plan(what, name, methods, noises, schedule=schedule, **how) for name in names]
    if len({plan.stem for plan in plans}) < len(plans):
        raise ValueError("dataset must not name two files of one name: their tables would be one file")
    return plans


def _tell_plan(runs: Sequence[Planned], conditions: Conditions, workers: int) -> None:
    """The runs to do, their number, and about how long they take."""
    to_do = unfinished(runs, conditions.results)
    for run in to_do:
        console.print(f"{run.name}  {run.label}")
    unavailable = sorted({run.row.method for run in runs if not run.is_available})
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


def _show(table: Table, results: Path, folder: Path, docs: Path | None) -> None:
    """The table on the terminal and in files, its picture, and its page of documentation."""
    plan = table.plan
    shown = terminal_table(*rendering.wide(table), title=rendering.title(table))
    if console.measure(shown).maximum > console.width:
        shown = terminal_table(*rendering.long(table), title=rendering.title(table))
    console.print(shown)
    for name, reason in table.failures.items():
        errors.print(f"failed: {name}: {reason}", soft_wrap=True)
    paths = rendering.write_table(table, folder)
    paths.append(_draw(table, results, folder))
    if docs is not None:
        picture = _draw(table, results, docs)
        paths.append(docs / f"{plan.stem}.md")
        rendering.write_text(paths[-1], rendering.docs_page(table, picture.name))
    console.print("Written: " + ", ".join(map(str, paths)), soft_wrap=True)


def _draw(table: Table, results: Path, folder: Path) -> Path:
    plan = table.plan
    path = folder / f"{plan.stem}.svg"
    if plan.spec.measure == "test_accuracy":
        draw_table(path, table)
    else:
        curves = revision_curves(plan, results)
        draw_revision(path, plan, curves)
        write_curves(folder / f"{plan.stem}-epochs.csv", curves)
    return path


def _figure1(folder: Path) -> None:
    path = folder / "figure1.svg"
    draw_worked_example(path)
    rows = []
    for name, matrix in (("true T", EXAMPLE_TRUE), ("mistaken T", EXAMPLE_MISTAKEN)):
        posterior = inferred(matrix)
        rows.append((name, *(f"{p:.4f}" for p in posterior), str(posterior.argmax() + 1)))
    header = ["inferred with", *(f"P(clean = {k})" for k in range(1, 6)), "class"]
    console.print(terminal_table(header, rows, "figure1: two matrices, one noisy posterior, two decisions"))
    console.print(f"Written: {path}", soft_wrap=True)


def _watch(
    title: str, runs: Sequence[Planned], to_do: Sequence[Planned], conditions: Conditions, workers: int
) -> LiveWatch | LineWatch:
    done = len({run.name for run in runs if run.is_available}) - len(to_do)
    kind = LiveWatch if errors.is_terminal else LineWatch
    return kind(title, done, list(to_do), conditions, workers)


class LineWatch(Watch):
    """One line a finished run, for logs; and what a live table needs to know."""

    def __init__(
        self, title: str, done: int, to_do: list[Planned], conditions: Conditions, workers: int
    ) -> None:
        self.title, self.conditions, self.workers = title, conditions, workers
        self.before, self.total = done, done + len(to_do)
        self.done, self.failed = done, 0
        self.running: dict[str, tuple[Planned, float]] = {}
        self.record = Record(conditions.results)
        if done:
            errors.print(f"{done} of {self.total} runs are recorded already")

    def __enter__(self) -> LineWatch:
        return self

    def __exit__(self, *_: object) -> None: ...

    def started(self, run: Planned) -> None:
        self.running[run.name] = (run, time.monotonic())

    def ended(self, run: Planned, done: Done) -> None:
        _, began = self.running.pop(run.name)
        self.done += 1
        self.failed += bool(done.error)
        self.record.update()
        how = f"failed: {done.error}: {done.reason}" if done.error else "finished"
        took = in_words(time.monotonic() - began)
        errors.print(f"[{self.done}/{self.total}] {run.label}: {how} ({took})", soft_wrap=True)

    def tick(self, waiting: Sequence[Planned]) -> None: ...


class LiveWatch(LineWatch):
    """A table of the runs under way that is drawn anew, with the remaining time above it."""

    def __enter__(self) -> LiveWatch:
        self.live = Live(console=errors, refresh_per_second=2, transient=True)
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def tick(self, waiting: Sequence[Planned]) -> None:
        rows = []
        for run, began in self.running.values():
            last = _last_epoch(self.conditions.results / run.name / "metrics.jsonl")
            rows.append((run.label, *last, in_words(time.monotonic() - began)))
        header = ["run", "stage", "epoch", "validation error", "test", "for"]
        left_over = [*waiting, *(run for run, _ in self.running.values())]
        estimate = self.record.estimate(left_over, self.conditions.hardware)
        spent = sum(time.monotonic() - began for _, began in self.running.values())
        left = max(0.0, estimate.seconds - spent) / self.workers
        words = f"about {in_words(left)} left" if estimate.seconds else "the time is not known yet"
        if estimate.seconds and estimate.unknown:
            words += f", and {len(estimate.unknown)} runs of unknown length"
        failed = f", {self.failed} failed" if self.failed else ""
        text = Text(f"{self.title}: {self.done} of {self.total} runs done{failed}; {words}")
        self.live.update(Group(text, terminal_table(header, rows)))


def _last_epoch(path: Path) -> tuple[str, str, str, str]:
    """Stage, epoch, validation error and test accuracy from the last line of a run's metrics."""
    try:
        last = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    except (OSError, ValueError, IndexError):  # nothing yet, or a line half written
        return ("starting", "", "", "")
    test = f"{100 * last['test_accuracy']:.2f}%" if "test_accuracy" in last else ""
    return last["stage"], str(last["epoch"]), f"{last['noisy_validation_error']:.4f}", test


def _clean(runs: Sequence[Planned], conditions: Conditions) -> None:
    count = remove_stages(runs, conditions)
    console.print(f"{count} shared stages removed")
