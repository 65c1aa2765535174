"""Every estimator of T recovers planted matrices from exact posteriors, as closely as theory says it must.

Four Gaussian classes of unequal size lie at the corners of a square, so the clean posterior g(x) is known in
closed form, the noisy one is g(x) T, and labels are drawn from it. What each estimator may be off by follows
from g, T and the number of rows; it is derived where it is computed, and no tolerance is a measured number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

from trevision.estimation import (
    ESTIMATORS,
    LATENT,
    ProbabilityRows,
    Solution,
    anchor_points,
    estimate,
    transition_error,
    usual_percentile,
)

SIZE = 4
ROWS = 8000
PRIOR = np.array([0.35, 0.3, 0.2, 0.15])
# Corners 7 standard deviations apart: of a class's rows, 2 in 10,000 lie nearer to each neighbouring corner.
CORNERS = 7.0 * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])

MATRICES = {
    # At least 0.55 of each class keeps its label, the rest goes anywhere, unevenly.
    "dense": 0.55 * np.eye(SIZE) + 0.45 * np.random.default_rng(3).dirichlet(np.ones(SIZE), size=SIZE),
    # Class 2 keeps all its labels and takes a good part of everybody else's.
    "absorbing": np.array([[0.6, 0, 0.4, 0], [0, 0.7, 0.3, 0], [0, 0, 1, 0], [0, 0, 0.35, 0.65]]),
}

# The expectation of an error is a sum over entries of mean absolute values of nearly normal numbers. The sum
# is off its mean by a quarter of it where all entries are free, and by 0.44 of it where there are three free
# ones (the absorbing T): as many times the mean as this is four such deviations off.
LUCK = {"dense": 2.0, "absorbing": 2.8}
MEAN_OF_ABSOLUTE_NORMAL = math.sqrt(2 / math.pi)


@dataclass(frozen=True, eq=False)
class World:
    """Rows whose clean posterior (n, C) is known, with labels drawn through `transition`."""

    transition: np.ndarray
    posterior: np.ndarray
    labels: np.ndarray
    luck: float

    @property
    def probs(self) -> np.ndarray:
        return self.posterior @ self.transition

    @property
    def floor(self) -> float:
        """The mean error of counting noisy labels against the true ones: binomial in each entry.

        sum_ij E|T^[i, j] - T[i, j]| / sum_ij T[i, j],  with variance T[i, j] (1 - T[i, j]) / n_i
        """
        variance = self.transition * (1 - self.transition) / (ROWS * PRIOR[:, None])
        return MEAN_OF_ABSOLUTE_NORMAL * np.sqrt(variance).sum() / SIZE


@cache
def world(kind: str) -> World:
    rng = np.random.default_rng(1)
    clean = rng.choice(SIZE, size=ROWS, p=PRIOR)
    x = CORNERS[clean] + rng.normal(size=(ROWS, 2))
    logits = np.log(PRIOR) - ((x[:, None] - CORNERS) ** 2).sum(axis=2) / 2
    posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    probs = posterior @ MATRICES[kind]
    labels = (probs.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1)
    return World(MATRICES[kind], posterior, labels, LUCK[kind])


def sharpened(probs: np.ndarray) -> np.ndarray:
    """The posterior of a network that has learnt noisy labels by heart: all but sure of one of them."""
    powers = (probs / probs.max(axis=1, keepdims=True)) ** 40
    return powers / powers.sum(axis=1, keepdims=True)


def shown_to(estimator: str, here: World) -> np.ndarray:
    """The probabilities that meet the assumptions of an estimator.

    Those of dual-t are a contradiction for the exact posterior (see below); it is made for a network that is
    far surer of its labels than they deserve.
    """
    return sharpened(here.probs) if estimator == "dual-t" else here.probs


# ---- how far off each may be


def off_at_anchors(here: World, found: Solution) -> float:
    """Row i of T^ is sum_k g_k(x_i) T[k], off by at most 2 (1 - g_i(x_i)); labels play no part."""
    points = here.probs.argmax(axis=0)
    return float(np.mean(2 * (1 - here.posterior[points, range(SIZE)]))) + 1e-9


def off_by_counting(here: World, found: Solution) -> float:
    """Rows predicted l are of class k with share Q[l, k], so that row l counts towards Q T, not T."""
    predicted = here.probs.argmax(axis=1)
    own = [here.posterior[predicted == label, label].mean() for label in range(SIZE)]
    return 2 * (1 - np.mean(own)) + here.luck * here.floor


def off_by_confidence(here: World, found: Solution) -> float:
    """Counting, on the confident rows; then the others of each given label are shared out like these.

    Q is as above, over the rows confident of l. Let u_j be the share of rows labelled j that are confident of
    nothing: column j of the counts is multiplied by 1 / (1 - u_j). With r the largest u_j / (1 - u_j), every
    entry of Q T is changed by a factor between 1 / (1 + r) and 1 + r once rows sum to 1 again: by r in all.
    """
    probs, labels = here.probs, here.labels
    thresholds = np.array([probs[labels == j, j].mean() for j in range(SIZE)])
    sure = np.where(probs >= thresholds, probs, 0)
    confident = np.where(sure.any(axis=1), sure.argmax(axis=1), -1)
    own = [here.posterior[confident == label, label].mean() for label in range(SIZE)]
    unsure = max((confident[labels == j] < 0).mean() for j in range(SIZE))
    return 2 * (1 - np.mean(own)) + unsure / (1 - unsure) + here.luck * here.floor


def off_by_likelihood(here: World, found: Solution) -> float:
    """The likeliest T is as good as counting where rows are certain; the one of least volume is less likely.

    By how much is bounded: 2 (log L_max - log L) <= q, the quantile of the test that lets a fit pass. For
    certain rows that is sum_ij n_i D[i, j]^2 / T[i, j] for a move D of T, whence by Cauchy and Schwarz
    sum_ij |D[i, j]| <= sqrt(q sum_i 1 / n_i).
    """
    quantile = chi2.ppf(LATENT.about_as_likely, SIZE * (SIZE + 1))
    return math.sqrt(quantile * (1 / (ROWS * PRIOR)).sum()) / SIZE + here.luck * here.floor


def off_by_dual_t(here: World, found: Solution) -> float:
    """T^ = F S: S is counted, and F is off the identity by what the model at an anchor is not sure of."""
    probs = sharpened(here.probs)
    points = anchor_points(probs, usual_percentile(SIZE))
    return 2 * (1 - probs[points, range(SIZE)].mean()) + off_by_counting(here, found)


def moments(free: np.ndarray) -> np.ndarray:
    """c1, c2 and c3 of HOC in one vector; `free` are p and T without one entry of each, which is the rest."""
    prior = np.append(free[: SIZE - 1], 1 - free[: SIZE - 1].sum())
    off = free[SIZE - 1 :].reshape(SIZE, SIZE - 1)
    matrix = np.zeros((SIZE, SIZE))
    matrix[~np.eye(SIZE, dtype=bool)] = off.ravel()
    matrix += np.diag(1 - off.sum(axis=1))
    threes = np.einsum("i,ij,ik,il->jkl", prior, matrix, matrix, matrix)
    return np.concatenate([threes.sum(axis=(1, 2)), threes.sum(axis=2).ravel(), threes.ravel()])


def entries(moves: np.ndarray) -> np.ndarray:
    """Moves of all entries of T, (..., C, C), from those of the free numbers."""
    off = moves[..., SIZE - 1 :].reshape(*moves.shape[:-1], SIZE, SIZE - 1)
    matrix = np.zeros((*off.shape[:-1], SIZE))
    matrix[..., ~np.eye(SIZE, dtype=bool)] = off.reshape(*off.shape[:-2], -1)
    matrix[..., range(SIZE), range(SIZE)] = -off.sum(axis=-1)
    return matrix


def shares_moved(moves: np.ndarray) -> np.ndarray:
    """Moves of all entries of P(clean), (..., C), from those of the free numbers."""
    free = moves[..., : SIZE - 1]
    return np.concatenate([free, -free.sum(axis=-1, keepdims=True)], axis=-1)


def consensus_moves(here: World, found: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How HOC moves the free numbers: its bias, and its move for each triple of labels, with their shares.

    Least squares answers a small error of the moments by pinv(J) times it, J their slopes. Two errors: the
    triples found have exact posteriors whose mean product is not c3, since some are of two classes and
    classes are not exactly as frequent as they should be; and labels are drawn.
    """
    truth = np.concatenate([PRIOR[:-1], here.transition[~np.eye(SIZE, dtype=bool)]])
    slopes = np.empty((len(moments(truth)), len(truth)))
    for place, step in enumerate(1e-6 * np.eye(len(truth))):
        slopes[:, place] = (moments(truth + step) - moments(truth - step)) / 2e-6
    answer = np.linalg.pinv(slopes)

    a, b, c = (here.probs[found.state.triples[:, place]] for place in range(3))
    expected = np.einsum("tj,tk,tl->jkl", a, b, c) / len(a)
    expected = [expected.sum(axis=(1, 2)), expected.sum(axis=2).ravel(), expected.ravel()]
    bias = answer @ (np.concatenate(expected) - moments(truth))

    cells = np.eye(SIZE**3).reshape(-1, SIZE, SIZE, SIZE)
    drawn = [cells.sum(axis=(2, 3)), cells.sum(axis=3).reshape(-1, SIZE**2), cells.reshape(-1, SIZE**3)]
    moved = (np.concatenate(drawn, axis=1) - moments(truth)) @ answer.T
    return bias, moved, moments(truth)[-(SIZE**3) :]


