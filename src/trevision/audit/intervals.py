"""How many rows of a population have some property, from a stratified sample: intervals for few rows.

Let stratum h have N_h rows, K_h of them with the property (unknown), and let x_h of n_h drawn ones have it.
The count K = sum_h K_h is estimated by t = sum_h (N_h / n_h) x_h. A number K0 belongs to the interval if
neither tail of t, under strata with K0 in all, is smaller than (1 - level) / 2. The distribution of t is
exact: a convolution of hypergeometric ones, with t in whole steps. Only how K0 divides over the strata is not
known; the most likely division is taken, given x_h and, to steady it, a fitted curve (`_smoothed`). If
nothing was found, no curve is used: that division is the worst there is, and the upper end needs no
approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import expit, gammaln

from trevision.noise import FloatArray, IntArray

BORROWED = 12.0
"""Rows that the fitted curve counts for in each stratum, when a count is divided over the strata."""
STEPS = 40
"""The weight of the heaviest row in whole steps, in which the distribution of t is computed."""
FEW = 3
"""Up to so many found, the upper end is at least the one with nothing found."""
FAR = 16.0
"""A multiplier of exp(16) drives every stratum to its limit."""
STEEPEST = 5.0
"""Standard deviation of the prior of the curve's slope, in logits over half of the strata."""


@dataclass(frozen=True)
class Interval:
    """An estimated number of rows and the ends of its interval."""

    estimate: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """From end to end."""
        return self.high - self.low


def count_interval(
    found: FloatArray | IntArray,
    drawn: IntArray,
    sizes: IntArray,
    most: FloatArray | IntArray | None = None,
    level: float = 0.9,
) -> Interval:
    """An interval for the number of rows with a property.

    Parameters
    ----------
    found : ndarray of shape (strata,)
        x_h: drawn rows with the property. Need not be whole, so that more rows can be thought through.
    drawn, sizes : ndarray of shape (strata,)
        n_h, at least 1, and N_h. Strata lie in the order of suspicion.
    most : ndarray of shape (strata,) or None
        The most rows of a stratum that can have the property, found ones included; what the drawn rows
        leave possible if not given.
    level : float
        Confidence of the interval; each end errs with probability (1 - level) / 2.

    Examples
    --------
    One stratum of many rows is a binomial sample. With nothing found, the upper end is that of Clopper and
    Pearson, 1 - 0.05 ** (1 / 30):

    >>> end = count_interval(np.array([0]), np.array([30]), np.array([10**6])).high / 10**6
    >>> round(end, 4), round(1 - 0.05 ** (1 / 30), 4)
    (0.095, 0.095)
    """
    x = np.asarray(found, dtype=np.float64)
    least, limit = x, sizes - (drawn - x)
    limit = limit if most is None else np.clip(most, least, limit)
    estimate = float(np.clip((sizes / drawn * x).sum(), least.sum(), limit.sum()))
    nothing = not x.any()
    likely_x, likely_n = (x, drawn.astype(float)) if nothing else _smoothed(x, drawn, limit / sizes)
    weights = sizes / drawn
    units = np.maximum(np.rint(STEPS * weights / weights.max()), 1).astype(np.int64)
    observed = float(units @ x)
    tail = (1 - level) / 2

    def under(tilt: float) -> tuple[float, FloatArray]:
        """K0 and the distribution of t under the most likely division that this multiplier gives."""
        rate = np.sign(tilt) * np.expm1(abs(tilt))
        share = _divided(rate, likely_x, likely_n, sizes / sizes.sum(), least / sizes, limit / sizes)
        return float(share @ sizes), _distribution(units, share * sizes, drawn, sizes)

    def so_few(tilt: float) -> float:
        """How much likelier than `tail` so small a t is, under a K0 that grows with tilt; as a logarithm."""
        return _log(under(-tilt)[1][: int(np.floor(observed + 1e-9)) + 1].sum() / tail)

    def so_many(tilt: float) -> float:
        return _log(under(tilt)[1][int(np.ceil(observed - 1e-9)) :].sum() / tail)

    high = max(estimate, under(-_zero(so_few))[0])
    if 0 < x.sum() <= FEW:
        # A single wrong label in a small stratum must not make the others look cleaner than none would.
        high = max(high, min(count_interval(np.zeros(len(x)), drawn, sizes, most, level).high, limit.sum()))
    low = 0.0 if nothing else min(estimate, under(_zero(so_many))[0])
    return Interval(estimate, low, high)


