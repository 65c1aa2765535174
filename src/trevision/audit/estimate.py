"""What the answers of an audit say: how many labels are wrong, which, and how good the list of suspects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.audit.intervals import Interval, count_interval
from trevision.audit.plan import AuditPlan
from trevision.audit.transition import joined_counts
from trevision.noise import FloatArray, IntArray

CANNOT_TELL = -1
"""The answer of a person who cannot tell the right label of a row."""
DEPTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of all rows at which the ranking is judged."""
MORE_ROWS = 50
"""The further rows whose gain is told."""
TOLD_FROM = 3
"""A class is told of from so many audited rows, a pair of classes from so many wrong labels found."""
TOLD_WIDTH = 0.5
"""The widest interval of a class that is told, as a share of its rows."""

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class ClassCount:
    """Wrong labels among those of one given class. `told` says whether the audit can tell their number."""

    given: int
    rows: int
    audited: int
    wrong: Interval
    told: bool


@dataclass(frozen=True)
class PairCount:
    """Rows that are truly `clean` and were labelled `given`; `found` is their number in the audit."""

    clean: int
    given: int
    found: int
    wrong: Interval
    told: bool


@dataclass(frozen=True)
class DepthCount:
    """The `depth` most suspicious rows: wrong labels among them, and wrong labels beyond them."""

    depth: int
    audited: int
    within: Interval
    beyond: Interval


@dataclass(frozen=True, eq=False)
class AuditEstimate:
    """What an audit tells of all labels. Counts are rows; intervals are of confidence `level`.

    Attributes
    ----------
    rows, audited : int
        Number of all labels, and of audited ones.
    level : float
        Confidence of each interval by itself.
    wrong : Interval
        All wrong labels. Its lower end counts every row of which the auditor could not tell as right, its
        upper end as wrong; the estimate takes them to be like the others of their stratum.
    found : int
        Audited labels that are wrong.
    cannot_tell : int
        Audited rows of which the auditor could not tell.
    untold : Interval
        All rows of which the auditor could not tell.
    by_class : list of ClassCount
        For each given class.
    pairs : list of PairCount
        The pairs of classes that were found, most frequent first.
    listed : DepthCount or None
        The list of suspects: `within` are rightly on it, `beyond` are wrong labels that it lacks.
    depths : list of DepthCount
        The same for lists of other lengths, if a ranking was given.
    joint : ndarray of shape (C, C)
        Rows by true and given class, from the answers and the model's estimate if that was given.
    transition : ndarray of shape (C, C)
        T, its rows divided by their sums.
    borrowed : float or None
        How many audited rows of a class the model's estimate counts for in `joint`.
    more_rows : int
        A number of further rows, and
    width_then : float
        the expected width of the interval of `wrong` with them.
    """

    rows: int
    audited: int
    level: float
    wrong: Interval
    found: int
    cannot_tell: int
    untold: Interval
    by_class: list[ClassCount]
    pairs: list[PairCount]
    listed: DepthCount | None
    depths: list[DepthCount]
    joint: FloatArray
    transition: FloatArray
    borrowed: float | None
    more_rows: int
    width_then: float

    def rows_until(self, share: float) -> int:
        """About how many rows in all an interval of `wrong` of plus or minus `share` takes; 0 if it is there.

        The width falls with the square root of the number of rows.
        """
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {share}; 2% is written 0.02")
        half = self.wrong.width / 2 / self.rows
        return 0 if half <= share else min(self.rows, int(np.ceil(self.audited * (half / share) ** 2)))


def audit_estimate(
    plan: AuditPlan,
    answers: Sequence[int] | IntArray,
    level: float = 0.9,
    order: ArrayLike | None = None,
    suspects: int | None = None,
    model_joint: ArrayLike | None = None,
) -> AuditEstimate:
    """Estimate how many labels are wrong, from the right labels of the planned rows.

    It supposes that the answers are right and that the rows were drawn as planned; nothing of the noise.

    Parameters
    ----------
    plan : AuditPlan
        The rows that were looked at.
    answers : array-like of shape (n,)
        The true class of each row of `plan.rows`, as a code; -1 where the auditor could not tell.
    level : float
        Confidence of the intervals.
    order : array-like of shape (N,) or None
        All rows, most suspicious first, to judge the ranking.
    suspects : int or None
        How many of the first in `order` are listed as suspects.
    model_joint : array-like of shape (C, C) or None
        The model's estimate of the rows by true and given class, to be joined with the answers in T.

    Raises
    ------
    ValueError
        If the answers do not fit the plan.

    Examples
    --------
    >>> from trevision.audit import audit_plan
    >>> given, scores = np.arange(1000) % 2, np.linspace(0, 1, 1000)
    >>> plan = audit_plan(scores, given, rows=60)
    >>> found = audit_estimate(plan, given[plan.rows])  # every label is right
    >>> found.wrong.estimate, found.wrong.low, found.wrong.high < 80
    (0.0, 0.0, True)
    """
    true, classes = _checked(plan, answers, level, model_joint)
    given = plan.given[plan.rows]
    unsure = true == CANNOT_TELL
    wrong = (true != given) & ~unsure
    rows = len(plan.strata)
    everywhere = np.ones(rows, dtype=bool)
    count = partial(_count, plan, level=level)
    pairs = _pairs(plan, true, wrong, unsure, count)
    listed, depths = None, []
    if order is not None:
        rank = np.empty(rows, dtype=np.int64)
        rank[np.asarray(order, dtype=np.int64)] = np.arange(rows)
        if suspects:
            listed = _depth(plan, rank, suspects, wrong, unsure, count)
        wanted = sorted({max(1, round(share * rows)) for share in DEPTHS})
        depths = [_depth(plan, rank, depth, wrong, unsure, count) for depth in wanted]
    joint, borrowed = joined_counts(
        true[~unsure],
        given[~unsure],
        1 / plan.inclusion[~unsure],
        np.bincount(plan.given, minlength=classes),
        None if model_joint is None else np.asarray(model_joint, dtype=np.float64),
    )
    sums = joint.sum(axis=1, keepdims=True)
    transition = np.where(sums > 0, joint / np.where(sums > 0, sums, 1), np.eye(classes))
    more = min(MORE_ROWS, rows - len(plan.rows))
    return AuditEstimate(
        rows=rows,
        audited=len(plan.rows),
        level=level,
        wrong=count(everywhere, wrong, unsure),
        found=int(wrong.sum()),
        cannot_tell=int(unsure.sum()),
        untold=count(everywhere, unsure),
        by_class=[_of_class(plan, code, wrong, unsure, count) for code in range(classes)],
        pairs=pairs,
        listed=listed,
        depths=depths,
        joint=joint,
        transition=transition,
        borrowed=borrowed,
        more_rows=more,
        width_then=_width_after(plan, wrong, unsure, more, level),
    )