def deviations_of(moved: np.ndarray, shares: np.ndarray, rows: int) -> np.ndarray:
    """Standard deviations of what `rows` triples move by, from the moves of each possible one.

    Triples that share no row would give the covariance of one draw, over their number. But a row is in three
    triples on average: what a single label adds to a count it adds three times, as if there were a third of
    them; what depends on labels together repeats less.
    """
    return np.sqrt(3 * np.tensordot(shares, moved**2, axes=1) / rows)


def off_by_consensus(here: World, found: Solution) -> float:
    """Bias and luck; entries at 0, which may not pass it, are off by less than the linear answer."""
    bias, moved, shares = consensus_moves(here, found)
    spread = deviations_of(entries(moved), shares, ROWS).sum()
    return (np.abs(entries(bias)).sum() + here.luck * MEAN_OF_ABSOLUTE_NORMAL * spread) / SIZE


OFF = {
    "latent": off_by_likelihood,
    "latent-unpooled": off_by_likelihood,
    "confident-joint": off_by_confidence,
    "anchor": off_at_anchors,
    "dual-t": off_by_dual_t,
    "hoc": off_by_consensus,
    "counted": off_by_counting,
}


@cache
def solved(estimator: str, kind: str) -> Solution:
    here = world(kind)
    return ESTIMATORS[estimator].solve(ProbabilityRows(shown_to(estimator, here), here.labels))


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_planted_matrix_is_recovered_as_closely_as_theory_says(estimator: str, kind: str) -> None:
    here, found = world(kind), solved(estimator, kind)
    tolerance = OFF[estimator](here, found)
    assert transition_error(found.transition, here.transition) < tolerance
    # The claim has content: T transposed, or no noise at all, would not pass.
    for wrong in (here.transition.T, np.eye(SIZE)):
        assert transition_error(wrong, here.transition) > 2 * tolerance
    np.testing.assert_allclose(found.transition.sum(axis=1), 1, atol=1e-9)


