"""How likely the noisy labels are by what a model predicts for rows that it was not fitted on.

    P(noisy = y | x) = (1 - e) (T' g^a(x))_y + e f_y

g is the clean posterior by the model, f the labels' frequencies. A power a and a share e are fitted for each
model: how soft or sharp its probabilities are, and whether it says "impossible" too lightly, are no reasons
to prefer another. They are fitted to the rows of the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from trevision.noise import FloatArray, IntArray

LEAST_PROBABILITY = 1e-6
"""Probabilities below it count as it: a logarithm must be finite."""

POWERS = (0.05, 8.0)
"""The least and the greatest power."""

MOST_ROWS = 20_000
"""Rows that power and share are fitted to: two numbers do not need more."""


@dataclass(frozen=True)
class Calibration:
    """The power of a model's probabilities and the share of labels drawn by their frequencies."""

    power: float = 1.0
    share: float = 0.0

    def through(self, g: FloatArray, transition: FloatArray | None) -> FloatArray:
        """T' g^a, (n, C); without a `transition`, g itself is the noisy posterior."""
        logs = self.power * np.log(np.maximum(g, LEAST_PROBABILITY))
        raised = np.exp(logs - logs.max(axis=1, keepdims=True))
        raised /= raised.sum(axis=1, keepdims=True)
        noisy: FloatArray = raised if transition is None else raised @ transition
        return noisy

    def noisy_probs(
        self, g: FloatArray, transition: FloatArray | None, frequencies: FloatArray
    ) -> FloatArray:
        """(1 - e) T' g^a + e f, (n, C)."""
        mixed: FloatArray = (1 - self.share) * self.through(g, transition) + self.share * frequencies
        return mixed


def probability_of(probs: FloatArray, given: IntArray | FloatArray) -> FloatArray:
    """The probability of what was given to each row, (n,).

    Given are the codes of labels (n,) that `probs` (n, C) are of, or P(what was given | class) (n, C).
    """
    if given.ndim == 1:
        own: FloatArray = probs[np.arange(len(given)), given]
        return own
    mean: FloatArray = (probs * given).sum(axis=1)
    return mean


def calibrate(
    g: FloatArray,
    labels: IntArray | FloatArray,
    transition: FloatArray | None,
    frequencies: FloatArray,
    weights: FloatArray,
) -> Calibration:
    """The power and the share for which the labels are likeliest; these are given as for `probability_of`."""
    step = -(-len(labels) // MOST_ROWS)
    g, labels, weights = g[::step], labels[::step], weights[::step]
    low, high = np.log(POWERS)

    def unpacked(values: FloatArray) -> Calibration:
        power = np.exp(np.clip(values[0], low, high))
        return Calibration(float(power), float(1 / (1 + np.exp(-np.clip(values[1], -30, 30)))))

    def loss(values: FloatArray) -> float:
        probs = probability_of(unpacked(values).noisy_probs(g, transition, frequencies), labels)
        return float(-(weights @ np.log(np.maximum(probs, LEAST_PROBABILITY))) / weights.sum())

    start = np.array([0.0, -4.0])
    simplex = start + np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 1.5]])
    least = minimize(
        loss, start, method="Nelder-Mead", options={"initial_simplex": simplex, "xatol": 0.02, "fatol": 1e-6}
    )
    return unpacked(least.x)


def held_out_noisy(
    g: FloatArray,
    labels: IntArray,
    transitions: list[FloatArray | None],
    folds: list[NDArray[np.bool_]],
    weights: FloatArray,
) -> tuple[FloatArray, IntArray]:
    """log P(noisy = y | x) of every row and its likeliest noisy label T' g^a, each (n,).

    Each fold is calibrated by the others, and has a T of its own.
    """
    logs, likeliest = np.empty(len(labels)), np.empty(len(labels), dtype=np.int64)
    for fold, transition in zip(folds, transitions, strict=True):
        rest = ~fold
        frequencies = np.bincount(labels[rest], weights[rest], g.shape[1]) / weights[rest].sum()
        fitted = calibrate(g[rest], labels[rest], transition, frequencies, weights[rest])
        own = probability_of(fitted.noisy_probs(g[fold], transition, frequencies), labels[fold])
        logs[fold] = np.log(np.maximum(own, LEAST_PROBABILITY))
        likeliest[fold] = fitted.through(g[fold], transition).argmax(axis=1)
    return logs, likeliest


@dataclass(frozen=True)
class Gain:
    """By how much a row's noisy label is likelier on average, in nats, and the standard error of that."""

    mean: float
    error: float

    def is_clear(self, errors: float) -> bool:
        """Whether the gain is above so many standard errors."""
        return self.mean > errors * self.error


def gain(scores: FloatArray, base: FloatArray, weights: FloatArray) -> Gain:
    """The weighted mean of `scores - base` over rows, with its standard error.

    >>> gain(np.array([1.0, 3.0]), np.zeros(2), np.ones(2))
    Gain(mean=2.0, error=1.0)
    """
    differences = scores - base
    total = weights.sum()
    mean = float(weights @ differences / total)
    count = max(total**2 / (weights**2).sum(), 1.0)
    variance = float(weights @ (differences - mean) ** 2 / total)
    return Gain(mean, float(np.sqrt(variance / max(count - 1, 1e-9))))
