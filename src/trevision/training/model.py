"""The model that every method trains: a network, and the transition matrix behind its softmax."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from trevision.transition import Transition, TransitionModule

if TYPE_CHECKING:
    from trevision.prior import Parameterisation, Prior

State = dict[str, Tensor]
"""What `NoisyLabelModel.state_dict` returns: names begin with `standardise.`, `network.` or `transition.`."""


class NoisyLabelModel(nn.Module):
    """Standardised input -> network -> logits of the clean posterior, and T beside them.

    T comes out of `forward` so that its gradient, too, passes through whatever wraps the model
    (several processes average the gradients of everything they see in `forward`).

    All that knows how a state is laid out is a method of this class.
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

    @classmethod
    def from_state(
        cls,
        standardise: nn.Module,
        network: nn.Module,
        state: State,
        parameterisation: Parameterisation = "frozen",
        prior: Prior | None = None,
    ) -> Self:
        """A model in `state`, with a transition if the state has one.

        `parameterisation` and `prior` are those that a learnt Delta T had; without one, T is fixed.
        """
        transition = None
        if "transition.free" in state:
            transition = Transition(state["transition.initial"], parameterisation, prior)
        elif "transition.initial" in state:
            # The state brings T itself. One that `slack` led out of the simplex would be refused as a start.
            transition = Transition(torch.eye(len(state["transition.initial"])))
        model = cls(standardise, network, transition)
        model.load_state_dict(state)
        return model

    @staticmethod
    def network_state(state: State) -> State:
        """The state of the network alone, by its own names."""
        return _below(state, "network.")

    @staticmethod
    def transition_state(state: State) -> State:
        """The state of the transition alone, by its own names."""
        return _below(state, "transition.")

    @staticmethod
    def state_of_part(state: State, part: str) -> State:
        """The state of a model whose network is the submodule `part` of this one's, without a transition.

        An empty `part` stands for the whole network.
        """
        prefix = f"network.{part}." if part else "network."
        network = {f"network.{name}": value for name, value in _below(state, prefix).items()}
        standardise = {name: value for name, value in state.items() if name.startswith("standardise.")}
        return standardise | network

    @staticmethod
    def state_with_transition(state: State, matrix: Tensor) -> State:
        """The state with a fixed T in place of whatever transition it has."""
        return _without_transition(state) | {"transition.initial": matrix}

    def state_without_transition(self) -> State:
        """The state of all but the transition."""
        return _without_transition(self.state_dict())


def _below(state: State, prefix: str) -> State:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _without_transition(state: State) -> State:
    return {name: value for name, value in state.items() if not name.startswith("transition.")}
