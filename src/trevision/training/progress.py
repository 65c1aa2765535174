"""Observers of the training loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """Called when a stage begins, after each batch, and after each epoch with its metrics.

    A stage with 0 epochs has only steps: so many batches, and nothing is called after them.
    """

    def stage(self, name: str, epochs: int, batches: int) -> None: ...

    def batch(self) -> None: ...

    def epoch(self, metrics: Mapping[str, Any]) -> None: ...


class NoProgress:
    """Shows nothing."""

    def stage(self, name: str, epochs: int, batches: int) -> None: ...

    def batch(self) -> None: ...

    def epoch(self, metrics: Mapping[str, Any]) -> None: ...


class LineProgress:
    """On a terminal, one line that is rewritten; elsewhere, one line per stage."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.epochs = 0

    def stage(self, name: str, epochs: int, batches: int) -> None:
        self.name, self.epochs, self.began = name, epochs, time.monotonic()

    def batch(self) -> None: ...

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        done = metrics["epoch"]
        last = done == self.epochs
        if not (self.stream.isatty() or last):
            return
        start, end = ("\r", "\n" if last else "") if self.stream.isatty() else ("", "\n")
        self.stream.write(
            f"{start}{self.name}: epoch {done}/{self.epochs}, "
            f"validation error {metrics['noisy_validation_error']:.4f}, "
            f"{time.monotonic() - self.began:.0f} s{end}"
        )
        self.stream.flush()