def _checked(
    plan: AuditPlan, answers: Sequence[int] | IntArray, level: float, model_joint: ArrayLike | None
) -> tuple[IntArray, int]:
    """The answers as codes, and the number of classes."""
    true = np.asarray(answers)
    if true.shape != plan.rows.shape or true.dtype.kind not in "iu":
        raise ValueError(
            f"answers must be {len(plan.rows)} codes of classes, one for each row of the plan, got "
            f"{true.dtype} of shape {true.shape}"
        )
    classes = int(max(plan.given.max(), true.max())) + 1
    if model_joint is not None:
        size = len(np.asarray(model_joint))
        if size < classes:
            raise ValueError(
                f"answers must be codes below {size}, the classes of model_joint, got {true.max()}"
            )
        classes = size
    if (true < CANNOT_TELL).any():
        raise ValueError(f"answers must be codes from 0, or -1 for `cannot tell`, got {true.min()}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; 90% is written 0.9")
    return true.astype(np.int64), classes


def _by_stratum(plan: AuditPlan, chosen: BoolArray) -> IntArray:
    """The number of chosen drawn rows in each stratum."""
    return np.bincount(plan.strata[plan.rows[chosen]], minlength=len(plan.sizes))


def _count(
    plan: AuditPlan, domain: BoolArray, found: BoolArray, unsure: BoolArray | None = None, level: float = 0.9
) -> Interval:
    """The rows of `domain` with a property that was `found` in some drawn rows, and is `unsure` in others.

    `domain` is over all rows, `found` and `unsure` are over the drawn ones. Rows outside `domain` lack the
    property, so that this is a count over all drawn rows again.
    """
    inside = domain[plan.rows]
    x, looked_at = _by_stratum(plan, found & inside), _by_stratum(plan, inside)
    members = np.bincount(plan.strata[domain], minlength=len(plan.sizes))
    least = count_interval(x, plan.drawn, plan.sizes, members - (looked_at - x), level)
    if unsure is None or not (unsure & inside).any():
        return least
    open_ones = _by_stratum(plan, unsure & inside)
    both = x + open_ones
    largest = count_interval(both, plan.drawn, plan.sizes, members - (looked_at - both), level)
    told = looked_at - open_ones
    overall = x.sum() / max(told.sum(), 1)
    rate = np.where(told > 0, x / np.maximum(told, 1), overall)
    estimate = least.estimate + float((plan.sizes / plan.drawn * open_ones) @ rate)
    return Interval(float(np.clip(estimate, least.low, largest.high)), least.low, largest.high)


Count = Callable[..., Interval]


def _of_class(plan: AuditPlan, code: int, wrong: BoolArray, unsure: BoolArray, count: Count) -> ClassCount:
    domain = plan.given == code
    rows, audited = int(domain.sum()), int(domain[plan.rows].sum())
    interval = count(domain, wrong, unsure) if audited else Interval(0.0, 0.0, float(rows))
    told = audited >= TOLD_FROM and interval.width <= TOLD_WIDTH * rows
    return ClassCount(code, rows, audited, interval, told)


def _pairs(
    plan: AuditPlan, true: IntArray, wrong: BoolArray, unsure: BoolArray, count: Count
) -> list[PairCount]:
    given = plan.given[plan.rows]
    pairs = []
    for clean, label in sorted(set(zip(true[wrong].tolist(), given[wrong].tolist(), strict=True))):
        these = wrong & (true == clean) & (given == label)
        interval = count(plan.given == label, these, unsure)
        pairs.append(PairCount(clean, label, int(these.sum()), interval, int(these.sum()) >= TOLD_FROM))
    return sorted(pairs, key=lambda pair: -pair.wrong.estimate)


def _depth(
    plan: AuditPlan, rank: IntArray, depth: int, wrong: BoolArray, unsure: BoolArray, count: Count
) -> DepthCount:
    inside = rank < depth
    audited = int(inside[plan.rows].sum())
    return DepthCount(depth, audited, count(inside, wrong, unsure), count(~inside, wrong, unsure))


def _width_after(plan: AuditPlan, wrong: BoolArray, unsure: BoolArray, more: int, level: float) -> float:
    """The width of the interval of all wrong labels if further rows turned out as the audited ones did."""
    drawn = plan.of(len(plan.rows) + more).drawn
    growth = drawn / plan.drawn
    x, open_ones = _by_stratum(plan, wrong) * growth, _by_stratum(plan, unsure) * growth
    low = count_interval(x, drawn, plan.sizes, level=level).low
    return count_interval(x + open_ones, drawn, plan.sizes, level=level).high - low
