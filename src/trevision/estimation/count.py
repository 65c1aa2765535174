"""How many labels are wrong, by two readings of the same probabilities, and whether they tell it at all.

If mistakes depend on the class alone, T counts them. Mistakes that follow the content of a row (near a
boundary, in a group of rows, by a keyword) look like right labels to T. The model may disagree with such a
label, but it disagrees also with right labels of rows that are hard. docs/panel.md has the rules, and how
often they held.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from trevision.estimation.estimator import Solution
from trevision.estimation.from_probabilities import Estimate
from trevision.estimation.latent_model import LatentFit
from trevision.estimation.profile import likely_rates
from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.noise import FloatArray

TOLD = "told"
AS_RANGE = "told as a range"
NOT_TOLD = "cannot be told from the labels alone"

LEAST_EXPLAINED = 0.45
"""The share of the model's disagreements that T must explain."""
MOST_OPEN = 0.2
"""The share of rows whose class may stay open. With more of them T is an extrapolation."""
MOST_OPEN_FOR_RANGE = 0.25
"""The share of open rows from which on T says too little for a range."""
MOST_OPEN_PER_WRONG = 0.75
"""Rows whose class stays open, for each label that T calls wrong: more could hide as many mistakes."""
WIDEST_RANGE = 4.0
"""The ends of a range, one divided by the other, beyond which it tells too little to be printed."""
WORST_CONDITION = 6.0
"""The condition number of T from which on small errors of the probabilities move the count.

A weak model, whose probabilities of two classes all lie between 0.45 and 0.55, is read as T of noise near a
half and a sure g: its condition number tells."""
HARDLY_ANY = 0.25
"""The share of the disagreements below which T has explained hardly any."""

# A part of the disagreements that T does not explain is added to the interval: a third of them where nearly
# every row's class is clear, all where open rows are about half as many as wrong labels. Below, half of that.
LEAST_ADDED = 0.3
FIRST_OPEN, LAST_OPEN = 0.25, 0.55
SHARE_BELOW = 0.5

WIDE = 0.5
"""The share added from which on an interval is called wide."""

UNEVEN, VERY_UNEVEN = 1 / 3, 1 / 2
"""From which `unevenness` on T tells rows apart although the class of many rows stays open."""

LEAST_NAMED = 0.5
"""Wrong labels by T below which there are next to none."""

BY_CHANCE = 0.001
"""How often shuffled labels may pass for labels that the probabilities tell."""

LEAST_RATE = 1e-6


