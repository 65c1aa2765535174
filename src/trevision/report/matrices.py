"""The transition matrix as a table of coloured cells, on the same scale in every page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trevision.runs.issue_files import FoundNoise

MOST_CLASSES = 100
"""Maximum classes in a matrix: more cells cannot be read."""
LEVELS = 10
"""Shades from empty to full."""
STRONGEST = 0.5
"""The share of wrong labels that gets the full colour."""


@dataclass(frozen=True)
class Cell:
    """A share in percent, and the class of the style sheet that colours it."""

    percent: str
    style: str


@dataclass(frozen=True)
class Matrix:
    """T over the classes with the most mistakes, with its intervals if there are any."""

    names: list[str]
    all_classes: int
    values: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    cells: list[list[Cell]]

    @property
    def density(self) -> str:
        """How large a cell is drawn, for the style sheet."""
        sizes = ((5, "cells-large"), (12, "cells-medium"), (30, "cells-small"), (60, "cells-tiny"))
        return next((name for most, name in sizes if len(self.names) <= most), "cells-dot")

    def for_script(self) -> dict[str, object]:
        """The data with which the page shows the value under the pointer."""
        return {
            "names": self.names,
            "values": self.values.round(4).tolist(),
            "low": None if self.low is None else self.low.round(4).tolist(),
            "high": None if self.high is None else self.high.round(4).tolist(),
        }


def draw_matrix(noise: FoundNoise) -> Matrix:
    """T as it was estimated out of sample."""
    kept = _most_confused(noise.joint)
    block = np.ix_(kept, kept)
    low, high = (None if ends is None else ends[block] for ends in (noise.low, noise.high))
    values = noise.transition[block]
    names = [noise.classes[code] for code in kept]
    return Matrix(names, len(noise.classes), values, low, high, _cells(values))


def _most_confused(joint: np.ndarray) -> np.ndarray:
    """The classes with the most mistakes, in their usual order; all classes if there are few."""
    wrong = joint * (1 - np.eye(len(joint)))
    taking_part = wrong.sum(axis=0) + wrong.sum(axis=1)
    return np.sort(np.argsort(-taking_part, kind="stable")[:MOST_CLASSES])


def _cells(matrix: np.ndarray) -> list[list[Cell]]:
    return [[_cell(float(value), i == j) for j, value in enumerate(row)] for i, row in enumerate(matrix)]


def _cell(value: float, is_right: bool) -> Cell:
    full = 1.0 if is_right else STRONGEST
    level = round(LEVELS * min(max(value / full, 0.0), 1.0))
    return Cell(f"{100 * value:.0f}", f"{'right' if is_right else 'wrong'}-{level}")
