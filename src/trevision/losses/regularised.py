"""The Forward loss for a T that is learnt from the start, with a term that keeps it from being arbitrary."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from trevision.losses.corrected import forward_nll
from trevision.losses.log_probs import DOUBLE, as_transition, single_or_double

# The published weights of the two terms.
VOLUME_WEIGHT = 1e-4
TOTAL_VARIATION_WEIGHT = 0.1


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
    wide = single_or_double(as_transition(transition, DOUBLE))
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
    probs = F.softmax(single_or_double(logits), dim=1)
    if pairs is not None:
        return 0.5 * (probs[pairs[0]] - probs[pairs[1]]).abs().sum(dim=1).mean()
    distances = F.pdist(probs, p=1)
    return 0.5 * distances.sum() / max(len(distances), 1)
