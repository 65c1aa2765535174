"""A search for a minimum that says whether it arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from trevision.noise import FloatArray

# The share of the iterations whose gain tells whether a search that was stopped was still on its way.
LAST_SHARE = 0.1


class Axes(Protocol):
    """Axes along which a search goes: a linear change of variables."""

    def move(self, distances: FloatArray, /) -> FloatArray:
        """The step that so many units along each axis make."""

    def slopes(self, slopes: FloatArray, /) -> FloatArray:
        """The slopes along the axes, from those along the numbers themselves."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a search ended.

    `finished` is the optimiser's own word: its tolerance was met before its limit. `last_gain` is by how much
    the last tenth of the iterations lowered the loss.
    """

    point: FloatArray
    loss: float
    finished: bool
    last_gain: float

    def arrived(self, negligible: float) -> bool:
        """Whether the search finished or, at its limit, no longer gained what is not negligible."""
        return self.finished or bool(self.last_gain < negligible)


def descend(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    most_iterations: int,
    ftol: float,
    gtol: float,
    enough: Callable[[], bool] = lambda: False,
) -> Minimum:
    """Minimise `objective`, which gives its value and its slopes, by L-BFGS from `start`.

    After each iteration, `enough` says whether the search may end there.
    """
    losses: list[float] = []  # at the start, and after each iteration

    def begun(values: FloatArray) -> tuple[float, FloatArray]:
        loss, slopes = objective(values)
        if not losses:
            losses.append(loss)
        return loss, slopes

    def remember(intermediate_result: OptimizeResult) -> None:
        losses.append(float(intermediate_result.fun))
        if enough():
            raise StopIteration

    ended = minimize(
        begun,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=remember,
        options={"maxiter": most_iterations, "maxcor": 20, "ftol": ftol, "gtol": gtol},
    )
    loss = float(ended.fun)
    last = max(1, int(LAST_SHARE * (len(losses) - 1)))
    earlier = losses[max(0, len(losses) - 1 - last)] if losses else loss
    return Minimum(ended.x, loss, bool(ended.success or enough()), earlier - loss)


def descend_along(
    axes: Axes,
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    most_iterations: int,
    ftol: float,
    gtol: float,
) -> Minimum:
    """The same search, for the distances from `start` along `axes`."""

    def moved(distances: FloatArray) -> tuple[float, FloatArray]:
        loss, slopes = objective(start + axes.move(distances))
        return loss, axes.slopes(slopes)

    minimum = descend(moved, np.zeros(len(start)), most_iterations, ftol, gtol)
    return replace(minimum, point=start + axes.move(minimum.point))


def settle_along(
    axes: Axes,
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    most_iterations: int,
    negligible: float,
) -> Minimum:
    """The same search near a minimum; it ends where the slopes promise a gain of less than `negligible`.

    Along axes of curvature 1, slopes s promise a gain of |s|^2 / 2 by a step of -s. Smaller gains are lost in
    the rounding of a loss in single precision, where a search for them would only repeat itself.
    """
    loss, given = objective(start)
    slopes = axes.slopes(given)
    # L-BFGS begins with a step of length 1. In this unit, that is the step of -s.
    unit = float(np.linalg.norm(slopes))

    def moved(units: FloatArray) -> tuple[float, FloatArray]:
        nonlocal loss, slopes
        if units.any():
            loss, given = objective(start + axes.move(unit * units))
            slopes = axes.slopes(given)
        return loss, unit * slopes

    def settled() -> bool:
        return bool(slopes @ slopes / 2 < negligible)

    minimum = descend(moved, np.zeros(len(start)), most_iterations, negligible / 10, 0, settled)
    return replace(minimum, point=start + axes.move(unit * minimum.point))
