"""What an estimator of T is, and what it gives back.

An estimator is a frozen dataclass: its constants are fields, each with a default and the reason for it. A
file of this folder declares one by a module-level instance, which `registry` finds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trevision.estimation.posterior import invert
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray
from trevision.prior import Prior


@runtime_checkable
class CleanPosterior(Protocol):
    """The state of an estimator that learns its own link from P(noisy | x) to P(clean | x)."""

    def clean_posterior(self, noisy_probs: NDArray[np.floating], /) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Solution:
    """What an estimator found.

    Attributes
    ----------
    transition : ndarray of shape (C, C)
        T[i, j] = P(noisy = j | clean = i).
    class_prior : ndarray of shape (C,)
        P(clean = i).
    counts : ndarray or None
        The counts that T is a function of, for `Estimator.recount`. None where there are none.
    state : object
        What the estimator goes on from when it is given this solution as `start`.
    converged : bool
        False where an optimiser stopped before it had arrived.
    unpooled : ndarray of shape (C, C) or None
        T with each class by itself, where `transition` lets classes learn from each other.

    Examples
    --------
    >>> import numpy as np
    >>> solution = Solution(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5]))
    >>> solution.clean_posterior(np.array([[0.9, 0.1]])).round(6)
    array([[1., 0.]])
    """

    transition: FloatArray
    class_prior: FloatArray
    counts: FloatArray | None = None
    state: object = None
    converged: bool = True
    unpooled: FloatArray | None = None

    @property
    def noise_rate(self) -> float:
        """The share of wrong labels, 1 - sum_i P(clean = i) T[i, i]."""
        return float(1 - self.class_prior @ self.transition.diagonal())

    @property
    def class_by_class(self) -> FloatArray:
        """T with each row from its own class alone, (C, C)."""
        return self.transition if self.unpooled is None else self.unpooled

    @property
    def has_own_posterior(self) -> bool:
        """Whether `clean_posterior` is a link that was fitted, and not T inverted."""
        return isinstance(self.state, CleanPosterior)

    def clean_posterior(self, noisy_probs: NDArray[np.floating]) -> FloatArray:
        """P(clean | x) by the estimator's own link or, without one, by inverting T.

        Parameters
        ----------
        noisy_probs : ndarray of shape (n, C)
            Rows of P(noisy | x).

        Returns
        -------
        ndarray of shape (n, C)
        """
        if isinstance(self.state, CleanPosterior):
            return self.state.clean_posterior(noisy_probs)
        return invert(noisy_probs, self.transition)


@dataclass(frozen=True, kw_only=True)
class Estimator(ABC):
    """A way to find T in passes over rows of P(noisy | x) and their labels.

    A subclass implements `_solve`. One whose T is a function of counts alone also implements `recount`.

    Attributes
    ----------
    name : str
        The name by which a user chooses it.
    rank : int
        Its place in lists, lowest first. The first that takes the number of classes is the default.
    most_classes : int or None
        The number of classes beyond which it is refused.
    passes : int
        About how often a solution reads all rows, for the choice of how to bootstrap.
    needs_out_of_sample : bool
        Whether P(noisy | x) must be of rows that the model was not trained on.
    counts_suffice : bool
        Whether a bootstrap may draw counts again whenever rows would take long. That holds where other rows
        would hardly move the rule by which rows are counted.

    Examples
    --------
    An estimator in one file: labels are counted against the most probable class.

    >>> import numpy as np
    >>> class Counting(Estimator):
    ...     def _solve(self, rows, weights, start, knowledge):
    ...         counts = np.zeros((rows.num_classes, rows.num_classes))
    ...         for probs, labels, _ in rows.chunks():
    ...             np.add.at(counts, (probs.argmax(axis=1), labels), 1)
    ...         shares = counts.sum(axis=1)
    ...         return Solution(counts / shares[:, None], shares / shares.sum())
    >>> rows = ProbabilityRows([[0.8, 0.2], [0.8, 0.2], [0.1, 0.9]], [0, 1, 1])
    >>> Counting(name="counting").solve(rows).transition
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    name: str
    rank: int = 100
    most_classes: int | None = None
    passes: int = 1
    needs_out_of_sample: bool = True
    counts_suffice: bool = True

    def solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None = None,
        *,
        start: Solution | None = None,
        knowledge: Prior | None = None,
    ) -> Solution:
        """Estimate T and P(clean).

        Parameters
        ----------
        rows : ProbabilityRows
            P(noisy | x) and the labels given.
        weights : ndarray of shape (n,) or None
            How often each row counts. None: once.
        start : Solution or None
            A solution for other weights of the same classes, to go on from. It may save time.
        knowledge : Prior or None
            What is known of T. The result is projected to what it admits.

        Returns
        -------
        Solution

        Raises
        ------
        ValueError
            If there are more classes than the estimator is for.
        """
        self.check_classes(rows.num_classes)
        solution = self._solve(rows, weights, start, knowledge)
        if knowledge is None:
            return solution
        return replace(solution, transition=knowledge.project(solution.transition))

    @abstractmethod
    def _solve(
        self,
        rows: ProbabilityRows,
        weights: FloatArray | None,
        start: Solution | None,
        knowledge: Prior | None,
    ) -> Solution:
        """T and P(clean); `solve` has checked the number of classes, and projects the result."""

    def prepared(self, rows: ProbabilityRows, weights: FloatArray | None, solution: Solution) -> Solution:
        """The same solution, from which solutions for other weights of the same rows are found sooner."""
        return solution

    def recount(self, counts: FloatArray) -> Solution | None:
        """T from counts that were drawn again; None where T is no function of counts."""
        return None

    def takes(self, num_classes: int) -> bool:
        """Whether the estimator is for so many classes."""
        return self.most_classes is None or num_classes <= self.most_classes

    def check_classes(self, num_classes: int) -> None:
        """Raise a ValueError for more classes than the estimator is for."""
        if not self.takes(num_classes):
            raise ValueError(
                f"estimator {self.name} is for up to {self.most_classes} classes, got {num_classes}; "
                "leave the estimator out to have one that takes them"
            )
