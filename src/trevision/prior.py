"""What is known of T before it is learnt.

Four kinds of knowledge are sets, which T is kept in exactly, and one is a leaning:

support     T[i, j] = 0 where a mistake is known to be impossible      (the structure of Han et al. 2018)
known_rows  T[i, :] is known, say because class i is never mislabelled
symmetric   T = T': i is taken for j as often as j for i
dominant    T[i, i] >= T[i, j]: the right label is the commonest of every class
sparsity    the mistakes of a class go to few other classes: a penalty on their entropy

The paper names such knowledge as future work (Xia et al. 2019, Section 5); docs/prior.md has the mathematics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.noise import FLOAT32_TOLERANCE, FloatArray, validate

# Steps that balance a symmetric T: Sinkhorn's to come near from anywhere, Newton's to arrive.
SINKHORN_STEPS = 4
NEWTON_STEPS = 5
LONGEST_STEP = 2.0

# Keeps Newton's equations solvable where T is a mere swap of classes.
SOLVABLE = 1e-6

Parameterisation = Literal["slack", "projected", "simplex", "frozen"]
"""How Delta T may move in a revision: see `trevision.transition`."""
PARAMETERISATIONS: tuple[str, ...] = get_args(Parameterisation)
KEEPING_A_PRIOR = ("simplex", "frozen")
"""The parameterisations in which T cannot leave what a prior admits."""

WORDS = ("support", "known", "symmetric", "dominant", "sparse")
VALUED = ("support", "known", "sparse")


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Entries:
    """What a prior says of each entry of T.

    Attributes
    ----------
    possible : ndarray of bool, shape (C, C)
        Entries that are to be found. The diagonal of a known row counts as one, and only fills its place.
    fixed : ndarray of bool, shape (C, C)
        Entries that are known.
    values : ndarray of shape (C, C)
        The known entries, 0 elsewhere.
    sums : ndarray of shape (C,)
        What the known entries leave of each row; 1 for a row that is known as a whole.
    """

    possible: BoolArray
    fixed: BoolArray
    values: FloatArray
    sums: FloatArray


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior knowledge of T[i, j] = P(noisy = j | clean = i), for any number of classes C that fits it.

    Attributes
    ----------
    support : array-like of shape (C, C) or None
        True where T may be above zero. The diagonal must be.
    known_rows : mapping or None
        Rows of T, each of shape (C,), by class from 0 to C - 1.
    symmetric : bool
        Whether T = T'. The columns of such a T sum to 1 too.
    dominant : bool
        Whether T[i, i] is the largest entry of row i. It need not be above 1/2.
    sparsity : float
        The weight of `trevision.admissible.entropy_of_mistakes` in the loss of the revision.

    References
    ----------
    Han et al., "Masking: A New Perspective of Noisy Supervision", 2018: the support.
    Xia et al., "Are Anchor Points Really Indispensable in Label-Noise Learning?", 2019, Section 5.

    Examples
    --------
    >>> Prior(dominant=True).project([[0.3, 0.6, 0.1], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])
    array([[0.45, 0.45, 0.1 ],
           [0.  , 1.  , 0.  ],
           [0.2 , 0.2 , 0.6 ]])
    """

    support: ArrayLike | None = None
    known_rows: Mapping[int, ArrayLike] | None = None
    symmetric: bool = False
    dominant: bool = False
    sparsity: float = 0.0

    @property
    def constrains(self) -> bool:
        """Whether some matrices are ruled out, rather than only disliked."""
        return bool(self.support is not None or self.known_rows or self.symmetric or self.dominant)

    def allowed(self, num_classes: int) -> BoolArray:
        """Which entries may be above zero, (C, C), by the support alone."""
        if self.support is None:
            return np.ones((num_classes, num_classes), dtype=bool)
        support = np.asarray(self.support)
        if support.shape != (num_classes, num_classes):
            raise ValueError(f"support must be (C, C) for {num_classes} classes, got shape {support.shape}")
        strange = support[~np.isin(support, (0, 1))]
        if len(strange):
            raise ValueError(f"support must hold true or false, 1 or 0, got {strange[0]}")
        return support.astype(bool)

    def known(self, num_classes: int) -> FloatArray:
        """The known entries of T, (C, C), NaN where unknown. Under symmetry a known row is a known column."""
        values = np.full((num_classes, num_classes), np.nan)
        for number, given in (self.known_rows or {}).items():
            row = np.asarray(given, dtype=np.float64)
            if number not in range(num_classes):
                raise ValueError(f"known_rows must be of classes 0 to {num_classes - 1}, got {number!r}")
            if row.shape != (num_classes,) or not (row >= 0).all() or not abs(row.sum() - 1) <= 1e-6:
                raise ValueError(
                    f"known_rows must hold {num_classes} probabilities that sum to 1, got "
                    f"{np.array2string(row, precision=4, threshold=6)} for class {number}"
                )
            values[number] = row
        return np.where(np.isnan(values), values.T, values) if self.symmetric else values

    def check(self, num_classes: int) -> None:
        """Raise a ValueError for knowledge that does not fit the classes, or that contradicts itself."""
        if not 0 <= self.sparsity < np.inf:
            raise ValueError(f"sparsity must be a finite weight of at least 0, got {self.sparsity}")
        support, known = self.allowed(num_classes), self.known(num_classes)
        if not support.diagonal().all():
            missing = int(support.diagonal().argmin())
            raise ValueError(
                f"support must allow each class its own label, got 0 in row {missing}, column {missing}"
            )
        if self.symmetric and (support != support.T).any():
            i, j = np.argwhere(support & ~support.T)[0]
            raise ValueError(f"support must be symmetric with T, got 1 for ({i}, {j}) and 0 for ({j}, {i})")
        for i, j in np.argwhere((known > 0) & ~support):
            raise ValueError(f"known_rows must lie in the support, got {known[i, j]:g} for ({i}, {j})")
        rows = sorted(self.known_rows or {})
        for i in rows:
            if self.dominant and known[i].max() > known[i, i]:
                raise ValueError(
                    f"known_rows must be dominant with T, got {known[i, i]:g} for the right label of class "
                    f"{i} and {known[i].max():g} for another"
                )
        if self.symmetric and rows:
            self._check_known_columns(known, rows)

    def _check_known_columns(self, known: FloatArray, rows: list[int]) -> None:
        if not np.allclose(known[np.ix_(rows, rows)], known[np.ix_(rows, rows)].T, atol=1e-6):
            raise ValueError("known_rows must agree with each other in a symmetric T, and do not")
        others = np.setdiff1d(np.arange(len(known)), rows)
        left = 1 - np.nansum(known[others], axis=1)
        if len(others) and left.min() <= 0:
            raise ValueError(
                f"known_rows must leave the other rows of a symmetric T something, got columns that sum to "
                f"{1 - left.min():g} for class {others[left.argmin()]}"
            )
        if self.dominant and np.nansum(known[others]) > 0:
            raise ValueError(
                "known_rows of classes that are mislabelled must not be given with both symmetric and "
                "dominant; leave one of the three out"
            )

    def entries(self, num_classes: int) -> Entries:
        """What is said of each entry of T, once the prior is known to fit `num_classes`."""
        self.check(num_classes)
        known = self.known(num_classes)
        fixed, values = ~np.isnan(known), np.nan_to_num(known)
        whole = fixed.all(axis=1)
        return Entries(
            possible=self.allowed(num_classes) & ~fixed | np.eye(num_classes, dtype=bool),
            fixed=fixed,
            values=values,
            sums=np.where(whole, 1.0, 1 - values.sum(axis=1)),
        )

    def project(self, estimate: ArrayLike) -> FloatArray:
        """The admissible matrix that an estimate of T stands for; an admissible one is left as it is.

        support     rows are conditioned on the possible mistakes: T[i, j] / sum of the allowed T[i, :]
        known_rows  take the place of the estimated ones
        dominant    the diagonal and the entries above it become their common mean
        symmetric   the mean of T and T', scaled to D T D with rows that sum to 1

        Each but the last is the likeliest admissible T if the estimate were observed frequencies, also in
        combination. The last is the symmetric T of least Kullback-Leibler divergence from that mean; with
        `dominant` too, it is admissible without being nearest in any such sense.

        Parameters
        ----------
        estimate : array-like of shape (C, C)
            A transition matrix.

        Returns
        -------
        ndarray of shape (C, C)

        Raises
        ------
        ValueError
            If `estimate` is no transition matrix, or the prior does not fit its classes.
        """
        matrix = validate(estimate, tolerance=FLOAT32_TOLERANCE)
        entries = self.entries(len(matrix))
        mean = (matrix + matrix.T) / 2 if self.symmetric else matrix
        shares = np.where(entries.possible, mean, 0.0)
        # A row that is estimated to be impossible as a whole tells nothing: its labels are taken for right.
        empty = shares.sum(axis=1) <= 0
        shares[np.diag(empty)] = 1.0
        if self.symmetric:
            shares = balanced(shares, entries.sums)
        else:
            shares /= shares.sum(axis=1, keepdims=True)
        if self.dominant:
            shares = _with_large_diagonal(shares, self.symmetric)
        return np.where(entries.fixed, entries.values, shares)


