"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from trevision.data.sources import SOURCES

FIRST_TRAINING = {"noisy-posterior": "train", "fold": "train", "network": "train"}
"""Stages that learn the labels as they are. Others are called as their method calls them."""


class RichProgress:
    """One bar per stage, over its batches, with the latest metrics."""

    def __init__(self, title: str, console: Console) -> None:
        self.title = title
        self.console = console
        self.bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[unit]} {task.fields[epoch]}/{task.fields[epochs]}"),
            TextColumn("{task.fields[metrics]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> RichProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def stage(self, name: str, epochs: int, batches: int) -> None:
        self.bars.start()  # not earlier: an error before the first stage should print its line only
        self.batches = batches
        self.task = self.bars.add_task(
            f"{self.title}: {in_words(name)}",
            total=max(1, (epochs or 1) * batches),
            unit="epoch" if epochs else "model",
            epoch=0,
            epochs=epochs or batches,
            metrics="",
        )
        self.steps = None if epochs else 0

    def batch(self) -> None:
        self.bars.advance(self.task)
        if self.steps is not None:
            self.steps += 1
            self.bars.update(self.task, epoch=self.steps)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        shown = [f"misses {metrics['noisy_validation_error']:.1%} of unseen labels"]
        if "test_accuracy" in metrics:
            shown.append(f"test {100 * metrics['test_accuracy']:.2f}%")
        if "transition_error" in metrics:
            shown.append(f"T error {metrics['transition_error']:.3f}")
        self.bars.update(
            self.task,
            completed=metrics["epoch"] * self.batches,
            epoch=metrics["epoch"],
            metrics=", ".join(shown),
        )


def in_words(stage: str) -> str:
    """A stage as the bar calls it: what is trained, and without which part of the rows."""
    name, _, part = stage.rpartition("-")
    if not part.isdigit():
        return FIRST_TRAINING.get(stage, stage)
    return f"{FIRST_TRAINING.get(name, name)} without part {part}"


@contextmanager
def data_bar(console: Console, source: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar for a download or for reading the user's own file. It appears with the first bytes."""
    if source in SOURCES:
        bars = Bars(TextColumn("download"), BarColumn(), DownloadColumn(), console=console)
    else:
        columns = (TextColumn("read"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        # Removed at the end: an error about a file should print its line only.
        bars = Bars(*columns, console=console, transient=True, disable=not console.is_terminal)
    started = False

    def show(done: int, total: int | None) -> None:
        nonlocal started
        if not started:
            bars.start()
            bars.add_task("", total=total)
            started = True
        bars.update(bars.task_ids[0], completed=done, total=total)

    try:
        yield show
    finally:
        if started:
            bars.stop()


@contextmanager
def reading_bar(console: Console) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar over what is being read. It starts again with each new name."""
    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    shown = ""

    def show(name: str, done: int, total: int | None) -> None:
        nonlocal shown
        if not bars.task_ids:
            bars.start()  # not earlier: an error before the first row should print its line only
            bars.add_task(name, total=total)
        elif name != shown:
            bars.reset(bars.task_ids[0], total=total, description=name)
        shown = name
        bars.update(bars.task_ids[0], completed=done, total=total)

    try:
        yield show
    finally:
        bars.stop()
