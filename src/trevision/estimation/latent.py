"""T by maximum likelihood, with the clean class of every row as a latent variable.

    P(noisy = j | x) = sum_i T[i, j] g_i(x),      g(x) = softmax(A' log p(x) + b)

p(x) are out-of-sample probabilities of the noisy labels, by any model. The link (A, b), a softmax
regression on their logarithms, turns them into the clean posterior g, and T turns g back into
probabilities of noisy labels; both are fitted together to the labels given. A softmax saturates where x is
surely of class i, and the distribution of the noisy labels on that plateau is row i of T: no anchor point
is picked, every row takes part. That p is miscalibrated (too soft, too sharp, or biased to some class) is
absorbed by the link instead of by T. Where p is exact, the clean posterior is no softmax of log p but
(T')^-1 p; so log p may be replaced by the logarithm of that, for a T of a simpler estimator, and the
likelihood says which of the two it is. docs/latent.md tells what this assumes and how well it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, minimize, minimize_scalar
from scipy.stats import chi2

from trevision.estimation.anchors import anchor_transition, usual_percentile
from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.confident_joint import calibrated, confident_counts
from trevision.estimation.counted import prediction_counts
from trevision.estimation.posterior import clean_given_label, invert, softmax
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray, IntArray
from trevision.prior import Prior

# Logarithms of smaller probabilities tell no more about the clean class, only about the model's sharpness.
LEAST_PROBABILITY = 1e-6

# The share of the uniform distribution mixed into a corrected p, which is exactly zero in many places.
LEAST_CORRECTED = 1e-2

# The powers of p that are tried where it is too soft or too sharp.
POWERS = (0.05, 20.0)

# Ridge penalties in units of the log-likelihood of one row. The multiple of the identity in A is free.
LINK_RIDGE = 2.0
BIAS_RIDGE = 0.2

# The weight, in the same unit, of the mean entropy of g. Where the likelihood leaves a choice between a
# softer g with a T nearer to the identity and the reverse, it takes the surest g, the T of least volume.
ENTROPY_WEIGHT = 5.0

# The least entry of T that a fit starts from: from zero itself none can rise.
LEAST_START = 1e-4

MOST_ITERATIONS = 200

# The level of the likelihood-ratio test that a fit must pass beside the likeliest one.
ABOUT_AS_LIKELY = 0.99

# The link has C^2 numbers: with more classes it is dear to fit, and hardly determined.
MOST_CLASSES = 100

# The condition number from which on T has lost a class.
WORST_CONDITION = 1e3

# By how much for each class the logarithm of the volume must be smaller for a fit from corrected p to be
# preferred: where both do, a model's own log p, which nowhere saturates, ranks rows better.
CORRECTED_HANDICAP = 0.05

# Probabilities that the link is fitted to; of larger data a random part of the rows is.
MOST_NUMBERS = 2 * 10**7

# Probabilities in a block of rows that is worked on at once: 128 KiB, of which a few fit into a cache.
BLOCK_NUMBERS = 2**14

# Passes over all rows that bring T to its likeliest, where the link was fitted to a part.
FINAL_PASSES = 5


@dataclass(frozen=True, eq=False)
class LatentFit:
    """A fitted latent-class model: T, the link from noisy to clean posterior, and how well they fit.

    `basis`, where there is one, is the T by which p, raised to `power`, is corrected before its logarithm is
    taken.
    `counts[i, j]` is the expected number of rows with clean label i and given label j; `objective` is the
    mean negative log-likelihood of the given labels, penalties included, over the `fitted_rows` that the link
    was fitted to.
    """

    transition: FloatArray
    link: FloatArray
    bias: FloatArray
    basis: FloatArray | None
    counts: FloatArray
    objective: float
    power: float = 1.0
    fitted_rows: float = 0.0

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """g(x) for rows (n, C) of out-of-sample probabilities P(noisy | x)."""
        return softmax(_features(noisy_probs, self.basis, self.power) @ self.link + self.bias)


def fit_latent(
    rows: ProbabilityRows,
    weights: FloatArray | None = None,
    start: LatentFit | None = None,
    knowledge: Prior | None = None,
) -> LatentFit:
    """Fit T and the link to the labels given, each row counted `weights` times.

    The likelihood has local maxima under heavy asymmetric noise, where two classes may lock into each
    other, so there are fits from several starts (the confident joint, anchor points, and labels counted
    against the likeliest class), unless there is a `start` to continue from; see `_least_volume`.

    With `knowledge` of T, impossible mistakes and known rows are kept throughout, so that the link too is
    fitted under them; symmetry and dominance are left to a projection of the result. Where latent classes
    have such knowledge about them, they keep their names.
    """
    if rows.num_classes > MOST_CLASSES:
        raise ValueError(
            f"the latent-class fit is for up to {MOST_CLASSES} classes, got {rows.num_classes}; "
            "use the confident joint"
        )
    sample = _gather(rows, weights, _pinned(rows.num_classes, knowledge))
    best = _fit(sample, start) if start is not None else _least_volume(_fits(sample), sample.weights.sum())
    for _ in range(0 if sample.whole else FINAL_PASSES):
        best = _admitted(_maximised(rows, weights, best), knowledge)
    return _admitted(best, knowledge)


def _pinned(size: int, knowledge: Prior | None) -> FloatArray:
    """The logarithms of what is known of T entry by entry, (C, C): -inf if impossible, NaN if unknown."""
    if knowledge is None:
        return np.full((size, size), np.nan)
    knowledge.check(size)
    known = knowledge.known(size)
    known[np.isnan(known).any(axis=1)] = np.nan  # a known column of a symmetric T is left to the projection
    known[~knowledge.allowed(size)] = 0
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(known)
    return logs


def _admitted(fit: LatentFit, knowledge: Prior | None) -> LatentFit:
    return fit if knowledge is None else replace(fit, transition=knowledge.project(fit.transition))


@dataclass(frozen=True, eq=False)
class _Sample:
    """The noisy posteriors, labels and weights that a link is fitted to, in the order of the labels.

    `blocks` are rows with one label, which comes first; `pinned` are the logarithms of the known entries of
    T, NaN where unknown.
    """

    probs: FloatArray
    labels: IntArray
    weights: FloatArray
    blocks: list[tuple[int, slice]]
    whole: bool
    pinned: FloatArray


def _gather(rows: ProbabilityRows, weights: FloatArray | None, pinned: FloatArray) -> _Sample:
    most = max(1, MOST_NUMBERS // rows.num_classes)
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
    ends = np.searchsorted(labels[order], np.arange(rows.num_classes + 1))
    length = max(1, BLOCK_NUMBERS // rows.num_classes)
    blocks = [
        (label, slice(begin, min(begin + length, ends[label + 1])))
        for label in range(rows.num_classes)
        for begin in range(ends[label], ends[label + 1], length)
    ]
    return _Sample(probs[order], labels[order], counted[order], blocks, whole, pinned)


def _fits(sample: _Sample) -> list[LatentFit]:
    """Fits from three simple estimates of T and, for two of them, from p corrected by them, twice.

    The link absorbs a p that is too soft or too sharp where it is a link of log p. The corrected p is no
    longer a power of anything, so p is raised to the likeliest power before that.
    """
    size = sample.probs.shape[1]
    power = _likeliest_power(sample)

    def simple(probs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = ProbabilityRows(probs, sample.labels)
        confident = rows_to_one(calibrated(confident_counts(rows, sample.weights)))
        anchors = anchor_transition(probs, usual_percentile(size))
        return confident, anchors, rows_to_one(prediction_counts(rows, sample.weights))

    def fit_from(matrix: FloatArray, basis: FloatArray | None = None) -> LatentFit:
        # At first g is p itself, or the corrected p.
        nothing = np.zeros((size, size))
        return _fit(sample, LatentFit(matrix, np.eye(size), nothing[0], basis, nothing, np.inf, power))

    fits = [fit_from(matrix) for matrix in simple(sample.probs)]
    for matrix in simple(_to_power(sample.probs, power))[:2]:
        once = fit_from(matrix, matrix)
        fits += [once, fit_from(once.transition, once.transition)]
    return fits


def _likeliest_power(sample: _Sample) -> float:
    """The power a of p for which p^a, made to sum to 1, gives the labels their greatest likelihood."""
    logs = _features(sample.probs)
    given = logs[np.arange(len(logs)), sample.labels]

    def loss(power: float) -> float:
        scaled = power * logs
        highest = scaled.max(axis=1)
        total = highest + np.log(np.exp(scaled - highest[:, None]).sum(axis=1))
        return float(sample.weights @ (total - power * given))

    found = minimize_scalar(loss, bounds=POWERS, method="bounded", options={"xatol": 1e-3})
    return float(found.x)


def _to_power(probs: NDArray[np.floating], power: float) -> FloatArray:
    return softmax(power * _features(probs))


def _least_volume(fits: list[LatentFit], rows: float) -> LatentFit:
    """Of the fits that are about as likely as the likeliest, the one whose T has the least volume.

    Labels alone do not tell a T near the identity with an unsure g from the reverse. That classes have rows
    that are surely theirs says that T is the smallest simplex around P(noisy | x) (Li et al. 2021). "About as
    likely" is what a likelihood-ratio test of the link's free numbers would let pass.
    """
    size = len(fits[0].transition)
    limit = min(fit.objective for fit in fits) + chi2.ppf(ABOUT_AS_LIKELY, size * (size + 1)) / (2 * rows)
    likely = [fit for fit in fits if fit.objective <= limit]
    # Two classes that have become one have no volume at all.
    apart = [fit for fit in likely if np.linalg.cond(fit.transition) < WORST_CONDITION]

    def log_volume(fit: LatentFit) -> float:
        handicap = 0.0 if fit.basis is None else CORRECTED_HANDICAP * size
        return float(np.linalg.slogdet(fit.transition)[1]) + handicap

    return min(apart or likely, key=log_volume)


def _fit(sample: _Sample, start: LatentFit) -> LatentFit:
    """Minimise the penalised negative log-likelihood over A, b and log T with L-BFGS."""
    features = np.ascontiguousarray(_features(sample.probs, start.basis, start.power).T)
    size = len(features)
    total = sample.weights.sum()
    unknown = np.isnan(sample.pinned)

    def unpack(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        link, rest = values[: size**2], values[size**2 :]
        logs = np.where(unknown, rest[size:].reshape(size, size), sample.pinned)
        return link.reshape(size, size), rest[:size], softmax(logs)

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        link, bias, matrix = unpack(values)
        found = _sums(features, sample, link, bias, matrix)
        astray = link - np.eye(size) * (np.trace(link) / size)
        penalty = LINK_RIDGE * (astray**2).sum() + BIAS_RIDGE * (bias**2).sum()
        penalty += ENTROPY_WEIGHT * found.entropy / total
        loss = (penalty - found.log_likelihood) / total
        slopes = (
            found.by_link + 2 * LINK_RIDGE * astray,
            found.by_bias + 2 * BIAS_RIDGE * bias,
            unknown * (matrix * found.counts.sum(axis=1, keepdims=True) - found.counts),
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
    if unknown.all():
        # The model does not say which latent class is called what: each is called by its commonest label.
        _, names = linear_sum_assignment(-matrix)
        order = np.argsort(names)
        link, bias, matrix = link[:, order], bias[order], matrix[order]
    counts = _sums(features, sample, link, bias, matrix).counts
    return LatentFit(matrix, link, bias, start.basis, counts, float(found.fun), start.power, float(total))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Weighted sums over all rows at one (A, b, T).

    `by_link` and `by_bias` are the slopes of ENTROPY_WEIGHT * entropy / rows - log_likelihood; `counts[i, j]`
    is the expected number of rows with clean label i and given label j.
    """

    log_likelihood: float
    entropy: float
    by_link: FloatArray
    by_bias: FloatArray
    counts: FloatArray


