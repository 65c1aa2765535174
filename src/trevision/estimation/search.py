"""A search for a minimum that says whether it arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from trevision.noise import FloatArray

# The share of the iterations whose gain tells whether a search that was stopped was still on its way.
LAST_SHARE = 0.1


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
        return self.finished or self.last_gain < negligible


def descend(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    most_iterations: int,
    ftol: float,
    gtol: float,
) -> Minimum:
    """Minimise `objective`, which gives its value and its slopes, by L-BFGS from `start`."""
    losses: list[float] = []

    def remember(intermediate_result: OptimizeResult) -> None:
        losses.append(float(intermediate_result.fun))

    ended = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=remember,
        options={"maxiter": most_iterations, "maxcor": 20, "ftol": ftol, "gtol": gtol},
    )
    loss = float(ended.fun)
    earlier = losses[-1 - int(LAST_SHARE * len(losses))] if losses else np.inf
    return Minimum(ended.x, loss, bool(ended.success), float(earlier - loss))
