"""The paper's revision for models without gradients: T once more, from what corrected models predict.

In the paper T-hat + Delta T and the network follow the gradient of one loss (Xia et al. 2019, Algorithm 1).
Here T and the model take turns: models are fitted on corrected labels, T is estimated again from what they
predict for rows held out, and the link from P(noisy | x) to the clean posterior is fitted again for that T.
The step counts only if it makes held-out noisy labels clearly likelier and predictions hit no fewer of them:
a model that has learnt to explain its labels would otherwise talk T into agreeing with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trevision.estimation import Estimator, Solution
from trevision.noise import FloatArray, IntArray
from trevision.refit.correction import Correction
from trevision.refit.held_out import Score
from trevision.refit.scoring import calibrate, gain
from trevision.refit.selection import Task, collect_evidence, score_correction

CLEAR_STEP = 2.0
"""Standard errors by which held-out labels must be likelier with the revised T."""


@dataclass(frozen=True, eq=False)
class Revised:
    """The solution with the revised T, its score, whether it was accepted, and a record of the step."""

    accepted: bool
    solution: Solution
    score: Score
    record: dict[str, Any]


def revise(
    task: Task,
    transition_estimator: Estimator,
    correction: Correction,
    noisy_probs: FloatArray,
    pair_probs: list[FloatArray],
    before: Score,
    none: Score,
) -> Revised:
    """T once more from held-out predictions of corrected models, and whether that helps.

    Fold by fold, T is revised on the other folds and the model is fitted again by it, on evidence that has
    not seen the fold. Then the fold's noisy labels are scored.
    """
    everything = np.flatnonzero(task.row_weights > 0)
    whole = _estimated_again(task, transition_estimator, before.held_out, everything)

    def solve(number: int, probs: FloatArray, rows: IntArray) -> Solution:
        again = _estimated_again(task, transition_estimator, before.held_out, rows, whole)
        return task.solve(transition_estimator, probs, rows, transition=again.transition)

    after = score_correction(task, correction, collect_evidence(task, pair_probs, solve), none)
    step = gain(after.rows, before.rows, task.row_weights)
    accepted = step.is_clear(CLEAR_STEP) and after.hits.mean >= before.hits.mean
    solution = task.solve(transition_estimator, noisy_probs, everything, transition=whole.transition)
    record = {
        "step": "revise T",
        "correction": correction.name,
        "accepted": accepted,
        "gain": step.mean,
        "error": step.error,
        "log_likelihood": after.log_likelihood,
    }
    return Revised(accepted, solution, after, record)


def _estimated_again(
    task: Task,
    transition_estimator: Estimator,
    predicted: FloatArray,
    rows: IntArray,
    start: Solution | None = None,
) -> Solution:
    """T from calibrated predictions of corrected models for some rows."""
    labels, weights = task.labels[rows], task.row_weights[rows]
    frequencies = np.bincount(labels, weights, task.num_classes) / weights.sum()
    power = replace(calibrate(predicted[rows], labels, None, frequencies, weights), share=0.0)
    return task.solve(transition_estimator, power.noisy_probs(predicted, None, frequencies), rows, start)
