"""A differentiable version of the projection in `prior.py`, so that a learnt T keeps to the prior.

`Prior.project` is numpy and projects one estimate. `Admissible` is torch and turns any logits into an
admissible matrix, with gradients. Without a prior it would be the softmax of each row. docs/prior.md has the
mathematics.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trevision.prior import LONGEST_STEP, NEWTON_STEPS, SINKHORN_STEPS, SOLVABLE, Prior


class Admissible(nn.Module):
    """Turns any logits (C, C) into a transition matrix that a prior admits, differentiably.

    Its buffers are those of `prior.Entries`: `possible` marks entries whose logit is used, `fixed` marks
    entries with known `values`, and `sums` is the rest of each row.
    """

    possible: Tensor
    fixed: Tensor
    values: Tensor
    sums: Tensor

    def __init__(self, prior: Prior, num_classes: int) -> None:
        super().__init__()
        self.symmetric, self.dominant = prior.symmetric, prior.dominant
        for name, value in vars(prior.entries(num_classes)).items():
            self.register_buffer(name, torch.from_numpy(value), persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """The matrix to learn. Beyond the edge of dominance it is reflected.

        If it were moved to the edge, as in `nearest`, equal entries would have equal gradients and stay equal
        for ever.
        """
        return self._matrix(logits, pull=2.0)

    def nearest(self, matrix: Tensor) -> Tensor:
        """The admissible matrix for an estimate. Possible entries of the estimate may be zero."""
        shares = torch.where(self.possible, matrix, 0.0)
        # A row without any possible entry says nothing: its labels are assumed to be right.
        empty = shares.sum(dim=1) <= 0
        return self._matrix(torch.where(torch.diag(empty), 1.0, shares).log(), pull=1.0)

    def _matrix(self, logits: Tensor, pull: float) -> Tensor:
        logits = logits.masked_fill(~self.possible, -torch.inf)
        matrix = balanced(logits, self.sums) if self.symmetric else torch.softmax(logits, dim=1)
        if self.dominant:
            matrix = _with_large_diagonal(matrix, self.symmetric, pull)
        return torch.where(self.fixed, self.values, matrix)


def balanced(logits: Tensor, sums: Tensor) -> Tensor:
    """D exp(S) D, where S is the symmetric part of `logits` and the diagonal D makes rows sum to `sums`.

    It is the symmetric matrix with these sums and the smallest Kullback-Leibler divergence from exp(S). If D
    does not exist or is not exact, the missing part of each row is added to its diagonal: the matrix stays
    symmetric, and the sums become exact.
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
        for _ in range(SINKHORN_STEPS):  # half steps, since whole steps oscillate for ever if S = S'
            scale = (scale + wanted - torch.logsumexp(logits + scale, dim=1)) / 2
        for _ in range(NEWTON_STEPS):
            scale = newton(scale)
    # The last step carries the derivative of D, by the implicit function theorem.
    scale = newton(scale)
    excess = (scale + torch.logsumexp(logits + scale, dim=1) - wanted).max()
    matrix = (logits + (scale[:, None] + scale) - excess).exp()
    return matrix + torch.diag((sums - matrix.sum(dim=1)).clamp(min=0))


def _with_large_diagonal(matrix: Tensor, symmetric: bool, pull: float) -> Tensor:
    """Move `pull` times the excess of each entry above its row's level to the diagonal.

    The level of a row is the mean of its diagonal and of the entries above that mean. With `pull` 1 these
    become equal (for independent rows: the most likely row under the order, as in isotonic regression), with
    2 they are mirrored at the level. A pair of a symmetric matrix uses the lower of its two levels.
    """
    diagonal = matrix.diagonal()
    others = matrix.masked_fill(torch.eye(len(matrix), dtype=torch.bool, device=matrix.device), 0.0)
    ordered = torch.cat([diagonal[:, None], others.sort(dim=1, descending=True).values[:, :-1]], dim=1)
    # The mean of the diagonal and the k largest others grows with k while the next entry exceeds it.
    count = torch.arange(1, len(matrix) + 1, device=matrix.device)
    level = (ordered.cumsum(dim=1) / count).amax(dim=1)
    ceiling = torch.minimum(level[:, None], level) if symmetric else level[:, None]
    taken = pull * (matrix - ceiling).clamp(min=0)
    return matrix - taken + torch.diag(taken.sum(dim=1))


def entropy_of_mistakes(matrix: Tensor) -> Tensor:
    """The entropy of the wrong labels of a class, in nats, averaged over classes.

        mean_i  - sum_{j != i} p[i, j] log p[i, j],      p[i, j] = T[i, j] / (1 - T[i, i])

    It is 0 if each class has one kind of mistake, and log(C - 1) if all kinds are equally frequent. It does
    not depend on the number of mistakes; the entropy of whole rows would also pull T[i, i] towards 1.
    Gradients are finite at zero, also for a class without mistakes.
    """
    numbers = torch.finfo(matrix.dtype)
    wrong = matrix - torch.diag(matrix.diagonal())
    total = wrong.sum(dim=1, keepdim=True)
    shares = wrong / torch.where(total > numbers.eps**2, total, 1.0)
    return -(shares * shares.clamp(min=numbers.tiny).log()).sum(dim=1).mean()


def penalty(prior: Prior, matrix: Tensor) -> Tensor:
    """sparsity * entropy_of_mistakes(T), added to the loss of the revision."""
    return prior.sparsity * entropy_of_mistakes(matrix)
