"""How good a classifier is, from a test set whose labels are noisy too.

Counting hits against noisy labels measures agreement with the noise: a perfect classifier scores 70 % where
30 % of the labels are wrong. If mistakes depend on the class alone, T undoes this. With N[c, y] rows
predicted c and labelled y,

    E N = M T,    M[c, i] = #(predicted c, clean i),    so M = N T^-1

and accuracy, recall, precision and F1 follow from M. The log loss is a mean over rows, corrected row by row
as in the Backward loss (Patrini et al. 2017). The area under the ROC curve of two classes is a linear
function of the noisy one (Menon et al. 2015).

All of it assumes that mistakes depend on the class alone, and that the test labels have the given T.
Intervals carry the sampling of the test set and the uncertainty of T, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, rankdata

from trevision.estimation import Estimate
from trevision.noise import FLOAT32_TOLERANCE, FloatArray, IntArray, check_labels, validate

# From here on errors of the counts grow by more than this factor when T is undone.
WORST_CONDITION = 100.0

REPLICATES = 1000

# Entries nearer to 0 or 1 have intervals that are cut off there, and tell little about a row's uncertainty.
INSIDE = 0.005

# Keeps a Dirichlet's parameters positive where an entry of T is zero.
LEAST_CONCENTRATION = 1e-6

Matrices = NDArray[np.float64]
"""(..., C, C)."""


@dataclass(frozen=True)
class Score:
    """One measure of a classifier: against the noisy labels as they are, and corrected by T.

    Attributes
    ----------
    name : str
        What is measured; of a measure of one class, also the class.
    noisy : float
        Against the noisy labels.
    corrected : float
        As it would be against clean labels.
    low, high : float
        The ends of the interval of `corrected`.

    Examples
    --------
    >>> Score("accuracy", 0.7, 0.9, 0.88, 0.93)
    Score(name='accuracy', noisy=0.7, corrected=0.9, low=0.88, high=0.93)
    """

    name: str
    noisy: float
    corrected: float
    low: float
    high: float


def score(
    noisy_labels: ArrayLike,
    predicted: ArrayLike,
    transition: ArrayLike | Estimate,
    *,
    probabilities: ArrayLike | None = None,
    transition_rows: ArrayLike | float | None = None,
    class_names: Sequence[str] | None = None,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
) -> dict[str, Score]:
    """Measure predictions against noisy labels, corrected by T.

    Parameters
    ----------
    noisy_labels : array-like of shape (n,)
        The labels of the test rows, 0 to C - 1, partly wrong.
    predicted : array-like of shape (n,)
        The classes predicted for them.
    transition : Estimate or array-like of shape (C, C)
        T. An `Estimate` with intervals brings its uncertainty. It should not come from the model that is
        judged: what that model takes for noise would be counted as right.
    probabilities : array-like of shape (n, C), optional
        Clean posteriors of the model. They add the log loss and, for two classes, the area under the ROC
        curve.
    transition_rows : array-like of shape (C,), float or None
        How many rows each row of a T without intervals was counted from. None takes T as exact.
    class_names : sequence of str, optional
        Names for the measures of single classes.
    level : float, default=0.9
        The share of intervals that are to hold the truth.
    random_state : int or Generator, default=0
        Seed of the replicates.

    Returns
    -------
    dict of str to Score
        `accuracy`, `balanced accuracy`, `F1` (the mean over classes), `recall NAME` and `precision NAME` for
        each class, and with `probabilities` `log loss` and, where both of two classes have labels, `ROC AUC`.
        Corrected values outside of what is possible, which chance can make of few rows, are cut off there.

    Raises
    ------
    ValueError
        If the arrays do not fit each other, or T is too near to singular to be undone.

    References
    ----------
    Menon, van Rooyen, Ong, Williamson, "Learning from Corrupted Binary Labels via Class-Probability
    Estimation", ICML 2015.

    Examples
    --------
    >>> from trevision import noise
    >>> rng = np.random.default_rng(0)
    >>> clean = rng.integers(3, size=5000)
    >>> noisy = noise.corrupt(clean, noise.pair_flip(3, 0.3), rng)
    >>> accuracy = score(noisy, clean, noise.pair_flip(3, 0.3))["accuracy"]
    >>> round(accuracy.noisy, 2), round(accuracy.corrected, 2)
    (0.7, 1.0)
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; ninety per cent is written 0.9")
    matrix = transition.transition if isinstance(transition, Estimate) else transition
    exact = validate(matrix, tolerance=FLOAT32_TOLERANCE)
    size = len(exact)
    _check_invertible(exact)
    labels = check_labels(noisy_labels, size, "noisy_labels")
    classes = check_labels(predicted, size, "predicted")
    if len(labels) != len(classes) or not len(labels):
        raise ValueError(
            f"noisy_labels and predicted must be of one length above 0, got {len(labels)} and {len(classes)}"
        )
    names = [str(name) for name in (range(size) if class_names is None else class_names)]
    if len(names) != size:
        raise ValueError(f"class_names must hold {size} names, got {len(names)}")
    rng = np.random.default_rng(random_state)
    inverses = _inverted(_draws(transition, exact, transition_rows, rng))
    inverse = _inverted(exact)

    counts = np.bincount(classes * size + labels, minlength=size**2).reshape(size, size).astype(np.float64)
    drawn = rng.multinomial(len(labels), counts.ravel() / len(labels), REPLICATES).reshape(-1, size, size)
    scores = {}
    undone, confusion = drawn @ inverses, counts @ inverse
    for name, (measure, rows_of) in _of_confusion(names).items():
        # The part of errors that would still be missed among so many rows: no interval ends nearer to 0 or 1.
        unseen = 1 - ((1 - level) / 2) ** (1 / max(1.0, float(rows_of(confusion))))
        low, high = np.clip(_ends(measure(undone), level), 0, 1)
        ends = np.array([min(low, 1 - unseen), max(high, unseen)])
        corrected = float(np.clip(measure(confusion), 0, 1))
        scores[name] = _with_ends(name, float(measure(counts)), corrected, ends)
    if probabilities is not None:
        probs = _check_probabilities(probabilities, len(labels), size)
        scores["log loss"] = _log_loss(labels, probs, inverse, inverses, level, rng)
        if size == 2 and 0 < labels.sum() < len(labels):
            scores["ROC AUC"] = _roc_auc(labels, probs[:, 1], inverse, inverses, level, rng)
    return scores


