"""The grid: do the runs of a table with several workers, without training a stage twice."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trevision.files import locked, write_atomically
from trevision.reproduce import archive
from trevision.reproduce.job import Done, Job, record_failure
from trevision.reproduce.outcomes import ERROR_FILE, outcome, unfinished
from trevision.reproduce.plans import Planned
from trevision.reproduce.sharing import STAGES_FOLDER, is_finished
from trevision.reproduce.workers import CRASHED, Workers, absolute
from trevision.runs.settings import Hardware

POLL_SECONDS = 0.5
LOCK = ".lock"
IGNORED = f"{archive.RUNS_FOLDER}/\n{STAGES_FOLDER}/\n{LOCK}\ntables/\n"
BUSY = "{} must not be worked on by two commands at once, and another trevision reproduce is"


class Watch(Protocol):
    """Called with the grid's progress."""

    def started(self, run: Planned) -> None: ...

    def ended(self, run: Planned, done: Done) -> None: ...

    def tick(self, waiting: Sequence[Planned]) -> None: ...


class Unwatched:
    """Shows nothing."""

    def started(self, run: Planned) -> None: ...

    def ended(self, run: Planned, done: Done) -> None: ...

    def tick(self, waiting: Sequence[Planned]) -> None: ...


@dataclass(frozen=True)
class Conditions:
    """What all runs of a grid share: the folder of results, hardware and data."""

    results: Path
    hardware: Hardware
    data_dir: Path | None = None
    keep_models: bool = False

    def job(self, run: Planned) -> Job:
        results, data_dir = self.results.absolute(), absolute(self.data_dir)
        return Job(run.source, run.settings, results, self.hardware, data_dir, self.keep_models)


def run_grid(
    runs: Sequence[Planned],
    conditions: Conditions,
    workers: Workers,
    watch: Watch | None = None,
    refresh: bool = False,
) -> dict[str, Done]:
    """Do the runs that have no result yet, and record each in the file of its table when it is finished.

    A run starts only if no other worker is training one of its shared stages, so no stage is trained twice.
    An error ends only its own run.

    Parameters
    ----------
    runs
        The runs of one or several plans.
    conditions
        The folder of results, hardware and data.
    workers
        Where they are computed.
    watch
        Called with the progress.
    refresh
        Also repeat runs made by older code. The recorded run stays until the new one is finished.

    Returns
    -------
    dict of str to Done
        How each run that was started ended, by its name.
    """
    watch = watch or Unwatched()
    results = conditions.results
    ends: dict[str, Done] = {}
    _make_folder(results)
    with locked(results / LOCK, BUSY.format(results)):
        archive.record(_tables(runs), results)
        waiting = unfinished(runs, results, refresh)
        for run in waiting:
            _prepare(run, results)
        running: dict[str, Planned] = {}
        claims: dict[str, set[Path]] = {}
        while waiting or running:
            while workers.free and (ready := _next(waiting, conditions, claims)) is not None:
                waiting.remove(ready)
                running[ready.name] = ready
                claims[ready.name] = set(conditions.job(ready).stages.values())
                workers.start(conditions.job(ready))
                watch.started(ready)
            for job, done in workers.wait(POLL_SECONDS):
                if done.error == CRASHED:
                    record_failure(job, done)
                ended = running.pop(job.name)
                if not done.error:
                    archive.record(_tables([ended]), results)
                ends[job.name] = done
                claims.pop(job.name)
                watch.ended(ended, done)
            watch.tick(waiting)
    return ends


def _prepare(run: Planned, results: Path) -> None:
    """Make a run's folder ready to start or continue the run."""
    folder = archive.run_folder(results, run.name)
    # A failed run is tried again; until then it counts as missing.
    (folder / ERROR_FILE).unlink(missing_ok=True)
    finished = archive.read_run_folder(run.name, results)
    if finished is not None and run.name in archive.read_lines(results / f"{run.table}.jsonl"):
        shutil.rmtree(folder)  # the run is repeated; the file of its table still has the old result


def record_finished(runs: Iterable[Planned], results: Path) -> None:
    """Record finished runs that are missing in the files of their tables, as after a killed command.

    If another command is working in the folder, nothing is recorded; the next command does it.
    """
    tables = _tables(runs)
    if not archive.unrecorded(tables, results):
        return
    try:
        with locked(results / LOCK, "busy"):
            archive.record(tables, results)
    except ValueError as error:
        if str(error) != "busy":
            raise


def _tables(runs: Iterable[Planned]) -> dict[str, set[str]]:
    """The names of runs, by the file in which they are recorded."""
    tables: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        tables[run.table].add(run.name)
    return tables


def _next(waiting: list[Planned], conditions: Conditions, claims: dict[str, set[Path]]) -> Planned | None:
    """The first run of which no other run is training a stage."""
    claimed = {folder for stages in claims.values() for folder in stages if not is_finished(folder)}
    for run in waiting:
        if claimed.isdisjoint(conditions.job(run).stages.values()):
            return run
    return None


def remove_stages(runs: Iterable[Planned], conditions: Conditions) -> int:
    """Remove shared stages of finished runs that no unfinished run needs; return their number."""
    results = conditions.results
    needed: set[Path] = set()
    removable: set[Path] = set()
    for run in runs:
        state = outcome(run, results).state
        stages = conditions.job(run).stages.values()
        if state != "unavailable":
            (removable if state == "finished" else needed).update(stages)
    unneeded = [folder for folder in removable - needed if folder.is_dir()]
    for folder in unneeded:
        shutil.rmtree(folder)
    return len(unneeded)


def _make_folder(results: Path) -> None:
    results.mkdir(parents=True, exist_ok=True)
    ignore = results / ".gitignore"
    if not ignore.exists():
        write_atomically(ignore, lambda path: path.write_text(IGNORED, encoding="utf-8"))
