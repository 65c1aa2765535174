"""The curvature of the latent-class likelihood, and the axes along which it is the same everywhere.

Along these axes a search needs some ten steps where it takes hundreds along the numbers of A, b and log T
themselves, whose curvatures differ by a factor of a million. The curvature may be that of a small part of
the rows: it only has to be about right, since it changes the way of a search and not where it ends.
"""

from __future__ import annotations

import numpy as np

from trevision.estimation.latent_model import Sample
from trevision.noise import FloatArray


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
        logs = link.T @ part[:-1] + bias[:, None]
        clean = np.exp(logs - logs.max(axis=0))
        clean /= clean.sum(axis=0)
        after = clean * matrix[:, label, None]
        after /= np.maximum(after.sum(axis=0), np.finfo(np.float64).tiny)
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
    whole = np.block([[links, cross], [cross.T, of_matrix.reshape(size**2, size**2)]])
    return whole / sample.weights.sum()


def axes_of(second: FloatArray, least: float) -> FloatArray:
    """Axes, as columns, along which a function with these second derivatives has curvature 1.

    Curvatures below `least` times the greatest count as that: along them the function hardly changes.
    """
    values, vectors = np.linalg.eigh(second)
    sizes = np.maximum(np.abs(values), least * values.max())
    axes: FloatArray = vectors / np.sqrt(sizes)
    return axes