def balanced(shares: FloatArray, sums: FloatArray) -> FloatArray:
    """D S D for a symmetric matrix S of shares, with D such that its rows add up to `sums`.

    The symmetric matrix of least Kullback-Leibler divergence from S with those sums. What rows lack where D
    is not found exactly, or where there is none, goes to their diagonal: that keeps the symmetry and makes
    the sums exact. `admissible.balanced` is the same for logits, with slopes.
    """
    with np.errstate(divide="ignore"):
        logits, wanted = np.log(shares), np.log(sums)
    scale = np.zeros_like(sums)
    for _ in range(SINKHORN_STEPS):  # half of each step, since whole ones swing for ever if S = S'
        scale = (scale + wanted - np.logaddexp.reduce(logits + scale, axis=1)) / 2
    for _ in range(NEWTON_STEPS + 1):
        moved = logits + scale
        totals = np.logaddexp.reduce(moved, axis=1)
        slopes = np.exp(moved - totals[:, None]) + (1 + SOLVABLE) * np.eye(len(sums))
        step = np.linalg.solve(slopes, scale + totals - wanted)
        scale = scale - step.clip(-LONGEST_STEP, LONGEST_STEP)
    excess = (scale + np.logaddexp.reduce(logits + scale, axis=1) - wanted).max()
    matrix: FloatArray = np.exp(logits + (scale[:, None] + scale) - excess)
    return matrix + np.diag((sums - matrix.sum(axis=1)).clip(min=0))


