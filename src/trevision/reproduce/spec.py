"""What a table or figure is: its rows, its columns and what its cells measure.

Each table is a file in `tables/` that declares a SPEC; what several of them use is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Anchors = Literal["A", "N/A"]
Grid = tuple[list[str], list[list[str]]]  # a header and rows

REAL = "real"
"""The noise that data come with."""
IMAGES = ("mnist", "cifar10", "cifar100")
BASELINES = ("decoupling", "mentornet", "co-teaching")
ALL = (*BASELINES, "forward", "reweight", "forward-r", "reweight-r")
"""The seven methods of the paper's tables."""

OF_TRANSITION = (
    *("transition_error", "transition_floor", "error_to_floor"),
    *("test_accuracy", "wrong_label_auc", "seconds"),
)
"""What tables beyond the paper measure: T beside its sampling floor, and what T is good for."""


@dataclass(frozen=True)
class Spec:
    """One table or figure."""

    name: str
    title: str
    datasets: tuple[str, ...] = ()
    """Data sets that it is made for; the first is used if none is asked for."""
    noises: tuple[str, ...] = ()
    """Columns."""
    methods: tuple[str, ...] = ()
    """Rows: methods, each perhaps with options, as in `reweight-r:revision=frozen`."""
    anchors: tuple[Anchors, ...] = ("A",)
    """Whether rows are with anchor points ("A"), without ("N/A"), or both."""
    measures: tuple[str, ...] = ("test_accuracy",)
    """What the cells are of: names in `cells.MEASURES`."""
    estimators: tuple[str, ...] = ()
    """Rows that are an estimator of T alone, without a classifier."""
    schedule: str = "quick"
    """The schedule of its runs, unless another is asked for."""
    seeds_without_anchors: int | None = None
    """The most runs of a cell without anchor points, unless others are asked for; None: as with them."""
    curves_of: str = ""
    """A stage whose error of T is drawn by epoch, in place of the cells."""
    draw: Callable[[Path], tuple[str, Grid]] | None = None
    """For a figure that needs no runs: draws it to a file, and returns title and table for the terminal."""
    in_paper: bool = True

    @property
    def row_names(self) -> tuple[str, ...]:
        return (*self.estimators, *self.methods)

    def seeds_of_rest(self, seeds: int) -> int:
        """The runs of each cell without anchor points, where those with them have `seeds`."""
        return min(seeds, self.seeds_without_anchors or seeds)
