"""What a learning method declares about itself, beside the function that does it.

A method is one file in this folder with a `Method` at module level. The registry, the command line, the
sharing of stages between runs and the lists in help and docs follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trevision.methods.problem import Learned, Problem


@dataclass(frozen=True)
class Method:
    """A learning method, by its name on the command line.

    Attributes
    ----------
    name : str
        The name, in lower case with hyphens.
    fit : callable
        From a `Problem` to what was `Learned`: a straight line of named stages.
    options : tuple of str
        The fields of `Options` that this method has a use for, besides `estimator`. Making any other choice
        is an error.
    starts_from_estimate : bool
        Whether it runs stage 1 and estimates T from it, if only for the record. Such a method takes the
        option `estimator` and shares its stage 1 with all others. False for one that learns T from the start.
    own_estimator : str or None
        The estimator of T that it starts from, whatever the schedule's is.
    most_classes : int or None
        The most classes that it is for; None if there is no limit.
    family : str or None
        Methods of one family have the same second stage, the one named `classifier`: one run of a table
        trains it for all of them.
    """

    name: str
    fit: Callable[[Problem], Learned]
    options: tuple[str, ...] = ()
    starts_from_estimate: bool = True
    own_estimator: str | None = None
    most_classes: int | None = None
    family: str | None = None

    def __call__(self, problem: Problem) -> Learned:
        return self.fit(problem)

    def takes(self, option: str) -> bool:
        """Whether it has a use for the field `option` of `Options`."""
        return option in self.options or (option == "estimator" and self.starts_from_estimate)