def _log(ratio: float) -> float:
    return float(np.log(max(ratio, 1e-300)))


def _zero(falling: Callable[[float], float]) -> float:
    """Where a function that falls from 0 to FAR vanishes; the end that it does not reach."""
    if falling(FAR) >= 0:
        return FAR
    return 0.0 if falling(0.0) <= 0 else float(brentq(falling, 0, FAR, xtol=1e-4, rtol=1e-4))


def _smoothed(x: FloatArray, drawn: IntArray, limit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """x_h and n_h with `BORROWED` rows of a logistic curve over the strata added.

    A stratum of ten rows says little of its own rate; p (1 - p) of a raw share is too small on average, by
    one part in n_h. The curve pools what neighbours have in common, flat or steep.
    """
    place = np.stack([np.ones(len(x)), np.linspace(-1, 1, len(x)) if len(x) > 1 else np.zeros(1)], axis=1)
    penalty = np.diag([0.01, STEEPEST**-2])
    slope = np.array([np.log((x.sum() + 0.5) / (drawn.sum() - x.sum() + 0.5)), 0.0])
    for _ in range(20):
        share = expit(place @ slope)
        gradient = place.T @ (x - drawn * share) - penalty @ slope
        curvature = (place * (drawn * share * (1 - share))[:, None]).T @ place + penalty
        slope = slope + np.clip(np.linalg.solve(curvature, gradient), -2, 2)
    curve: FloatArray = np.minimum(expit(place @ slope), limit)
    return x + BORROWED * curve, drawn.astype(np.float64) + BORROWED


def _divided(
    rate: float, x: FloatArray, n: FloatArray, weight: FloatArray, least: FloatArray, limit: FloatArray
) -> FloatArray:
    """The shares p_h that maximise sum_h x_h log p_h + (n_h - x_h) log(1 - p_h) - rate weight_h p_h.

    Where the derivative vanishes, r p^2 - (n + r) p + x = 0 with r = rate weight; the root in [0, 1] is
    written so that nothing cancels. The sum is concave in each p_h, so limits are kept by clipping.
    """
    r = rate * weight
    a = n + r
    root = np.sqrt(np.maximum(a * a - 4 * r * x, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(a > 0, 2 * x / (a + root), (a - root) / (2 * r))
    return np.clip(share, least, limit)


def _distribution(units: IntArray, counts: FloatArray, drawn: IntArray, sizes: IntArray) -> FloatArray:
    """P(sum_h units_h x_h = k) for k = 0, 1, ..., with x_h hypergeometric in stratum h."""
    whole = np.floor(counts + 1e-9)
    part = np.maximum(counts - whole, 0)[:, None]
    # Between whole counts, a mixture of both.
    law = (1 - part) * _hypergeometric(whole, drawn, sizes)
    law += part * _hypergeometric(np.minimum(whole + 1, sizes), drawn, sizes)
    length = int(units @ drawn) + 1
    padded = next_fast_len(length, real=True)
    pieces = np.zeros((len(units), padded))
    for piece, unit, number, chances in zip(pieces, units, drawn, law, strict=True):
        piece[: unit * number + 1 : unit] = chances[: number + 1]
    summed: FloatArray = irfft(rfft(pieces, axis=1).prod(axis=0), padded)[:length]
    return np.maximum(summed, 0)


def _hypergeometric(counts: FloatArray, drawn: IntArray, sizes: IntArray) -> FloatArray:
    """P(x_h = 0, 1, ...) in a draw without replacement, a row for each stratum."""
    count, number, size = counts[:, None], drawn[:, None], sizes[:, None]
    x = np.arange(drawn.max() + 1)[None]
    possible = (x <= np.minimum(count, number)) & (number - x <= size - count)
    x, rest = np.where(possible, x, 0), np.where(possible, number - x, 0)
    logs = _log_choose(count, x) + _log_choose(size - count, rest) - _log_choose(size, number)
    return np.where(possible, np.exp(np.where(possible, logs, 0)), 0)


def _log_choose(n: FloatArray | IntArray, k: IntArray) -> FloatArray:
    chosen: FloatArray = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return chosen
