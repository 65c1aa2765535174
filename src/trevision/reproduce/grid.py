"""The grid: runs of a table, each done once, by several workers that never train the same stage twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trevision.files import locked, write_atomically
from trevision.reproduce.cells import has_failed
from trevision.reproduce.job import ERROR_FILE, Done, Job, record_failure
from trevision.reproduce.plans import Planned, outcome
from trevision.reproduce.sharing import STAGES_FOLDER, is_finished
from trevision.reproduce.workers import CRASHED, Workers, absolute
from trevision.runs.settings import Hardware

POLL_SECONDS = 0.5
IGNORED = f"{STAGES_FOLDER}/\n.lock\ncheckpoints/\n*.safetensors\n"


class Watch(Protocol):
    """Told of the grid's progress."""

    def started(self, run: Planned) -> None: ...

    def ended(self, run: Planned, done: Done) -> None: ...

    def tick(self, waiting: Sequence[Planned]) -> None: ...


class Unwatched:
    """Nobody is told."""

    def started(self, run: Planned) -> None: ...

    def ended(self, run: Planned, done: Done) -> None: ...

    def tick(self, waiting: Sequence[Planned]) -> None: ...


@dataclass(frozen=True)
class Conditions:
    """What the runs of a grid have in common, besides their settings."""

    results: Path
    hardware: Hardware
    data_dir: Path | None = None
    keep_models: bool = False

    def job(self, run: Planned) -> Job:
        results, data_dir = self.results.absolute(), absolute(self.data_dir)
        return Job(run.source, run.settings, results, self.hardware, data_dir, self.keep_models)


def unfinished(runs: Iterable[Planned], results: Path) -> list[Planned]:
    """The runs to do, each once: those without a result whose method exists. What failed is tried again."""
    states = [(run, outcome(run, results)) for run in runs]
    to_do = {run.name: run for run, how in states if how.state == "missing" or has_failed(how)}
    return list(to_do.values())


def run_grid(
    runs: Sequence[Planned], conditions: Conditions, workers: Workers, watch: Watch | None = None
) -> dict[str, Done]:
    """Do the runs that have no result yet; return how each of them ended, by name.

    A run is started once every stage that it shares is finished or in nobody's hands, so no two workers
    train one stage. An error ends its own run only.
    """
    watch = watch or Unwatched()
    results = conditions.results
    ends: dict[str, Done] = {}
    _make_folder(results)
    busy = f"{results} must not be worked on by two commands at once, and another trevision reproduce is"
    with locked(results / ".lock", busy):
        waiting = unfinished(runs, results)
        for run in waiting:
            # What failed before is tried again; until it is its turn, it is merely missing.
            (results / run.name / ERROR_FILE).unlink(missing_ok=True)
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
                ends[job.name] = done
                claims.pop(job.name)
                watch.ended(running.pop(job.name), done)
            watch.tick(waiting)
    return ends


def _next(waiting: list[Planned], conditions: Conditions, claims: dict[str, set[Path]]) -> Planned | None:
    """The first run none of whose stages is being trained by another."""
    claimed = {folder for one in claims.values() for folder in one if not is_finished(folder)}
    for run in waiting:
        if claimed.isdisjoint(conditions.job(run).stages.values()):
            return run
    return None


def remove_stages(runs: Iterable[Planned], conditions: Conditions) -> int:
    """Remove the shared stages of these runs that no unfinished one of them needs; return how many."""
    results = conditions.results
    needed: set[Path] = set()
    removable: set[Path] = set()
    for run in runs:
        state = outcome(run, results).state
        mine = conditions.job(run).stages.values()
        if state != "unavailable":
            (removable if state == "finished" else needed).update(mine)
    unneeded = [folder for folder in removable - needed if folder.is_dir()]
    for folder in unneeded:
        shutil.rmtree(folder)
    return len(unneeded)


def _make_folder(results: Path) -> None:
    results.mkdir(parents=True, exist_ok=True)
    ignore = results / ".gitignore"
    if not ignore.exists():
        write_atomically(ignore, lambda path: path.write_text(IGNORED, encoding="utf-8"))