def _inverted(matrices: Matrices) -> Matrices:
    return np.linalg.inv(matrices).astype(np.float64, copy=False)


def _check_invertible(transition: FloatArray) -> None:
    condition = float(np.linalg.cond(transition))
    if not condition <= WORST_CONDITION:
        raise ValueError(
            "transition must be far enough from singular for its noise to be undone, got condition number "
            f"{condition:.3g} (limit {WORST_CONDITION:g}): some classes are labelled nearly alike, and no "
            "test set with such labels tells them apart"
        )


def _draws(
    transition: ArrayLike | Estimate,
    exact: FloatArray,
    transition_rows: ArrayLike | float | None,
    rng: np.random.Generator,
) -> Matrices:
    """REPLICATES matrices around T, as far apart as T is uncertain: rows are Dirichlet variables."""
    size = len(exact)
    if isinstance(transition, Estimate):
        if transition_rows is not None:
            raise ValueError(
                "transition_rows must be left out for an Estimate, which has intervals of its own"
            )
        if transition.transition_low is None or transition.transition_high is None:
            raise ValueError(
                "transition must be an Estimate with intervals; make it with a bootstrap of 10 or more, or "
                "pass its matrix with transition_rows"
            )
        width = transition.transition_high - transition.transition_low
        strength = _strength(exact, width, transition.level)
    elif transition_rows is None:
        return np.broadcast_to(exact, (REPLICATES, size, size))
    else:
        strength = np.broadcast_to(np.asarray(transition_rows, dtype=np.float64), (size,))
        if not (np.isfinite(strength) & (strength > 0)).all():
            raise ValueError("transition_rows must be numbers above 0, one or one a class")
    draws = [
        rng.dirichlet(rows * row + LEAST_CONCENTRATION, REPLICATES)
        for row, rows in zip(exact, strength, strict=True)
    ]
    stacked = np.stack(draws, axis=1)
    # A draw that cannot be undone says nothing; T itself takes its place.
    usable = np.linalg.cond(stacked) <= 10 * WORST_CONDITION
    return np.where(usable[:, None, None], stacked, exact)


def _strength(transition: FloatArray, width: FloatArray, level: float) -> FloatArray:
    """For each row of T the number of rows whose counts would have intervals as wide as `width`.

    The variance of an entry t of a Dirichlet of strength a is t (1 - t) / (a + 1).
    """
    deviation = width / (2 * norm.ppf((1 + level) / 2))
    variance = np.maximum(deviation, 1e-9) ** 2
    strength = transition * (1 - transition) / variance - 1
    inside = (transition > INSIDE) & (transition < 1 - INSIDE)
    return np.array(
        [
            max(1.0, float(np.median(row[usable]))) if usable.any() else max(1.0, float(1 / wide.max()))
            for row, usable, wide in zip(strength, inside, np.maximum(width, 1e-9), strict=True)
        ]
    )


Measure = Callable[[Matrices], FloatArray]


