"""Which correction to make, and by which T.

1. The corrections by the estimated T are compared on held-out noisy labels. The best is made if it is clearly
   ahead of none, and the model tells the labels at all.
2. If none is clear and the model contradicts many labels, `confident` is made, unless held-out labels speak
   against it or it would change very many predictions. Few rows with heavy noise leave the likelihood
   undecided, and there leaving out the labels that the model is surest against does less harm than believing
   them. A weak model, though, contradicts labels because it is weak: pruning by it changes much.
3. Otherwise the labels stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trevision.estimation import Estimator, Solution, default_estimator, find_estimator
from trevision.noise import FloatArray, IntArray
from trevision.refit.correction import Correction
from trevision.refit.held_out import CLEAR_ERRORS, Score, best_correction, score, tells_labels, why
from trevision.refit.registry import CORRECTIONS
from trevision.refit.revision import revise
from trevision.refit.selection import Task, collect_evidence, probs_without_pairs, score_correction

MANY_CONTRADICTED = 0.3
"""The share of labels that the model contradicts out of fold from which `confident` is considered."""

CLEARLY_BEHIND = -2.0
"""Standard errors behind none at which held-out labels speak against `confident`."""

MOST_CHANGED = 0.3
"""The share of changed predictions beyond which the model is too weak for `confident`."""

LAST_RESORT = "confident"


@dataclass(frozen=True, eq=False)
class Choice:
    """The correction to make, the T and g to make it by, and why.

    `scores` has the score of each correction compared, `records` what was done. `told` is the name of the
    score by which the correction was chosen; None if nothing was compared. `averages` says whether the models
    of the folds share in predictions.
    """

    correction: Correction
    solution: Solution
    reason: str
    scores: dict[str, Score] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    told: str | None = None
    averages: bool = False


def choose(
    task: Task, solver: Estimator, probs: FloatArray, solution: Solution, asked: str | None, revises: bool
) -> Choice:
    """Compare the corrections, or only the one `asked` for, and revise T for the best."""
    pair_probs = probs_without_pairs(task)
    none = score(task, probs, [None] * len(task.folds))
    collected = collect_evidence(
        task, pair_probs, lambda _, each, rows: task.solve(solver, each, rows, solution)
    )
    by_any_transition = [
        name for name, each in CORRECTIONS.items() if each.uses_transition and each.estimator is None
    ]
    names = [asked] if asked else by_any_transition
    scores = {name: score_correction(task, CORRECTIONS[name], collected, none) for name in names}
    scores["none"] = none
    best = told = best_correction(scores)
    records = []
    if revises:
        revised = revise(task, solver, CORRECTIONS[best], probs, pair_probs, scores[best], none)
        records.append(revised.record)
        scores[f"{best} with revised T"] = revised.score
        if revised.accepted:
            solution, told = revised.solution, f"{best} with revised T"
    if asked:
        return Choice(CORRECTIONS[asked], solution, f"{asked}: as asked for", scores, records)
    reason = why(scores, told)
    if not tells_labels(task, none):
        reason = (
            f"none: the model predicts held-out noisy labels no better than their frequencies do; {reason}"
        )
    elif scores[told].is_clear:
        averages = shares_with_folds(task, none, pair_probs, best)
        return Choice(CORRECTIONS[best], solution, reason, scores, records, told, averages)
    averages = shares_with_folds(task, none, pair_probs, "none")
    plain = Choice(CORRECTIONS["none"], solution, reason, scores, records, "none", averages)
    return _where_undecided(task, probs, pair_probs, plain)


def shares_with_folds(task: Task, none: Score, pair_probs: list[FloatArray], correction: str) -> bool:
    """Whether the models of the folds are to share in predictions, judged by smaller models.

    Models without a fold and without another one stand to the model without the fold as the models of all
    folds stand to the model of all rows. Averaged with it, do they tell held-out labels better than it alone?
    Trees gain by such an average; a model that wants every row it can get loses. A correction draws on few
    and doubtful rows, and is averaged unless that is clearly worse; the plain model if it is clearly better.
    """
    smaller = np.nanmean(np.stack(pair_probs), axis=0)
    averaged = score(task, (none.held_out + smaller) / 2, [None] * len(task.folds), none)
    if correction == "none":
        return averaged.hits.mean >= 0 and averaged.gain.is_clear(CLEAR_ERRORS)
    return averaged.gain.mean >= -CLEAR_ERRORS * averaged.gain.error


def contradicted(task: Task, probs: FloatArray) -> float:
    """The share of labels that are not the likeliest by a model that was not fitted on them."""
    weights = task.row_weights
    return float(weights @ (probs.argmax(axis=1) != task.labels) / weights.sum())


def _where_undecided(task: Task, probs: FloatArray, pair_probs: list[FloatArray], plain: Choice) -> Choice:
    """`confident` if many labels are contradicted and held-out ones do not speak against it, else `plain`."""
    share = contradicted(task, probs)
    if share <= MANY_CONTRADICTED:
        return plain
    correction = CORRECTIONS[LAST_RESORT]
    solver = find_estimator(correction.estimator or default_estimator(task.num_classes))

    def solve(_: int, each: FloatArray, rows: IntArray) -> Solution:
        return task.solve(solver, each, rows)

    compared = score_correction(
        task, correction, collect_evidence(task, pair_probs, solve), plain.scores["none"]
    )
    scores = plain.scores | {correction.name: compared}
    told = (
        f"the model contradicts {share:.0%} of the labels out of fold; {correction.name} "
        f"{compared.gain.mean:+.4f} ± {compared.gain.error:.4f}, which changes {compared.changed:.1%} of the "
        "predictions,"
    )
    refused = None
    if compared.gain.mean < CLEARLY_BEHIND * compared.gain.error:
        refused = "is clearly behind none"
    elif compared.changed > MOST_CHANGED:
        refused = "changes too much for a model that is sound"
    if refused:
        return replace(plain, reason=f"{plain.reason}; {told} {refused}", scores=scores)
    reason = (
        f"{correction.name}: held-out noisy labels do not tell which correction is best, and {told} is not "
        f"clearly behind none; without it, {plain.reason}"
    )
    everything = np.flatnonzero(task.row_weights > 0)
    solution = task.solve(solver, probs, everything)
    averages = shares_with_folds(task, plain.scores["none"], pair_probs, correction.name)
    return Choice(correction, solution, reason, scores, plain.records, correction.name, averages)
