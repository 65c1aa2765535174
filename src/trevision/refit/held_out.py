"""How a correction does on held-out noisy labels, and whether it does clearly better than none.

The same rules serve scikit-learn models (`selection.py`) and the network (`methods/auto.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from trevision.noise import FloatArray, IntArray
from trevision.refit.scoring import LEAST_PROBABILITY, Gain, gain, held_out_log_likelihood

if TYPE_CHECKING:
    from trevision.refit.models import FittedModel

CLEAR_ERRORS = 1.0
"""Standard errors by which a correction must be ahead of `none`."""

MANY_CHANGES = 0.1
"""The share of changed predictions beyond which it must be ahead by more: it may do more harm."""

CLEAR_ERRORS_OF_MANY = 2.0
"""Standard errors by which a correction that changes many predictions must be ahead."""

CLEARLY_BEHIND = -1.0
"""Standard errors behind `none` at which held-out labels speak against a correction through a told T."""

CLEARLY_FEWER = -2.0
"""Standard errors of the hits at which such a correction hits clearly fewer labels than `none`."""

CLEAR_SIGNAL = 2.0
"""Standard errors by which a model must beat the frequencies of the labels to tell anything of T."""


class Labelled(Protocol):
    """Held-out noisy labels, and the folds that they were predicted by. Each is calibrated by the others."""

    @property
    def labels(self) -> IntArray: ...

    @property
    def row_weights(self) -> FloatArray: ...

    @property
    def folds(self) -> list[NDArray[np.bool_]]: ...

    @property
    def num_classes(self) -> int: ...


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Labels with nothing else: what a comparison of predictions needs."""

    labels: IntArray
    row_weights: FloatArray
    folds: list[NDArray[np.bool_]]
    num_classes: int


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
    agreement_error : float
        The standard error of `agreement`.
    accuracy : float
        How often its likeliest class is the held-out noisy label.
    clear_errors : float
        Standard errors by which it must be ahead of `none`; more if it changes many predictions.
    models : tuple of FittedModel
        The scikit-learn models that predicted them, one a fold.
    """

    log_likelihood: float
    gain: Gain
    held_out: FloatArray
    rows: FloatArray
    changed: float = 0.0
    agreement: float = 0.0
    agreement_error: float = 0.0
    accuracy: float = float("nan")
    clear_errors: float = CLEAR_ERRORS
    models: tuple[FittedModel, ...] = ()

    @property
    def errors_needed(self) -> float:
        """Standard errors by which it must be ahead of `none`, for what it changes."""
        return CLEAR_ERRORS_OF_MANY if self.changed > MANY_CHANGES else self.clear_errors

    @property
    def is_clear(self) -> bool:
        """Whether noisy labels are clearly likelier by it than by `none`, and hit at least as often.

        A weak model's doubt can be read as noise: T then makes labels likelier and predictions worse. Where
        labels are right more often than not, better predictions hit noisy labels more often, too.
        """
        return self.agreement >= 0 and self.gain.is_clear(self.errors_needed)

    @property
    def is_not_refuted(self) -> bool:
        """Whether held-out noisy labels leave it open that it is better than `none`.

        A flexible model learns P(noisy | x) as well without T as with it, and where mistakes are uneven the
        better prediction of the clean label may hit fewer noisy ones. So labels cannot speak for a right T.
        They can speak against a wrong one.
        """
        hits = self.agreement >= CLEARLY_FEWER * self.agreement_error
        return hits and self.gain.mean >= CLEARLY_BEHIND * self.gain.error


def score(
    task: Labelled, held_out: FloatArray, transitions: list[FloatArray | None], none: Score | None = None
) -> Score:
    """How likely predictions make the noisy labels, compared with the score of `none`."""
    weights = task.row_weights
    rows = held_out_log_likelihood(held_out, task.labels, transitions, task.folds, weights)
    mean = float(weights @ rows / weights.sum())
    ours, total = held_out.argmax(axis=1), weights.sum()
    accuracy = float(weights @ (ours == task.labels) / total)
    if none is None:
        return Score(mean, Gain(0.0, 0.0), held_out, rows, accuracy=accuracy)
    theirs = none.held_out.argmax(axis=1)
    hits = (ours == task.labels).astype(np.int64) - (theirs == task.labels)
    agreement = float(weights @ hits / total)
    return Score(
        mean,
        gain(rows, none.rows, weights),
        held_out,
        rows,
        changed=float(weights @ (ours != theirs) / total),
        agreement=agreement,
        agreement_error=float(np.sqrt(weights**2 @ (hits - agreement) ** 2) / total),
        accuracy=accuracy,
    )


def best_correction(scores: dict[str, Score]) -> str:
    """The name of the correction, other than `none`, with the highest likelihood.

    Those whose predictions hit held-out labels less often than those of `none` come last.
    """
    names = [name for name in scores if name != "none"]
    return max(names, key=lambda name: (scores[name].agreement >= 0, scores[name].log_likelihood))


def tells_labels(task: Labelled, none: Score) -> bool:
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
