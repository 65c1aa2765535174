"""The transition matrices as tables of coloured cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trevision.report.run_files import RunRecord

MOST_CLASSES = 100
"""Maximum classes in a matrix: more cells cannot be read."""
LEVELS = 10
"""Shades from empty to full."""


@dataclass(frozen=True)
class Cell:
    """A share in percent, and the class of the style sheet that colours it."""

    percent: str
    style: str


@dataclass(frozen=True)
class Panel:
    """One matrix: a title, a line on what it is, and its cells."""

    title: str
    about: str
    values: np.ndarray
    cells: list[list[Cell]]
    has_interval: bool


@dataclass(frozen=True)
class Matrices:
    """Panels over the same classes and with the same colours."""

    names: list[str]
    all_classes: int
    strongest: float
    """The off-diagonal share that gets the full colour."""
    panels: list[Panel]
    low: np.ndarray | None
    high: np.ndarray | None

    @property
    def density(self) -> str:
        """How large a cell is drawn, for the style sheet."""
        sizes = ((5, "cells-large"), (12, "cells-medium"), (30, "cells-small"), (60, "cells-tiny"))
        return next((name for most, name in sizes if len(self.names) <= most), "cells-dot")

    def for_script(self) -> dict[str, object]:
        """The data with which the page shows the value under the pointer."""
        return {
            "names": self.names,
            "panels": [panel.values.round(4).tolist() for panel in self.panels],
            "low": None if self.low is None else self.low.round(4).tolist(),
            "high": None if self.high is None else self.high.round(4).tolist(),
        }


def draw_matrices(run: RunRecord) -> Matrices:
    """The initial T, the revised T and the out-of-sample estimate; equal matrices are drawn once."""
    kept = _most_confused(run.noise.joint)
    block = np.ix_(kept, kept)
    has_intervals = run.noise.low is not None
    before, after = ("Before revision", "the first estimate of the run"), "After revision"
    if not run.result.get("starts_from_estimate", True):
        before, after = ("At the start", "where this method begins"), "After training"
    described = [
        (*before, run.initial, False),
        (after, "as the run learnt it", run.revised, False),
        (
            "Out of sample",
            f"estimated anew, with {run.noise.level:.0%} intervals" if has_intervals else "estimated anew",
            run.noise.transition,
            has_intervals,
        ),
    ]
    if np.allclose(run.initial, run.revised, atol=1e-6):
        described = [("Of the run", "this method does not revise it", run.revised, False), described[2]]
    if run.crowd is not None:
        described = [
            ("Of one answer", "by anybody, as the run learnt it", run.revised, False),
            ("Of the vote", *described[-1][1:]),
        ]
    off_diagonal = ~np.eye(len(kept), dtype=bool)
    strongest = max(max(float(matrix[block][off_diagonal].max()) for _, _, matrix, _ in described), 0.01)
    panels = [
        Panel(title, about, matrix[block], _cells(matrix[block], strongest), has_interval)
        for title, about, matrix, has_interval in described
    ]
    names = [run.noise.classes[code] for code in kept]
    low, high = (None if ends is None else ends[block] for ends in (run.noise.low, run.noise.high))
    return Matrices(names, len(run.noise.classes), strongest, panels, low, high)


def _most_confused(joint: np.ndarray) -> np.ndarray:
    """The classes with the most mistakes, in their usual order; all classes if there are few."""
    wrong = joint * (1 - np.eye(len(joint)))
    taking_part = wrong.sum(axis=0) + wrong.sum(axis=1)
    return np.sort(np.argsort(-taking_part, kind="stable")[:MOST_CLASSES])


def _cells(matrix: np.ndarray, strongest: float) -> list[list[Cell]]:
    return [
        [
            _cell(float(value), "right" if i == j else "wrong", 1.0 if i == j else strongest)
            for j, value in enumerate(row)
        ]
        for i, row in enumerate(matrix)
    ]


def _cell(value: float, kind: str, full: float) -> Cell:
    # A revised T may leave [0, 1] a little. Its colour is clipped, its number is not.
    level = round(LEVELS * min(max(value / full, 0.0), 1.0))
    return Cell(f"{100 * value:.0f}".replace("-0", "0"), f"{kind}-{level}")
