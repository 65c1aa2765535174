"""The losses of the paper and of its rivals, as pure functions of logits.

Notation: g(x) = softmax(logits) estimates the clean posterior P(Y | x); y is the *noisy* label;
T[i, j] = P(noisy = j | clean = i), so the noisy posterior is (T' g)_j = sum_i T[i, j] g_i.

Everything is computed from log g, so that confident logits neither underflow nor give nan
gradients. Shapes: logits (n, C), noisy_labels (n,), transition (C, C); `reduction` is "mean",
"sum" or "none", the last giving one loss a row.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from trevision.noise import FLOAT32_TOLERANCE, validate

Reduction = Literal["mean", "sum", "none"]

# A weight g_y / (T'g)_y is at most 1 / T[y, y] for a transition matrix, and the paper assumes diagonals
# well above zero. The cap acts where T[y, y] is below it, or an unconstrained T has negative entries.
LARGEST_WEIGHT = 1e4

# Exponents above this are cut off where T[i, y] = 0: there they only scale a derivative with respect to T.
LARGEST_EXPONENT = 30.0

# torch would pass over rows with the label -100. Here any label that is no class is an error.
NO_LABEL = torch.iinfo(torch.int64).min

# An inverse with a larger condition number turns rounding errors of 1e-7 into errors of a tenth.
CONDITION_LIMIT = 1e6

# The published weights of the two terms that keep a T learnt from the start from being arbitrary.
VOLUME_WEIGHT = 1e-4
TOTAL_VARIATION_WEIGHT = 0.1

# An array takes this precision where there are no logits.
_DOUBLE = torch.empty(0, dtype=torch.float64)


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
    _check_shapes(logits, noisy_labels)
    return F.cross_entropy(logits, noisy_labels.long(), reduction=reduction, ignore_index=NO_LABEL)


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
    return _reduce(-(clean_probs * F.log_softmax(_single_or_double(logits), dim=1)).sum(dim=1), reduction)


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
    log_clean = _log_clean(logits, noisy_labels, transition)
    return _reduce(-log_noisy_prob(log_clean, noisy_labels, transition), reduction)


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

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(backward_nll(logits, labels, T).item(), 4)
    0.5201
    """
    return _backward(logits, noisy_labels, invert(as_transition(transition, logits)), reduction)


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
    log_clean = _log_clean(logits, noisy_labels, transition)
    in_weight = log_clean if live_weight else log_clean.detach()
    into_label = _into_label(transition, noisy_labels)
    return _reduce(_weighted(log_clean, in_weight, noisy_labels, into_label), reduction)


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
    log_clean = _log_clean(logits, noisy_labels, initial)
    if delta.shape != initial.shape:
        raise ValueError(
            f"delta must have the shape of initial, got {tuple(delta.shape)} and {tuple(initial.shape)}"
        )
    number = torch.arange(1, len(logits) + 1, device=logits.device, dtype=delta.dtype)
    into_label = _into_label(initial, noisy_labels) + number[:, None] * _into_label(delta, noisy_labels)
    return _reduce(_weighted(log_clean, log_clean, noisy_labels, into_label), reduction)


def generalised_cross_entropy(
    logits: Tensor, noisy_labels: Tensor, *, q: float = 0.7, reduction: Reduction = "mean"
) -> Tensor:
    """Between cross-entropy (q -> 0) and the mean absolute error (q = 1), which noise moves least.

    loss = (1 - g_y^q) / q                                    (Zhang and Sabuncu 2018, L_q)

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    q : float, default=0.7
        In (0, 1].
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> round(generalised_cross_entropy(logits, labels, q=0.7).item(), 4)
    0.4902
    """
    log_prob = -cross_entropy(logits, noisy_labels, reduction="none")
    return _reduce(generalised_of_log_prob(log_prob, q), reduction)


def generalised_of_log_prob(log_prob: Tensor, q: float = 0.7) -> Tensor:
    """The generalised cross-entropy of a label whose log-probability is `log_prob`, elementwise."""
    if not 0 < q <= 1:
        raise ValueError(f"q must lie in (0, 1], got {q}; towards 0 the loss is cross_entropy")
    return -torch.expm1(q * log_prob) / q