def _sums(
    features: FloatArray, sample: _Sample, link: FloatArray, bias: FloatArray, matrix: FloatArray
) -> _Sums:
    """One pass over the rows, block by block: classes lie along the first axis, rows along the second.

    A block is small enough to stay in the processor's cache, and its rows have one label.
    """
    size = len(features)
    log_likelihood = entropy_sum = 0.0
    by_link, by_bias, counts = np.zeros((size, size)), np.zeros(size), np.zeros((size, size))
    pressure = ENTROPY_WEIGHT / sample.weights.sum()
    for label, block in sample.blocks:
        part, weights = features[:, block], sample.weights[block]
        logs = link.T @ part + bias[:, None]
        logs -= logs.max(axis=0)
        clean = np.exp(logs)
        scale = clean.sum(axis=0)
        clean /= scale
        logs -= np.log(scale)
        after = clean * matrix[:, label, None]
        # A trial step of the search may make a label that occurs impossible: very bad, but not infinite.
        likelihood = np.maximum(after.sum(axis=0), np.finfo(np.float64).tiny)
        after /= likelihood
        entropy = -(clean * logs).sum(axis=0)
        pull = (clean - after - pressure * clean * (logs + entropy)) * weights
        log_likelihood += float(weights @ np.log(likelihood))
        entropy_sum += float(weights @ entropy)
        by_link += part @ pull.T
        by_bias += pull.sum(axis=1)
        counts[:, label] += after @ weights
    return _Sums(log_likelihood, entropy_sum, by_link, by_bias, counts)


def _maximised(rows: ProbabilityRows, weights: FloatArray | None, fit: LatentFit) -> LatentFit:
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


def _features(probs: NDArray[np.floating], basis: FloatArray | None = None, power: float = 1.0) -> FloatArray:
    """log p, or the logarithm of p^power corrected by `basis`, (n, C)."""
    if basis is not None:
        corrected = invert(_to_power(probs, power), basis)
        size = len(basis)
        probs = (corrected + LEAST_CORRECTED / size) / (1 + LEAST_CORRECTED)
    logs: FloatArray = np.log(np.maximum(probs, LEAST_PROBABILITY), dtype=np.float64)
    return logs
