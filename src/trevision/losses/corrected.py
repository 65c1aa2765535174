"""Cross-entropy, and the losses of the paper: Forward, Backward, Reweight."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from trevision.losses.log_probs import (
    DOUBLE,
    Reduction,
    as_transition,
    at_labels,
    check_shapes,
    checked,
    into_labels,
    log_noisy_prob,
    log_of_total,
    log_posterior,
    noisy_total,
    pick,
    reduce,
    single_or_double,
)

# A weight g_y / (T'g)_y is at most 1 / T[y, y] for a transition matrix, and the paper assumes diagonals
# well above zero. The cap acts where T[y, y] is below it, or an unconstrained T has negative entries.
LARGEST_WEIGHT = 1e4

# torch would pass over rows with the label -100. Here any label that is no class is an error.
NO_LABEL = torch.iinfo(torch.int64).min

# An inverse with a larger condition number turns rounding errors of 1e-7 into errors of a tenth.
CONDITION_LIMIT = 1e6

# Of more classes, the condition number is estimated, and the loss solves for the rows that it needs: all
# singular values of 5,000 classes take minutes.
MOST_INVERTED = 500
POWER_STEPS = 20


def cross_entropy(logits: Tensor, noisy_labels: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Plain cross-entropy against the labels as they are given.

    loss = -log g_y

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> round(cross_entropy(logits, labels).item(), 4)
    0.7201
    """
    check_shapes(logits, noisy_labels)
    return at_labels(
        noisy_labels,
        logits.shape[1],
        lambda codes: F.cross_entropy(logits, codes, reduction=reduction, ignore_index=NO_LABEL),
    )