def symmetric_cross_entropy(
    logits: Tensor,
    noisy_labels: Tensor,
    *,
    alpha: float = 0.1,
    beta: float = 1.0,
    log_zero: float = -4.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy, and the same with prediction and label in each other's place.

        loss = alpha (-log g_y) + beta (-sum_k g_k log q_k)       (Wang et al. 2019)

    q is the label as a distribution, with log 0 put at `log_zero`: the second sum is -log_zero (1 - g_y).

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    alpha, beta : float
        The weights of cross-entropy and of its reverse.
    log_zero : float, default=-4.0
        What stands for log 0.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> round(symmetric_cross_entropy(logits, labels).item(), 4)
    1.7725
    """
    log_prob = -cross_entropy(logits, noisy_labels, reduction="none")
    return _reduce(symmetric_of_log_prob(log_prob, alpha, beta, log_zero), reduction)


def symmetric_of_log_prob(
    log_prob: Tensor, alpha: float = 0.1, beta: float = 1.0, log_zero: float = -4.0
) -> Tensor:
    """The symmetric cross-entropy of a label whose log-probability is `log_prob`, elementwise."""
    if not log_zero < 0:
        raise ValueError(f"log_zero must be negative, as what it stands for, log 0, is; got {log_zero}")
    return -alpha * log_prob + beta * log_zero * torch.expm1(log_prob)


def volume_nll(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    volume_weight: float = VOLUME_WEIGHT,
) -> Tensor:
    """The Forward loss, and the volume of `transition` to be kept small while that is learnt too.

    loss = mean of -log (T'g)_y + volume_weight * log det T       (Li et al. 2021)

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
    volume_weight : float, default=1e-4
        The weight of log det T.

    Returns
    -------
    Tensor
        A scalar, the mean over the rows.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(volume_nll(logits, labels, T).item(), 4)
    0.567
    """
    transition = as_transition(transition, logits)
    return forward_nll(logits, noisy_labels, transition) + volume_weight * log_volume(transition)


def log_volume(transition: Tensor | ArrayLike) -> Tensor:
    """log det T, or 0 without a gradient where det T is zero or negative.

    A transition matrix has |det T| <= 1, so 0 is the largest value there is: a T that swaps classes, whose
    determinant is negative, is not rewarded for its volume, and one on the way there meets no infinity.
    """
    wide = _single_or_double(as_transition(transition, _DOUBLE))
    sign = torch.linalg.slogdet(wide.detach()).sign
    identity = torch.eye(len(wide), dtype=wide.dtype, device=wide.device)
    volume: Tensor = torch.linalg.slogdet(torch.where(sign > 0, wide, identity)).logabsdet
    return volume


def total_variation_nll(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    gamma: float = TOTAL_VARIATION_WEIGHT,
) -> Tensor:
    """The Forward loss, less what rewards predictions for being far apart.

    loss = mean of -log (T'g)_y - gamma * total variation         (Zhang, Niu and Sugiyama 2021, Eq. 12)

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
    gamma : float, default=0.1
        The weight of the total variation.

    Returns
    -------
    Tensor
        A scalar, the mean over the rows.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(total_variation_nll(logits, labels, T).item(), 4)
    0.5059
    """
    return forward_nll(logits, noisy_labels, transition) - gamma * total_variation(logits)


def total_variation(logits: Tensor, pairs: Tensor | None = None) -> Tensor:
    """The mean over all pairs of rows of the distance between their predictions; 0 for a single row.

    mean over n < m of 1/2 sum_k |g_k(x_n) - g_k(x_m)|            (Zhang, Niu and Sugiyama 2021, Eq. 10)

    With `pairs`, row numbers of shape (2, m), it is the mean over these pairs.
    """
    probs = F.softmax(_single_or_double(logits), dim=1)
    if pairs is not None:
        return 0.5 * (probs[pairs[0]] - probs[pairs[1]]).abs().sum(dim=1).mean()
    distances = F.pdist(probs, p=1)
    return 0.5 * distances.sum() / max(len(distances), 1)


def log_noisy_prob(log_clean_probs: Tensor, noisy_labels: Tensor, transition: Tensor) -> Tensor:
    """log (T'g)_y for each row, from log g: the log-probability of the given label.

    `transition` may leave the simplex (an unconstrained T-hat + Delta T does). Where negative entries
    make (T'g)_y negative, or a column of zeros makes it zero, its logarithm does not exist: the smallest
    positive number takes its place, and no gradient passes.
    """
    return _log_of_total(*_noisy_total(log_clean_probs, _into_label(transition, noisy_labels)))


def _into_label(transition: Tensor, noisy_labels: Tensor) -> Tensor:
    """Row n: T[:, y_n], how each clean class comes to the label given to row n."""
    return transition.t().index_select(0, noisy_labels.long())


def _weighted(log_clean: Tensor, in_weight: Tensor, noisy_labels: Tensor, into_label: Tensor) -> Tensor:
    """beta * (-log g_y) for each row, with the log g that beta is made of given apart."""
    total, peak = _noisy_total(in_weight, into_label)
    log_weight = _pick(in_weight, noisy_labels) - _log_of_total(total, peak)
    weight = log_weight.clamp(max=math.log(LARGEST_WEIGHT)).exp()
    # A label that T says cannot occur has no importance weight; such a row says nothing.
    weight = torch.where(total > 0, weight, 0.0)
    # A class that is masked out has log g = -inf and the weight 0, whose product is to be 0.
    return -weight * _pick(log_clean, noisy_labels).clamp(min=torch.finfo(log_clean.dtype).min)


def _noisy_total(log_clean_probs: Tensor, into_label: Tensor) -> tuple[Tensor, Tensor]:
    """(T'g)_y for each row as total * exp(peak), with totals that do not underflow."""
    # The largest term of each sum is taken out, as in log-sum-exp, but only among terms that count.
    peak = log_clean_probs.masked_fill(into_label <= 0, -torch.inf).amax(dim=1, keepdim=True).detach()
    peak = torch.where(peak.isfinite(), peak, 0.0)
    # Terms that count have exponents <= 0. The clamp only keeps terms with T = 0 from being 0 * inf,
    # and their derivative with respect to T finite.
    scaled = (log_clean_probs - peak).clamp(max=LARGEST_EXPONENT).exp()
    return (into_label * scaled).sum(dim=1), peak.squeeze(1)


def _log_of_total(total: Tensor, peak: Tensor) -> Tensor:
    return total.clamp(min=torch.finfo(total.dtype).tiny).log() + peak


def invert(transition: Tensor | ArrayLike) -> Tensor:
    """T^-1, refusing a T that is singular or too close to it."""
    transition = as_transition(transition, _DOUBLE)
    wide = transition.double()
    if not wide.isfinite().all():
        raise ValueError("transition must hold finite numbers, got NaN or infinity")
    condition = torch.linalg.cond(wide).item()
    if not condition < CONDITION_LIMIT:
        raise ValueError(
            f"transition must be invertible for the backward loss, got condition number {condition:.3g} "
            f"(limit {CONDITION_LIMIT:.0e}); the forward and reweight losses need no inverse"
        )
    inverse: Tensor = torch.linalg.inv(wide)
    return inverse.to(transition.dtype)


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
        self.register_buffer("transition", _checked(transition))

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
        self.register_buffer("inverse", invert(_checked(transition)))

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
        self.register_buffer("transition", _checked(transition))
        self.live_weight = live_weight

    def forward(self, logits: Tensor, noisy_labels: Tensor) -> Tensor:
        return reweight_nll(logits, noisy_labels, self.transition, live_weight=self.live_weight)


def _backward(logits: Tensor, noisy_labels: Tensor, inverse: Tensor, reduction: Reduction) -> Tensor:
    log_clean = _log_clean(logits, noisy_labels, inverse)
    return _reduce(-(inverse.index_select(0, noisy_labels.long()) * log_clean).sum(dim=1), reduction)


def _log_clean(logits: Tensor, noisy_labels: Tensor, transition: Tensor) -> Tensor:
    """log g, after the shapes are known to fit; of half precision in single, whose exponents suffice."""
    _check_shapes(logits, noisy_labels)
    if transition.shape != (logits.shape[1], logits.shape[1]):
        raise ValueError(
            f"transition must be (C, C) for logits (n, C), got {tuple(transition.shape)} for "
            f"{tuple(logits.shape)}"
        )
    return F.log_softmax(_single_or_double(logits), dim=1)


def _check_shapes(logits: Tensor, noisy_labels: Tensor) -> None:
    if logits.ndim != 2 or noisy_labels.shape != logits.shape[:1]:
        raise ValueError(
            f"logits must be (n, C) and noisy_labels (n,), got {tuple(logits.shape)} and "
            f"{tuple(noisy_labels.shape)}"
        )


def validate_tensor(transition: Tensor) -> None:
    """`noise.validate` of a tensor, whose rows may miss 1 by what its precision rounds."""
    rounding = torch.finfo(transition.dtype).eps if transition.is_floating_point() else 0.0
    validate(transition.detach().cpu().double().numpy(), tolerance=max(FLOAT32_TOLERANCE, rounding))


def _checked(transition: Tensor | ArrayLike) -> Tensor:
    matrix = as_transition(transition, torch.empty(0))
    validate_tensor(matrix)
    return matrix.detach().clone()


def as_transition(transition: Tensor | ArrayLike, logits: Tensor) -> Tensor:
    """T as a tensor; other arrays take the device of the logits and their precision, but at least single.

    >>> as_transition([[0.8, 0.2], [0.3, 0.7]], torch.zeros(1, 2)).dtype
    torch.float32
    """
    if isinstance(transition, Tensor):
        return transition
    precise = torch.promote_types(logits.dtype, torch.float32)
    # A copy: torch warns of arrays that must not be written to, such as those of a frame.
    return torch.tensor(np.array(transition), dtype=precise, device=logits.device)


def _single_or_double(values: Tensor) -> Tensor:
    """In a precision that torch has determinants and distances for."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _pick(log_probs: Tensor, labels: Tensor) -> Tensor:
    return log_probs.gather(1, labels.long()[:, None]).squeeze(1)


def _reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be mean, sum or none, got {reduction!r}")
    return losses.mean() if reduction == "mean" else losses.sum()
