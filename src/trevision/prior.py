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
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

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


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior knowledge of T[i, j] = P(noisy = j | clean = i), for any number of classes C that fits it.

    >>> Prior(dominant=True).project([[0.3, 0.6, 0.1], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])
    array([[0.45, 0.45, 0.1 ],
           [0.  , 1.  , 0.  ],
           [0.2 , 0.2 , 0.6 ]])
    """

    support: ArrayLike | None = None
    """(C, C), true where T may be above zero. The diagonal must be."""
    known_rows: Mapping[int, ArrayLike] | None = None
    """Rows of T (C,) by class, 0 to C - 1."""
    symmetric: bool = False
    """Whether T = T'. The columns of such a T sum to 1 too."""
    dominant: bool = False
    """Whether T[i, i] is the largest entry of row i. It need not be above 1/2."""
    sparsity: float = 0.0
    """The weight of `entropy_of_mistakes` in the loss of the revision."""

    @property
    def constrains(self) -> bool:
        """Whether some matrices are ruled out, rather than only disliked."""
        return bool(self.support is not None or self.known_rows or self.symmetric or self.dominant)

    def allowed(self, num_classes: int) -> NDArray[np.bool_]:
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
            place = int(support.diagonal().argmin())
            raise ValueError(
                f"support must allow each class its own label, got 0 in row {place}, column {place}"
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

    def project(self, estimate: ArrayLike) -> FloatArray:
        """The admissible matrix that an estimate of T stands for; an admissible one is left as it is.

        support     rows are conditioned on the possible mistakes: T[i, j] / sum of the allowed T[i, :]
        known_rows  take the place of the estimated ones
        dominant    the diagonal and the entries above it become their common mean
        symmetric   the mean of T and T', scaled to D T D with rows that sum to 1

        Each but the last is the likeliest admissible T if the estimate were observed frequencies, also in
        combination. The last is the symmetric T of least Kullback-Leibler divergence from that mean; with
        `dominant` too, it is admissible without being nearest in any such sense.
        """
        matrix = validate(estimate, tolerance=FLOAT32_TOLERANCE)
        admissible = Admissible(self, len(matrix))
        mean = (matrix + matrix.T) / 2 if self.symmetric else matrix
        nearest: FloatArray = admissible.nearest(torch.from_numpy(mean)).numpy()
        return nearest

    def penalty(self, matrix: Tensor) -> Tensor:
        """sparsity * entropy_of_mistakes(T): what the revision's loss is raised by."""
        return self.sparsity * entropy_of_mistakes(matrix)


class Admissible(nn.Module):
    """Turns any logits (C, C) into a transition matrix that a prior admits, differentiably.

    Without a prior it would be the softmax of each row. `possible` entries have a logit that counts (the
    diagonal of a known row only fills its place), `fixed` ones have `values`, and `sums` is what those leave
    of a row.
    """

    possible: Tensor
    fixed: Tensor
    values: Tensor
    sums: Tensor

    def __init__(self, prior: Prior, num_classes: int) -> None:
        super().__init__()
        prior.check(num_classes)
        self.symmetric, self.dominant = prior.symmetric, prior.dominant
        known = prior.known(num_classes)
        fixed, values = ~np.isnan(known), np.nan_to_num(known)
        whole = fixed.all(axis=1)
        buffers = {
            "possible": prior.allowed(num_classes) & ~fixed | np.eye(num_classes, dtype=bool),
            "fixed": fixed,
            "values": values,
            "sums": np.where(whole, 1.0, 1 - values.sum(axis=1)),
        }
        for name, value in buffers.items():
            self.register_buffer(name, torch.from_numpy(value), persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """The matrix to learn: at the edge of dominance it is reflected.

        Brought to the edge itself, as in `nearest`, entries that are equal would have equal slopes and could
        never part again.
        """
        return self._matrix(logits, pull=2.0)

    def nearest(self, matrix: Tensor) -> Tensor:
        """The admissible matrix for an estimate, which need not have a share in every possible entry."""
        shares = torch.where(self.possible, matrix, 0.0)
        # A row that is estimated to be impossible as a whole tells nothing: its labels are taken for right.
        empty = shares.sum(dim=1) <= 0
        return self._matrix(torch.where(torch.diag(empty), 1.0, shares).log(), pull=1.0)

    def _matrix(self, logits: Tensor, pull: float) -> Tensor:
        logits = logits.masked_fill(~self.possible, -torch.inf)
        matrix = balanced(logits, self.sums) if self.symmetric else torch.softmax(logits, dim=1)
        if self.dominant:
            matrix = _with_large_diagonal(matrix, self.symmetric, pull)
        return torch.where(self.fixed, self.values, matrix)


def balanced(logits: Tensor, sums: Tensor) -> Tensor:
    """D exp(S) D, with S the symmetric part of `logits` and D such that its rows add up to `sums`.

    The symmetric matrix of least Kullback-Leibler divergence from exp(S) with those sums. What rows lack
    where D is not found exactly, or where there is none, goes to their diagonal: that keeps the symmetry and
    makes the sums exact.
    """
    logits = (logits + logits.T) / 2
    wanted = sums.log()

    def newton(scale: Tensor) -> Tensor:
        moved = logits + scale
        slopes = torch.softmax(moved, dim=1).detach() + (1 + SOLVABLE) * torch.eye(len(sums)).to(sums)
        step: Tensor = torch.linalg.solve(slopes, scale + torch.logsumexp(moved, dim=1) - wanted)
        return scale - step.clamp(-LONGEST_STEP, LONGEST_STEP)

    scale = torch.zeros_like(sums)
    with torch.no_grad():
        for _ in range(SINKHORN_STEPS):  # half of each step, since whole ones swing for ever if S = S'
            scale = (scale + wanted - torch.logsumexp(logits + scale, dim=1)) / 2
        for _ in range(NEWTON_STEPS):
            scale = newton(scale)
    # The last step carries the derivative of D, by the implicit function theorem.
    scale = newton(scale)
    excess = (scale + torch.logsumexp(logits + scale, dim=1) - wanted).max()
    matrix = (logits + (scale[:, None] + scale) - excess).exp()
    return matrix + torch.diag((sums - matrix.sum(dim=1)).clamp(min=0))


def _with_large_diagonal(matrix: Tensor, symmetric: bool, pull: float) -> Tensor:
    """What of a row is above its level goes to the diagonal, `pull` times over.

    The level of a row is the mean of its diagonal and of the entries above that mean. With `pull` 1 these
    become equal (for independent rows: the likeliest row under the order, as in isotonic regression), with
    2 they are mirrored there. A pair of a symmetric matrix obeys the lower of its two levels.
    """
    diagonal = matrix.diagonal()
    others = matrix.masked_fill(torch.eye(len(matrix), dtype=torch.bool, device=matrix.device), 0.0)
    ordered = torch.cat([diagonal[:, None], others.sort(dim=1, descending=True).values[:, :-1]], dim=1)
    # The mean of the diagonal and of the k largest others rises with k as long as these exceed it.
    count = torch.arange(1, len(matrix) + 1, device=matrix.device)
    level = (ordered.cumsum(dim=1) / count).amax(dim=1)
    ceiling = torch.minimum(level[:, None], level) if symmetric else level[:, None]
    taken = pull * (matrix - ceiling).clamp(min=0)
    return matrix - taken + torch.diag(taken.sum(dim=1))


def entropy_of_mistakes(matrix: Tensor) -> Tensor:
    """How open it is which label a class gets when it gets a wrong one: in nats, a mean over classes.

        mean_i  - sum_{j != i} p[i, j] log p[i, j],      p[i, j] = T[i, j] / (1 - T[i, i])

    It is 0 if each class has one kind of mistake, log(C - 1) if all are alike, and does not depend on how
    frequent they are; the entropy of whole rows would also pull T[i, i] towards 1. Slopes are finite at zero,
    also where a class has no mistakes at all.
    """
    numbers = torch.finfo(matrix.dtype)
    wrong = matrix - torch.diag(matrix.diagonal())
    total = wrong.sum(dim=1, keepdim=True)
    shares = wrong / torch.where(total > numbers.eps**2, total, 1.0)
    return -(shares * shares.clamp(min=numbers.tiny).log()).sum(dim=1).mean()


def parse(text: str) -> dict[str, str]:
    """The terms of a prior in words: `symmetric+sparse=0.01+support=mask.csv`, each with its value.

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
    """Raise a ValueError for a parameterisation in which a prior could be violated."""
    if parameterisation not in KEEPING_A_PRIOR:
        raise ValueError(
            f"prior must go with revision {' or '.join(KEEPING_A_PRIOR)}, which keep T to it, "
            f"got {parameterisation}"
        )