def soft_cross_entropy(logits: Tensor, clean_probs: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Cross-entropy against what the clean label probably is.

    loss = -sum_i P(clean = i) log g_i

    It is the loss of weighted copies: the row once for each class, weighted by the probability of that class.

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    clean_probs : Tensor of shape (n, C)
        P(clean) of each row.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, clean = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    >>> round(soft_cross_entropy(logits, clean).item(), 4)
    0.4701
    """
    if logits.ndim != 2 or clean_probs.shape != logits.shape:
        raise ValueError(
            f"logits and clean_probs must be (n, C), got {tuple(logits.shape)} and {tuple(clean_probs.shape)}"
        )
    return reduce(-(clean_probs * F.log_softmax(single_or_double(logits), dim=1)).sum(dim=1), reduction)


def forward_nll(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy against noisy labels, predicted through `transition`.

    loss = -log sum_i T[i, y] g_i                             (Patrini et al. 2017, Theorem 2)

    Classifier-consistent: with the true T the minimiser's argmax is the clean Bayes classifier.

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(forward_nll(logits, labels, T).item(), 4)
    0.5671
    """
    transition = as_transition(transition, logits)
    log_clean = log_posterior(logits, noisy_labels, transition)
    return reduce(-log_noisy_prob(log_clean, noisy_labels, transition), reduction)


def backward_nll(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy corrected by the inverse of `transition`, unbiased for the clean loss.

        loss = sum_j (T^-1)[y, j] (-log g_j)                      (Patrini et al. 2017, Theorem 1)

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Raises
    ------
    ValueError
        If T is singular, or too near to it.


    Notes
    -----
    The paper's Appendix B prints (T')^-1. What it claims of the loss, that its mean over noisy
    labels given the clean one is the clean loss, sum_y T[i, y] loss(y) = -log g_i, needs T^-1 under
    the paper's own T[i, j] = P(noisy = j | clean = i); the two agree for a symmetric T only.
    The loss may be negative, and is unbounded below: that is the method's, not a mistake.
    T is inverted in every call, or of more than 500 classes factorised. `BackwardLoss` does it once.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(backward_nll(logits, labels, T).item(), 4)
    0.5201
    """
    transition = as_transition(transition, logits)
    if len(transition) <= MOST_INVERTED:
        return _backward(logits, noisy_labels, invert(transition), reduction)
    log_clean = log_posterior(logits, noisy_labels, transition)
    return reduce(-(inverse_rows(transition, noisy_labels) * log_clean).sum(dim=1), reduction)


def reweight_nll(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    live_weight: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy weighted by the ratio of clean to noisy posterior of the given label.

        loss = beta * (-log g_y),    beta = g_y / (T'g)_y         (Xia et al. 2019, Eq. 3)

    Risk-consistent: with the true T and g the true posterior, its mean is the clean risk (Eq. 2).

    `live_weight` decides whether the gradient also reaches the logits through beta. Detached (the
    default), beta is an importance weight, a number. Live, it is a term to be minimised, and
    beta * (-log g_y) also falls when g_y goes to zero: a degenerate optimum. A `transition` that
    requires a gradient gets one either way, and only through beta: there is no other T in Eq. 3.

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
    live_weight : bool, default=False
        Whether the gradient also reaches the logits through beta.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(reweight_nll(logits, labels, T).item(), 4)
    0.482
    """
    transition = as_transition(transition, logits)
    log_clean = log_posterior(logits, noisy_labels, transition)
    in_weight = log_clean if live_weight else log_clean.detach()
    into_label = into_labels(transition, noisy_labels)
    return reduce(_weighted(log_clean, in_weight, noisy_labels, into_label), reduction)


def released_revision_nll(
    logits: Tensor,
    noisy_labels: Tensor,
    initial: Tensor | ArrayLike,
    delta: Tensor | ArrayLike,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """What the authors' released code minimises in the revision, in place of Eq. 3.

        loss_n = beta_n * (-log g_y),    beta_n = g_y / ((T-hat + n Delta T)'g)_y,    n = 1, 2, ...

    There Delta T is added to T-hat once for every sample, within the loop over the batch, so that the n-th
    sample of a batch sees n times Delta T: the loss depends on the order in the batch, and its gradient for
    Delta T grows with the size of the batch. The weight is live. For comparison only: `reweight_nll` with
    `live_weight` is what the paper says.

    Notes
    -----
    Where the n-fold Delta T makes (T'g)_y zero or negative, the released code has an infinite or negative
    weight. Here such a row says nothing, and weights are capped, as in `reweight_nll`.
    """
    initial, delta = as_transition(initial, logits), as_transition(delta, logits)
    log_clean = log_posterior(logits, noisy_labels, initial)
    if delta.shape != initial.shape:
        raise ValueError(
            f"delta must have the shape of initial, got {tuple(delta.shape)} and {tuple(initial.shape)}"
        )
    number = torch.arange(1, len(logits) + 1, device=logits.device, dtype=delta.dtype)
    into_label = into_labels(initial, noisy_labels) + number[:, None] * into_labels(delta, noisy_labels)
    return reduce(_weighted(log_clean, log_clean, noisy_labels, into_label), reduction)


def _weighted(log_clean: Tensor, in_weight: Tensor, noisy_labels: Tensor, into_label: Tensor) -> Tensor:
    """beta * (-log g_y) for each row, with the log g that beta is made of given apart."""
    weight = weights_through(in_weight, noisy_labels, into_label)
    # A class that is masked out has log g = -inf and the weight 0, whose product is to be 0.
    return -weight * pick(log_clean, noisy_labels).clamp(min=torch.finfo(log_clean.dtype).min)


def weights_through(log_clean: Tensor, noisy_labels: Tensor, into_label: Tensor) -> Tensor:
    """beta = g_y / (T'g)_y for each row, from log g and T[:, y]."""
    total, peak = noisy_total(log_clean, into_label)
    log_weight = pick(log_clean, noisy_labels) - log_of_total(total, peak)
    weight = log_weight.clamp(max=math.log(LARGEST_WEIGHT)).exp()
    # A label that T says cannot occur has no importance weight; such a row says nothing. NaN stays NaN: a
    # loss of 0 would hide it.
    return torch.where(total <= 0, 0.0, weight)


def invert(transition: Tensor | ArrayLike) -> Tensor:
    """T^-1, refusing a T that is singular or too close to it."""
    transition = as_transition(transition, DOUBLE)
    wide = _finite(transition)
    if len(wide) <= MOST_INVERTED:
        _check_condition(torch.linalg.cond(wide).item())
        inverse: Tensor = torch.linalg.inv(wide)
    else:
        inverse, singular = torch.linalg.inv_ex(wide)
        known = inverse.detach()
        _check_condition(
            math.inf
            if singular
            else _norm(wide.detach().mv, wide.detach().t().mv, wide) * _norm(known.mv, known.t().mv, wide)
        )
    return inverse.to(transition.dtype)


def inverse_rows(transition: Tensor, noisy_labels: Tensor) -> Tensor:
    """Row n: T^-1[y_n, :], for many classes: from one factorisation, without the inverse."""
    wide = _finite(transition)
    labels, place = torch.unique(noisy_labels.long(), return_inverse=True)
    factors, pivots, singular = torch.linalg.lu_factor_ex(wide)
    if singular:
        _check_condition(math.inf)
    known = factors.detach()

    def solve(values: Tensor, adjoint: bool = False) -> Tensor:
        solved: Tensor = torch.linalg.lu_solve(known, pivots, values[:, None], adjoint=adjoint)
        return solved.squeeze(1)

    norm = _norm(wide.detach().mv, wide.detach().t().mv, wide)
    _check_condition(norm * _norm(solve, partial(solve, adjoint=True), wide))
    identity = torch.eye(len(wide), dtype=wide.dtype, device=wide.device)
    units = at_labels(labels, len(wide), identity.index_select, 1)
    rows = torch.linalg.lu_solve(factors, pivots, units, adjoint=True).t()
    taken: Tensor = rows.index_select(0, place).to(transition.dtype)
    return taken


def _finite(transition: Tensor) -> Tensor:
    wide = transition.double()
    if not wide.isfinite().all():
        raise ValueError("transition must hold finite numbers, got NaN or infinity")
    return wide


def _check_condition(condition: float) -> None:
    if not condition < CONDITION_LIMIT:
        raise ValueError(
            f"transition must be invertible for the backward loss, got condition number {condition:.3g} "
            f"(limit {CONDITION_LIMIT:.0e}); the forward and reweight losses need no inverse"
        )


def _norm(apply: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor], like: Tensor) -> float:
    """The largest singular value, by power iteration: a few products in place of a decomposition."""
    start = torch.Generator().manual_seed(0)
    vector = torch.randn(len(like), dtype=torch.float64, generator=start).to(like.device)
    for _ in range(POWER_STEPS):
        vector = adjoint(apply(vector / vector.norm()))
    return math.sqrt(vector.norm().item())


class ForwardLoss(nn.Module):
    """`forward_nll` with a fixed transition matrix.

    Parameters
    ----------
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A copy is kept as a buffer.

    Examples
    --------
    >>> loss = ForwardLoss(torch.tensor([[0.8, 0.2], [0.3, 0.7]]))
    >>> round(loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])).item(), 4)
    0.5671
    """

    transition: Tensor

    def __init__(self, transition: Tensor | ArrayLike) -> None:
        super().__init__()
        self.register_buffer("transition", checked(transition))

    def forward(self, logits: Tensor, noisy_labels: Tensor) -> Tensor:
        return forward_nll(logits, noisy_labels, self.transition)


class BackwardLoss(nn.Module):
    """`backward_nll` with a fixed transition matrix, inverted once.

    Parameters
    ----------
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A copy is kept as a buffer.

    Examples
    --------
    >>> loss = BackwardLoss(torch.tensor([[0.8, 0.2], [0.3, 0.7]]))
    >>> round(loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])).item(), 4)
    0.5201
    """

    inverse: Tensor

    def __init__(self, transition: Tensor | ArrayLike) -> None:
        super().__init__()
        self.register_buffer("inverse", invert(checked(transition)))

    def forward(self, logits: Tensor, noisy_labels: Tensor, *, reduction: Reduction = "mean") -> Tensor:
        return _backward(logits, noisy_labels, self.inverse, reduction)


class ReweightLoss(nn.Module):
    """`reweight_nll` with a fixed transition matrix.

    Parameters
    ----------
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A copy is kept as a buffer.
    live_weight : bool, default=False
        Whether the gradient also reaches the logits through the weight.

    Examples
    --------
    >>> loss = ReweightLoss(torch.tensor([[0.8, 0.2], [0.3, 0.7]]))
    >>> round(loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])).item(), 4)
    0.482
    """

    transition: Tensor

    def __init__(self, transition: Tensor | ArrayLike, *, live_weight: bool = False) -> None:
        super().__init__()
        self.register_buffer("transition", checked(transition))
        self.live_weight = live_weight

    def forward(self, logits: Tensor, noisy_labels: Tensor) -> Tensor:
        return reweight_nll(logits, noisy_labels, self.transition, live_weight=self.live_weight)


def _backward(logits: Tensor, noisy_labels: Tensor, inverse: Tensor, reduction: Reduction) -> Tensor:
    log_clean = log_posterior(logits, noisy_labels, inverse)
    rows = at_labels(noisy_labels, inverse.shape[0], inverse.index_select, 0)
    return reduce(-(rows * log_clean).sum(dim=1), reduction)