@dataclass(frozen=True)
class Count:
    """The number of wrong labels, by two readings, and whether it is known.

    Attributes
    ----------
    rows : int
        The number of labels.
    level : float
        Confidence of the intervals.
    by_class : float
        Wrong labels if mistakes depend on the class alone, from T.
    by_class_low, by_class_high : float or None
        The ends of its interval, for other rows of the same kind; None without a bootstrap.
    by_model : int
        Labels with which the model disagrees out of fold: another class is likelier.
    open_rows : float
        The expected number of rows whose likeliest clean class is not their class, by the model and T.
    low, high : float or None
        The interval of the number of wrong labels. Where the count is told, it covers `by_class`, other rows,
        noise rates that explain the labels nearly as well, and a part of the disagreements that T does not
        explain; else it spans both readings.
    verdict : str
        `told`, `told as a range` or `cannot be told from the labels alone`.
    reason : str
        Why, in a sentence.
    at_least : bool
        Whether `by_class` is rather too low than too high if the reason holds.

    Examples
    --------
    >>> from trevision.estimation import estimate
    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 500, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [400, 100, 150, 350])
    >>> count = count_wrong(sure, labels, estimate(sure, labels))
    >>> count.told, count.by_model, round(count.by_class)
    (True, 250, 250)
    """

    rows: int
    level: float
    by_class: float
    by_class_low: float | None
    by_class_high: float | None
    by_model: int
    open_rows: float
    low: float | None
    high: float | None
    verdict: str
    reason: str
    at_least: bool = True

    @property
    def told(self) -> bool:
        """Whether the number is known well enough to be printed, if only as a range."""
        return self.verdict != NOT_TOLD

    @property
    def is_wide(self) -> bool:
        """Whether the interval reaches far towards the labels that the model disagrees with."""
        far = self.by_model > self.by_class and _share_added(self.open_rows, self.by_class) > WIDE
        return far or self.verdict == AS_RANGE

    def headline(self) -> str:
        """How many labels are wrong, or that it cannot be told, in a sentence without its full stop."""
        share = f"{self.by_class / self.rows:.1%}"
        if self.verdict == AS_RANGE:
            return (
                f"between about {self.low:,.0f} and {self.high:,.0f} of {self.rows:,} labels are wrong "
                f"({self.level:.0%} interval), about {self.by_class:,.0f} if mistakes depend on the class "
                "alone"
            )
        if self.told:
            condition = " if mistakes depend on the class alone" if self.is_wide else ""
            interval = ""
            if self.low is not None and self.high is not None:
                interval = f"; {self.level:.0%} interval {self.low:,.0f} to {self.high:,.0f}"
            return (
                f"about {self.by_class:,.0f} of {self.rows:,} labels are wrong{condition} ({share}{interval})"
            )
        return f"how many of {self.rows:,} labels are wrong {self.verdict}"

    def readings(self) -> str:
        """Both numbers, in a sentence."""
        lead = "At least about" if self.at_least else "About"
        number = f"{lead} {self.by_class:,.0f}" if self.by_class >= LEAST_NAMED else "Next to none"
        interval = ""
        if self.by_class_low is not None and self.by_class_high is not None:
            interval = f" ({self.by_class_low:,.0f} to {self.by_class_high:,.0f})"
        return (
            f"{number}{interval}, if mistakes depend on the class alone; the model, which "
            f"has not seen them, disagrees with {self.by_model:,} labels."
        )

    def to_json(self) -> dict[str, Any]:
        """The fields and both sentences, as result files have them."""
        return asdict(self) | {"headline": self.headline(), "readings": self.readings()}


