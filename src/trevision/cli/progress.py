"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from trevision.data.sources import SOURCES


class RichProgress:
    """A bar over the batches of the stage under way, with its latest metrics; a stage a bar."""

    def __init__(self, title: str, console: Console) -> None:
        self.title = title
        self.console = console
        self.bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
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
        self.bars.start()  # not earlier: a mistake found before the first stage gets its one line alone
        self.batches = batches
        self.task = self.bars.add_task(
            f"{self.title}: {name}",
            total=max(1, epochs * batches),
            epoch=0,
            epochs=epochs,
            metrics="",
        )

    def batch(self) -> None:
        self.bars.advance(self.task)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        shown = [f"validation error {metrics['noisy_validation_error']:.4f}"]
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


@contextmanager
def data_bar(console: Console, source: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar that appears with the first bytes of a download, or while a file of the user's own is read."""
    if source in SOURCES:
        bars = Bars(TextColumn("download"), BarColumn(), DownloadColumn(), console=console)
    else:
        columns = (TextColumn("read"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        # It leaves nothing behind: what is found wrong with a file gets its one line alone.
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
    """A bar over what is being read; it starts again whenever that has another name."""
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
            bars.start()  # not earlier: a mistake found before the first row gets its one line alone
            bars.add_task(name, total=total)
        elif name != shown:
            bars.reset(bars.task_ids[0], total=total, description=name)
        shown = name
        bars.update(bars.task_ids[0], completed=done, total=total)

    try:
        yield show
    finally:
        bars.stop()
