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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.stats import chi2, norm

from trevision.estimation.anchors import ANCHOR
from trevision.estimation.clean_set import rows_to_one
from trevision.estimation.confident_joint import CONFIDENT_JOINT
from trevision.estimation.counted import prediction_counts
from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.latent_curvature import FullAxes, axes_of, curvature, factored_axes
from trevision.estimation.latent_model import LatentFit, LogFeatures, Sample, chunked, gather, maximised, sums
from trevision.estimation.pooling import pooled_transition, with_mean_rows
from trevision.estimation.posterior import softmax
from trevision.estimation.rows import ProbabilityRows
from trevision.estimation.search import descend, descend_along, settle_along
from trevision.estimation.threads import one_thread
from trevision.noise import FloatArray
from trevision.prior import Prior


@dataclass(frozen=True, kw_only=True)
class Latent(Estimator):
    """T by maximum likelihood; if `pooled`, its classes learn from each other (`pooled_transition`).

    The comments in the source say what each constant is for.

    Attributes
    ----------
    pooled : bool
        Whether classes learn from each other, as far as they are alike.

    References
    ----------
    Li et al., "Provably End-to-end Label-noise Learning without Anchor Points", 2021: the least volume.

    Vuong, "Likelihood Ratio Tests for Model Selection and Non-Nested Hypotheses", 1989.

    Examples
    --------
    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 500, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [400, 100, 150, 350])
    >>> Latent().solve(ProbabilityRows(sure, labels)).transition.round(1)
    array([[0.8, 0.2],
           [0.3, 0.7]])
    """

    name: str = "latent"
    rank: int = 0
    # The link has C^2 numbers: with more classes it is dear to fit, and hardly determined.
    most_classes: int | None = 100
    # As many as a search may have iterations.
    passes: int = 200
    # Other rows would have moved the link, so counts that are drawn with the link held fixed vary too little.
    counts_suffice: bool = False
    # Counted alone, each of the C^2 entries of T has the sampling error of its own few rows.
    pooled: bool = True

    # Logarithms of smaller probabilities tell no more about the clean class, only of the model's sharpness.
    least_probability: float = 1e-6
    # The share of the uniform distribution mixed into a corrected p, which is exactly zero in many places.
    least_corrected: float = 1e-2
    # The powers of p that are tried where it is too soft or too sharp.
    powers: tuple[float, float] = (0.05, 20.0)
    # Ridge penalties in units of the log-likelihood of one row. The multiple of the identity in A is free.
    link_ridge: float = 2.0
    # The least ridge penalty of the link for each of its C^2 numbers. With many classes most of them are not
    # determined; so all together they may depart about as far from a multiple of the identity.
    ridge_a_number: float = 0.02
    bias_ridge: float = 0.2
    # The weight, in the same unit, of the mean entropy of g. Where the likelihood leaves a choice between a
    # softer g with a T nearer to the identity and the reverse, it takes the surest g, the T of least volume.
    entropy_weight: float = 5.0
    # The least entry of T that a fit starts from: from zero itself none can rise.
    least_start: float = 1e-4
    most_iterations: int = 200
    # A search at its limit has arrived if its last tenth gained less log-likelihood than this. One number
    # that is off by one standard error costs as much.
    negligible_gain: float = 0.5
    # A search along axes of equal curvature ends with a step that gains less log-likelihood than this. Ten
    # times as much makes intervals a fifth too narrow where classes overlap.
    negligible_step: float = 0.001
    # The level of the likelihood-ratio test that a fit must pass beside the likeliest one.
    about_as_likely: float = 0.99
    # The condition number from which on T has lost a class.
    worst_condition: float = 1e3
    # A class with fewer expected rows tells nothing of its row of T.
    least_rows: float = 10.0
    # By how much for each class the logarithm of the volume must be smaller for a fit from corrected p to be
    # preferred: where both do, a model's own log p, which nowhere saturates, ranks rows better.
    corrected_handicap: float = 0.05
    # Up to so many probabilities every fit is to all rows: 60,000 rows of ten classes.
    whole_numbers: int = 600_000
    # Of more, all starts are fitted to a small part of the rows and go on with a larger one. There the best
    # from log p and the best from corrected p are chosen. Which of these two it is tells a still larger part.
    start_numbers: int = 100_000
    start_iterations: int = 80
    factored_iterations: int = 30
    choice_numbers: int = 500_000
    # What these parts have at least, for each class.
    start_rows_a_class: int = 100
    choice_rows_a_class: int = 200
    judging_numbers: int = 2_000_000
    # The iterations with more rows than the small part, along axes of equal curvature.
    refining_iterations: int = 15
    last_iterations: int = 30
    # Their `negligible_step`: a T that is all but there need not vary as it would from other rows.
    refining_step: float = 0.03
    # A search near its end, along axes of the whole curvature, ends where a step promises less log-likelihood
    # than this: of the C^2 numbers and more that are fitted, one is off by less than half a standard error.
    promised_gain: float = 0.1
    # Curvatures that are smaller than this beside the greatest count as this.
    least_curvature: float = 1e-6
    # The curvature has (2 C^2 + C)^2 numbers.
    most_curved_classes: int = 32
    # Probabilities that the link is fitted to; of larger data a random part of the rows is.
    most_numbers: int = 2 * 10**7
    # Probabilities in a block of rows that is worked on at once: 128 KiB, of which a few fit into a cache.
    block_numbers: int = 2**14
    # The same for fits by parts, most of whose passes are in single precision.
    large_block_numbers: int = 2**15
    # Passes over all rows that bring T to its likeliest, where the link was fitted to a part.
    final_passes: int = 5

    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        before = start.state if start is not None and isinstance(start.state, LatentFit) else None
        fit = self.fit(rows, weights, before, knowledge)
        return replace(self.recount(fit.counts), state=fit, converged=fit.converged)

    def prepared(self, rows: ProbabilityRows, weights: FloatArray | None, solution: Solution) -> Solution:
        """The same solution with axes of equal curvature, along which replicates of a bootstrap go on."""
        if not isinstance(solution.state, LatentFit):
            return solution
        pinned = _pinned(rows.num_classes, None)
        sample = gather(rows, weights, pinned, self.most_numbers, self.block_numbers)
        with one_thread():
            return replace(solution, state=self.curved(solution.state, sample.part(self.choice_numbers)))

    def recount(self, counts: FloatArray) -> Solution:
        """T from counts [clean, given]."""
        alone, class_prior = rows_to_one(counts), counts.sum(axis=1) / counts.sum()
        if not self.pooled:
            return Solution(alone, class_prior, counts)
        return Solution(pooled_transition(counts), class_prior, counts, unpooled=alone)

    def fit(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None = None,
        start: LatentFit | None = None,
        knowledge: Prior | None = None,
    ) -> LatentFit:
        """Fit T and the link to the labels given, each class by itself.

        The likelihood has local maxima under heavy asymmetric noise, where two classes may lock into each
        other. So there are fits from several starts, unless one is given: the confident joint, anchor points,
        and labels counted against the likeliest class. Of these, `_least_volume` takes one.

        With `knowledge` of T, impossible mistakes and known rows are kept throughout, so that the link too is
        fitted under them; symmetry and dominance are left to a projection of the result. Where latent classes
        have such knowledge about them, they keep their names.

        Parameters
        ----------
        rows : ProbabilityRows
            P(noisy | x) and the labels given.
        weights : ndarray of shape (n,) or None
            How often each row counts. None: once.
        start : LatentFit or None
            A fit to go on from.
        knowledge : Prior or None
            What is known of T.

        Returns
        -------
        LatentFit
        """
        self.check_classes(rows.num_classes)
        pinned = _pinned(rows.num_classes, knowledge)
        sample = gather(rows, weights, pinned, self.most_numbers, self._block(len(rows) * rows.num_classes))
        with one_thread():
            best = self._best(sample) if start is None else self._fit(sample, start)
            for _ in range(0 if sample.whole else self.final_passes):
                best = _admitted(maximised(rows, weights, best), knowledge)
        return _admitted(best, knowledge)

    def link_penalty(self, size: int) -> float:
        """The ridge penalty of each entry of A, for a number of classes."""
        return max(self.link_ridge, self.ridge_a_number * size**2)

    def _block(self, numbers: int) -> int:
        return self.block_numbers if numbers <= self.whole_numbers else self.large_block_numbers

    def start_from(
        self, transition: FloatArray, basis: FloatArray | None = None, power: float = 1.0
    ) -> LatentFit:
        """A start for `fit`: this T, and g is p itself or, with a `basis`, the p that it corrects."""
        size = len(transition)
        features = LogFeatures(self.least_probability, self.least_corrected, basis, power)
        return LatentFit(transition, np.eye(size), np.zeros(size), features, np.zeros((size, size)))

    def _best(self, sample: Sample) -> LatentFit:
        """The best of the fits from several starts."""
        if sample.probs.size <= self.whole_numbers:
            return self._least_volume(self._fits(sample, partial(self._fit, sample)), sample.weights.sum())
        small = sample.part(self.start_numbers, self.start_rows_a_class)
        larger = sample.part(self.choice_numbers, self.choice_rows_a_class)
        many = sample.probs.shape[1] > self.most_curved_classes
        begun = replace(self, most_iterations=self.factored_iterations if many else self.start_iterations)

        def fit(start: LatentFit) -> LatentFit:
            # Far from where it ends, the whole curvature misleads; its factors do not.
            begin = self.curved(start, small) if many else start
            return self._refined(larger, begun._fit(small, begin), small)

        fits = self._fits(larger, fit)
        kinds = [[fit for fit in fits if (fit.features.basis is None) == plain] for plain in (True, False)]
        plain, corrected = (self._least_volume(kind, larger.weights.sum()) for kind in kinds)
        judging = sample.part(self.judging_numbers, self.choice_rows_a_class)
        # Near the end, a better curvature saves more than it costs, if it is the whole.
        near = small if many else larger
        if len(judging.labels) > len(larger.labels):
            plain, corrected = (self._refined(judging, fit, near) for fit in (plain, corrected))
        best = self._between(plain, corrected, judging)
        if best.converged and many and judging is sample:
            return best
        return self._refined(sample, best, near, last=True)

    def _between(self, plain: LatentFit, corrected: LatentFit, sample: Sample) -> LatentFit:
        """The likelier of two fits of different kinds; the T of least volume if no test tells them apart.

        The test is that of Vuong (1989) for models of which neither contains the other: the mean over rows of
        the difference of their log-likelihoods, in units of its standard error.
        """
        gains = np.empty(len(sample.labels))
        for block in chunked(len(gains), self.start_numbers // len(plain.transition)):
            probs, labels = sample.probs[block], sample.labels[block]
            gains[block] = plain.log_likelihood(probs, labels) - corrected.log_likelihood(probs, labels)
        total = sample.weights.sum()
        mean = sample.weights @ gains / total
        error = np.sqrt(sample.weights @ (gains - mean) ** 2) / total
        if abs(mean) <= norm.ppf(self.about_as_likely) * error:
            return self._least_volume([plain, corrected], total)
        return plain if mean > 0 else corrected

    def _refined(self, sample: Sample, fit: LatentFit, part: Sample, last: bool = False) -> LatentFit:
        """The fit to `sample`, from one to fewer rows and the curvature of those of `part`."""
        iterations = self.last_iterations if last else self.refining_iterations
        limited = replace(self, most_iterations=iterations, negligible_step=self.refining_step)
        return limited._fit(sample, self.curved(fit, part), refining=True)

    def curved(self, fit: LatentFit, sample: Sample) -> LatentFit:
        """The fit with the axes along which the likelihood of `sample` has equal curvature there."""
        size = len(fit.transition)
        features = fit.features.by_class(sample.probs)
        point = (fit.link, fit.bias, fit.transition)
        if size > self.most_curved_classes:
            axes = factored_axes(features, sample, *point, self.link_penalty(size), self.least_curvature)
            return replace(fit, axes=axes)
        second = curvature(features, sample, *point)
        ridge = np.concatenate([np.full(size**2, self.link_penalty(size)), np.full(size, self.bias_ridge)])
        known = ~np.isnan(sample.pinned).ravel()
        second[size * (size + 1) :][known] = 0
        second[:, size * (size + 1) :][:, known] = 0
        second[np.arange(len(ridge)), np.arange(len(ridge))] += 2 * ridge / sample.weights.sum()
        return replace(fit, axes=axes_of(second, self.least_curvature))

    def _fits(self, sample: Sample, fit: Callable[[LatentFit], LatentFit]) -> list[LatentFit]:
        """Fits from three simple estimates of T and, for two of them, from p corrected by them, twice.

        The link absorbs a p that is too soft or too sharp where it is a link of log p. The corrected p is no
        longer a power of anything, so p is raised to the likeliest power before that.
        """
        power = self.likeliest_power(sample)

        def simple(probs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            rows = ProbabilityRows(probs, sample.labels)
            confident = CONFIDENT_JOINT.solve(rows, sample.weights).transition
            anchors = ANCHOR.solve(rows, sample.weights).transition
            return confident, anchors, rows_to_one(prediction_counts(rows, sample.weights))

        def fit_from(matrix: FloatArray, basis: FloatArray | None = None) -> LatentFit:
            return fit(self.start_from(matrix, basis, power))

        fits = [fit_from(matrix) for matrix in simple(sample.probs)]
        raised = LogFeatures(self.least_probability, self.least_corrected, power=power)
        for matrix in simple(raised.to_power(sample.probs))[:2]:
            once = fit_from(matrix, matrix)
            fits += [once, fit_from(once.transition, once.transition)]
        return fits

    def likeliest_power(self, sample: Sample) -> float:
        """The power a of p for which p^a, made to sum to 1, gives the labels their greatest likelihood."""
        logs = LogFeatures(self.least_probability, self.least_corrected).logs(sample.probs)
        given = logs[np.arange(len(logs)), sample.labels]

        def loss(power: float) -> float:
            scaled = power * logs
            highest = scaled.max(axis=1)
            total = highest + np.log(np.exp(scaled - highest[:, None]).sum(axis=1))
            return float(sample.weights @ (total - power * given))

        least = minimize_scalar(loss, bounds=self.powers, method="bounded", options={"xatol": 1e-3})
        return float(least.x)

    def _least_volume(self, fits: list[LatentFit], rows: float) -> LatentFit:
        """Of the fits that are about as likely as the likeliest, the one whose T has the least volume.

        Labels alone do not tell a T near the identity with an unsure g from the reverse. That classes have
        rows that are surely theirs says that T is the smallest simplex around P(noisy | x) (Li et al. 2021).
        "About as likely" is what a likelihood-ratio test of the link's free numbers would let pass.
        """
        size = len(fits[0].transition)
        allowed = chi2.ppf(self.about_as_likely, size * (size + 1)) / (2 * rows)
        limit = min(fit.objective for fit in fits) + allowed
        likely = [self._without_empty_rows(fit) for fit in fits if fit.objective <= limit]
        # Two classes that have become one have no volume at all.
        apart = [fit for fit in likely if np.linalg.cond(fit.transition) < self.worst_condition]
        # Nor has a T much whose row for a rare class copies that of a common one.
        named = [fit for fit in apart if (fit.transition.argmax(axis=1) == np.arange(size)).all()]

        def log_volume(fit: LatentFit) -> float:
            handicap = 0.0 if fit.features.basis is None else self.corrected_handicap * size
            return float(np.linalg.slogdet(fit.transition)[1]) + handicap

        return min(named or apart or likely, key=log_volume)

    def _without_empty_rows(self, fit: LatentFit) -> LatentFit:
        """The fit with the mean row for every class that it left all but empty and that has lost its name.

        The labels of such a class are explained as mistakes of others, so its own row of T may be anything.
        """
        astray = fit.transition.argmax(axis=1) != np.arange(len(fit.transition))
        empty = astray & (fit.counts.sum(axis=1) < self.least_rows)
        if not empty.any() or empty.all():
            return fit
        counts = np.where(empty[:, None], 0.0, fit.counts)
        return replace(fit, transition=with_mean_rows(fit.transition, empty), counts=counts)

    def _fit(self, sample: Sample, start: LatentFit, refining: bool = False) -> LatentFit:
        """Minimise the penalised negative log-likelihood over A, b and log T with L-BFGS."""
        single = start.axes is not None and sample.probs.size > self.start_numbers
        to_features = start.features.by_class_in_single if single else start.features.by_class
        features = to_features(sample.probs)
        size = len(features)
        link_penalty = self.link_penalty(size)
        total = sample.weights.sum()
        unknown = np.isnan(sample.pinned)

        def unpack(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            link, rest = values[: size**2], values[size**2 :]
            logs = np.where(unknown, rest[size:].reshape(size, size), sample.pinned)
            return link.reshape(size, size), rest[:size], softmax(logs)

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            link, bias, matrix = unpack(values)
            at_values = sums(features, sample, link, bias, matrix, self.entropy_weight)
            astray = link - np.eye(size) * (np.trace(link) / size)
            penalty = link_penalty * (astray**2).sum() + self.bias_ridge * (bias**2).sum()
            penalty += self.entropy_weight * at_values.entropy / total
            loss = (penalty - at_values.log_likelihood) / total
            slopes = (
                at_values.by_link + 2 * link_penalty * astray,
                at_values.by_bias + 2 * self.bias_ridge * bias,
                unknown * (matrix * at_values.counts.sum(axis=1, keepdims=True) - at_values.counts),
            )
            return float(loss), np.concatenate([slope.ravel() for slope in slopes]) / total

        logs = np.log(np.maximum(start.transition, self.least_start))
        first = np.concatenate([start.link.ravel(), start.bias, logs.ravel()])
        if start.axes is None:
            minimum = descend(objective, first, self.most_iterations, ftol=1e-10, gtol=1e-6)
        elif refining and isinstance(start.axes, FullAxes):
            negligible = self.promised_gain / total
            minimum = settle_along(start.axes, objective, first, self.most_iterations, negligible)
        else:
            ftol = self.negligible_step / total
            minimum = descend_along(start.axes, objective, first, self.most_iterations, ftol=ftol, gtol=1e-9)
        link, bias, matrix = unpack(minimum.point)
        if unknown.all():
            # The model does not say which latent class is called what: each is called by its commonest label.
            _, names = linear_sum_assignment(-matrix)
            order = np.argsort(names)
            link, bias, matrix = link[:, order], bias[order], matrix[order]
        return LatentFit(
            transition=matrix,
            link=link,
            bias=bias,
            features=start.features,
            counts=sums(features, sample, link, bias, matrix, self.entropy_weight).counts,
            objective=minimum.loss,
            fitted_rows=float(total),
            converged=minimum.arrived(self.negligible_gain / total),
        )


LATENT = Latent()
LATENT_UNPOOLED = Latent(name="latent-unpooled", rank=1, pooled=False)


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
