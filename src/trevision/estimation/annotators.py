"""Several labels a row: one T for each annotator, and what the clean label of each row probably is.

    P(answers of row n | clean = i) = prod over its annotators a of T_a[i, y_na]

The clean labels are latent, and everything is fitted by expectation-maximisation (Dawid and Skene 1979),
with two additions. What a classifier says of a row, g(x), takes the place of the class frequencies, so that
rows tell about annotators, too. And an annotator with few answers learns from the crowd: the rows of T_a have
a Dirichlet prior around the crowd's T. Its strength is the one that makes the counted answers likeliest.

The model assumes that annotators err independently of each other, given the clean class. Where they copy from
each other, or all fall for the same rows, P(clean) is too sure. `crowd_learning.py` estimates by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import betaincinv, gammaln

from trevision.arguments import MISSING, check_weights
from trevision.noise import FloatArray, IntArray

# Half an answer for each cell of the crowd's T: no mistake is impossible, and no class is empty.
CROWD_SMOOTHING = 0.5

# The strength of the crowd's T, in answers, lies between these. Expected counts are smoother than counts, so
# annotators look more alike than they are. Without an upper end, few rows would make them all the same.
STRENGTHS = (0.1, 20.0)

MOST_ITERATIONS = 500

# The search has arrived when no P(clean) changes by more than this.
SETTLED = 1e-5

LEAST_PROBABILITY = 1e-9

MOST_NAMED = 5
"""Maximum annotators that a sentence names."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers that were given, one after the other.

    Attributes
    ----------
    row, who, label : ndarray of shape (m,)
        The number of the row, of the annotator, and the label as a code from 0 to C - 1.
    rows, classes : int
        How many rows and classes there are.
    names : tuple of str
        The annotators, in the order of their numbers.

    Examples
    --------
    >>> given = Answers.of_table([[0, 1], [1, -1]], 2)
    >>> given.row, given.who, given.label
    (array([0, 0, 1]), array([0, 1, 0]), array([0, 1, 1]))
    """

    row: IntArray
    who: IntArray
    label: IntArray
    rows: int
    classes: int
    names: tuple[str, ...]

    @classmethod
    def of_table(cls, table: ArrayLike, num_classes: int, names: Sequence[str] | None = None) -> Answers:
        """From the label that annotator a gave to row n, (n, annotators), and -1 where there is none.

        Raises
        ------
        ValueError
            If the table has another shape or other values, or a row has no answer.
        """
        array = np.asarray(table)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"answers must be (n, annotators), got shape {array.shape}")
        if not np.issubdtype(array.dtype, np.integer) or array.min() < MISSING or array.max() >= num_classes:
            raise ValueError(
                f"answers must be integers from 0 to {num_classes - 1}, and {MISSING} where there is none, "
                f"got {array.min()} to {array.max()} of dtype {array.dtype}"
            )
        row, who = (numbers.astype(np.int64) for numbers in np.nonzero(array != MISSING))
        label = array[row, who].astype(np.int64)
        called = tuple(map(str, range(array.shape[1]) if names is None else names))
        given = cls(row, who, label, len(array), num_classes, called)
        given.check()
        return given

    def check(self) -> None:
        """Raise a ValueError for a row without an answer."""
        silent = np.flatnonzero(np.bincount(self.row, minlength=self.rows) == 0)
        if len(silent):
            raise ValueError(
                f"answers must have at least one for each row, and row {silent[0]} has none; drop such rows"
            )

    @property
    def annotators(self) -> int:
        """How many annotators there are."""
        return len(self.names)

    def take(self, rows: IntArray) -> Answers:
        """The answers to some rows, numbered anew in this order. All annotators stay."""
        place = np.full(self.rows, -1)
        place[rows] = np.arange(len(rows))
        kept = place[self.row] >= 0
        return Answers(
            place[self.row[kept]], self.who[kept], self.label[kept], len(rows), self.classes, self.names
        )

    def votes(self) -> FloatArray:
        """How many annotators gave each label to each row, (n, C)."""
        counts = np.bincount(self.row * self.classes + self.label, minlength=self.rows * self.classes)
        return counts.reshape(self.rows, self.classes).astype(np.float64)

    def vote(self) -> IntArray:
        """The label that most annotators gave to each row, (n,); the first of those with equal votes."""
        chosen: IntArray = self.votes().argmax(axis=1)
        return chosen

    def counts(self, clean: FloatArray) -> FloatArray:
        """How often each annotator answered j where the clean class is i, (A, C, C), by P(clean)."""
        totals = np.zeros((self.annotators, self.classes, self.classes))  # [a, j, i]
        np.add.at(totals, (self.who, self.label), clean[self.row])
        return totals.transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class Annotators:
    """What the answers tell of the annotators and of the rows.

    Attributes
    ----------
    transitions : ndarray of shape (A, C, C)
        T_a[i, j] = P(annotator a answers j | clean = i).
    crowd : ndarray of shape (C, C)
        T of an answer by anybody.
    clean_posterior : ndarray of shape (n, C)
        P(clean | answers), with g(x) where it was given. It is discounted to `counts_as`.
    answers : ndarray of shape (A,)
        How many rows each annotator answered.
    right, right_low, right_high : ndarray of shape (A,)
        The share of an annotator's answers that are right, and the ends of its interval. The interval takes
        P(clean) as it is: with two or three answers a row, it is too narrow.
    strength : float
        How many answers of the crowd each row of an annotator's T has learnt from.
    level : float
        The share of intervals that are to hold the truth.
    converged : bool
        False where the search was stopped before it had arrived.
    names : tuple of str
        The annotators, in the order of their numbers.
    class_prior : ndarray of shape (C,)
        The mean of P(clean) over the rows.
    warnings : tuple of str
        What cannot be told from these answers, in sentences.
    counts_as : float
        How many independent answers an answer counts as in `clean_posterior`; below 1 if answers to a hard
        row go wrong together. Estimated by `learn_with_classifier`.

    Examples
    --------
    >>> crowd = fit_annotators([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, -1]], 2)
    >>> crowd.answers
    array([4, 4, 3])
    """

    transitions: FloatArray
    crowd: FloatArray
    clean_posterior: FloatArray
    answers: IntArray
    right: FloatArray
    right_low: FloatArray
    right_high: FloatArray
    strength: float
    level: float
    converged: bool
    names: tuple[str, ...]
    class_prior: FloatArray
    warnings: tuple[str, ...] = field(default=())
    counts_as: float = 1.0

    @property
    def independent_posterior(self) -> FloatArray:
        """P(clean) of each row, (n, C), if every answer counted as one: surer than `clean_posterior`."""
        return discounted(self.clean_posterior, 1 / self.counts_as)

    @property
    def disagreement(self) -> FloatArray:
        """The entropy of P(clean) of each row, (n,): large where annotators disagree."""
        p = self.clean_posterior
        entropy: FloatArray = -(p * np.log(np.maximum(p, LEAST_PROBABILITY))).sum(axis=1)
        return entropy


def fit_annotators(
    answers: ArrayLike | Answers,
    num_classes: int,
    clean_probs: ArrayLike | None = None,
    level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> Annotators:
    """Estimate T of each annotator and P(clean) of each row.

    Parameters
    ----------
    answers : array-like of shape (n, A), or Answers
        The label that annotator a gave to row n, 0 to C - 1, and -1 where there is none.
    num_classes : int
        C.
    clean_probs : array-like of shape (n, C), optional
        P(clean | x) by a classifier that has not seen the answers of these rows (out of fold). Without it
        each row has the class frequencies.
    level : float, default=0.9
        The share of intervals that are to hold the truth.
    sample_weight : array-like of shape (n,), optional
        How often each row counts. A row of weight 0 tells nothing of the annotators; its P(clean) is told.

    Returns
    -------
    Annotators

    Raises
    ------
    ValueError
        If the answers have another shape or other values, or a row has none.

    References
    ----------
    Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm", 1979.

    Examples
    --------
    Two careful annotators, and one who always answers 0.

    >>> careful = np.array([0, 1] * 20)
    >>> crowd = fit_annotators(np.stack([careful, careful, np.zeros(40, dtype=int)], axis=1), 2)
    >>> bool((crowd.clean_posterior.argmax(axis=1) == careful).all())
    True
    >>> crowd.right.round(1)
    array([1. , 1. , 0.5])
    """
    given = answers if isinstance(answers, Answers) else Answers.of_table(answers, num_classes)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; ninety per cent is written 0.9")
    counted = check_weights(sample_weight, given.rows)
    weights = np.ones(given.rows) if counted is None else counted
    log_prior = None if clean_probs is None else _log_probs(clean_probs, given)
    votes = given.votes()
    clean: FloatArray = votes / votes.sum(axis=1, keepdims=True)
    if log_prior is not None:
        # Where one person answered, the classifier is the second voice.
        clean = (clean + np.exp(log_prior)) / 2
    strength, converged = float(given.classes), False
    for _ in range(MOST_ITERATIONS):
        counts = given.counts(weights[:, None] * clean)
        crowd = _crowd(counts)
        strength = _likeliest_strength(counts, crowd)
        transitions = _shrunk(counts, crowd, strength)
        frequencies = np.log(np.maximum(weights @ clean / weights.sum(), LEAST_PROBABILITY))
        said = answer_logs(given, transitions)
        updated = normalised(said + (frequencies if log_prior is None else log_prior))
        converged = bool(np.abs(updated - clean).max() < SETTLED)
        clean = updated
        if converged:
            break
    weight_of_answers = weights[given.row]
    number: FloatArray = np.bincount(given.who, weight_of_answers, given.annotators).astype(np.float64)
    confirmed = weight_of_answers * clean[given.row, given.label]
    hits: FloatArray = np.bincount(given.who, confirmed, given.annotators).astype(np.float64)
    right, low, high = _right(hits, number, strength, level)
    return Annotators(
        transitions=transitions,
        crowd=crowd,
        clean_posterior=clean,
        answers=np.bincount(given.who, minlength=given.annotators),
        right=right,
        right_low=low,
        right_high=high,
        strength=strength,
        level=level,
        converged=converged,
        names=given.names,
        class_prior=weights @ clean / weights.sum(),
        warnings=_doubts(given, log_prior, converged),
    )


def answer_logs(given: Answers, transitions: FloatArray) -> FloatArray:
    """log P(answers of row n | clean = i), (n, C): the sum of log T_a[i, y_na] over its annotators."""
    logs = np.zeros((given.rows, given.classes))
    said = np.log(np.maximum(transitions, LEAST_PROBABILITY))[given.who, :, given.label]
    np.add.at(logs, given.row, said)
    return logs


def normalised(logs: FloatArray) -> FloatArray:
    """Probabilities (n, C) from their logarithms up to a constant in each row."""
    probs: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


def discounted(probs: FloatArray, power: float) -> FloatArray:
    """Probabilities (n, C) raised to a power, and normalised: below 1 they become less sure."""
    return normalised(power * np.log(np.maximum(probs, np.finfo(np.float64).tiny)))


def _log_probs(clean_probs: ArrayLike, given: Answers) -> FloatArray:
    probs = np.asarray(clean_probs, dtype=np.float64)
    if probs.shape != (given.rows, given.classes):
        raise ValueError(f"clean_probs must be ({given.rows}, {given.classes}), got shape {probs.shape}")
    logs: FloatArray = np.log(np.maximum(probs, LEAST_PROBABILITY))
    return logs


def _crowd(counts: FloatArray) -> FloatArray:
    total = counts.sum(axis=0) + CROWD_SMOOTHING
    crowd: FloatArray = total / total.sum(axis=1, keepdims=True)
    return crowd


def _shrunk(counts: FloatArray, crowd: FloatArray, strength: float) -> FloatArray:
    """T_a[i, j] = (count[i, j] + s crowd[i, j]) / (count[i] + s)."""
    smoothed = counts + strength * crowd
    transitions: FloatArray = smoothed / smoothed.sum(axis=2, keepdims=True)
    return transitions


def _likeliest_strength(counts: FloatArray, crowd: FloatArray) -> float:
    """The strength s for which counts drawn from rows ~ Dirichlet(s crowd) are likeliest."""
    totals = counts.sum(axis=2)

    def loss(log_strength: float) -> float:
        prior = np.exp(log_strength) * crowd
        total = prior.sum(axis=1)
        rows = (
            gammaln(total) - gammaln(total + totals) + (gammaln(prior + counts) - gammaln(prior)).sum(axis=2)
        )
        return -float(rows.sum())

    best = minimize_scalar(loss, bounds=np.log(STRENGTHS), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(best.x))


def _right(
    hits: FloatArray, number: FloatArray, strength: float, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The share of right answers, shrunk to the crowd's, and the quantiles of its Beta distribution."""
    usual = hits.sum() / number.sum()
    good = hits + strength * usual
    bad = np.maximum(number - hits, 0) + strength * (1 - usual)
    good, bad = np.maximum(good, LEAST_PROBABILITY), np.maximum(bad, LEAST_PROBABILITY)
    share: FloatArray = good / (good + bad)
    low, high = (betaincinv(good, bad, (1 + side * level) / 2) for side in (-1, 1))
    return share, np.asarray(low), np.asarray(high)


