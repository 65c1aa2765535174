"""Which correction explains held-out noisy labels best, if any does clearly better than none.

For each fold all is done without it: models for P(noisy | x), T, the corrected rows, the model fitted on
them. Only then its noisy labels are looked at, through T. A row's evidence must come from a model that has
seen neither that row's fold nor the fold held out, so models are fitted without each pair of folds. Without
this, evidence that has seen the held-out labels would favour the correction that copies it most closely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from trevision.estimation import Estimator, ProbabilityRows, Solution
from trevision.noise import FloatArray, IntArray
from trevision.prior import Prior
from trevision.refit.correction import Correction, Evidence, Training
from trevision.refit.models import fit_model
from trevision.refit.scoring import LEAST_PROBABILITY, Gain, gain, held_out_log_likelihood

CLEAR_ERRORS = 1.0
"""Standard errors by which a correction must be ahead of `none`."""

MANY_CHANGES = 0.1
"""The share of changed predictions beyond which it must be ahead by more: it may do more harm."""

CLEAR_ERRORS_OF_MANY = 2.0
"""Standard errors by which a correction that changes many predictions must be ahead."""

CLEAR_SIGNAL = 2.0
"""Standard errors by which a model must beat the frequencies of the labels to tell anything of T."""

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
    size = len(transition)
    sound = transition.argmax(axis=1) == np.arange(size)
    if sound.all() or not sound.any():
        return transition
    right = float(transition.diagonal()[sound].mean())
    even = np.full((size, size), (1 - right) / (size - 1))
    np.fill_diagonal(even, right)
    return np.where(sound[:, None], transition, even)


@dataclass(frozen=True, eq=False)
class FoldEvidence:
    """What the rows outside of a fold tell, found without its labels."""

    rows: IntArray
    evidence: Evidence


@dataclass(frozen=True, eq=False)
class Score:
    """How a correction does on held-out noisy labels.

    Attributes
    ----------
    log_likelihood : float
        Mean of log P(noisy = y | x).
    gain : Gain
        Over `none`.
    held_out : ndarray of shape (n, C)
        What the models predicted for the rows that they were not fitted on.
    rows : ndarray of shape (n,)
        log P(noisy = y | x) of every row.
    changed : float
        The share of rows whose likeliest class is not that of `none`.
    agreement : float
        By how much more often its likeliest class is the held-out noisy label than that of `none`.
    """

    log_likelihood: float
    gain: Gain
    held_out: FloatArray
    rows: FloatArray
    changed: float = 0.0
    agreement: float = 0.0

    @property
    def errors_needed(self) -> float:
        """Standard errors by which it must be ahead of `none`, for what it changes."""
        return CLEAR_ERRORS_OF_MANY if self.changed > MANY_CHANGES else CLEAR_ERRORS

    @property
    def is_clear(self) -> bool:
        """Whether noisy labels are clearly likelier by it than by `none`, and hit at least as often.

        A weak model's doubt can be read as noise: T then makes labels likelier and predictions worse. Where
        labels are right more often than not, better predictions hit noisy labels more often, too.
        """
        return self.agreement >= 0 and self.gain.is_clear(self.errors_needed)


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


def held_out_predictions(task: Task, correction: Correction, collected: list[FoldEvidence]) -> FloatArray:
    """g(x) of every row by a model fitted on the corrected rows of the other folds, (n, C)."""

    def predicted(number: int, fold: NDArray[np.bool_], part: FoldEvidence) -> FloatArray:
        corrected = correction.apply(part.evidence)
        training = Training(part.rows[corrected.rows], corrected.labels, corrected.weights).times(
            task.weights
        )
        model = fit_model(task.estimator, task.x, training, task.num_classes, task.seed + number)
        return model.predict_proba(_safe_indexing(task.x, np.flatnonzero(fold)))

    parts = Parallel(n_jobs=task.n_jobs)(
        delayed(predicted)(number, fold, part)
        for number, (fold, part) in enumerate(zip(task.folds, collected, strict=True))
    )
    held_out = np.empty((len(task.labels), task.num_classes))
    for fold, values in zip(task.folds, parts, strict=True):
        held_out[fold] = values
    return held_out


def score(
    task: Task, held_out: FloatArray, transitions: list[FloatArray | None], none: Score | None = None
) -> Score:
    """How likely predictions make the noisy labels, compared with the score of `none`."""
    weights = task.row_weights
    rows = held_out_log_likelihood(held_out, task.labels, transitions, task.folds, weights)
    mean = float(weights @ rows / weights.sum())
    if none is None:
        return Score(mean, Gain(0.0, 0.0), held_out, rows)
    ours, theirs = held_out.argmax(axis=1), none.held_out.argmax(axis=1)
    hits = (ours == task.labels).astype(np.int64) - (theirs == task.labels)
    total = weights.sum()
    return Score(
        mean,
        gain(rows, none.rows, weights),
        held_out,
        rows,
        changed=float(weights @ (ours != theirs) / total),
        agreement=float(weights @ hits / total),
    )


def score_correction(task: Task, correction: Correction, collected: list[FoldEvidence], none: Score) -> Score:
    """How a correction does, given the evidence outside of each fold."""
    held_out = held_out_predictions(task, correction, collected)
    return score(task, held_out, [part.evidence.transition for part in collected], none)


def best_correction(scores: dict[str, Score]) -> str:
    """The name of the correction, other than `none`, with the highest likelihood.

    Those whose predictions hit held-out labels less often than those of `none` come last.
    """
    names = [name for name in scores if name != "none"]
    return max(names, key=lambda name: (scores[name].agreement >= 0, scores[name].log_likelihood))


def tells_labels(task: Task, none: Score) -> bool:
    """Whether the plain model makes held-out labels clearly likelier than their frequencies do.

    If not, a T from its predictions may have classes swapped.
    """
    weights = task.row_weights
    frequencies = np.bincount(task.labels, weights, task.num_classes) / weights.sum()
    log_frequencies = np.log(np.maximum(frequencies, LEAST_PROBABILITY))[task.labels]
    return gain(none.rows, log_frequencies, weights).is_clear(CLEAR_SIGNAL)


def why(scores: dict[str, Score], best: str) -> str:
    """Why `best` was taken, or not, in words with the numbers."""
    told = ", ".join(
        f"{name} {each.gain.mean:+.4f} ± {each.gain.error:.4f}"
        for name, each in scores.items()
        if name != "none"
    )
    measure = f"gain in log-likelihood of held-out noisy labels over none, in nats a row: {told}"
    score = scores[best]
    does = (
        f"it changes {score.changed:.1%} of the predictions and hits {score.agreement:+.1%} more noisy labels"
    )
    if score.is_clear:
        return (
            f"{best}: it makes held-out noisy labels likeliest, by more than {score.errors_needed:g} "
            f"standard error(s); {does}; {measure}"
        )
    lacking = (
        "hits fewer held-out noisy labels"
        if score.agreement < 0
        else f"is not ahead by {score.errors_needed:g} standard error(s)"
    )
    return f"none: the best correction, {best}, {lacking}; {does}; {measure}"


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
