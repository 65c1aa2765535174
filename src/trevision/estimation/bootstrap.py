"""Error bars for an estimated T: rows drawn again, with replacement, and T estimated from each draw.

Three ways of drawing again:

rows    every replicate is a whole estimation from rows weighted by how often they were drawn;
part    the same from a random part of the rows, out of which as many are drawn as there are in all: the
        "little bootstrap" (Kleiner et al. 2014). Replicates scatter around the estimate from that part as
        those of all rows would around theirs, and cost no more than the part does;
counts  an estimator that assigns each row to a cell (given label, class) and counts keeps its assignment, and
        the table of counts is drawn again, multinomially. That costs no pass over the rows, but leaves out
        that other rows would have moved the rule of assignment: the thresholds a little, the link of
        `latent`, which is why rows or a part of them are drawn for it while they can be, by more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray

Resampling = Literal["rows", "part", "counts"]

# Up to this many probabilities to read in one pass of every replicate, rows are drawn again: some ten seconds
# on one core. Beyond it counts are, or a part of the rows is, by estimators that can.
MOST_REESTIMATED = 1_000_000_000

# The minimum of rows per class in a part, on average, and how many times longer it may take to have them.
LEAST_IN_A_PART = 200
PATIENCE = 4

# Numbers of all replicates that are sorted at a time.
SORTED_AT_ONCE = 2**23


@dataclass(frozen=True, eq=False)
class Intervals:
    """The ends of the intervals of T (C, C), P(clean) (C,) and the noise rate, and how they were made."""

    transition: tuple[FloatArray, FloatArray]
    class_prior: tuple[FloatArray, FloatArray]
    noise_rate: tuple[float, float]
    resampling: Resampling


def bootstrap_intervals(
    rows: ProbabilityRows,
    estimator: Estimator,
    solution: Solution,
    replicates: int,
    level: float,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> Intervals:
    """Intervals between the (1 - level) / 2 and (1 + level) / 2 quantiles of the replicates.

    No interval for an entry of row i is narrower than n_i = n P(clean = i) rows can tell: where such a
    label was never seen, its probability may still be as large as 1 - ((1 - level) / 2)^(1 / n_i), the
    exact binomial bound.

    `progress` is told how many replicates are done, out of how many, where that takes long and yet no `rows`
    are read for them.
    """
    size = rows.num_classes
    # Differences from T in half precision: a thousandth of an interval's width is precision enough, and at
    # 1,000 classes 200 replicates take 0.4 GB instead of 1.6.
    moves: NDArray[np.float16] = np.empty((replicates, size, size), dtype=np.float16)
    class_priors, rates = np.empty((replicates, size)), np.empty(replicates)
    # A pooled T is nearer to the truth, but moves less than it may be off where classes are not as alike as
    # they seem: intervals are those of T class by class, stretched to the pooled T where it lies outside.
    centre = solution.class_by_class
    resampling, size_of_part = _way(rows, estimator, solution, replicates)
    reference = solution  # what replicates scatter around
    if resampling == "part":
        chosen = np.sort(rng.choice(len(rows), size_of_part, replace=False))
        part = ProbabilityRows(rows.at(chosen), rows.labels[chosen])
        often = np.full(len(part), len(rows) / len(part))
        # Twice, since a search that ended early would go on in every replicate, all in one direction.
        for _ in range(2):
            reference = estimator.solve(part, often, start=estimator.prepared(part, often, reference))
        draws = _from_rows(part, estimator, estimator.prepared(part, often, reference), len(rows), rng)
    elif resampling == "counts":
        draws = _from_counts(estimator, solution, rng)
    else:
        draws = _from_rows(rows, estimator, estimator.prepared(rows, None, solution), len(rows), rng)
    for number, replicate in zip(range(replicates), draws, strict=False):
        moves[number] = replicate.class_by_class - reference.class_by_class
        class_priors[number] = solution.class_prior + replicate.class_prior - reference.class_prior
        rates[number] = solution.noise_rate + replicate.noise_rate - reference.noise_rate
        if progress is not None and resampling == "part":
            progress(number + 1, replicates)
    low, high = centre.copy(), centre.copy()
    step = max(1, SORTED_AT_ONCE // (replicates * size))
    for first in range(0, size, step):
        some = slice(first, first + step)
        down, up = _ends(moves[:, some].astype(np.float32), level)
        low[some] += down
        high[some] += up
    unseen = 1 - ((1 - level) / 2) ** (1 / np.maximum(1, len(rows) * solution.class_prior))[:, None]
    low, high = np.minimum(low, 1 - unseen), np.maximum(high, unseen)
    # Rounding of the differences must not lead out of [0, 1], nor past the estimate itself.
    transition = (low.clip(0, solution.transition), high.clip(solution.transition, 1))
    prior_low, prior_high = _ends(class_priors.clip(0, 1), level)
    unseen_at_all = 1 - ((1 - level) / 2) ** (1 / len(rows))
    lowest, highest = (float(end) for end in _ends(rates, level))
    lowest, highest = min(lowest, 1 - unseen_at_all), max(highest, unseen_at_all)
    rate = solution.noise_rate
    return Intervals(
        transition,
        (np.minimum(prior_low, solution.class_prior), np.maximum(prior_high, solution.class_prior)),
        (min(max(0.0, lowest), rate), max(min(1.0, highest), rate)),
        resampling,
    )


def _way(
    rows: ProbabilityRows, estimator: Estimator, solution: Solution, replicates: int
) -> tuple[Resampling, int]:
    """What is drawn again, and of how many rows, so that it does not take too long."""
    affordable = MOST_REESTIMATED // (replicates * estimator.passes * rows.num_classes)
    if len(rows) <= affordable or solution.counts is None or estimator.recount(solution.counts) is None:
        return "rows", len(rows)
    part = min(len(rows), max(affordable, LEAST_IN_A_PART * rows.num_classes))
    if not estimator.counts_suffice and part <= PATIENCE * affordable:
        return "part", part
    return "counts", len(rows)


def _from_rows(
    rows: ProbabilityRows, estimator: Estimator, solution: Solution, total: int, rng: np.random.Generator
) -> Iterator[Solution]:
    """Estimates from `total` draws of `rows`."""
    even = np.full(len(rows), 1 / len(rows))
    while True:
        if total == len(rows):
            drawn = np.bincount(rng.integers(len(rows), size=total), minlength=len(rows))
        else:
            drawn = rng.multinomial(total, even)  # a part: few rows, each drawn often
        weights = drawn.astype(np.float64)
        yield estimator.solve(rows, weights, start=solution)


def _from_counts(estimator: Estimator, solution: Solution, rng: np.random.Generator) -> Iterator[Solution]:
    assert solution.counts is not None
    total = solution.counts.sum()
    cells = solution.counts.nonzero()  # an empty cell stays empty, and of a million cells most are
    shares = solution.counts[cells] / total
    while True:
        counts = np.zeros_like(solution.counts)
        counts[cells] = rng.multinomial(round(total), shares)
        recounted = estimator.recount(counts)
        assert recounted is not None
        yield recounted


def _ends(values: NDArray[np.floating], level: float) -> tuple[FloatArray, FloatArray]:
    """The two order statistics of the replicates (first axis) between which `level` of them lie."""
    last = len(values) - 1
    low = int((1 - level) / 2 * last)
    ordered = np.partition(values, (low, last - low), axis=0)
    return ordered[low].astype(np.float64), ordered[last - low].astype(np.float64)
