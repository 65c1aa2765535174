"""Cross-entropy on rows drawn anew from a batch, each as often as its label is probably right."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from trevision.losses.corrected import cross_entropy, weights_through
from trevision.losses.log_probs import Reduction, as_transition, into_labels, log_posterior, reduce


def importance_weights(logits: Tensor, noisy_labels: Tensor, transition: Tensor | ArrayLike) -> Tensor:
    """The weights of `reweight_nll`, as numbers without a gradient.

    w = g_y / (T'g)_y                                         (Liu and Tao 2016; Xia et al. 2019, Eq. 3)

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    transition : Tensor or array-like of shape (C, C)
        T, with rows that sum to 1.

    Returns
    -------
    Tensor of shape (n,)
        At most `LARGEST_WEIGHT`; 0 if T says that the label cannot occur.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> T = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    >>> [round(weight, 4) for weight in importance_weights(logits, labels, T).tolist()]
    [1.1896, 0.619]
    """
    transition = as_transition(transition, logits)
    log_clean = log_posterior(logits, noisy_labels, transition).detach()
    into_label = into_labels(transition.detach(), noisy_labels)
    # Rows whose logits are NaN are not drawn; their loss is NaN all the same.
    return weights_through(log_clean, noisy_labels, into_label).nan_to_num(nan=0.0)


def resampled_counts(weights: Tensor, rng: np.random.Generator) -> Tensor:
    """How often each row is drawn, if as many rows as there are are drawn anew by their weights.

        counts ~ Multinomial(n, w / sum w)                        (Bae et al. 2024)

    It is the limit of weights that are drawn from a Dirichlet distribution with mean w / sum w, as its
    concentration goes to 0: each draw is then a single row. As the concentration grows, the weights go to
    their mean, which is Reweight with weights that sum to 1 in a batch.

    Parameters
    ----------
    weights : Tensor of shape (n,)
        Weights of at least 0, such as `importance_weights`. They need not sum to 1.
    rng : numpy.random.Generator
        What draws.

    Returns
    -------
    Tensor of shape (n,)
        Counts that sum to n; zeros if all weights are zero.

    Examples
    --------
    >>> resampled_counts(torch.tensor([0.0, 1.0, 3.0, 0.0]), np.random.default_rng(0)).tolist()
    [0.0, 1.0, 3.0, 0.0]
    """
    known = weights.detach().cpu().double().numpy()
    if known.ndim != 1 or not np.isfinite(known).all() or (known < 0).any():
        raise ValueError(
            f"weights must be (n,), finite and not negative, got shape {known.shape} and values from "
            f"{known.min(initial=np.inf):g} to {known.max(initial=-np.inf):g}"
        )
    total = known.sum()
    if total == 0:
        return torch.zeros_like(weights)
    return torch.from_numpy(rng.multinomial(len(known), known / total)).to(weights)


def resampled_nll(
    logits: Tensor, noisy_labels: Tensor, counts: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    """Plain cross-entropy of rows that were drawn anew, each as often as `counts` says.

        loss = c (-log g_y),    c = how often the row was drawn   (Bae et al. 2024)

    The mean is that over the rows drawn, as there are as many of them as there are rows. With
    `resampled_counts` of `importance_weights` it is RENT's loss. On average over the draws, that is the
    Reweight loss, divided by the mean weight of the batch.

    Parameters
    ----------
    logits : Tensor of shape (n, C)
        The network's output. g is its softmax.
    noisy_labels : Tensor of shape (n,)
        The given labels, 0 to C - 1.
    counts : Tensor of shape (n,)
        How often each row was drawn.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned: the mean or the sum over the rows, or one loss a row.

    Returns
    -------
    Tensor
        A scalar, or (n,) without a reduction.

    Examples
    --------
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> round(resampled_nll(logits, labels, torch.tensor([2.0, 0.0])).item(), 4)
    0.1269
    """
    each = cross_entropy(logits, noisy_labels, reduction="none")
    if counts.shape != each.shape:
        raise ValueError(f"counts must be (n,), one a row, got {tuple(counts.shape)} for {len(each)} rows")
    # A class that is masked out has an infinite loss and is never drawn: the product is to be 0.
    return reduce(counts * each.clamp(max=torch.finfo(each.dtype).max), reduction)
