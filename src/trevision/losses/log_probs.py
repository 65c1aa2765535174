"""What every loss is computed from: log g, log (T'g)_y, and arguments that are known to fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from trevision.noise import FLOAT32_TOLERANCE, validate

Reduction = Literal["mean", "sum", "none"]

# Exponents above this are cut off where T[i, y] = 0: there they only scale a derivative with respect to T.
LARGEST_EXPONENT = 30.0

# An array takes this precision where there are no logits.
DOUBLE = torch.empty(0, dtype=torch.float64)


def log_noisy_prob(log_clean_probs: Tensor, noisy_labels: Tensor, transition: Tensor) -> Tensor:
    """log (T'g)_y for each row, from log g: the log-probability of the given label.

    `transition` may leave the simplex (an unconstrained T-hat + Delta T does). Where negative entries
    make (T'g)_y negative, or a column of zeros makes it zero, its logarithm does not exist: the smallest
    positive number takes its place, and no gradient passes.
    """
    return log_of_total(*noisy_total(log_clean_probs, into_labels(transition, noisy_labels)))


def into_labels(transition: Tensor, noisy_labels: Tensor) -> Tensor:
    """Row n: T[:, y_n], how each clean class comes to the label given to row n."""
    into: Tensor = at_labels(noisy_labels, transition.shape[1], transition.t().index_select, 0)
    return into


def noisy_total(log_clean_probs: Tensor, into_label: Tensor) -> tuple[Tensor, Tensor]:
    """(T'g)_y for each row as total * exp(peak), with totals that do not underflow."""
    # The largest term of each sum is taken out, as in log-sum-exp, but only among terms that count.
    peak = log_clean_probs.masked_fill(into_label <= 0, -torch.inf).amax(dim=1, keepdim=True).detach()
    peak = torch.where(peak.isfinite(), peak, 0.0)
    # Terms that count have exponents <= 0. The clamp only keeps terms with T = 0 from being 0 * inf,
    # and their derivative with respect to T finite.
    scaled = (log_clean_probs - peak).clamp(max=LARGEST_EXPONENT).exp()
    return (into_label * scaled).sum(dim=1), peak.squeeze(1)


def log_of_total(total: Tensor, peak: Tensor) -> Tensor:
    return total.clamp(min=torch.finfo(total.dtype).tiny).log() + peak


def log_posterior(logits: Tensor, noisy_labels: Tensor, transition: Tensor) -> Tensor:
    """log g, after the shapes are known to fit; of half precision in single, whose exponents suffice."""
    check_shapes(logits, noisy_labels)
    if transition.shape != (logits.shape[1], logits.shape[1]):
        raise ValueError(
            f"transition must be (C, C) for logits (n, C), got {tuple(transition.shape)} for "
            f"{tuple(logits.shape)}"
        )
    return F.log_softmax(single_or_double(logits), dim=1)


def at_labels(noisy_labels: Tensor, classes: int, take: Callable[..., Tensor], *before: int) -> Tensor:
    """`take(*before, labels)`, with a sentence for labels that are no classes.

    torch looks at every label anyway, so that nothing is looked at twice. On a GPU it ends the process.
    """
    try:
        return take(*before, noisy_labels.long())
    except (IndexError, RuntimeError) as error:
        if "out of bounds" not in str(error) and "out of range" not in str(error):
            raise
    low, high = noisy_labels.min().item(), noisy_labels.max().item()
    raise ValueError(f"noisy_labels must lie in 0 to {classes - 1}, the classes, got {low} to {high}")


def check_shapes(logits: Tensor, noisy_labels: Tensor) -> None:
    for name, given in (("logits", logits), ("noisy_labels", noisy_labels)):
        if not isinstance(given, Tensor):
            raise ValueError(
                f"{name} must be a tensor, got {type(given).__name__}; write torch.as_tensor({name})"
            )
    if logits.ndim != 2 or noisy_labels.shape != logits.shape[:1]:
        raise ValueError(
            f"logits must be (n, C) and noisy_labels (n,), got {tuple(logits.shape)} and "
            f"{tuple(noisy_labels.shape)}"
        )
    if noisy_labels.is_floating_point():
        raise ValueError(
            f"noisy_labels must be whole numbers, got {noisy_labels.dtype}; write noisy_labels.long(), or "
            "soft_cross_entropy for probabilities"
        )


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


def validate_tensor(transition: Tensor) -> None:
    """`noise.validate` of a tensor, whose rows may miss 1 by what its precision rounds."""
    rounding = torch.finfo(transition.dtype).eps if transition.is_floating_point() else 0.0
    validate(transition.detach().cpu().double().numpy(), tolerance=max(FLOAT32_TOLERANCE, rounding))


def checked(transition: Tensor | ArrayLike) -> Tensor:
    matrix = as_transition(transition, torch.empty(0))
    validate_tensor(matrix)
    return matrix.detach().clone()


def single_or_double(values: Tensor) -> Tensor:
    """In a precision that torch has determinants and distances for."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def pick(log_probs: Tensor, labels: Tensor) -> Tensor:
    return at_labels(labels, log_probs.shape[1], lambda codes: log_probs.gather(1, codes[:, None]).squeeze(1))


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be mean, sum or none, got {reduction!r}")
    return losses.mean() if reduction == "mean" else losses.sum()
