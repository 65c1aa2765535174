"""T as a torch module: the part of the model that learns the noise.

`Transition` is the paper's T-hat + Delta T,

    matrix = T-hat + delta,    T[i, j] = P(noisy = j | clean = i)

and its parameterisation says how delta may move:

slack      T-hat + D with D free, as in the paper's experiments. Rows may leave the simplex, and do so the
           sooner, the larger the learning rate of D (docs/methods/t-revision.md).
projected  negative entries of T-hat + D set to zero, then rows normalised: the paper's footnote 2.
simplex    rows softmax(log T-hat + D): always a transition matrix, at any learning rate.
frozen     T-hat: the control that separates the effect of Delta T from the effect of more training.

`DominantTransition` and `DirichletTransition` belong to the methods `volminnet` and `tv`, which learn T from
the start. `simplex` and `frozen` always satisfy a `Prior`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from trevision.admissible import Admissible
from trevision.losses import validate_tensor
from trevision.prior import PARAMETERISATIONS, Parameterisation, Prior, check_keeps_prior

# The smallest start of an entry in `simplex`: with log 0 it could never leave zero.
SIMPLEX_FLOOR = 1e-6

# The fraction of `initial` that a row of a Dirichlet always keeps, even without counts.
DIRICHLET_FLOOR = 1e-6


class TransitionModule(nn.Module):
    """A transition matrix that starts at `initial` and may be learnt.

    `matrix` and `delta` show the current state, and are differentiable if there is a parameter `free`.
    Calling the module turns clean probabilities (n, C) into noisy ones.
    """

    initial: Tensor
    free: nn.Parameter | None

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        validate_tensor(initial)
        self.register_buffer("initial", initial.detach().clone())
        self.free = None

    @property
    def matrix(self) -> Tensor:
        """The current T."""
        raise NotImplementedError

    @property
    def delta(self) -> Tensor:
        """Delta T: `matrix` minus its start."""
        return self.matrix - self.initial

    def forward(self, clean_probs: Tensor) -> Tensor:
        """Noisy probabilities T' g for each row of `clean_probs`."""
        return clean_probs @ self.matrix

    def extra_repr(self) -> str:
        return f"num_classes={len(self.initial)}"


class Transition(TransitionModule):
    """T-hat + Delta T: starts at the estimate `initial` and, unless frozen, is learnt.

    With a `prior`, `initial` is projected to it, and every later matrix satisfies it too.

    Parameters
    ----------
    initial : Tensor of shape (C, C)
        T-hat, with rows that sum to 1.
    parameterisation : {"slack", "projected", "simplex", "frozen"}, default="frozen"
        How Delta T may move: see the top of this module.
    prior : Prior or None, default=None
        What is known of T. Only `simplex` and `frozen` keep to it.

    Attributes
    ----------
    matrix : Tensor of shape (C, C)
        The current T-hat + Delta T.
    delta : Tensor of shape (C, C)
        Delta T.
    free : nn.Parameter or None
        The learnt parameter; None if T is frozen.

    Raises
    ------
    ValueError
        If `initial` is not a transition matrix, or the parameterisation could violate the prior.

    Examples
    --------
    >>> transition = Transition(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), "simplex")
    >>> transition(torch.tensor([[1.0, 0.0]]))
    tensor([[0.9000, 0.1000]], grad_fn=<MmBackward0>)
    """

    def __init__(
        self, initial: Tensor, parameterisation: Parameterisation = "frozen", prior: Prior | None = None
    ) -> None:
        if parameterisation not in PARAMETERISATIONS:
            raise ValueError(
                f"parameterisation must be one of {', '.join(PARAMETERISATIONS)}, got {parameterisation!r}"
            )
        super().__init__(initial)
        self.parameterisation = parameterisation
        self.admissible: Admissible | None = None
        if prior is not None and prior.constrains:
            check_keeps_prior(parameterisation)
            self.admissible = Admissible(prior, len(self.initial)).to(self.initial)
            self.initial.copy_(torch.from_numpy(prior.project(self.initial.cpu().numpy())))
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
            # The gradient ignores the clamp; otherwise an entry below zero could never return.
            positive = moved + (moved.clamp(min=0) - moved).detach()
            sums = positive.sum(dim=1, keepdim=True)
            # A row without a positive entry has no projection; it goes back to its start.
            return torch.where(
                sums > 0, positive / sums.clamp(min=torch.finfo(sums.dtype).tiny), self.initial
            )
        return moved

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, parameterisation={self.parameterisation!r}"