def _with_large_diagonal(matrix: FloatArray, symmetric: bool) -> FloatArray:
    """What of a row is above its level goes to the diagonal.

    The level of a row is the mean of its diagonal and of the entries above that mean, which all become equal:
    for independent rows the likeliest row under the order, as in isotonic regression. A pair of a symmetric
    matrix obeys the lower of its two levels.
    """
    others = matrix.copy()
    np.fill_diagonal(others, 0.0)
    ordered = np.column_stack([matrix.diagonal(), -np.sort(-others, axis=1)[:, :-1]])
    # The mean of the diagonal and of the k largest others rises with k as long as these exceed it.
    level = (ordered.cumsum(axis=1) / np.arange(1, len(matrix) + 1)).max(axis=1)
    ceiling = np.minimum(level[:, None], level) if symmetric else level[:, None]
    taken = (matrix - ceiling).clip(min=0)
    lowered: FloatArray = matrix - taken + np.diag(taken.sum(axis=1))
    return lowered


def parse(text: str) -> dict[str, str]:
    """The terms of a prior in words, each with its value.

    Parameters
    ----------
    text : str
        Terms joined by +, such as `symmetric+sparse=0.01+support=mask.csv`.

    Returns
    -------
    dict
        The value of each word; empty for a word that takes none.

    Raises
    ------
    ValueError
        For a word that is none, that comes twice, or that has a value too many or too few.

    Examples
    --------
    >>> parse("dominant+support=mask.csv")
    {'dominant': '', 'support': 'mask.csv'}
    """
    terms: dict[str, str] = {}
    for term in text.split("+"):
        word, _, value = (part.strip() for part in term.partition("="))
        if word not in WORDS or word in terms or bool(value) != (word in VALUED):
            raise ValueError(
                "prior must join by + some of symmetric, dominant, sparse=WEIGHT, support=FILE and "
                f"known=FILE, each once, got {term!r}"
            )
        terms[word] = value
    try:
        weight = float(terms.get("sparse", 1))
    except ValueError:
        weight = -1
    if not 0 < weight < np.inf:
        raise ValueError(f"prior must give sparse a weight above 0, got {terms['sparse']!r}")
    return terms


def check_keeps_prior(parameterisation: str) -> None:
    """Raise a ValueError for a parameterisation in which a prior could be violated.

    Parameters
    ----------
    parameterisation : str
        One of `PARAMETERISATIONS`.

    Raises
    ------
    ValueError
        If Delta T may leave what the prior admits.

    Examples
    --------
    >>> check_keeps_prior("simplex")
    """
    if parameterisation not in KEEPING_A_PRIOR:
        raise ValueError(
            f"prior must go with revision {' or '.join(KEEPING_A_PRIOR)}, which keep T to it, "
            f"got {parameterisation}"
        )
