"""How a correction does on held-out noisy labels, and whether it does clearly better than none.

The same rules serve scikit-learn models (`selection.py`) and the network (`methods/auto.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from trevision.noise import FloatArray, IntArray
from trevision.refit.scoring import LEAST_PROBABILITY, Gain, gain, held_out_noisy

if TYPE_CHECKING:
    from trevision.refit.models import FittedModel

NO_GAIN = Gain(0.0, 0.0)

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
    hits : Gain
        By how much more often the held-out label is its likeliest class than with `none`.
    hits_through : Gain
        By how much more often it is the likeliest noisy label, through T.
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
    hits: Gain = NO_GAIN
    hits_through: Gain = NO_GAIN
    accuracy: float = float("nan")
    clear_errors: float = CLEAR_ERRORS
    models: tuple[FittedModel, ...] = ()

    @property
    def errors_needed(self) -> float:
        """Standard errors by which it must be ahead of `none`, for what it changes."""
        return CLEAR_ERRORS_OF_MANY if self.changed > MANY_CHANGES else self.clear_errors

    @property
    def most_hits(self) -> Gain:
        """The greater of both kinds of hits."""
        return max(self.hits, self.hits_through, key=lambda each: each.mean)

    @property
    def is_clear(self) -> bool:
        """Whether noisy labels are clearly likelier by it than by `none`, and hit at least as often.

        A weak model's doubt can be read as noise: T then makes labels likelier and predictions worse, and
        those hit fewer labels. Better predictions hit more of them where mistakes are even. Where 40% of a
        class are given as another, they need not: the likeliest label of many rows is not their class. There
        the likeliest noisy label, through T, must be hit as often.
        """
        return self.most_hits.mean >= 0 and self.gain.is_clear(self.errors_needed)

    @property
    def is_not_refuted(self) -> bool:
        """Whether held-out noisy labels leave it open that it is better than `none`.

        A flexible model learns P(noisy | x) as well without T as with it. So labels cannot speak for a right
        T. They can speak against a wrong one.
        """
        hits = self.most_hits
        return hits.mean >= CLEARLY_FEWER * hits.error and self.gain.mean >= CLEARLY_BEHIND * self.gain.error


def score(
    task: Labelled, held_out: FloatArray, transitions: list[FloatArray | None], none: Score | None = None
) -> Score:
    """How likely predictions make the noisy labels, compared with the score of `none`."""
    labels, weights = task.labels, task.row_weights
    total = weights.sum()
    rows, noisy_labels = held_out_noisy(held_out, labels, transitions, task.folds, weights)
    scored = Score(
        log_likelihood=float(weights @ rows / total),
        gain=NO_GAIN,
        held_out=held_out,
        rows=rows,
        accuracy=float(weights @ (held_out.argmax(axis=1) == labels) / total),
    )
    if none is None:
        return scored
    ours, theirs = held_out.argmax(axis=1), none.held_out.argmax(axis=1)

    def more_hits(told: IntArray) -> Gain:
        return gain((told == labels).astype(float), (theirs == labels).astype(float), weights)

    return replace(
        scored,
        gain=gain(rows, none.rows, weights),
        changed=float(weights @ (ours != theirs) / total),
        hits=more_hits(ours),
        hits_through=more_hits(noisy_labels),
    )


def best_correction(scores: dict[str, Score]) -> str:
    """The name of the correction, other than `none`, with the highest likelihood.

    Of those by whose likeliest class labels are hit at least as often as by `none`, if the best of them is
    clear; else of those that hit as often in either way.
    """
    names = [name for name in scores if name != "none"]
    best = max(names, key=lambda name: (scores[name].hits.mean >= 0, scores[name].log_likelihood))
    if scores[best].hits.mean >= 0 and scores[best].is_clear:
        return best
    return max(names, key=lambda name: (scores[name].most_hits.mean >= 0, scores[name].log_likelihood))


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
    hits = score.most_hits.mean
    how = "through T, " if score.hits.mean < 0 <= hits else ""
    does = f"it changes {score.changed:.1%} of the predictions and {how}hits {hits:+.1%} more noisy labels"
    if score.is_clear:
        return (
            f"{best}: it makes held-out noisy labels likeliest, by more than {score.errors_needed:g} "
            f"standard error(s); {does}; {measure}"
        )
    lacking = (
        "hits fewer held-out noisy labels"
        if hits < 0
        else f"is not ahead by {score.errors_needed:g} standard error(s)"
    )
    return f"none: the best correction, {best}, {lacking}; {does}; {measure}"
