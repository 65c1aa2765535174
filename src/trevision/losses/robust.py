"""Losses that confident mistakes move less than cross-entropy."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from trevision.losses.corrected import cross_entropy, forward_nll
from trevision.losses.log_probs import Reduction, reduce


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
    return reduce(generalised_of_log_prob(log_prob, q), reduction)


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
    return reduce(symmetric_of_log_prob(log_prob, alpha, beta, log_zero), reduction)


def symmetric_of_log_prob(
    log_prob: Tensor, alpha: float = 0.1, beta: float = 1.0, log_zero: float = -4.0
) -> Tensor:
    """The symmetric cross-entropy of a label whose log-probability is `log_prob`, elementwise."""
    if not log_zero < 0:
        raise ValueError(f"log_zero must be negative, as what it stands for, log 0, is; got {log_zero}")
    return -alpha * log_prob + beta * log_zero * torch.expm1(log_prob)


def forward_generalised_cross_entropy(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    q: float = 0.7,
    reduction: Reduction = "mean",
) -> Tensor:
    """The generalised cross-entropy of noisy labels, predicted through `transition`.

        loss = (1 - (T'g)_y^q) / q

    Its gradient is that of `forward_nll` times (T'g)_y^q. With T the identity it is
    `generalised_cross_entropy`; as q goes to 0, `forward_nll`.

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
    q : float, default=0.7
        In (0, 1].
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Notes
    -----
    Not classifier-consistent. The loss is not proper: where noisy labels have the distribution p, it is least
    for predictions in proportion to p^(1/(1-q)), which are surer than p. A class whose row of T is flat may
    then be taken for a class whose row is similar and surer.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(forward_generalised_cross_entropy(logits, labels, T).item(), 4)
    0.4513
    """
    log_prob = -forward_nll(logits, noisy_labels, transition, reduction="none")
    return reduce(generalised_of_log_prob(log_prob, q), reduction)


def forward_symmetric_cross_entropy(
    logits: Tensor,
    noisy_labels: Tensor,
    transition: Tensor | ArrayLike,
    *,
    alpha: float = 0.1,
    beta: float = 1.0,
    log_zero: float = -4.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """The symmetric cross-entropy of noisy labels, predicted through `transition`.

        loss = alpha (-log (T'g)_y) + beta (-log_zero) (1 - (T'g)_y)

    With T the identity it is `symmetric_cross_entropy`; without its second term, `forward_nll`.

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1. A tensor gets a gradient if it requires one; a numpy array or a nested
        list is converted to the type and device of the logits.
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

    Notes
    -----
    Not classifier-consistent: see `forward_generalised_cross_entropy`. The reverse term is the case q = 1.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> round(forward_symmetric_cross_entropy(logits, labels, T).item(), 4)
    1.707
    """
    log_prob = -forward_nll(logits, noisy_labels, transition, reduction="none")
    return reduce(symmetric_of_log_prob(log_prob, alpha, beta, log_zero), reduction)
