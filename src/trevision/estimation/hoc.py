"""HOC: T from how often rows that lie close together are given the same or other labels.

Zhu, Song and Liu, "Clusterability as an Alternative to Anchor Points When Learning with Noisy Labels", 2021.

A row and its two nearest neighbours are taken to be of one clean class. Their noisy labels are then three
independent draws from one row of T, and the frequencies of single labels, pairs and triples determine T:

    c1[j]       = sum_i p_i T[i, j]
    c2[j, k]    = sum_i p_i T[i, j] T[i, k]                        p_i = P(clean = i)
    c3[j, k, l] = sum_i p_i T[i, j] T[i, k] T[i, l]

No posterior is believed: probabilities serve to say which rows are near each other, and for nothing else.

The least squares have local minima. Besides a general start there are starts in closed form: for any vector v

    (sum_l c3[:, :, l] v[l]) c2^-1 = T' diag(T v) T'^-1

so the eigenvectors of the left side are the rows of T (where T is regular and no p_i is zero), exact in exact
frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.posterior import softmax
from trevision.estimation.rows import ProbabilityRows
from trevision.estimation.search import descend
from trevision.noise import FloatArray, IntArray
from trevision.prior import Prior

# Distances computed at a time.
DISTANCES_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Consensus:
    """The state of `hoc`.

    Attributes
    ----------
    triples : ndarray of shape (m, 3)
        Numbers of rows: each row with its nearest two.
    """

    triples: IntArray


@dataclass(frozen=True, eq=False)
class Match:
    """A T and a P(clean), how badly they explain the frequencies of labels, and if the search arrived."""

    transition: FloatArray
    class_prior: FloatArray
    loss: float
    converged: bool


@dataclass(frozen=True, kw_only=True)
class Hoc(Estimator):
    """T and P(clean) that explain the labels of near rows, by least squares.

    Weights are those of a bootstrap, see `triple_counts`. Neighbours do not depend on them, so a start brings
    its own. The comments in the source say what each constant is for.

    References
    ----------
    Zhu, Song and Liu, "Clusterability as an Alternative to Anchor Points When Learning with Noisy Labels",
    2021.

    Examples
    --------
    >>> from trevision.noise import corrupt, symmetric
    >>> clean, transition = np.repeat([0, 1], 1000), symmetric(2, 0.2)
    >>> rows = ProbabilityRows(transition[clean], corrupt(clean, transition, random_state=0))
    >>> Hoc().solve(rows).transition.diagonal().round(1)
    array([0.8, 0.8])
    """

    name: str = "hoc"
    rank: int = 5
    # There are C^3 different triples of labels.
    most_classes: int | None = 100

    # Rows among which neighbours are looked for, as many as in the paper; more rows are divided at random.
    rows_together: int = 15_000
    # Rows that triples are made around, and probabilities held for it; of larger data a random part is taken.
    most_triples: int = 150_000
    most_numbers: int = 2 * 10**7
    # Logarithms of smaller probabilities tell no more about the class of a row.
    least_probability: float = 1e-6
    # Random distances, in units of log-probability, between rows that a model does not tell apart (the leaves
    # of a tree): without them all such rows would have the same two neighbours.
    jitter: float = 1e-3
    # Where a search for T starts: half of the way from the uniform matrix to the identity.
    general_start: float = 0.5
    # Random vectors v that starts in closed form are made with, and how many of these starts are used: the
    # best.
    directions: int = 20
    best_starts: int = 3
    # With more classes a search takes minutes, and the general start has to do.
    most_classes_searched: int = 30
    # Another start than the general one is believed if its loss is less by this factor: between two that
    # explain the frequencies about as well, the one that was led by nothing but "most labels are right" is
    # the safer.
    clearly_better: float = 0.5
    # A softmax that starts from zero itself never leaves it.
    least_start: float = 1e-4
    most_iterations: int = 1000
    # A search at its limit has arrived if its last tenth lowered the loss by less than this. Labels that are
    # drawn by chance alone make a loss of about 1.
    negligible_gain: float = 0.01

    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        if start is not None and isinstance(start.state, Consensus):
            consensus = start.state
            moments = Moments.of(triple_counts(rows, consensus.triples, weights))
            match = self.matched_from(moments, start.transition, start.class_prior)
        else:
            consensus = Consensus(self.label_triples(rows))
            match = self.matched(Moments.of(triple_counts(rows, consensus.triples, weights)))
        return Solution(match.transition, match.class_prior, state=consensus, converged=match.converged)

    def label_triples(self, rows: ProbabilityRows) -> IntArray:
        """Each row, or each of a random part, with the two rows nearest to it: numbers of rows, (m, 3).

        Near is what has a near logarithm of P(noisy | x), after its mean over the classes is taken off: like
        the logits of the model, it goes on telling rows apart where probabilities have come close to 0 or 1,
        and does not depend on how they were normalised.
        """
        if len(rows) < 3:
            raise ValueError(f"hoc must have a row and its two neighbours, got {len(rows)} rows")
        most = min(self.most_triples, max(3, self.most_numbers // rows.num_classes))
        # The same for the same rows: an estimator is a function of its arguments.
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.permutation(len(rows))[:most])
        features = self._features(rows, chosen)
        features += self.jitter * rng.standard_normal(features.shape)
        parts = np.array_split(rng.permutation(len(chosen)), -(-len(chosen) // self.rows_together))
        triples = [np.column_stack([part, part[nearest_two(features[part])]]) for part in parts]
        numbers: IntArray = chosen[np.concatenate(triples)]
        return numbers

    def _features(self, rows: ProbabilityRows, chosen: IntArray) -> FloatArray:
        """The centred log-probabilities of the chosen rows, (m, C)."""
        is_chosen = np.zeros(len(rows), dtype=bool)
        is_chosen[chosen] = True
        probs = np.concatenate([chunk.probs[is_chosen[chunk.rows]] for chunk in rows.chunks()])
        logs: FloatArray = np.log(np.maximum(probs, self.least_probability), dtype=np.float64)
        logs -= logs.mean(axis=1, keepdims=True)
        return logs

    def matched(self, moments: Moments) -> Match:
        """What the search from a general start finds, or one from a closed form that is clearly better."""
        size = len(moments.ones)
        general = self.general_start * np.eye(size) + (1 - self.general_start) / size
        usual = self.matched_from(moments, general, np.full(size, 1 / size))
        if size > self.most_classes_searched:
            return usual
        others = (self.matched_from(moments, *start) for start in self._closed_forms(moments))
        best = min(others, key=lambda match: match.loss)
        return best if best.loss < self.clearly_better * usual.loss else usual

    def matched_from(self, moments: Moments, matrix: FloatArray, class_prior: FloatArray) -> Match:
        """The T and P(clean) nearest to a start that minimise |c1 - ^c1|^2 + |c2 - ^c2|^2 + |c3 - ^c3|^2."""
        size = len(class_prior)

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            t, p = softmax(values[size:].reshape(size, size)), softmax(values[:size])
            loss, slope_t, slope_p = moments.loss(t, p)
            slopes = _through_softmax(p, slope_p), _through_softmax(t, slope_t)
            return loss, np.concatenate([slope.ravel() for slope in slopes])

        logs = [np.log(np.maximum(start, self.least_start)).ravel() for start in (class_prior, matrix)]
        minimum = descend(objective, np.concatenate(logs), self.most_iterations, ftol=1e-12, gtol=1e-8)
        t, p = softmax(minimum.point[size:].reshape(size, size)), softmax(minimum.point[:size])
        order = _classes_of(t)
        return Match(t[order], p[order], minimum.loss, minimum.arrived(self.negligible_gain))

    def _closed_forms(self, moments: Moments) -> list[tuple[FloatArray, FloatArray]]:
        """T and P(clean) by the equation with eigenvectors, for the best of some vectors v."""
        size = len(moments.ones)
        inverse = np.linalg.pinv(moments.pairs, hermitian=True)
        tried = []
        for direction in np.random.default_rng(0).standard_normal((self.directions, size)):
            mixed = moments.threes.reshape(size, size, size) @ direction @ inverse
            vectors: FloatArray = np.linalg.eig(mixed)[1].real.T
            rows = self._positive(vectors * np.sign(vectors.sum(axis=1, keepdims=True)))
            matrix = rows[_classes_of(rows)]
            shares = np.linalg.lstsq(matrix.T, moments.ones, rcond=None)[0].astype(np.float64)
            class_prior = self._positive(shares)
            tried.append((moments.loss(matrix, class_prior)[0], matrix, class_prior))
        tried.sort(key=lambda start: start[0])
        return [(matrix, class_prior) for _, matrix, class_prior in tried[: self.best_starts]]

    def _positive(self, values: FloatArray) -> FloatArray:
        """Rows without entries below zero that sum to one; a row of nothing else is uniform."""
        kept = np.maximum(values, 0) + self.least_start / values.shape[-1]
        normalised: FloatArray = kept / kept.sum(axis=-1, keepdims=True)
        return normalised


HOC = Hoc()


def nearest_two(features: FloatArray) -> NDArray[np.intp]:
    """For each row of `features` (m, d) the two others nearest to it, the nearer first, (m, 2)."""
    squares = (features**2).sum(axis=1)
    nearest = np.empty((len(features), 2), dtype=np.intp)
    step = max(1, DISTANCES_AT_ONCE // len(features))
    for first in range(0, len(features), step):
        block = np.arange(first, min(first + step, len(features)))
        # Squared distances, less what is the same for a whole row.
        distances = squares - 2 * features[block] @ features.T
        here = np.arange(len(block))
        distances[here, block] = np.inf
        for rank in range(2):
            nearest[block, rank] = distances.argmin(axis=1)
            distances[here, nearest[block, rank]] = np.inf
    return nearest


def triple_counts(rows: ProbabilityRows, triples: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """How many triples bear the labels j, k, l, (C, C, C).

    With `weights`, how often a bootstrap drew each row, a triple counts 1 + (w_a + w_b + w_c - 3) / sqrt(3)
    times. Rows drawn twice would be nearest neighbours of their own copies, so it is triples that are drawn
    again: each with the variance of one draw, and together with the triples that it has rows in common with.
    """
    size = rows.num_classes
    labels = rows.labels[triples]
    cells = (labels[:, 0] * size + labels[:, 1]) * size + labels[:, 2]
    counted = None if weights is None else 1 + (weights[triples].sum(axis=1) - 3) / 3**0.5
    return np.bincount(cells, counted, size**3).reshape(size, size, size).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Moments:
    """How often labels occur alone, (C,), in pairs, (C, C), and in `total` triples, (C, C * C): shares."""

    ones: FloatArray
    pairs: FloatArray
    threes: FloatArray
    total: float

    @classmethod
    def of(cls, counts: FloatArray) -> Moments:
        """From the counts of triples, (C, C, C)."""
        size, total = len(counts), float(counts.sum())
        shares = counts / total
        # As in the paper, single labels are those of rows, and pairs those of rows and their nearest
        # neighbours. What is predicted is the same for all orders of the labels, so the mean over them is
        # all that matters.
        pairs = shares.sum(axis=2)
        threes = np.asarray(sum(shares.transpose(order) for order in permutations(range(3)))) / 6
        return cls(shares.sum(axis=(1, 2)), (pairs + pairs.T) / 2, threes.reshape(size, size**2), total)

    def loss(self, t: FloatArray, p: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """What is minimised, and its slopes by T and P(clean)."""
        size = len(p)
        products = (t[:, :, None] * t[:, None, :]).reshape(size, size**2)
        off = p @ t - self.ones, (t.T * p) @ t - self.pairs, (t.T * p) @ products - self.threes
        # For each order, sum over the other labels of mismatch times their probability: (C, C), [j, i].
        pulls = off[0][:, None], off[1] @ t.T, off[2] @ products.T
        slope_p = 2 * sum((t.T * pull).sum(axis=0) for pull in pulls)
        slope_t = 2 * p[:, None] * sum((order + 1) * pull.T for order, pull in enumerate(pulls))
        loss = sum((mismatch**2).sum() for mismatch in off)
        return float(self.total * loss), self.total * slope_t, self.total * slope_p


def _classes_of(rows: FloatArray) -> IntArray:
    """The order of rows, of classes unknown, in which most labels are right: frequencies tell none."""
    order: IntArray = linear_sum_assignment(rows.T, maximize=True)[1]
    return order


def _through_softmax(probs: FloatArray, slope: FloatArray) -> FloatArray:
    """The slope by the logits, from the slope by the probabilities that their softmax gives."""
    centred: FloatArray = probs * (slope - (probs * slope).sum(axis=-1, keepdims=True))
    return centred
