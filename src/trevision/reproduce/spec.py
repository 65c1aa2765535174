"""The declaration of a table or figure: its rows, its columns and what its cells measure.

Each table is a file in `tables/` with a `Spec` at module level. Constants that several tables use are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Anchors = Literal["A", "N/A"]
Grid = tuple[list[str], list[list[str]]]  # a header and rows

REAL = "real"
"""Stands for the noise already in the data."""
IMAGES = ("mnist", "cifar10", "cifar100")
BASELINES = ("decoupling", "mentornet", "co-teaching")
ALL = (*BASELINES, "forward", "reweight", "forward-r", "reweight-r")
"""The seven methods of the paper's tables."""

OF_TRANSITION = (
    *("transition_error", "transition_floor", "error_to_floor"),
    *("test_accuracy", "wrong_label_auc", "seconds"),
)
"""Measures of the tables beyond the paper: T against its sampling floor, and what T is used for."""


@dataclass(frozen=True)
class Spec:
    """One table or figure.

    Attributes
    ----------
    name, title : str
        Its name on the command line, and its title.
    datasets : tuple of str
        Its data sets; the first is the default.
    noises : tuple of str
        Columns.
    methods : tuple of str
        Rows: methods, optionally with options, as in `reweight-r:revision=frozen`.
    anchors : tuple of {"A", "N/A"}
        Whether rows are with anchor points ("A"), without ("N/A"), or both.
    measures : tuple of str
        What the cells show: names in `cells.MEASURES`.
    estimators : tuple of str
        Rows that are an estimator of T alone, without a classifier.
    schedule : str
        The default schedule of its runs.
    seeds_without_anchors : int or None
        Default maximum of runs per cell without anchor points; None for as many as with them.
    curves_of : str
        A stage whose error of T is drawn by epoch, instead of the cells.
    draw : callable or None
        For a figure without runs: draws it to a file, and returns a title and a table for the terminal.
    in_paper : bool
        Whether the paper has it.
    published_by : str
        Whose published numbers stand beside ours.
    notes : mapping of str to str
        Sentences for the page of documentation, each shown if the row of that name is.
    """

    name: str
    title: str
    datasets: tuple[str, ...] = ()
    noises: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    anchors: tuple[Anchors, ...] = ("A",)
    measures: tuple[str, ...] = ("test_accuracy",)
    estimators: tuple[str, ...] = ()
    schedule: str = "quick"
    seeds_without_anchors: int | None = None
    curves_of: str = ""
    draw: Callable[[Path], tuple[str, Grid]] | None = None
    in_paper: bool = True
    published_by: str = "paper"
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def row_names(self) -> tuple[str, ...]:
        return (*self.estimators, *self.methods)

    def seeds_of_rest(self, seeds: int) -> int:
        """The default number of runs per cell without anchor points, if the others have `seeds`."""
        return min(seeds, self.seeds_without_anchors or seeds)
