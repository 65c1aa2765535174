"""T-hat + Delta T as a torch module: the part of the model that learns the noise.

    matrix = T-hat + delta,    T[i, j] = P(noisy = j | clean = i)

How delta may move is the parameterisation:

slack      T-hat + D, D free: what the paper's experiments do. Nothing keeps the rows on the simplex,
           and with a learning rate of 1e-4 or more on D they leave it (docs/methods/t-revision.md).
projected  negative entries of T-hat + D set to zero, then rows normalised: the paper's footnote 2.
simplex    rows softmax(log T-hat + D): always a transition matrix, at any learning rate.
frozen     T-hat: the control that tells the effect of Delta T from that of more training.

What is known of T beforehand, a `Prior`, is kept by construction in `simplex` and `frozen`.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from trevision.noise import FLOAT32_TOLERANCE, validate
from trevision.prior import Admissible, Prior

Parameterisation = Literal["slack", "projected", "simplex", "frozen"]
PARAMETERISATIONS: tuple[str, ...] = get_args(Parameterisation)
KEEPING_A_PRIOR = ("simplex", "frozen")
"""The parameterisations in which T cannot leave what a prior admits."""

# The least probability that `simplex` starts an entry from: log 0 would hold it at zero for ever.
SIMPLEX_FLOOR = 1e-6


class Transition(nn.Module):
    """A transition matrix that starts at `initial` and, unless frozen, is learnt.

    `matrix` and `delta` are differentiable views of the current state; calling the module turns
    clean probabilities (n, C) into noisy ones. With a `prior` the start is `initial` projected to what the
    prior admits, and so is every matrix after it.
    """

    initial: Tensor

    def __init__(
        self, initial: Tensor, parameterisation: Parameterisation = "frozen", prior: Prior | None = None
    ) -> None:
        super().__init__()
        if parameterisation not in PARAMETERISATIONS:
            raise ValueError(
                f"parameterisation must be one of {', '.join(PARAMETERISATIONS)}, got {parameterisation!r}"
            )
        start = validate(initial.detach().cpu().numpy(), tolerance=FLOAT32_TOLERANCE)
        self.parameterisation = parameterisation
        self.register_buffer("initial", initial.detach().clone())
        self.admissible: Admissible | None = None
        if prior is not None:
            check_keeps_prior(parameterisation)
            self.admissible = Admissible(prior, len(start)).to(self.initial)
            self.initial.copy_(torch.from_numpy(prior.project(start)))
        self.free: nn.Parameter | None = None
        if parameterisation != "frozen":
            self.free = nn.Parameter(torch.zeros_like(self.initial))

    @property
    def matrix(self) -> Tensor:
        """T-hat + Delta T."""
        if self.free is None:
            return self.initial
        if self.parameterisation == "simplex":
            logits = self.initial.clamp(min=SIMPLEX_FLOOR).log() + self.free
            return torch.softmax(logits, dim=1) if self.admissible is None else self.admissible(logits)
        moved = self.initial + self.free
        if self.parameterisation == "projected":
            positive = moved.clamp(min=0)
            sums = positive.sum(dim=1, keepdim=True)
            # A row without a positive entry has no projection; it goes back to where it started.
            return torch.where(
                sums > 0, positive / sums.clamp(min=torch.finfo(sums.dtype).tiny), self.initial
            )
        return moved

    @property
    def delta(self) -> Tensor:
        """Delta T: how far `matrix` has moved from T-hat."""
        return self.matrix - self.initial

    def forward(self, clean_probs: Tensor) -> Tensor:
        """Noisy probabilities T' g for each row of `clean_probs`."""
        return clean_probs @ self.matrix

    def extra_repr(self) -> str:
        return f"num_classes={len(self.initial)}, parameterisation={self.parameterisation!r}"


def check_keeps_prior(parameterisation: str) -> None:
    """Raise a ValueError for a parameterisation in which a prior could be violated."""
    if parameterisation not in KEEPING_A_PRIOR:
        raise ValueError(
            f"prior must go with revision {' or '.join(KEEPING_A_PRIOR)}, which keep T to it, "
            f"got {parameterisation}"
        )
