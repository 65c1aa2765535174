"""The curvature of the latent-class likelihood, and the axes along which it is the same everywhere.

Along these axes a search needs some ten steps where it takes hundreds along the numbers of A, b and log T
themselves, whose curvatures differ by a factor of a million. The curvature may be that of a small part of
the rows: it only has to be about right, since it changes the way of a search and not where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trevision.estimation.latent_model import Sample
from trevision.noise import FloatArray


def clean_and_after(
    features: FloatArray, link: FloatArray, bias: FloatArray, matrix: FloatArray, label: int
) -> tuple[FloatArray, FloatArray]:
    """P(clean | x) and P(clean | x, given = label), classes along the first axis."""
    logs = link.T @ features + bias[:, None]
    clean = np.exp(logs - logs.max(axis=0))
    clean /= clean.sum(axis=0)
    after = clean * matrix[:, label, None]
    after /= np.maximum(after.sum(axis=0), np.finfo(np.float64).tiny)
    return clean, after


def curvature(
    features: FloatArray, sample: Sample, link: FloatArray, bias: FloatArray, matrix: FloatArray
) -> FloatArray:
    """Second derivatives of the mean negative log-likelihood, in the order A, b, log T.

    With u = A'x + b, g = softmax(u), a_i = g_i T[i, j] / sum_k g_k T[k, j] for the given label j and
    e_il = 1[l = j] - T[i, l], the derivatives of log sum_i T[i, j] g_i are

        u_i u_k          diag(a) - a a' - diag(g) + g g'
        u_k logT_il      a_i (1[i = k] - a_k) e_il
        logT_il logT_km  a_i (1[i = k] - a_k) e_il e_km - 1[i = k] a_i T[i, l] (1[l = m] - T[i, m])
    """
    size = len(features)
    of_link = np.zeros((size, size + 1, size, size + 1))  # class, feature, class, feature; 1 is the last
    crossed = np.zeros((size + 1, size, size, size))  # feature, class; class, label
    of_matrix = np.zeros((size, size, size, size))
    for label, block in sample.blocks:
        part, weights = features[:, block], sample.weights[block]
        part = np.concatenate([part, np.ones((1, part.shape[1]))])
        clean, after = clean_and_after(part[:-1], link, bias, matrix, label)
        spread = -after[:, None] * after[None]  # a_i (1[i = k] - a_k)
        spread[np.arange(size), np.arange(size)] += after
        for i in range(size):
            for k in range(i, size):
                second = -clean[i] * clean[k] - spread[i, k]
                if i == k:
                    second += clean[i]
                of_link[i, :, k] += part * (second * weights) @ part.T
        off = -matrix.copy()
        off[:, label] += 1
        moved = (part * weights @ spread.reshape(size**2, -1).T).reshape(size + 1, size, size)
        crossed -= moved.transpose(0, 2, 1)[..., None] * off
        together = spread @ weights
        of_matrix -= together[:, None, :, None] * off[:, :, None, None] * off
        totals = after @ weights
        for i in range(size):
            of_matrix[i, :, i] += totals[i] * (np.diag(matrix[i]) - np.outer(matrix[i], matrix[i]))
    for i in range(size):
        for k in range(i):
            of_link[i, :, k] = of_link[k, :, i].T
    links = of_link.transpose(1, 0, 3, 2).reshape(size * (size + 1), -1)
    cross = crossed.reshape(size * (size + 1), size**2)
    whole: FloatArray = np.block([[links, cross], [cross.T, of_matrix.reshape(size**2, size**2)]])
    whole /= sample.weights.sum()
    return whole


def axes_of(second: FloatArray, least: float) -> FullAxes:
    """Axes along which a function with these second derivatives has curvature 1.

    Curvatures below `least` times the greatest count as that: along them the function hardly changes.
    """
    values, vectors = np.linalg.eigh(second)
    return FullAxes(vectors / np.sqrt(np.maximum(np.abs(values), least * values.max())))


@dataclass(frozen=True, eq=False)
class FullAxes:
    """Axes as the columns of a matrix."""

    columns: FloatArray

    def move(self, distances: FloatArray) -> FloatArray:
        """The step that so many units along each axis make."""
        return self.columns @ distances

    def slopes(self, slopes: FloatArray) -> FloatArray:
        """The slopes along the axes."""
        return self.columns.T @ slopes


@dataclass(frozen=True, eq=False)
class FactoredAxes:
    """Axes for very many numbers: those of A are a product, one factor for features and one for classes.

    `features` (C, C) and `classes` (C,) are the two factors, `bias` (C,) and `matrix` (C, C) the scales of b
    and of log T.
    """

    features: FloatArray
    classes: FloatArray
    bias: FloatArray
    matrix: FloatArray

    def move(self, distances: FloatArray) -> FloatArray:
        """The step that so many units along each axis make."""
        link, rest = self._split(distances)
        return np.concatenate([(self.features @ link * self.classes).ravel(), rest])

    def slopes(self, slopes: FloatArray) -> FloatArray:
        """The slopes along the axes."""
        link, rest = self._split(slopes)
        return np.concatenate([(self.features.T @ (link * self.classes)).ravel(), rest])

    def _split(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        size = len(self.bias)
        scale = np.concatenate([self.bias, self.matrix.ravel()])
        return values[: size**2].reshape(size, size), values[size**2 :] * scale


def factored_axes(
    features: FloatArray,
    sample: Sample,
    link: FloatArray,
    bias: FloatArray,
    matrix: FloatArray,
    ridge: float,
    least: float,
) -> FactoredAxes:
    """Axes of about equal curvature, by a Kronecker product (Martens and Grosse 2015).

    The curvature of A is about the mean of s s' (x) x x' for the slopes s = a - g of u (see `curvature`). It
    is taken for the product of the mean of s^2, class by class, and of the mean of x x' over rows weighted
    by the sum of their s^2.
    """
    size, total = len(features), sample.weights.sum()
    moments, squares, counts = np.zeros((size, size)), np.zeros(size), np.zeros((size, size))
    for label, block in sample.blocks:
        part, weights = features[:, block], sample.weights[block]
        clean, after = clean_and_after(part, link, bias, matrix, label)
        slopes = (after - clean) ** 2 * weights
        squares += slopes.sum(axis=1)
        moments += part * slopes.sum(axis=0) @ part.T
        counts[:, label] += after @ weights
    moments /= max(squares.sum(), least)
    spread = np.maximum(squares / total, least)
    values, vectors = np.linalg.eigh(moments)
    # The ridge of A, in the units of one class's factor.
    sizes = np.maximum(values, least * values.max()) + 2 * ridge / (total * spread.mean())
    shares = counts.sum(axis=1, keepdims=True) / total * matrix * (1 - matrix)
    return FactoredAxes(
        vectors / np.sqrt(sizes),
        1 / np.sqrt(spread),
        1 / np.sqrt(spread),
        1 / np.sqrt(np.maximum(shares, least)),
    )