def _doubts(given: Answers, log_prior: FloatArray | None, converged: bool) -> tuple[str, ...]:
    doubts = []
    overlapping = np.bincount(given.row, minlength=given.rows) > 1
    if not overlapping.any():
        basis = (
            "nothing tells a careful one from a careless one; ask several people about some rows, or let a "
            "classifier take part"
            if log_prior is None
            else "what is said of them rests on the classifier alone; ask several people about some rows"
        )
        doubts.append(f"no row has answers of two annotators, so {basis}")
    votes = given.votes()
    if overlapping.any() and (votes[overlapping].max(axis=1) == votes[overlapping].sum(axis=1)).all():
        doubts.append(
            "all annotators agree wherever two answered, so their answers look right; mistakes that they "
            "share would not be seen"
        )
    number = np.bincount(given.who, minlength=given.annotators)
    for count, told in ((0, "no answer"), (1, "one answer")):
        names = [given.names[who] for who in np.flatnonzero(number == count)]
        if names:
            some = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
            whom = f"annotator {some}" if len(names) == 1 else f"{len(names)} annotators ({some})"
            doubts.append(f"{whom} gave {told}: what is said of them is nearly what holds for the crowd")
    if not converged:
        doubts.append("the search for the annotators' T stopped before it had arrived")
    return tuple(doubts)
