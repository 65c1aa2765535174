"""The latent-class model: its likelihood, summed over rows, and what a fit of it is.

`latent` says what the model is and fits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trevision.estimation.posterior import clean_given_label, invert, softmax
from trevision.estimation.rows import ProbabilityRows
from trevision.estimation.search import Axes
from trevision.noise import FloatArray, IntArray

# Numbers of which a few arrays fit into a processor's cache.
CACHED_NUMBERS = 2**15


@dataclass(frozen=True, eq=False)
class LogFeatures:
    """Turns rows of p into what the link is applied to, (n, C).

    That is log p or, with a `basis`, the logarithm of p^power corrected by that T.

    Attributes
    ----------
    least_probability : float
        Smaller probabilities count as this one.
    least_corrected : float
        The share of the uniform distribution that is mixed into a corrected p.
    basis : ndarray of shape (C, C) or None
        The T by which p is corrected.
    power : float
        The power that p is raised to before it is corrected.
    """

    least_probability: float
    least_corrected: float
    basis: FloatArray | None = None
    power: float = 1.0

    def logs(self, probs: NDArray[np.floating]) -> FloatArray:
        """log p, nowhere below the least."""
        logs: FloatArray = np.log(np.maximum(probs, self.least_probability), dtype=np.float64)
        return logs

    def to_power(self, probs: NDArray[np.floating]) -> FloatArray:
        """p^power, made to sum to 1."""
        return softmax(self.power * self.logs(probs))

    def __call__(self, probs: NDArray[np.floating]) -> FloatArray:
        if self.basis is not None:
            corrected = invert(self.to_power(probs), self.basis)
            probs = (corrected + self.least_corrected / len(self.basis)) / (1 + self.least_corrected)
        return self.logs(probs)

    def by_class(self, probs: FloatArray) -> FloatArray:
        """The same transposed, (C, n)."""
        return np.ascontiguousarray(self(probs).T)

    def by_class_in_single(self, probs: FloatArray) -> NDArray[np.float32]:
        """The same in single precision, in pieces of rows that stay in the processor's cache."""
        features = np.empty(probs.T.shape, dtype=np.float32)
        for some in chunked(len(probs), CACHED_NUMBERS // probs.shape[1]):
            features[:, some] = self(probs[some]).T
        return features


@dataclass(frozen=True, eq=False)
class LatentFit:
    """A fitted latent-class model.

    Attributes
    ----------
    transition : ndarray of shape (C, C)
        T, each class by itself.
    link, bias : ndarray of shape (C, C) and (C,)
        g(x) = softmax(link' features(p(x)) + bias).
    features : LogFeatures
        What of p the link is applied to.
    counts : ndarray of shape (C, C)
        The expected number of rows with clean label i and given label j.
    objective : float
        The mean negative log-likelihood of the given labels, penalties included.
    fitted_rows : float
        The number of rows that the link was fitted to.
    converged : bool
        False where the optimiser stopped while it was still gaining.
    axes : Axes or None
        Axes along which a search from here goes on. None: the numbers of A, b and log T.

    Examples
    --------
    A start at which g is p itself:

    >>> from trevision.estimation import LATENT
    >>> start = LATENT.start_from(np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> start.clean_posterior(np.array([[0.7, 0.3]])).round(6)
    array([[0.7, 0.3]])
    """

    transition: FloatArray
    link: FloatArray
    bias: FloatArray
    features: LogFeatures
    counts: FloatArray
    objective: float = np.inf
    fitted_rows: float = 0.0
    converged: bool = True
    axes: Axes | None = None

    def clean_posterior(self, noisy_probs: NDArray[np.floating], /) -> FloatArray:
        """g(x) for rows (n, C) of out-of-sample probabilities P(noisy | x)."""
        return softmax(self.features(noisy_probs) @ self.link + self.bias)

    def log_likelihood(self, noisy_probs: NDArray[np.floating], noisy_labels: IntArray) -> FloatArray:
        """log sum_i T[i, y] g_i(x) of each row."""
        each = self.clean_posterior(noisy_probs) * self.transition.T[noisy_labels]
        logs: FloatArray = np.log(np.maximum(each.sum(axis=1), np.finfo(np.float64).tiny))
        return logs


@dataclass(frozen=True, eq=False)
class Sample:
    """The noisy posteriors, labels and weights that a link is fitted to, in the order of the labels.

    `blocks` are rows with one label, which comes first; `pinned` are the logarithms of the known entries of
    T, NaN where unknown. `whole` says whether all rows are in the sample.
    """

    probs: FloatArray
    labels: IntArray
    weights: FloatArray
    blocks: list[tuple[int, slice]]
    whole: bool
    pinned: FloatArray
    block_numbers: int

    def part(self, numbers: int, rows_a_class: int = 0) -> Sample:
        """A random part (always the same) of so many probabilities or rows a class; all if they are fewer."""
        size = self.probs.shape[1]
        most = max(1, numbers // size, rows_a_class * size)
        if len(self.labels) <= most:
            return self
        chosen = np.sort(np.random.default_rng(0).choice(len(self.labels), most, replace=False))
        labels = self.labels[chosen]
        blocks = blocks_of(labels, size, self.block_numbers)
        return replace(
            self,
            probs=self.probs[chosen],
            labels=labels,
            weights=self.weights[chosen],
            blocks=blocks,
            whole=False,
        )


def blocks_of(labels: IntArray, size: int, block_numbers: int) -> list[tuple[int, slice]]:
    """Rows of one label each, for ascending labels, with no more than `block_numbers` probabilities."""
    ends = np.searchsorted(labels, np.arange(size + 1))
    length = max(1, block_numbers // size)
    return [
        (label, slice(begin, min(begin + length, ends[label + 1])))
        for label in range(size)
        for begin in range(ends[label], ends[label + 1], length)
    ]


def chunked(rows: int, most: int) -> list[slice]:
    """Slices of no more than so many rows, one after the other."""
    step = max(1, most)
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]


def gather(
    rows: ProbabilityRows,
    weights: FloatArray | None,
    pinned: FloatArray,
    most_numbers: int,
    block_numbers: int,
) -> Sample:
    """All rows, or a random part with no more than `most_numbers` probabilities, in blocks."""
    most = max(1, most_numbers // rows.num_classes)
    whole = len(rows) <= most
    chosen = np.ones(len(rows), dtype=bool)
    if not whole:
        # Always the same rows: a function of its arguments, and a bootstrap varies the weights alone.
        chosen[:] = False
        chosen[np.random.default_rng(0).choice(len(rows), most, replace=False)] = True
    if weights is not None:
        chosen &= weights > 0
    probs = np.concatenate([chunk.probs[chosen[chunk.rows]].astype(np.float64) for chunk in rows.chunks()])
    labels = rows.labels[chosen]
    counted = np.ones(len(labels)) if weights is None else weights[chosen]
    order = np.argsort(labels, kind="stable")
    blocks = blocks_of(labels[order], rows.num_classes, block_numbers)
    return Sample(probs[order], labels[order], counted[order], blocks, whole, pinned, block_numbers)


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums over all rows at one (A, b, T).

    `by_link` and `by_bias` are the slopes of entropy_weight * entropy / rows - log_likelihood; `counts[i, j]`
    is the expected number of rows with clean label i and given label j.
    """

    log_likelihood: float
    entropy: float
    by_link: FloatArray
    by_bias: FloatArray
    counts: FloatArray


def sums(
    features: NDArray[np.floating],
    sample: Sample,
    link: FloatArray,
    bias: FloatArray,
    matrix: FloatArray,
    entropy_weight: float,
) -> Sums:
    """One pass over the rows, block by block: classes lie along the first axis, rows along the second.

    A block is small enough to stay in the processor's cache, and its rows have one label. Blocks are worked
    on in the precision of `features`, and their sums are added up in double precision.
    """
    size, kind = len(features), features.dtype
    link, bias, matrix = (values.astype(kind, copy=False) for values in (link, bias, matrix))
    all_weights = sample.weights.astype(kind, copy=False)
    log_likelihood = entropy_sum = 0.0
    by_link, by_bias, counts = np.zeros((size, size)), np.zeros(size), np.zeros((size, size))
    pressure = kind.type(entropy_weight / sample.weights.sum())
    for label, block in sample.blocks:
        part, weights = features[:, block], all_weights[block]
        logs = link.T @ part + bias[:, None]
        logs -= logs.max(axis=0)
        clean = np.exp(logs)
        scale = clean.sum(axis=0)
        clean /= scale
        logs -= np.log(scale)
        after = clean * matrix[:, label, None]
        # A trial step of the search may make a label that occurs impossible: very bad, but not infinite.
        likelihood = np.maximum(after.sum(axis=0), np.finfo(kind).tiny)
        after /= likelihood
        entropy = -(clean * logs).sum(axis=0)
        pull = (clean - after - pressure * clean * (logs + entropy)) * weights
        log_likelihood += float(weights @ np.log(likelihood))
        entropy_sum += float(weights @ entropy)
        by_link += part @ pull.T
        by_bias += pull.sum(axis=1)
        counts[:, label] += after @ weights
    return Sums(log_likelihood, entropy_sum, by_link, by_bias, counts)


def maximised(rows: ProbabilityRows, weights: FloatArray | None, fit: LatentFit) -> LatentFit:
    """One step of expectation-maximisation for T over all rows, the link held fixed."""
    size = rows.num_classes
    counts = np.zeros((size, size))
    for probs, labels, where in rows.chunks():
        after = clean_given_label(fit.clean_posterior(probs), fit.transition, labels)
        if weights is not None:
            after *= weights[where, None]
        np.add.at(counts.T, labels, after)
    totals = counts.sum(axis=1, keepdims=True)
    matrix = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), fit.transition)
    return replace(fit, transition=matrix, counts=counts)
