"""A trained model in a folder: weights in `model.safetensors`, everything else in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trevision.files import read_json, write_atomically
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.model import NoisyLabelModel
from trevision.training.model_card import ModelCard, read_card

CUSTOM_NETWORK = "custom"


@dataclass(frozen=True)
class SavedModel:
    """A model read from a folder, with T before and after its revision."""

    model: NoisyLabelModel
    card: ModelCard
    config: dict[str, Any]
    initial_transition: np.ndarray
    transition: np.ndarray


def save_model(path: Path, model: NoisyLabelModel, initial: np.ndarray, transition: np.ndarray) -> None:
    """Write the weights of a model and its transition matrices to one safetensors file."""
    tensors = model.state_without_transition() | {
        "transition.initial": torch.tensor(initial),
        "transition.matrix": torch.tensor(transition),
    }
    if model.transition is not None:
        tensors["transition.in_model"] = torch.ones(1)
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(tensors, temporary)
        except SafetensorError as error:
            raise OSError(f"{path}: cannot be written ({error})") from None

    write_atomically(path, write)


def load_model(folder: Path, network: nn.Module | None = None) -> SavedModel:
    """Read a model from a run's folder. A network of the user's own must be passed again as `network`."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} must be the folder of a run or a saved classifier: it has no config.json")
    config = read_json(path)
    card = read_card(folder, config)
    if not card.is_network:
        raise ValueError(
            f"{folder} must hold a network, got a run of --model {card.network}; `trevision predict` reads it"
        )
    try:
        tensors: dict[str, Tensor] = load_file(folder / "model.safetensors")
        initial, matrix = tensors.pop("transition.initial"), tensors.pop("transition.matrix")
    except (SafetensorError, KeyError) as error:
        raise ValueError(
            f"{folder / 'model.safetensors'} is no model that a run wrote, or is damaged ({error})"
        ) from None
    in_model = tensors.pop("transition.in_model", None) is not None
    if network is None:
        if card.network == CUSTOM_NETWORK:
            raise ValueError(f"{folder} was made with a network of your own: pass that network to load it")
        network = build(card.network, card.shape, len(card.classes), seed=0)
    standardise = Standardise(tensors["standardise.mean"], tensors["standardise.scale"])
    tensors.setdefault("standardise.rest", standardise.rest)  # older models have none
    if in_model:
        tensors = NoisyLabelModel.state_with_transition(tensors, matrix.float())
    model = NoisyLabelModel.from_state(standardise, network, tensors)
    return SavedModel(model.eval(), card, config, initial.numpy(), matrix.numpy())