def class_prior_off(estimator: str, here: World, found: Solution) -> float:
    """By how much P(clean) may be off, entries summed."""

    def luck(variance: np.ndarray) -> float:
        return 2.0 * MEAN_OF_ABSOLUTE_NORMAL * np.sqrt(variance).sum()

    own = luck(PRIOR * (1 - PRIOR) / ROWS)
    if estimator in ("latent", "latent-unpooled", "confident-joint", "counted"):
        # Rows are counted in the class they seem to be of; what an estimate adds to the sampling error of
        # the classes is the rows that it moves from one class to another, of which T's error has its share.
        return own + OFF[estimator](here, found) - here.luck * here.floor + here.floor
    if estimator == "hoc":
        bias, moved, shares = consensus_moves(here, found)
        spread = deviations_of(shares_moved(moved), shares, ROWS)
        return float(np.abs(shares_moved(bias)).sum()) + luck(spread**2)
    # P(clean) solves P(noisy) = P(clean) T^: an error of T, or of the labels drawn, comes back multiplied by
    # no more than the norm of the inverse.
    growth = np.abs(np.linalg.inv(here.transition)).sum(axis=1).max()
    noisy = PRIOR @ here.transition
    off = np.abs(PRIOR @ (found.transition - here.transition)).sum()
    return growth * (off + luck(noisy * (1 - noisy) / ROWS))


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_class_prior_comes_with_the_matrix(estimator: str, kind: str) -> None:
    here, found = world(kind), solved(estimator, kind)
    allowed = class_prior_off(estimator, here, found)
    assert np.abs(found.class_prior - PRIOR).sum() < allowed
    assert found.class_prior.sum() == pytest.approx(1)
    # The claim has content: neither equal classes nor the shares of the given labels would pass.
    for wrong in (np.full(SIZE, 1 / SIZE), PRIOR @ here.transition):
        assert np.abs(wrong - PRIOR).sum() > allowed


