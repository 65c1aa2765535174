"""Error bars for an estimated T: rows drawn again, with replacement, and T estimated from each draw.

Two ways of drawing again:

rows    every replicate is a whole estimation from rows weighted by how often they were drawn;
counts  a method that assigns each row to a cell (given label, class) and counts keeps its assignment, and
        the table of counts is drawn again, multinomially. That costs no pass over the rows, but leaves out
        that other rows would have moved the rule of assignment (the thresholds) a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trevision.estimation.methods import Method, Solution
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray

Resampling = Literal["rows", "counts"]

# Up to this many probabilities to read in one pass of every replicate, rows are drawn again: some ten seconds
# on one core. Beyond it counts are, by methods that can.
MOST_REESTIMATED = 1_000_000_000

# Numbers of all replicates that are sorted at a time.
SORTED_AT_ONCE = 2**23


@dataclass(frozen=True, eq=False)
class Intervals:
    """The ends of the intervals of T (C, C), P(clean) (C,) and the noise rate, and how they were made."""

    transition: tuple[FloatArray, FloatArray]
    prior: tuple[FloatArray, FloatArray]
    noise_rate: tuple[float, float]
    resampling: Resampling


def bootstrap_intervals(
    rows: ProbabilityRows,
    method: Method,
    found: Solution,
    replicates: int,
    level: float,
    rng: np.random.Generator,
) -> Intervals:
    """Intervals between the (1 - level) / 2 and (1 + level) / 2 quantiles of the replicates.

    No interval for an entry of row i is narrower than n_i = n P(clean = i) rows can tell: where such a
    label was never seen, its probability may still be as large as 1 - ((1 - level) / 2)^(1 / n_i), the
    exact binomial bound.
    """
    size = rows.num_classes
    # Differences from T in half precision: a thousandth of an interval's width is precision enough, and at
    # 1,000 classes 200 replicates take 0.4 GB instead of 1.6.
    moves: NDArray[np.float16] = np.empty((replicates, size, size), dtype=np.float16)
    priors, rates = np.empty((replicates, size)), np.empty(replicates)
    by_counts = (
        method.recount is not None
        and found.counts is not None
        and len(rows) * size * replicates * method.passes > MOST_REESTIMATED
    )
    # A pooled T is nearer to the truth, but moves less than it may be off where classes are not as alike as
    # they seem: intervals are those of T class by class, stretched to the pooled T where it lies outside.
    centre = found.class_by_class
    draws = _from_counts(method, found, rng) if by_counts else _from_rows(rows, method, found, rng)
    for place, replicate in zip(range(replicates), draws, strict=False):
        moves[place] = replicate.class_by_class - centre
        priors[place] = replicate.prior
        rates[place] = 1 - replicate.prior @ replicate.transition.diagonal()
    low, high = centre.copy(), centre.copy()
    step = max(1, SORTED_AT_ONCE // (replicates * size))
    for first in range(0, size, step):
        part = slice(first, first + step)
        down, up = _ends(moves[:, part].astype(np.float32), level)
        low[part] += down
        high[part] += up
    unseen = 1 - ((1 - level) / 2) ** (1 / np.maximum(1, len(rows) * found.prior))[:, None]
    low, high = np.minimum(low, 1 - unseen), np.maximum(high, unseen)
    # Rounding of the differences must not lead out of [0, 1], nor past the estimate itself.
    transition = (low.clip(0, found.transition), high.clip(found.transition, 1))
    prior_low, prior_high = _ends(priors, level)
    rate_low, rate_high = _ends(rates, level)
    unseen_at_all = 1 - ((1 - level) / 2) ** (1 / len(rows))
    return Intervals(
        transition,
        (np.minimum(prior_low, found.prior), np.maximum(prior_high, found.prior)),
        (min(float(rate_low), 1 - unseen_at_all), max(float(rate_high), unseen_at_all)),
        "counts" if by_counts else "rows",
    )


def _from_rows(
    rows: ProbabilityRows, method: Method, found: Solution, rng: np.random.Generator
) -> Iterator[Solution]:
    while True:
        drawn = rng.integers(len(rows), size=len(rows))
        weights = np.bincount(drawn, minlength=len(rows)).astype(np.float64)
        if method.resume is not None:
            yield method.resume(rows, weights, found)
        else:
            yield method.solve(rows, weights)


def _from_counts(method: Method, found: Solution, rng: np.random.Generator) -> Iterator[Solution]:
    assert method.recount is not None
    assert found.counts is not None
    total = found.counts.sum()
    cells = found.counts.nonzero()  # an empty cell stays empty, and of a million cells most are
    shares = found.counts[cells] / total
    while True:
        counts = np.zeros_like(found.counts)
        counts[cells] = rng.multinomial(round(total), shares)
        yield method.recount(counts)


def _ends(values: NDArray[np.floating], level: float) -> tuple[FloatArray, FloatArray]:
    """The two order statistics of the replicates (first axis) between which `level` of them lie."""
    last = len(values) - 1
    low = int((1 - level) / 2 * last)
    ordered = np.partition(values, (low, last - low), axis=0)
    return ordered[low].astype(np.float64), ordered[last - low].astype(np.float64)
