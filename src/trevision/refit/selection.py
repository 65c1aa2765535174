"""Which correction explains held-out noisy labels best, if any does clearly better than none.

For each fold all is done without it: models for P(noisy | x), T, the corrected rows, the model fitted on
them. Only then its noisy labels are looked at, through T. A row's evidence must come from a model that has
seen neither that row's fold nor the fold held out, so models are fitted without each pair of folds. Without
this, evidence that has seen the held-out labels would favour the correction that copies it most closely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from trevision.estimation import Estimator, ProbabilityRows, Solution
from trevision.estimation.pooling import with_mean_rows
from trevision.noise import FloatArray, IntArray
from trevision.prior import Prior
from trevision.refit.correction import Correction, Evidence, Training
from trevision.refit.held_out import Score, score
from trevision.refit.models import FittedModel, fit_model

LEAST_FOLDS = 3
"""With two folds, no rows are left to fit on when both are held out."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learnt: rows, codes of their labels, their weights, the folds and the model."""

    estimator: Any
    x: Any
    labels: IntArray
    weights: FloatArray | None
    folds: list[NDArray[np.bool_]]
    num_classes: int
    seed: int
    n_jobs: int | None = None

    @property
    def plain(self) -> Training:
        """The labels as given."""
        count = len(self.labels)
        return Training(np.arange(count), self.labels, np.ones(count)).times(self.weights)

    @property
    def row_weights(self) -> FloatArray:
        return np.ones(len(self.labels)) if self.weights is None else self.weights

    def solve(
        self,
        transition_estimator: Estimator,
        probs: FloatArray,
        rows: IntArray,
        start: Solution | None = None,
        transition: FloatArray | None = None,
        replaced: list[int] | None = None,
    ) -> Solution:
        """T and the link to the clean posterior from rows of P(noisy | x); with T given, the link alone.

        A T in which a class has another label most often is put right by `own_label_commonest`; the codes of
        such classes are added to `replaced`.
        """
        weights = None if self.weights is None else self.weights[rows]
        given = ProbabilityRows(probs[rows], self.labels[rows])
        if transition is not None:
            known = Prior(known_rows=dict(enumerate(transition)))
            return transition_estimator.solve(given, weights, knowledge=known)
        # A start helps where a link is fitted; other estimators may tie it to their rows.
        begin = start if start is not None and start.has_own_posterior else None
        solution = transition_estimator.solve(given, weights, start=begin)
        dominant = own_label_commonest(solution.transition)
        if dominant is solution.transition:
            return solution
        if replaced is not None:
            replaced += np.flatnonzero((dominant != solution.transition).any(axis=1)).tolist()
        return self.solve(transition_estimator, probs, rows, transition=dominant)


def own_label_commonest(transition: FloatArray) -> FloatArray:
    """T itself if the own label of every class is its commonest, else T with the other rows replaced.

    A rare class has few rows to tell what its labels are, and may be taken for a part of another class. Its
    row is then replaced by the mean diagonal of the sound rows, with mistakes spread evenly.

    >>> own_label_commonest(np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.1, 0.7, 0.2]])).round(2)
    array([[0.8 , 0.1 , 0.1 ],
           [0.3 , 0.6 , 0.1 ],
           [0.15, 0.15, 0.7 ]])
    """
    sound = transition.argmax(axis=1) == np.arange(len(transition))
    return transition if sound.all() or not sound.any() else with_mean_rows(transition, ~sound)


@dataclass(frozen=True, eq=False)
class FoldEvidence:
    """What the rows outside of a fold tell, found without its labels."""

    rows: IntArray
    evidence: Evidence


def collect_evidence(
    task: Task, pair_probs: list[FloatArray], solve: Callable[[int, FloatArray, IntArray], Solution]
) -> list[FoldEvidence]:
    """For each fold the evidence of all other rows; `solve` takes the fold's number, probabilities, rows."""
    collected = []
    for number, (fold, probs) in enumerate(zip(task.folds, pair_probs, strict=True)):
        rows = np.flatnonzero(~fold & (task.row_weights > 0))
        solution = solve(number, probs, rows)
        noisy = probs[rows]
        clean = solution.clean_posterior(noisy)
        weights = None if task.weights is None else task.weights[rows]
        evidence = Evidence(task.labels[rows], clean, solution.transition, noisy, weights)
        collected.append(FoldEvidence(rows, evidence))
    return collected


def held_out_predictions(
    task: Task, correction: Correction, collected: list[FoldEvidence]
) -> tuple[FloatArray, tuple[FittedModel, ...]]:
    """g(x) of every row by a model fitted on the corrected rows of the other folds, (n, C); the models."""

    def predicted(number: int, fold: NDArray[np.bool_], part: FoldEvidence) -> tuple[FloatArray, FittedModel]:
        corrected = correction.apply(part.evidence)
        training = Training(part.rows[corrected.rows], corrected.labels, corrected.weights).times(
            task.weights
        )
        model = fit_model(task.estimator, task.x, training, task.num_classes, task.seed + number)
        return model.predict_proba(_safe_indexing(task.x, np.flatnonzero(fold))), model

    parts = Parallel(n_jobs=task.n_jobs)(
        delayed(predicted)(number, fold, part)
        for number, (fold, part) in enumerate(zip(task.folds, collected, strict=True))
    )
    held_out = np.empty((len(task.labels), task.num_classes))
    for fold, (values, _) in zip(task.folds, parts, strict=True):
        held_out[fold] = values
    return held_out, tuple(model for _, model in parts)


def score_correction(task: Task, correction: Correction, collected: list[FoldEvidence], none: Score) -> Score:
    """How a correction does, given the evidence outside of each fold."""
    held_out, models = held_out_predictions(task, correction, collected)
    scored = score(task, held_out, [part.evidence.transition for part in collected], none)
    return replace(scored, models=models)


def probs_without_pairs(task: Task) -> list[FloatArray]:
    """For each fold, P(noisy | x) of the other rows by models fitted without that fold and without theirs.

    The model that is fitted without folds j and k serves both: it predicts the rows of j for k, of k for j.
    """
    pairs = list(combinations(range(len(task.folds)), 2))

    def predicted(first: int, second: int) -> tuple[FloatArray, FloatArray]:
        left_out = task.folds[first], task.folds[second]
        training = task.plain.among(~(left_out[0] | left_out[1]))
        model = fit_model(task.estimator, task.x, training, task.num_classes, task.seed)
        of_first, of_second = (
            model.predict_proba(_safe_indexing(task.x, np.flatnonzero(fold))) for fold in left_out
        )
        return of_first, of_second

    results = Parallel(n_jobs=task.n_jobs)(delayed(predicted)(*pair) for pair in pairs)
    probs = [np.full((len(task.labels), task.num_classes), np.nan) for _ in task.folds]
    for (first, second), (of_first, of_second) in zip(pairs, results, strict=True):
        probs[second][task.folds[first]] = of_first
        probs[first][task.folds[second]] = of_second
    return probs
