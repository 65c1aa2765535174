"""The declaration of a learning method.

A method is one file in this folder with a `Method` at module level. The registry, the command line and the
sharing of stages between runs all use this declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trevision.methods.problem import Learned, Problem
    from trevision.methods.schedules import Schedule


@dataclass(frozen=True)
class Method:
    """A learning method, by its name on the command line.

    Attributes
    ----------
    name : str
        The name, in lower case with hyphens.
    fit : callable
        Runs the method: takes a `Problem`, calls the stages in order, returns `Learned`.
    options : tuple of str
        The fields of `Options` that the method uses, besides `estimator` and `posterior`. Setting any other
        is an error.
    starts_from_estimate : bool
        Whether the method runs stage 1 and estimates T from it, if only for the record. It then takes the
        options `estimator` and `posterior`, and shares stage 1 with other methods. False if it learns T from
        the start.
    own_estimator : str or None
        The estimator of T to start from, instead of the schedule's.
    most_classes : int or None
        Maximum number of classes; None for no limit.
    family : str or None
        Methods of a family share their second stage, `classifier`: in a table it is trained once for all.
    released : mapping of str to callable
        The method's schedule `released`, by the name of the data set: the recipe of its authors, from the
        number of training rows. Empty if it has none.
    """

    name: str
    fit: Callable[[Problem], Learned]
    options: tuple[str, ...] = ()
    starts_from_estimate: bool = True
    own_estimator: str | None = None
    most_classes: int | None = None
    family: str | None = None
    released: Mapping[str, Callable[[int], Schedule]] = field(default_factory=dict, compare=False)

    def __call__(self, problem: Problem) -> Learned:
        return self.fit(problem)

    def takes(self, option: str) -> bool:
        """Whether the method uses the field `option` of `Options`."""
        of_estimate = option in ("estimator", "posterior") and self.starts_from_estimate
        return option in self.options or of_estimate
