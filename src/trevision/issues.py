"""Which labels are probably wrong, how many, and what they should be.

    P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]

g and T are both estimated from out-of-sample probabilities of the noisy labels. A label is suspicious where
the probability of its being right, P(clean = given | x, given), is low. That says nothing where T is near the
identity or off, so the order is also by what the model says of the given label, P(noisy = given | x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.estimation import (
    BOOTSTRAP,
    Annotators,
    Count,
    Estimate,
    RowSource,
    clean_given_label,
    count_wrong,
    estimate,
)
from trevision.estimation.count import UNEVEN, VERY_UNEVEN, unevenness
from trevision.estimation.from_answers import estimate_of_answers
from trevision.estimation.from_probabilities import labelled_rows
from trevision.noise import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas

BoolArray = NDArray[np.bool_]

AUDIT_IN_PYTHON = "An audit tells: look at the rows of trevision.audit.audit_plan(1 - score, given)."

ROWS_SHOWN = 10
"""The rows that a notebook shows."""


TRUST_IF_UNEVEN, TRUST_IF_EVEN = 0.5, 0.1
TRUST_IF_TOO_LOW = 0.5
TRUST_IF_WIDE, TRUST_IF_NOT_TOLD, TRUST_IF_TWO_CLASSES = 0.25, 0.1, 0.1
"""The weight of T in the order of suspects: where the count is told, and T is uneven or not; where T misses
mistakes; where T may be off, but tells a clear pattern. docs/panel.md has what they were chosen by."""

LEAST_PROBABILITY = 1e-6


@dataclass(frozen=True, eq=False)
class LabelIssues:
    """Per-row label quality, each an array of shape (n,) in the order of the rows.

    Attributes
    ----------
    given : ndarray of int
        The label, as a code.
    suggested : ndarray of int
        The most probable clean label; where the given one seems right, that. For suspects always another one
        than the given.
    p_given : ndarray
        P(clean = given | x, given).
    p_suggested : ndarray
        P(clean = suggested | x, given).
    suspect : ndarray of bool
        Whether the row is among the first of `order`. There are as many as are estimated to be wrong; where
        that cannot be told because T explains too little, as many as the model disagrees with; or `top`.
    order : ndarray of int
        The numbers of the rows, most suspicious first.
    score : ndarray
        What the order is by, from 0 to 1, the lowest first:
        P(clean = given | x, given)^w P(noisy = given | x)^(1 - w), with less weight w on T where its count
        cannot be relied on, or where its noise is even.
    estimate : Estimate
        T, how many labels are wrong, and error bars.
    classes : ndarray of shape (C,) or None
        The values of the labels by their codes; None where the codes are the labels.
    rows : ndarray of int or None
        The number of each row in a table; None for 0 to n - 1.
    count : Count or None
        How many labels are wrong by T and by the model, and whether that can be told. None where several
        annotators answered: their answers tell it.

    Examples
    --------
    >>> probs = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
    >>> labels = np.repeat([0, 1], 10)
    >>> labels[3] = 1
    >>> issues = find_label_issues(probs, labels, "confident-joint", bootstrap=0)
    >>> issues.suspect.nonzero()
    (array([3]),)
    >>> round(issues.wrong[0], 6)
    1.0
    """

    given: IntArray
    suggested: IntArray
    p_given: FloatArray
    p_suggested: FloatArray
    suspect: BoolArray
    order: IntArray
    score: FloatArray
    estimate: Estimate
    classes: NDArray[Any] | None = None
    rows: IntArray | None = None
    count: Count | None = None

    @property
    def wrong(self) -> tuple[float, float | None, float | None]:
        """The number of wrong labels by T, and the ends of the interval of the count, if there is one.

        `count.told` says whether the number can be relied on.
        """
        if self.count is not None:
            return self.count.by_class, self.count.low, self.count.high
        rows, noise = len(self.given), self.estimate
        low, high = noise.noise_rate_low, noise.noise_rate_high
        return (
            rows * noise.noise_rate,
            None if low is None else rows * low,
            None if high is None else rows * high,
        )

    def headline(self) -> str:
        """How many labels are wrong, or why that cannot be told and what would tell it, in sentences."""
        if self.count is not None and not self.count.told:
            said = f"{self.count.headline()}: {self.count.reason}. {self.count.readings()} {AUDIT_IN_PYTHON}"
        elif self.count is not None:
            said = f"{self.count.headline()}."
        else:
            number, low, high = self.wrong
            said = f"about {number:,.0f} of {len(self.given):,} labels are wrong"
            if low is not None and high is not None:
                said += f" ({low:,.0f} to {high:,.0f}, {self.estimate.level:.0%} interval)"
            said += "."
        return said[0].upper() + said[1:]

    def to_frame(self) -> pandas.DataFrame:
        """All rows as a table, most suspicious first.

        Returns
        -------
        pandas.DataFrame
            With the columns rank (from 1), row, given, suggested, p_given, p_suggested, suspect and score.
            Labels are those of the user.

        Examples
        --------
        >>> probs = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
        >>> labels = np.repeat(["cat", "dog"], 10)
        >>> labels[3] = "dog"
        >>> issues = find_label_issues(probs, labels, "confident-joint", bootstrap=0, classes=["cat", "dog"])
        >>> issues.to_frame()[["rank", "row", "given", "suggested"]].iloc[0].to_dict()
        {'rank': 1, 'row': 3, 'given': 'dog', 'suggested': 'cat'}
        """
        import pandas

        return pandas.DataFrame(self._columns(self.order))

    def _columns(self, rows: IntArray) -> dict[str, NDArray[Any]]:
        """The columns of the table for rows that are the first of `order`."""
        return {
            "rank": np.arange(1, len(rows) + 1),
            "row": rows if self.rows is None else self.rows[rows],
            "given": self._values(self.given[rows]),
            "suggested": self._values(self.suggested[rows]),
            "p_given": self.p_given[rows],
            "p_suggested": self.p_suggested[rows],
            "suspect": self.suspect[rows],
            "score": self.score[rows],
        }

    def _values(self, codes: IntArray) -> NDArray[Any]:
        return codes if self.classes is None else self.classes[codes]

    def _repr_html_(self) -> str:
        """How many labels are wrong and the first rows, for a notebook; all values are escaped."""
        told = self.headline()
        columns = self._columns(self.order[:ROWS_SHOWN])
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in zip(*(column.tolist() for column in columns.values()), strict=True)
        )
        return f"<p>{escape(told)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def find_label_issues(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    estimator: str | None = None,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
    progress: Callable[[int, int], None] | None = None,
    classes: ArrayLike | None = None,
    top: int | None = None,
    other_disagreements: float | None = None,
) -> LabelIssues:
    """Rank labels by the probability that they are right.

        P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]

    g is the clean posterior. It and T are estimated from `noisy_probs`.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) by a model for rows that it was not trained on.
    noisy_labels : array-like of shape (n,)
        The labels given to them, integers from 0 to C - 1 or, with `classes`, any values of these.
    estimator, bootstrap, level, random_state, progress
        How T and its intervals are estimated: as for `trevision.estimation.estimate`.
    classes : array-like of shape (C,) or None
        The values of the labels, in the order of the columns. None stands for 0 to C - 1.
    top : int or None
        How many labels to list as suspects, whatever the count. None lists as many as seem wrong.
    other_disagreements : float or None
        With how many of these labels a model of another kind disagrees, as for
        `trevision.estimation.count_wrong`.

    Returns
    -------
    LabelIssues

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, a label is out of range, or a choice is none.

    Examples
    --------
    >>> probs = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
    >>> labels = np.repeat([0, 1], 10)
    >>> labels[3] = 1
    >>> issues = find_label_issues(probs, labels, "confident-joint", bootstrap=0)
    >>> int(issues.order[0]), int(issues.suggested[3])
    (3, 0)
    """
    _check_top(top)
    rows = labelled_rows(noisy_probs, noisy_labels, classes)
    noise = estimate(noisy_probs, rows.labels, estimator, bootstrap, level, random_state, progress)
    count = count_wrong(noisy_probs, rows.labels, noise, other_disagreements)
    return rank_labels(noisy_probs, noisy_labels, noise, count, classes, top)


def rank_labels(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    noise: Estimate,
    count: Count,
    classes: ArrayLike | None = None,
    top: int | None = None,
) -> LabelIssues:
    """Rank labels as `find_label_issues` does, by a T and a count that were estimated before.

    Parameters
    ----------
    noisy_probs, noisy_labels, classes, top
        As for `find_label_issues`.
    noise : Estimate
        T, estimated from them.
    count : Count
        The count of wrong labels by this T.

    Returns
    -------
    LabelIssues

    Examples
    --------
    >>> from trevision.estimation import count_wrong, estimate
    >>> probs = np.repeat([[0.8, 0.2], [0.3, 0.7]], 50, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [40, 10, 15, 35])
    >>> noise = estimate(probs, labels)
    >>> int(rank_labels(probs, labels, noise, count_wrong(probs, labels, noise), top=10).suspect.sum())
    10
    """
    _check_top(top)
    rows = labelled_rows(noisy_probs, noisy_labels, classes)
    listed = _suspects_of(count) if top is None else top
    judged, trust = _Judged.of_no_rows(len(rows)), _trust(count, noise.transition)
    for probs, labels, where in rows.chunks():
        judged.add(where, clean_given_label(noise.clean_posterior(probs), noise.transition, labels), labels)
        judged.score[where] = _score(judged.p_given[where], probs[np.arange(len(labels)), labels], trust)
    return _ranked(rows.labels, judged, noise, classes, listed, count)


def _suspects_of(count: Count) -> int:
    """How many labels to list: those that are wrong or, where T misses mistakes, that the model doubts."""
    if count.told:
        return round(count.by_class)
    return count.by_model if count.at_least else min(count.by_model, round(count.by_class))


def _check_top(top: int | None) -> None:
    if top is not None and top < 0:
        raise ValueError(f"top must be a number of labels to list, 0 or more, got {top}")


def _score(p_given: FloatArray, noisy_prob: NDArray[np.floating], trust: float) -> FloatArray:
    """How right each label seems by T and by the model itself: a weighted geometric mean."""
    by_transition = np.maximum(p_given, LEAST_PROBABILITY) ** trust
    score: FloatArray = by_transition * np.maximum(noisy_prob, LEAST_PROBABILITY) ** (1 - trust)
    return score


def _trust(count: Count, transition: FloatArray) -> float:
    """The weight of T in the order of suspects.

    Under even noise T orders rows as the model does, and adds only what is wrong with it. Where the class of
    many rows is open, T may be doubt about rows; mistakes that go to few labels are seldom that. Two classes
    cannot show it: all mistakes of one go to the other.
    """
    if not count.told and count.at_least:
        return TRUST_IF_TOO_LOW
    uneven = unevenness(transition)
    if count.told and not count.is_wide:
        return TRUST_IF_UNEVEN if uneven >= UNEVEN else TRUST_IF_EVEN
    if uneven < VERY_UNEVEN:
        return 0.0
    if len(transition) == 2:
        return TRUST_IF_TWO_CLASSES if count.told else 0.0
    return TRUST_IF_WIDE if count.told else TRUST_IF_NOT_TOLD


def issues_of_answers(
    annotators: Annotators,
    given: IntArray,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
    classes: ArrayLike | None = None,
    top: int | None = None,
) -> LabelIssues:
    """Rank one label a row by P(clean), which is known from the answers of several annotators.

    T is that of the labels given, counted by P(clean) (`estimation.from_answers`).

    Parameters
    ----------
    annotators : Annotators
        With P(clean | answers) or P(clean | answers, x) of n rows.
    given : ndarray of int, shape (n,)
        The label to judge, such as the vote of the annotators.
    bootstrap, level, random_state, classes, top
        As for `find_label_issues`.

    Returns
    -------
    LabelIssues

    Examples
    --------
    >>> from trevision.estimation import fit_annotators
    >>> answers = np.array([[0, 0, 0], [1, 1, 1], [0, 0, 0], [1, 1, 0]] * 5)
    >>> issues = issues_of_answers(fit_annotators(answers, 2), np.zeros(20, dtype=int), bootstrap=0)
    >>> sorted(issues.order[:10] % 4) == [1, 1, 1, 1, 1, 3, 3, 3, 3, 3]
    True
    """
    _check_top(top)
    noise = estimate_of_answers(annotators, given, bootstrap, level, random_state)
    judged = _Judged.of_no_rows(len(given))
    judged.add(slice(None), annotators.clean_posterior, given)
    judged.score[:] = judged.p_given
    listed = round(len(given) * noise.noise_rate) if top is None else top
    return _ranked(given, judged, noise, classes, listed, None)


@dataclass(frozen=True, eq=False)
class _Judged:
    """What is said of each row: the likeliest label, the likeliest other than the given, and how likely."""

    suggested: IntArray
    other: IntArray
    p_given: FloatArray
    p_suggested: FloatArray
    p_other: FloatArray
    score: FloatArray

    @classmethod
    def of_no_rows(cls, number: int) -> _Judged:
        suggested: IntArray = np.empty(number, dtype=np.int64)
        p_given, p_suggested, p_other, score = (np.empty(number) for _ in range(4))
        return cls(suggested, suggested.copy(), p_given, p_suggested, p_other, score)

    def add(self, where: slice, clean: FloatArray, given: IntArray) -> None:
        """Rows of P(clean | x, given) (m, C) with their given labels (m,)."""
        each = np.arange(len(given))
        self.p_given[where] = clean[each, given]
        self.suggested[where] = clean.argmax(axis=1)
        self.p_suggested[where] = clean[each, self.suggested[where]]
        others = clean.copy()
        others[each, given] = -1
        self.other[where] = others.argmax(axis=1)
        self.p_other[where] = others[each, self.other[where]]


def _ranked(
    given: IntArray,
    judged: _Judged,
    noise: Estimate,
    classes: ArrayLike | None,
    listed: int,
    count: Count | None,
) -> LabelIssues:
    """The issues in their order, the first `listed` of them suspect."""
    order: IntArray = np.argsort(judged.score, kind="stable")
    suspect = np.zeros(len(given), dtype=bool)
    suspect[order[:listed]] = True
    # To suggest the label that a suspect has would be no help to whoever looks at it.
    same = suspect & (judged.suggested == given)
    suggested: IntArray = np.where(same, judged.other, judged.suggested)
    p_suggested: FloatArray = np.where(same, judged.p_other, judged.p_suggested)
    return LabelIssues(
        given=given,
        suggested=suggested,
        p_given=judged.p_given,
        p_suggested=p_suggested,
        suspect=suspect,
        order=order,
        score=judged.score,
        estimate=noise,
        classes=None if classes is None else np.asarray(classes),
        count=count,
    )
