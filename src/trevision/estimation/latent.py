"""T by maximum likelihood, with the clean class of every row as a latent variable.

    P(noisy = j | x) = sum_i T[i, j] g_i(x),      g(x) = softmax(A^T log p(x) + b)

p(x) are out-of-sample probabilities of the noisy labels, by any model. The link (A, b), a softmax
regression on their logarithms, turns them into the clean posterior g, and T turns g back into
probabilities of noisy labels; both are fitted together to the labels given. A softmax saturates where x is
surely of class i, and the distribution of the noisy labels on that plateau is row i of T: no anchor point
is picked, every row takes part. That p is miscalibrated (too soft, too sharp, or biased to some class) is
absorbed by the link instead of by T. See docs/methods/latent.md for what this assumes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment, minimize

from trevision.estimation.anchors import anchor_transition
from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.confident_joint import calibrated, confident_counts
from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.noise import FloatArray, IntArray

# Logarithms of smaller probabilities tell no more about the clean class, only about the model's sharpness.
LEAST_PROBABILITY = 1e-6

# Ridge penalties in units of the log-likelihood of one row. The multiple of the identity in A is free.
LINK_RIDGE = 2.0
BIAS_RIDGE = 0.2

# The least entry of T that a fit starts from: from zero itself none can rise.
LEAST_START = 1e-4

MOST_ITERATIONS = 200

# The link has C^2 numbers: with more classes it is dear to fit, and hardly determined.
MOST_CLASSES = 100

# Probabilities that the link is fitted to; of larger data a random part of the rows is.
MOST_NUMBERS = 2 * 10**7

# Passes over all rows that bring T to its likeliest, where the link was fitted to a part.
FINAL_PASSES = 5


@dataclass(frozen=True, eq=False)
class LatentFit:
    """A fitted latent-class model: T, the link from noisy to clean posterior, and how well they fit.

    `counts[i, j]` is the expected number of rows with clean label i and given label j; `objective` is the
    mean negative log-likelihood of the given labels, penalties included.
    """

    transition: FloatArray
    link: FloatArray
    bias: FloatArray
    counts: FloatArray
    objective: float

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """g(x) for rows (n, C) of out-of-sample probabilities P(noisy | x)."""
        return _softmax(_logs(noisy_probs) @ self.link + self.bias)


def latent_transition(noisy_probs: ArrayLike | RowSource, noisy_labels: ArrayLike) -> FloatArray:
    """T by maximum likelihood from out-of-sample probabilities; see `fit_latent`."""
    return fit_latent(ProbabilityRows(noisy_probs, noisy_labels)).transition


def fit_latent(
    rows: ProbabilityRows, weights: FloatArray | None = None, start: LatentFit | None = None
) -> LatentFit:
    """Fit T and the link to the labels given, each row counted `weights` times.

    The likelihood has local maxima under heavy asymmetric noise, where two classes may lock into each
    other. Of fits from three starts (the confident joint, anchor points, and labels counted against the
    likeliest class) the likeliest is taken, unless there is a `start` to continue from.
    """
    if rows.num_classes > MOST_CLASSES:
        raise ValueError(
            f"the latent-class fit is for up to {MOST_CLASSES} classes, got {rows.num_classes}; "
            "use the confident joint"
        )
    sample = _gather(rows, weights)
    if start is not None:
        best = _fit(sample, start)
    else:
        joint = rows_to_one(calibrated(confident_counts(rows, weights)))
        fits = [_fit(sample, _unlinked(matrix)) for matrix in (joint, *_simple_starts(sample))]
        best = min(fits, key=lambda fit: fit.objective)
    if not sample.whole:
        for _ in range(FINAL_PASSES):
            best = _maximised(rows, weights, best)
    return best


def given_is_right(
    clean_posterior: FloatArray, transition: FloatArray, noisy_labels: IntArray
) -> FloatArray:
    """P(clean = i | x, given) for every row and class, (n, C), by Bayes' rule.

    P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j]
    """
    weight = clean_posterior * transition.T[noisy_labels]
    total = weight.sum(axis=1, keepdims=True)
    # Where T says that this label cannot occur here, the label tells nothing.
    return np.where(total > 0, weight / np.where(total > 0, total, 1), clean_posterior)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Logarithms of the noisy posterior, labels and weights that a link is fitted to."""

    logs: FloatArray
    labels: IntArray
    weights: FloatArray
    label_ends: NDArray[np.intp]
    whole: bool


