"""Which rows to audit: strata by suspicion, spread over the classes, drawn with known probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from trevision.noise import FloatArray, IntArray

STRATA = 10
"""Strata of a plan. Each gets a tenth of the rows."""
PRICE = 1.12
"""The most by which the variance may grow, against a simple random sample, if the scores know nothing."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows to look at, and the strata they were drawn from.

    Within a stratum every row is equally likely to be drawn. The first rows of a plan are a plan themselves:
    `plan.of(60)` and `plan.of(150)` have the same first 60 rows.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        The positions of the drawn rows among all N, in the order in which they were drawn.
    strata : ndarray of shape (N,)
        The stratum of every row, from 0 (least suspicious) upwards.
    given : ndarray of shape (N,)
        The given label of every row, as a code.
    seed : int
        What the draw was made with.
    """

    rows: IntArray
    strata: IntArray
    given: IntArray
    seed: int

    @cached_property
    def sizes(self) -> IntArray:
        """The number of all rows in each stratum."""
        return np.bincount(self.strata)

    @cached_property
    def drawn(self) -> IntArray:
        """The number of drawn rows in each stratum."""
        return np.bincount(self.strata[self.rows], minlength=len(self.sizes))

    @property
    def inclusion(self) -> FloatArray:
        """The probability with which each drawn row came into the plan."""
        stratum = self.strata[self.rows]
        shares: FloatArray = self.drawn[stratum] / self.sizes[stratum]
        return shares

    def of(self, rows: int) -> AuditPlan:
        """The plan of this many rows from the same draw: a part of this one, or one that goes on."""
        fewest = len(self.sizes)
        if not fewest <= rows <= len(self.strata):
            raise ValueError(
                f"rows must lie in [{fewest}, {len(self.strata)}], from one for each stratum to all labels, "
                f"got {rows}"
            )
        order = _order(self.strata, self.given, rows, self.seed)
        return AuditPlan(order, self.strata, self.given, self.seed)


def audit_plan(
    scores: ArrayLike, given_labels: ArrayLike, rows: int = 100, random_state: int = 0
) -> AuditPlan:
    """Draw rows to audit, more of them where labels are suspicious.

    Rows are sorted by their score and cut into strata of equal sums of

        z_i = a + (1 - a) sqrt(s_i (1 - s_i)) / mean,        s_i = min(score_i, 1/2)

    and each stratum gets the same number of rows: Neyman's allocation for a = 0, a simple random sample for
    a = 1. `a` is the smallest with which the variance, if the scores know nothing, is at most `PRICE` times
    that of a simple random sample. Within a stratum the draw is spread evenly over the given classes.

    Parameters
    ----------
    scores : array-like of shape (N,)
        For each row the probability that its label is wrong, as well as it is known: `1 - p_given` of
        `find_label_issues`. Bad scores cost width, never validity.
    given_labels : array-like of shape (N,)
        The labels as integers from 0.
    rows : int
        How many rows to draw.
    random_state : int
        The seed of the draw; a number, so that the plan can be continued.

    Raises
    ------
    ValueError
        If scores are no probabilities, labels no codes, or there are fewer rows than strata.

    Examples
    --------
    >>> plan = audit_plan(np.linspace(0, 1, 200), np.arange(200) % 2, rows=20)
    >>> len(plan.rows), plan.drawn.tolist()
    (20, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    >>> (plan.of(30).rows[:20] == plan.rows).all()
    np.True_
    """
    suspicion, given = np.asarray(scores, dtype=np.float64), np.asarray(given_labels)
    if suspicion.ndim != 1 or len(suspicion) < 2:
        raise ValueError(f"scores must be one number for each of at least 2 rows, got {suspicion.shape}")
    if not ((suspicion >= 0) & (suspicion <= 1)).all():
        raise ValueError("scores must be probabilities in [0, 1] that a label is wrong, got others")
    if given.shape != suspicion.shape or given.dtype.kind not in "iu" or given.min() < 0:
        raise ValueError(
            f"given_labels must be {len(suspicion)} integers from 0, as many as scores, got {given.dtype} of "
            f"shape {given.shape}"
        )
    codes = given.astype(np.int64)
    strata = _strata(suspicion, _generator(random_state, 0))
    return AuditPlan(np.empty(0, np.int64), strata, codes, random_state).of(rows)


def _strata(scores: FloatArray, rng: np.random.Generator) -> IntArray:
    """The stratum of each row, cut as `audit_plan` says; rows of equal score are in random order."""
    order = np.lexsort((rng.random(len(scores)), scores))
    # Beyond 1/2 the spread falls again, but an overconfident score is no reason to look less closely.
    half = np.minimum(scores[order], 0.5)
    spread = np.sqrt(half * (1 - half))
    spread = spread / spread.mean() if spread.any() else np.ones(len(scores))
    count = min(STRATA, len(scores))

    def cut(share: float) -> tuple[IntArray, bool]:
        size = share + (1 - share) * spread
        places = (np.cumsum(size) - size / 2) / size.sum()
        stratum = np.minimum((places * count).astype(np.int64), count - 1)
        weights = np.bincount(stratum, minlength=count) / len(scores)
        return stratum, bool(weights.all() and count * (weights**2).sum() <= PRICE)

    low, high = 0.0, 1.0
    if cut(low)[1]:
        high = low
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if cut(middle)[1] else (middle, high)
    strata = np.empty(len(scores), dtype=np.int64)
    strata[order] = cut(high)[0]
    return strata


def _generator(*seed: int) -> np.random.Generator:
    # Not that of `default_rng(seed)`: labels corrupted with the same seed must not meet their own draw.
    return np.random.default_rng((0x61756469740A, *seed))


def _order(strata: IntArray, given: IntArray, rows: int, seed: int) -> IntArray:
    """The first `rows` of the draw: rounds that take a row of each stratum, in random order.

    The order within a round is random so that the person who answers cannot tell a row's suspicion from it.
    """
    sizes = np.bincount(strata)
    turns = _generator(seed, 1)
    taken = np.zeros(len(sizes), dtype=np.int64)
    sequence: list[int] = []
    while len(sequence) < rows:
        for stratum in turns.permutation(len(sizes)):
            if taken[stratum] < sizes[stratum] and len(sequence) < rows:
                sequence.append(int(stratum))
                taken[stratum] += 1
    drawn = np.empty(rows, dtype=np.int64)
    turn = np.array(sequence)
    for stratum, number in enumerate(taken):
        members = np.flatnonzero(strata == stratum)
        rng = _generator(seed, 2, stratum)
        drawn[turn == stratum] = _spread(members, given[members], int(number), rng)
    return drawn


def _spread(members: IntArray, given: IntArray, number: int, rng: np.random.Generator) -> IntArray:
    """The first `number` of a random order of the members that runs evenly over their classes.

    The members lie on a circle, sorted by class and at random within a class. Points of van der Corput's
    sequence, turned by one random angle, fall on them; one that was met before is passed over. As turning by
    a member turns the whole draw, each member is equally likely at each step.
    """
    circle = members[np.lexsort((rng.random(len(members)), given))]
    turn = rng.random()
    chosen: dict[int, None] = {}
    step = 0
    while len(chosen) < number:
        point = (turn + _van_der_corput(step)) % 1.0
        chosen[min(int(point * len(circle)), len(circle) - 1)] = None
        step += 1
    return circle[list(chosen)]


def _van_der_corput(number: int) -> float:
    """The bits of `number` mirrored at the binary point: 0, 1/2, 1/4, 3/4, 1/8, ..."""
    return int(f"{number:b}"[::-1], 2) / (1 << number.bit_length())