def count_wrong(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    estimate: Estimate,
    other_disagreements: float | None = None,
) -> Count:
    """Count wrong labels by T and by the model's disagreement, and say whether the count is known.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) for rows that the model was not trained on, as for `estimate`.
    noisy_labels : array-like of shape (n,)
        The labels given, as codes.
    estimate : Estimate
        T, estimated from them.
    other_disagreements : float or None
        With how many of these labels a model of another kind disagrees, out of fold. No model can predict
        mistakes that depend on the class alone, so fewer disagreements than T counts refute T.

    Returns
    -------
    Count

    Examples
    --------
    Labels that a model predicts almost surely may follow a rule that is often wrong:

    >>> from trevision.estimation import estimate
    >>> probs = np.repeat([[0.98, 0.02], [0.02, 0.98]], 500, axis=0)
    >>> labels = np.repeat([0, 1], 500)
    >>> count_wrong(probs, labels, estimate(probs, labels, bootstrap=0)).verdict
    'cannot be told from the labels alone'
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    disagrees, opened = _read(rows, estimate)
    number = len(rows)
    by_class = number * estimate.noise_rate
    reason, at_least = _uninformed(rows), False
    if reason is None and other_disagreements is not None:
        reason = _refuted(estimate, other_disagreements)
    if reason is None:
        reason, at_least = _doubt(estimate.transition, number, by_class, disagrees, opened)
    low, high = _interval(rows, estimate, disagrees, opened, told=reason is None)
    verdict = TOLD if reason is None else NOT_TOLD
    if reason is None and (reason := _too_open(number, by_class, disagrees, opened)) is not None:
        is_range = opened <= MOST_OPEN_FOR_RANGE * number and _is_a_range(low, high)
        verdict, at_least = AS_RANGE if is_range else NOT_TOLD, False
    ends = estimate.noise_rate_low, estimate.noise_rate_high
    return Count(
        rows=number,
        level=estimate.level,
        by_class=by_class,
        by_class_low=None if ends[0] is None else number * ends[0],
        by_class_high=None if ends[1] is None else number * ends[1],
        by_model=disagrees,
        open_rows=opened,
        low=low,
        high=high,
        verdict=verdict,
        reason=reason or _why_told(by_class, disagrees),
        at_least=at_least,
    )


def unevenness(transition: FloatArray) -> float:
    """The share of mistakes that would have to move to make T symmetric noise of the same rate.

    Parameters
    ----------
    transition : ndarray of shape (C, C)
        T[i, j] = P(noisy = j | clean = i).

    Returns
    -------
    float

    Examples
    --------
    >>> from trevision import noise
    >>> round(unevenness(noise.symmetric(5, 0.4)), 6), round(unevenness(noise.pair_flip(5, 0.4)), 6)
    (0.0, 0.75)
    """
    size = len(transition)
    rates = 1 - transition.diagonal()
    even = np.full((size, size), rates.mean() / (size - 1))
    np.fill_diagonal(even, 1 - rates.mean())
    return float(np.abs(transition - even).sum() / 2 / max(rates.sum(), LEAST_RATE))


def tells_pattern(rows: ProbabilityRows, solution: Solution) -> bool:
    """Whether mistakes go to few labels, and T explains so many of them that their count would be told.

    Parameters
    ----------
    rows : ProbabilityRows
        P(noisy | x) of rows that the model was not trained on, and their labels.
    solution : Solution
        T, found from them.

    Returns
    -------
    bool
    """
    transition = solution.transition
    if unevenness(transition) < UNEVEN:
        return False
    disagrees, opened = _read(rows, solution)
    by_class = len(rows) * solution.noise_rate
    reason, _ = _doubt(transition, len(rows), by_class, disagrees, opened)
    return reason is None and _too_open(len(rows), by_class, disagrees, opened) is None


def _read(rows: ProbabilityRows, found: Estimate | Solution) -> tuple[int, float]:
    """How many labels the model disagrees with, and how many rows stay open."""
    disagrees, sureness = 0, 0.0
    for probs, labels, _ in rows.chunks():
        disagrees += int((probs.argmax(axis=1) != labels).sum())
        sureness += float(found.clean_posterior(probs).max(axis=1).sum())
    return disagrees, max(0.0, len(rows) - sureness)


def _uninformed(rows: ProbabilityRows) -> str | None:
    """Why the probabilities say nothing of the labels, as where these were shuffled; None if they do.

    They do if the rows labelled as some class have clearly higher probabilities of it than rows drawn blindly
    would have. Each class is looked at by itself, since one that is rare counts for little in any mean.
    """
    number, size = len(rows), rows.num_classes
    sizes = np.bincount(rows.labels, minlength=size)
    totals, squares, own = np.zeros(size), np.zeros(size), np.zeros(size)
    for probs, labels, _ in rows.chunks():
        totals += probs.sum(axis=0, dtype=np.float64)
        squares += np.square(probs, dtype=np.float64).sum(axis=0)
        own += np.bincount(labels, probs[np.arange(len(labels)), labels], size)
    mean = totals / number
    variance = np.maximum(squares / number - mean**2, 0.0)
    some = (sizes > 0) & (sizes < number) & (variance > 0)
    blindly = np.sqrt(variance[some] / sizes[some] * (1 - sizes[some] / number))
    if (own[some] / sizes[some] - mean[some] > ndtri(1 - BY_CHANCE / size) * blindly).any():
        return None
    return (
        "the probabilities tell the given labels no better than the sizes of the classes do: the rows say "
        "nothing of their labels, or rows and labels are out of step"
    )


def _refuted(estimate: Estimate, other: float) -> str | None:
    """Why a model of another kind, which disagrees with `other` labels, refutes T; None if it does not."""
    number = estimate.rows
    if (estimate.noise_rate_low or estimate.noise_rate) * number <= other + _spread(
        other, number, estimate.level
    ):
        return None
    return (
        f"a model of another kind disagrees with {other:,.0f} labels only, fewer than mix-ups of classes "
        "would make wrong: mistakes follow the content of the rows, or the mix-ups are misjudged"
    )


def _doubt(
    transition: FloatArray, number: int, by_class: float, disagrees: int, opened: float
) -> tuple[str | None, bool]:
    """Why T tells nothing of the count, or None; and whether T counts too few rather than too many."""
    condition = float(np.linalg.cond(transition))
    swapped = bool((transition.diagonal() < transition.max(axis=1)).any())
    if not condition < WORST_CONDITION or swapped:
        what = (
            "one class is labelled as another more often than rightly"
            if swapped
            else f"small errors of the model grow up to {condition:,.0f}-fold in it"
        )
        return f"how the classes are mixed up tells next to nothing, since {what}", False
    if by_class < HARDLY_ANY * disagrees or disagrees == 0:
        return (
            "hardly any mistake depends on the class alone, and mistakes that follow the content of a row "
            "(by a keyword, near a boundary) look like right labels"
        ), True
    if by_class < LEAST_EXPLAINED * disagrees:
        return (
            f"mix-ups of classes explain {by_class / disagrees:.0%} of the labels that the model "
            "disagrees with: the others may be wrong labels, or hard rows"
        ), opened <= MOST_OPEN * number
    return None, True


def _too_open(number: int, by_class: float, disagrees: int, opened: float) -> str | None:
    """Why T tells no more than a range: the class of too many rows is open. None if it is not."""
    if opened <= min(MOST_OPEN * number, MOST_OPEN_PER_WRONG * by_class):
        return None
    explained = min(1.0, by_class / disagrees)
    return (
        f"the model leaves the class of about {opened:,.0f} rows open ({opened / number:.0%}), and there "
        f"wrong labels and hard rows look alike; mix-ups of classes explain {explained:.0%} of the "
        f"{disagrees:,} labels that the model disagrees with"
    )


def _is_a_range(low: float | None, high: float | None) -> bool:
    """Whether both ends are known and near enough to each other to tell something."""
    return low is not None and high is not None and 0 < high <= WIDEST_RANGE * low


def _why_told(by_class: float, disagrees: int) -> str:
    explained = min(1.0, by_class / disagrees)
    return f"mistakes that depend on the class alone explain {explained:.0%} of the model's disagreements"


def _interval(
    rows: ProbabilityRows, estimate: Estimate, disagrees: int, opened: float, told: bool
) -> tuple[float | None, float | None]:
    if estimate.noise_rate_low is None or estimate.noise_rate_high is None:
        return None, None
    number, by_class = estimate.rows, estimate.rows * estimate.noise_rate
    ends = estimate.noise_rate_low, estimate.noise_rate_high
    low, high = number * ends[0], number * ends[1]
    spread = _spread(disagrees, number, estimate.level)
    unexplained = max(0.0, disagrees - by_class)
    share = 1.0
    if told:
        share = _share_added(opened, by_class)
        low = max(0.0, low - SHARE_BELOW * share * unexplained)
        high = high + share * unexplained
        if (unsure := _unsure(opened, by_class)) and isinstance(estimate.solution.state, LatentFit):
            least, most = likely_rates(rows, estimate.transition) or ends
            low = min(low, number * (ends[0] + unsure * (least - ends[0])))
            high = max(high, number * (ends[1] + unsure * (most - ends[1])))
    if share == 1.0:
        low, high = min(low, disagrees - spread), max(high, disagrees + spread)
    return max(0.0, min(low, by_class)), min(float(number), max(high, by_class))


def _share_added(opened: float, by_class: float) -> float:
    """The share of the disagreements that T does not explain by which the interval grows."""
    return max(LEAST_ADDED, _unsure(opened, by_class))


def _unsure(opened: float, by_class: float) -> float:
    """From 0, where nearly every row's class is clear, to 1, where open rows are half as many as wrong ones.

    Clear rows are what tells T. Where few are, the rates that `likely_rates` finds are taken to be possible.
    """
    share = (opened / max(by_class, 1e-9) - FIRST_OPEN) / (LAST_OPEN - FIRST_OPEN)
    return float(np.clip(share, 0.0, 1.0))


def _spread(found: float, number: int, level: float) -> float:
    """Half the width of the interval of a count that was seen `found` times in `number` rows."""
    return float(ndtri((1 + level) / 2) * np.sqrt(max(found, 1.0) * max(0.0, 1 - found / number)))