def _of_confusion(names: Sequence[str]) -> dict[str, tuple[Measure, Measure]]:
    """The measures that follow from M[..., predicted, clean], each with the number of rows that it is of."""

    def right(m: Matrices) -> FloatArray:
        return np.diagonal(m, axis1=-2, axis2=-1)

    def share(part: FloatArray, whole: FloatArray) -> FloatArray:
        return np.where(whole > 0, part / np.where(whole > 0, whole, 1), 0.0)

    def total(m: Matrices) -> FloatArray:
        return np.asarray(m.sum(axis=(-2, -1)))

    def of_clean(m: Matrices) -> FloatArray:
        return np.asarray(m.sum(axis=-2))

    def of_predicted(m: Matrices) -> FloatArray:
        return np.asarray(m.sum(axis=-1))

    def recalls(m: Matrices) -> FloatArray:
        return share(right(m), of_clean(m))

    def precisions(m: Matrices) -> FloatArray:
        return share(right(m), of_predicted(m))

    def f1(m: Matrices) -> FloatArray:
        return share(2 * right(m), of_clean(m) + of_predicted(m))

    def of_class(measure: Measure, number: int) -> Measure:
        return lambda m: measure(m)[..., number]

    measures: dict[str, tuple[Measure, Measure]] = {
        "accuracy": (lambda m: right(m).sum(axis=-1) / total(m), total),
        "balanced accuracy": (lambda m: recalls(m).mean(axis=-1), total),
        "F1": (lambda m: f1(m).mean(axis=-1), total),
    }
    for number, name in enumerate(names):
        measures[f"recall {name}"] = (of_class(recalls, number), of_class(of_clean, number))
        measures[f"precision {name}"] = (of_class(precisions, number), of_class(of_predicted, number))
    return measures


def _log_loss(
    labels: IntArray,
    probs: FloatArray,
    inverse: FloatArray,
    inverses: Matrices,
    level: float,
    rng: np.random.Generator,
) -> Score:
    """The mean of sum_i (T^-1)[y, i] (-log p_i), unbiased for the clean loss; see `losses.backward_nll`."""
    losses = -np.log(np.maximum(probs, np.finfo(np.float64).tiny))
    totals = np.zeros_like(inverse)
    np.add.at(totals, labels, losses)
    rows: FloatArray = (inverse[labels] * losses).sum(axis=1)
    means = (inverses * totals).sum(axis=(1, 2)) / len(labels)
    chance = rng.standard_normal(REPLICATES) * rows.std() / len(rows) ** 0.5
    ends = np.maximum(_ends(means + chance, level), 0)
    noisy = float(losses[np.arange(len(labels)), labels].mean())
    return _with_ends("log loss", noisy, max(0.0, float(rows.mean())), ends)


def _roc_auc(
    labels: IntArray,
    scores: FloatArray,
    inverse: FloatArray,
    inverses: Matrices,
    level: float,
    rng: np.random.Generator,
) -> Score:
    """A = (A_noisy - (a + b) / 2) / (1 - a - b), a = P(clean 1 | noisy 0), b = P(clean 0 | noisy 1)."""
    ranks = rankdata(scores)
    positive = labels == 1
    count = int(positive.sum())
    others = len(labels) - count
    above = (ranks[positive] - rankdata(scores[positive])) / others
    below = 1 - (ranks[~positive] - rankdata(scores[~positive])) / count
    area = float(above.mean())
    deviation = (above.var() / count + below.var() / others) ** 0.5  # DeLong et al. 1988
    shares = np.array([others, count]) / len(labels)

    def corrected(noisy: FloatArray, inverted: Matrices) -> FloatArray:
        matrix, prior = np.linalg.inv(inverted), shares @ inverted
        a = prior[..., 1] * matrix[..., 1, 0] / shares[0]
        b = prior[..., 0] * matrix[..., 0, 1] / shares[1]
        return np.asarray((noisy - (a + b) / 2) / (1 - a - b))

    draws = corrected(area + deviation * rng.standard_normal(REPLICATES), inverses)
    value = float(np.clip(corrected(np.array(area), inverse), 0, 1))
    return _with_ends("ROC AUC", area, value, np.clip(_ends(draws, level), 0, 1))


def _check_probabilities(probabilities: ArrayLike, rows: int, classes: int) -> FloatArray:
    probs = np.asarray(probabilities, dtype=np.float64)
    if probs.shape != (rows, classes):
        raise ValueError(f"probabilities must be ({rows}, {classes}), got shape {probs.shape}")
    if not (probs >= 0).all() or not np.abs(probs.sum(axis=1) - 1).max() <= 0.01:
        raise ValueError("probabilities must be at least 0 and sum to 1 in every row, and do not")
    return probs


def _ends(replicates: FloatArray, level: float) -> FloatArray:
    ends: FloatArray = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return ends


def _with_ends(name: str, noisy: float, corrected: float, ends: FloatArray) -> Score:
    return Score(name, noisy, corrected, min(corrected, float(ends[0])), max(corrected, float(ends[1])))
