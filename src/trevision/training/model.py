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
    """The network behind a standardised input, and T.

    `forward` returns the logits (n, C) of the clean posterior, and T (C, C) or None. It returns T because
    several processes average the gradients only of what `forward` returns. The names in a state are known
    only to this class.

    Parameters
    ----------
    standardise : nn.Module
        Shifts and scales the inputs. The model holds a copy.
    network : nn.Module
        From inputs to logits.
    transition : TransitionModule or None
        T; None for a method without T.
    """

    def __init__(
        self, standardise: nn.Module, network: nn.Module, transition: TransitionModule | None
    ) -> None:
        super().__init__()
        # A copy: it moves to a device with this model, and other models are made from the same original.
        self.standardise = copy.deepcopy(standardise)
        self.network = network
        self.transition = transition

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        logits = self.network(self.standardise(x))
        if self.transition is None:
            return logits, None
        # T keeps its 32 bits even where the network computes in 16.
        with torch.autocast(logits.device.type, enabled=False):
            return logits, self.transition.matrix

    @classmethod
    def from_state(
        cls,
        standardise: nn.Module,
        network: nn.Module,
        state: State,
        parameterisation: Parameterisation = "frozen",
        prior: Prior | None = None,
    ) -> Self:
        """A model with the given `state`, and with a transition if the state has one.

        `parameterisation` and `prior` are used only if the state holds a learnt Delta T.
        """
        transition = None
        if "transition.free" in state:
            transition = Transition(state["transition.initial"], parameterisation, prior)
        elif "transition.initial" in state:
            # T is loaded below. A T that `slack` moved off the simplex would be refused as a start.
            transition = Transition(torch.eye(len(state["transition.initial"])))
        model = cls(standardise, network, transition)
        model.load_state_dict(state)
        return model

    @staticmethod
    def network_state(state: State) -> State:
        """The state of the network alone, without the prefix of its names."""
        return _below(state, "network.")

    @staticmethod
    def transition_state(state: State) -> State:
        """The state of the transition alone, without the prefix of its names."""
        return _below(state, "transition.")

    @staticmethod
    def state_of_part(state: State, part: str) -> State:
        """The state of a model that has only the submodule `part` of the network, and no transition.

        An empty `part` means the whole network.
        """
        prefix = f"network.{part}." if part else "network."
        network = {f"network.{name}": value for name, value in _below(state, prefix).items()}
        standardise = {name: value for name, value in state.items() if name.startswith("standardise.")}
        return standardise | network

    @staticmethod
    def state_with_transition(state: State, matrix: Tensor) -> State:
        """The state with its transition replaced by a fixed T."""
        return _without_transition(state) | {"transition.initial": matrix}

    def state_without_transition(self) -> State:
        """The state of everything except the transition."""
        return _without_transition(self.state_dict())


def _below(state: State, prefix: str) -> State:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _without_transition(state: State) -> State:
    return {name: value for name, value in state.items() if not name.startswith("transition.")}
