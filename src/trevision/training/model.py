"""The model that every method trains: a network, and the transition matrix behind its softmax."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from trevision.transition import TransitionModule


class NoisyLabelModel(nn.Module):
    """Standardised input -> network -> logits of the clean posterior, and T beside them.

    T comes out of `forward` so that its gradient, too, passes through whatever wraps the model
    (several processes average the gradients of everything they see in `forward`).
    """

    def __init__(
        self, standardise: nn.Module, network: nn.Module, transition: TransitionModule | None
    ) -> None:
        super().__init__()
        # A copy: it moves with this model to a device, and others are made with the same one.
        self.standardise = copy.deepcopy(standardise)
        self.network = network
        self.transition = transition

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        logits = self.network(self.standardise(x))
        return logits, None if self.transition is None else self.transition.matrix