def _gather(rows: ProbabilityRows, weights: FloatArray | None) -> _Sample:
    most = max(1, MOST_NUMBERS // rows.num_classes)
    whole = len(rows) <= most
    chosen = np.ones(len(rows), dtype=bool)
    if not whole:
        # Always the same rows: a function of its arguments, and a bootstrap varies the weights alone.
        chosen[:] = False
        chosen[np.random.default_rng(0).choice(len(rows), most, replace=False)] = True
    if weights is not None:
        chosen &= weights > 0
    logs = np.concatenate([_logs(chunk.probs[chosen[chunk.rows]]) for chunk in rows.chunks()])
    labels = rows.labels[chosen]
    counted = np.ones(len(labels)) if weights is None else weights[chosen]
    # Rows in the order of their labels, so that sums by label are sums of neighbours.
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(rows.num_classes + 1))
    return _Sample(logs[order], labels[order], counted[order], ends, whole)


def _simple_starts(sample: _Sample) -> tuple[FloatArray, FloatArray]:
    """T from anchor points, and from labels counted against the class of the largest probability."""
    size = sample.logs.shape[1]
    anchors = anchor_transition(_softmax(sample.logs), 100 - 30 / size)
    cells = sample.logs.argmax(axis=1) * size + sample.labels
    counts = np.bincount(cells, sample.weights, size**2).reshape(size, size)
    return anchors, rows_to_one(counts)


def _unlinked(matrix: FloatArray) -> LatentFit:
    """A start from T alone: the noisy posterior itself is taken for the clean one."""
    size = len(matrix)
    return LatentFit(matrix, np.eye(size), np.zeros(size), np.zeros((size, size)), np.inf)


def _fit(sample: _Sample, start: LatentFit) -> LatentFit:
    """Minimise the penalised negative log-likelihood over A, b and log T with L-BFGS."""
    size = sample.logs.shape[1]
    total = sample.weights.sum()
    ends = sample.label_ends

    def unpack(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        link, rest = values[: size**2], values[size**2 :]
        return link.reshape(size, size), rest[:size], _softmax(rest[size:].reshape(size, size))

    def by_label(values: FloatArray) -> FloatArray:
        """Sums of rows by given label, as columns: (C, C) from (n, C)."""
        sums = np.zeros((size, size))
        seen = np.flatnonzero(ends[1:] > ends[:-1])
        sums[:, seen] = np.add.reduceat(values, ends[seen], axis=0).T
        return sums

    def posterior(link: FloatArray, bias: FloatArray, matrix: FloatArray):
        clean = _softmax(sample.logs @ link + bias)
        joint = clean * matrix.T[sample.labels]
        likelihood = joint.sum(axis=1)
        return clean, joint / likelihood[:, None], likelihood

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        link, bias, matrix = unpack(values)
        clean, after, likelihood = posterior(link, bias, matrix)
        astray = link - np.eye(size) * (np.trace(link) / size)
        penalty = LINK_RIDGE * (astray**2).sum() + BIAS_RIDGE * (bias**2).sum()
        loss = (penalty - sample.weights @ np.log(likelihood)) / total
        pull = (clean - after) * sample.weights[:, None]
        counts = by_label(after * sample.weights[:, None])
        slopes = (
            sample.logs.T @ pull + 2 * LINK_RIDGE * astray,
            pull.sum(axis=0) + 2 * BIAS_RIDGE * bias,
            matrix * counts.sum(axis=1, keepdims=True) - counts,
        )
        return float(loss), np.concatenate([slope.ravel() for slope in slopes]) / total

    logs = np.log(np.maximum(start.transition, LEAST_START))
    found = minimize(
        objective,
        np.concatenate([start.link.ravel(), start.bias, logs.ravel()]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-6},
    )
    link, bias, matrix = unpack(found.x)
    # The model says nothing about which latent class is called what: each is called by its commonest label.
    _, names = linear_sum_assignment(-matrix)
    order = np.argsort(names)
    link, bias, matrix = link[:, order], bias[order], matrix[order]
    _, after, _ = posterior(link, bias, matrix)
    counts = by_label(after * sample.weights[:, None])
    return LatentFit(matrix, link, bias, counts, float(found.fun))


def _maximised(rows: ProbabilityRows, weights: FloatArray | None, fit: LatentFit) -> LatentFit:
    """One step of expectation-maximisation for T over all rows, the link held fixed."""
    size = rows.num_classes
    counts = np.zeros((size, size))
    for probs, labels, where in rows.chunks():
        after = given_is_right(fit.clean_posterior(probs), fit.transition, labels)
        if weights is not None:
            after *= weights[where, None]
        np.add.at(counts.T, labels, after)
    totals = counts.sum(axis=1, keepdims=True)
    matrix = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), fit.transition)
    return LatentFit(matrix, fit.link, fit.bias, counts, fit.objective)


def _logs(probs: NDArray[np.floating]) -> FloatArray:
    return np.log(np.maximum(probs, LEAST_PROBABILITY), dtype=np.float64)


def _softmax(logits: FloatArray) -> FloatArray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
