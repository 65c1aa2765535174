"""Reasons not to train through an estimated T.

A T from few rows, or of labels that are not wrong by class alone, can be worse than none. Each function
answers with a reason in words, or with an empty string if there is none.
"""

from __future__ import annotations

import numpy as np

from trevision.estimation import ProbabilityRows, Solution
from trevision.estimation.diagnosis import LIMITS, MOST_TESTED, SIGNIFICANCE
from trevision.estimation.fit_test import FitTest, LabelTally
from trevision.noise import FloatArray

WIDE_INTERVAL, HUGE_INTERVAL = LIMITS["rare classes"]
NINETY_PER_CENT = 3.29
"""The width of a 90% interval in standard errors."""


def doubt_of_transition(
    transition: FloatArray, solution: Solution | None = None, rows: ProbabilityRows | None = None
) -> str:
    """Why T is degenerate, or contradicted by the labels of the `rows` that `solution` was found from."""
    if not np.isfinite(transition).all():
        return "it is not finite"
    diagonal = transition.diagonal()
    outvoted = np.flatnonzero(diagonal < transition.max(axis=1))
    if len(outvoted):
        first = int(outvoted[0])
        return (
            f"rows of class {first} would be labelled {int(transition[first].argmax())} more often "
            f"({transition[first].max():.0%}) than rightly ({diagonal[first]:.0%})"
        )
    condition = float(np.linalg.cond(transition))
    if condition >= LIMITS["condition"][1]:
        return f"it is nearly singular (condition number {condition:.3g})"
    if solution is None or rows is None:
        return ""
    test = fit_of_labels(solution, rows)
    if test.p_value < SIGNIFICANCE and test.unexplained >= LIMITS["fit"][1]:
        return (
            f"one T for all rows does not explain the given labels ({test.unexplained:.1%} off, "
            f"p = {test.p_value:.2g}): mistakes depend on more than the class"
        )
    return ""


def fit_of_labels(solution: Solution, rows: ProbabilityRows) -> FitTest:
    """The test whether labels come as often as T and the clean posterior say."""
    tally = LabelTally(solution.transition)
    share = min(1.0, MOST_TESTED / len(rows))
    rng = np.random.default_rng(0)
    for probs, labels, _ in rows.chunks():
        chosen = slice(None) if share == 1 else rng.random(len(probs)) < share
        probs, labels = probs[chosen], labels[chosen]
        clean = solution.clean_posterior(probs)
        predicted = clean @ solution.transition
        tally.add(tally.groups(probs, predicted, clean.argmax(axis=1)), predicted, labels)
    return tally.test()


def doubt_of_spread(transitions: list[FloatArray], converged: bool = True) -> str:
    """Why T is not identified: how much it moves when each of the folds is left out (the jackknife).

    A search that did not converge may still have found T, if others from other rows found nearly the same.
    """
    count = len(transitions)
    stacked = np.stack(transitions)
    errors = np.sqrt((count - 1) * stacked.var(axis=0)).diagonal()
    widest = int(errors.argmax())
    width = NINETY_PER_CENT * float(errors[widest])
    if width < (HUGE_INTERVAL if converged else WIDE_INTERVAL):
        return ""
    low, high = stacked[:, widest, widest].min(), stacked[:, widest, widest].max()
    search = "" if converged else ", and the search for it did not converge"
    return (
        f"it is not identified{search}: without one fold or another, between {low:.0%} and {high:.0%} of the "
        f"labels of class {widest} would be right"
    )