@pytest.mark.parametrize("kind", MATRICES)
def test_dual_t_takes_an_exact_posterior_through_t_twice(kind: str) -> None:
    # F = T read off anchors, and S = T counted: the intermediate class is a noisy label in one, and in the
    # other the likeliest class. Where rows are certain the product is T T, whatever the number of rows.
    here = world(kind)
    found = ESTIMATORS["dual-t"].solve(ProbabilityRows(here.probs, here.labels)).transition
    points = anchor_points(here.probs, usual_percentile(SIZE))
    first = 2 * (1 - here.posterior[points, range(SIZE)].mean())
    tolerance = first + off_by_counting(here, solved("counted", kind))
    twice = here.transition @ here.transition
    assert transition_error(found, twice) < tolerance
    assert transition_error(found, here.transition) > transition_error(twice, here.transition) - tolerance
    assert transition_error(twice, here.transition) > 4 * tolerance


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_intervals_are_as_wide_as_sampling_says(estimator: str) -> None:
    here, rows = world("dense"), 1500
    found = estimate(shown_to(estimator, here)[:rows], here.labels[:rows], estimator, bootstrap=20)
    widths = (found.transition_high - found.transition_low).diagonal()
    kept = here.transition.diagonal()
    deviations = np.sqrt(kept * (1 - kept) / (rows * PRIOR))
    if estimator == "anchor":
        # The surest row stays nearly as sure whatever rows are drawn: no label takes part in its choice.
        assert widths.max() < deviations.min()
        return
    if estimator == "hoc":
        _, moved, shares = consensus_moves(here, solved(estimator, "dense"))
        deviations = deviations_of(entries(moved), shares, rows).diagonal()
    # The ends of the 90 % are the least and the most of twenty replicates. Those of a normal number are 3.7
    # standard deviations apart, give or take 0.7; that is one of four entries, so three such are allowed.
    assert (widths > (3.7 - 3 * 0.7) * deviations).all()
    assert (widths < (3.7 + 3 * 0.7) * deviations).all()
