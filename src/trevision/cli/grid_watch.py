"""The progress of a grid: a live table on a terminal, or one line per finished run in a log."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trevision.cli.terminal import table as terminal_table
from trevision.reproduce.durations import Record, in_words
from trevision.reproduce.grid import Conditions, Watch
from trevision.reproduce.job import Done
from trevision.reproduce.plans import Planned


def make_watch(
    console: Console,
    title: str,
    runs: Sequence[Planned],
    to_do: Sequence[Planned],
    conditions: Conditions,
    workers: int,
) -> LineWatch:
    """A live table if `console` is a terminal, lines if it is a file.

    Parameters
    ----------
    console
        Where to show the progress.
    title
        The name of the grid.
    runs, to_do
        All runs, and the unfinished ones.
    conditions
        The folder of results and the hardware.
    workers
        Number of runs at a time.

    Returns
    -------
    LineWatch
    """
    done = len({run.name for run in runs if run.is_available}) - len(to_do)
    kind = LiveWatch if console.is_terminal else LineWatch
    return kind(console, title, done, list(to_do), conditions, workers)


class LineWatch(Watch):
    """One line per finished run, for logs. Also counts what a live table shows."""

    def __init__(
        self,
        console: Console,
        title: str,
        done: int,
        to_do: list[Planned],
        conditions: Conditions,
        workers: int,
    ) -> None:
        self.console = console
        self.title, self.conditions, self.workers = title, conditions, workers
        self.total = done + len(to_do)
        self.done, self.failed = done, 0
        self.running: dict[str, tuple[Planned, float]] = {}
        self.record = Record(conditions.results)
        if done:
            self.console.print(f"{done} of {self.total} runs are recorded already")

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
        self.console.print(f"[{self.done}/{self.total}] {run.label}: {how} ({took})", soft_wrap=True)

    def tick(self, waiting: Sequence[Planned]) -> None: ...


class LiveWatch(LineWatch):
    """A live table of the current runs, with the remaining time above it."""

    def __enter__(self) -> LiveWatch:
        self.live = Live(console=self.console, refresh_per_second=2, transient=True)
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def tick(self, waiting: Sequence[Planned]) -> None:
        rows = []
        for run, began in self.running.values():
            last = _last_epoch(self.conditions.job(run).folder / "metrics.jsonl")
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