class DominantTransition(TransitionModule):
    """A transition matrix whose diagonal entry is always the largest of its row (Li et al. 2021).

        T[i, j] = S[i, j] / sum_k S[i, k],    S = identity + sigmoid(W) off the diagonal

    W is its value for `initial` plus `free`, which starts at zero.
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__(initial)
        others = initial.detach().clone().fill_diagonal_(0)
        if not (others < initial.detach().diagonal()[:, None]).all():
            raise ValueError(
                "initial must have its largest entry of each row on the diagonal, since no other T can be "
                "reached from there, got one that has not"
            )
        self.free = nn.Parameter(torch.zeros_like(self.initial))

    @property
    def matrix(self) -> Tensor:
        """T, by the equation above."""
        assert self.free is not None
        ratio = self.initial / self.initial.diagonal()[:, None]
        # The diagonal's ratio is 1, whose logit is infinite. It is not used, so 0.5 stands in.
        start = torch.logit(ratio.fill_diagonal_(0.5), eps=SIMPLEX_FLOOR)
        weights = torch.sigmoid(start + self.free)
        identity = torch.eye(len(weights), dtype=weights.dtype, device=weights.device)
        scaled = torch.where(identity > 0, identity, weights)
        return scaled / scaled.sum(dim=1, keepdim=True)


class DirichletTransition(TransitionModule):
    """A Dirichlet distribution for each row of T, learnt by counting and not by gradients.

        concentration <- keep * concentration + rate * counts,    T = its rows, normalised

    counts[i, j] is how often class i was predicted and label j given (Zhang, Niu and Sugiyama 2021).
    The concentration starts at `strength` times `initial`.

    Notes
    -----
    A class that is never predicted has no counts, and its row would fade to zero. A millionth of `initial`
    is always kept, so that the row returns to its start.
    """

    concentration: Tensor
    updates: Tensor

    def __init__(
        self, initial: Tensor, strength: float = 10.0, keep: float = 0.999, rate: float = 0.01
    ) -> None:
        super().__init__(initial)
        if not strength > 0:
            raise ValueError(f"strength must be positive, got {strength}")
        self.keep, self.rate = keep, rate
        self.register_buffer("concentration", strength * self.initial)
        self.register_buffer("updates", torch.tensor(0))

    @property
    def matrix(self) -> Tensor:
        """The mean of the distribution."""
        return self.concentration / self.concentration.sum(dim=1, keepdim=True)

    def sample(self, rng: np.random.Generator) -> Tensor:
        """A transition matrix drawn from the distribution.

        A Dirichlet variable is gamma variables divided by their sum. With a concentration a far below 1 they
        underflow, so their logarithms are drawn: gamma(a) is gamma(a + 1) * uniform^(1 / a).
        """
        concentration = self.concentration.double().cpu().numpy()
        uniform = 1 - rng.random(concentration.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(rng.standard_gamma(concentration + 1)) + np.log(uniform) / concentration
        logarithms[concentration == 0] = -np.inf
        drawn = torch.softmax(torch.from_numpy(logarithms), dim=1)
        return drawn.to(self.concentration)

    @torch.no_grad()
    def observe(self, counts: Tensor) -> None:
        """Add the counts (C, C) of one batch: rows are predicted classes, columns noisy labels."""
        self.concentration.mul_(self.keep).add_(counts, alpha=self.rate)
        torch.maximum(self.concentration, DIRICHLET_FLOOR * self.initial, out=self.concentration)
        self.updates += 1
