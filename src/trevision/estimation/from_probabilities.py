"""T, the class prior and the noise rate with error bars, from anyone's probabilities and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.estimation.bootstrap import Resampling, bootstrap_intervals
from trevision.estimation.methods import METHODS, Solution, default_method
from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.noise import FloatArray

FEWEST_REPLICATES = 10


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the noisy labels tell of their noise, each number with the ends of its interval.

    transition    T[i, j] = P(noisy = j | clean = i), (C, C)
    prior         P(clean = i), (C,)
    noise_rate    the share of labels that are wrong, 1 - sum_i prior[i] T[i, i]
    joint         the expected number of rows with clean label i and given label j, (C, C), summing to rows
    level         the share of repetitions in which an interval is to hold the truth
    bootstrap     the number of replicates that the intervals were made of
    resampling    what was drawn again for a replicate: "rows", or those of a random "part", each
                  then estimated anew, or "counts"
    solution      what the method found, for `clean_posterior`
    """

    transition: FloatArray
    transition_low: FloatArray
    transition_high: FloatArray
    prior: FloatArray
    prior_low: FloatArray
    prior_high: FloatArray
    noise_rate: float
    noise_rate_low: float
    noise_rate_high: float
    joint: FloatArray
    rows: int
    method: str
    level: float
    bootstrap: int
    resampling: Resampling
    solution: Solution

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """P(clean | x) for rows (n, C) of P(noisy | x)."""
        return self.solution.clean_posterior(noisy_probs)


def check_choices(method: str | None, bootstrap: int, level: float) -> None:
    """Raise a ValueError for a choice of `estimate` that is none."""
    if method is not None and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if bootstrap < FEWEST_REPLICATES:
        raise ValueError(f"bootstrap must be at least {FEWEST_REPLICATES} replicates, got {bootstrap}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}; ninety per cent is written 0.9")


def estimate(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    method: str | None = None,
    bootstrap: int = 200,
    level: float = 0.9,
    random_state: int | np.random.Generator = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Estimate:
    """Estimate how labels go wrong, from the probabilities of any model and the labels given.

    `noisy_probs` (n, C) are P(noisy | x) by a model trained on noisy labels, for rows that it was not
    trained on (cross-validation: scikit-learn's `cross_val_predict(..., method="predict_proba")`).
    `noisy_labels` (n,) are the labels given to those rows, integers 0..C-1 in the order of the columns.
    `noisy_probs` may be a memory map larger than memory: it is read in passes over chunks of rows.

    `method` is a name of `METHODS`; None stands for `latent` or, with very many classes,
    `confident-joint`. The intervals come from `bootstrap` replicates (`bootstrap.py`); they
    tell how much T would change with other rows, not whether the model or the method is biased. `progress` is
    told of replicates, done and in all, where they take long without reading `noisy_probs` again.

    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 500, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [400, 100, 150, 350])
    >>> estimate(sure, labels, method="confident-joint").transition
    array([[0.8, 0.2],
           [0.3, 0.7]])
    """
    check_choices(method, bootstrap, level)
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    method = method or default_method(rows.num_classes)
    chosen = METHODS[method]
    found = chosen.solve(rows, None)
    rng = np.random.default_rng(random_state)
    ends = bootstrap_intervals(rows, chosen, found, bootstrap, level, rng, progress)
    rate = float(1 - found.prior @ found.transition.diagonal())
    return Estimate(
        transition=found.transition,
        transition_low=ends.transition[0],
        transition_high=ends.transition[1],
        prior=found.prior,
        prior_low=ends.prior[0],
        prior_high=ends.prior[1],
        noise_rate=rate,
        noise_rate_low=min(ends.noise_rate[0], rate),
        noise_rate_high=max(ends.noise_rate[1], rate),
        joint=len(rows) * found.prior[:, None] * found.transition,
        rows=len(rows),
        method=method,
        level=level,
        bootstrap=bootstrap,
        resampling=ends.resampling,
        solution=found,
    )
