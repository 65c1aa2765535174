"""T, the class prior and the noise rate with error bars, from anyone's probabilities and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.estimation import registry
from trevision.estimation.bootstrap import Resampling, bootstrap_intervals
from trevision.estimation.estimator import Solution
from trevision.estimation.rows import ProbabilityRows, RowSource, label_codes
from trevision.noise import FloatArray

BOOTSTRAP = 200
"""The replicates that intervals are made of, where the user says nothing."""

FEWEST_REPLICATES = 10


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the noisy labels tell of their noise, each number with the ends of its interval.

    Without a bootstrap there are no intervals: their ends are None.

    Attributes
    ----------
    transition : ndarray of shape (C, C)
        T[i, j] = P(noisy = j | clean = i).
    transition_low, transition_high : ndarray of shape (C, C) or None
        The ends of its intervals.
    class_prior : ndarray of shape (C,)
        P(clean = i).
    class_prior_low, class_prior_high : ndarray of shape (C,) or None
        The ends of its intervals.
    noise_rate : float
        The share of labels that are wrong, 1 - sum_i class_prior[i] T[i, i].
    noise_rate_low, noise_rate_high : float or None
        The ends of its interval.
    joint : ndarray of shape (C, C)
        The expected number of rows with clean label i and given label j. It sums to `rows`.
    rows : int
        The number of rows.
    estimator : str
        The name of the estimator.
    level : float
        The share of repetitions in which an interval is to hold the truth.
    bootstrap : int
        The number of replicates that the intervals were made of; 0 if there are none.
    resampling : str or None
        What was drawn again for a replicate. "rows" are all rows, "part" are those of a random part, and T is
        estimated anew from each draw; "counts" are the counts that T is made of.
    converged : bool
        False where the estimator's optimiser stopped before it had arrived.
    solution : Solution
        What the estimator found, for `clean_posterior`.

    Examples
    --------
    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 500, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [400, 100, 150, 350])
    >>> noise = estimate(sure, labels, "confident-joint")
    >>> round(noise.noise_rate, 3), noise.noise_rate_low < 0.25 < noise.noise_rate_high
    (0.25, True)
    """

    transition: FloatArray
    transition_low: FloatArray | None
    transition_high: FloatArray | None
    class_prior: FloatArray
    class_prior_low: FloatArray | None
    class_prior_high: FloatArray | None
    noise_rate: float
    noise_rate_low: float | None
    noise_rate_high: float | None
    joint: FloatArray
    rows: int
    estimator: str
    level: float
    bootstrap: int
    resampling: Resampling | None
    converged: bool
    solution: Solution

    @property
    def has_intervals(self) -> bool:
        """Whether there was a bootstrap."""
        return self.bootstrap > 0

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """P(clean | x) for rows (n, C) of P(noisy | x)."""
        return self.solution.clean_posterior(noisy_probs)


def check_choices(estimator: str | None, bootstrap: int, level: float) -> None:
    """Check the choices of `estimate` before anything is read.

    Parameters
    ----------
    estimator, bootstrap, level
        As for `estimate`.

    Raises
    ------
    ValueError
        For a choice that is none.

    Examples
    --------
    >>> check_choices("latent", bootstrap=200, level=0.9)
    """
    if estimator is not None:
        registry.find_estimator(estimator)
    if bootstrap != 0 and bootstrap < FEWEST_REPLICATES:
        raise ValueError(
            f"bootstrap must be at least {FEWEST_REPLICATES} replicates, or 0 for no intervals, "
            f"got {bootstrap}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; ninety per cent is written 0.9")


def labelled_rows(
    noisy_probs: ArrayLike | RowSource, noisy_labels: ArrayLike, classes: ArrayLike | None
) -> ProbabilityRows:
    """The rows with their labels as codes, from labels that are codes or, with `classes`, values of these."""
    if classes is None:
        return ProbabilityRows(noisy_probs, noisy_labels)
    rows = ProbabilityRows(noisy_probs, label_codes(noisy_labels, classes, "noisy_labels"))
    if len(np.asarray(classes)) != rows.num_classes:
        raise ValueError(
            f"classes must name the {rows.num_classes} columns of noisy_probs, "
            f"got {len(np.asarray(classes))} of them"
        )
    return rows


def estimate(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    estimator: str | None = None,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
    progress: Callable[[int, int], None] | None = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """Estimate how labels go wrong, from the probabilities of any model and the labels given.

    The intervals tell how much T would change with other rows. They do not tell whether the model or the
    estimator is biased: `diagnose` looks for that.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) by a model trained on noisy labels, for rows that it was not trained on. scikit-learn's
        `cross_val_predict(..., method="predict_proba")` makes such. It may be a memory map larger than
        memory: it is read in passes over chunks of rows.
    noisy_labels : array-like of shape (n,)
        The labels given to those rows, integers from 0 to C - 1 in the order of the columns or, with
        `classes`, any values of these.
    estimator : str or None
        A name of `ESTIMATORS`: latent, latent-unpooled, confident-joint, anchor, dual-t, hoc or counted.
        None stands for the first of these that takes so many classes.
    bootstrap : int
        How many times T is estimated from rows drawn again, for the intervals; 0 for no intervals.
    level : float
        The share of repetitions in which an interval is to hold the truth.
    random_state : int or Generator
        What the draws are made with.
    progress : callable or None
        Told of replicates, done and in all, where they take long without reading `noisy_probs` again.
    classes : array-like of shape (C,) or None
        The values of the labels, in the order of the columns, such as scikit-learn's `classes_`. None stands
        for 0 to C - 1.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, a label is out of range, or a choice is none.

    Examples
    --------
    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 500, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [400, 100, 150, 350])
    >>> estimate(sure, labels, estimator="confident-joint").transition
    array([[0.8, 0.2],
           [0.3, 0.7]])

    Labels of any values, with the order of the columns:

    >>> names = np.array(["cat", "dog"])[labels]
    >>> estimate(sure, names, "confident-joint", bootstrap=0, classes=["cat", "dog"]).transition
    array([[0.8, 0.2],
           [0.3, 0.7]])
    """
    check_choices(estimator, bootstrap, level)
    rows = labelled_rows(noisy_probs, noisy_labels, classes)
    name = estimator or registry.default_estimator(rows.num_classes)
    chosen = registry.find_estimator(name)
    solution = chosen.solve(rows)
    ends = None
    if bootstrap:
        rng = np.random.default_rng(random_state)
        ends = bootstrap_intervals(rows, chosen, solution, bootstrap, level, rng, progress)
    of_transition = (None, None) if ends is None else ends.transition
    of_class_prior = (None, None) if ends is None else ends.class_prior
    of_noise_rate = (None, None) if ends is None else ends.noise_rate
    return Estimate(
        transition=solution.transition,
        transition_low=of_transition[0],
        transition_high=of_transition[1],
        class_prior=solution.class_prior,
        class_prior_low=of_class_prior[0],
        class_prior_high=of_class_prior[1],
        noise_rate=solution.noise_rate,
        noise_rate_low=of_noise_rate[0],
        noise_rate_high=of_noise_rate[1],
        joint=len(rows) * solution.class_prior[:, None] * solution.transition,
        rows=len(rows),
        estimator=name,
        level=level,
        bootstrap=bootstrap,
        resampling=None if ends is None else ends.resampling,
        converged=solution.converged,
        solution=solution,
    )
