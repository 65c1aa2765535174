"""A trained model in a folder: weights in `model.safetensors`, everything else in JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trevision.files import DamagedFile, DataError, read_json, write_atomically
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.model import NoisyLabelModel
from trevision.training.model_card import MODEL_FILE, ModelCard, checked_transition, read_card

CUSTOM_NETWORK = "custom"
CONVOLUTIONAL = ("resnet8", "resnet18", "resnet34", "resnet50")
"""Networks whose number of weights does not depend on the size of an image."""


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
        raise DataError(f"{folder} must be the folder of a run or a saved classifier: it has no config.json")
    config = read_json(path)
    card = read_card(folder, config)
    if not card.is_network:
        raise DataError(
            f"{folder} must hold a network, got a run of --model {card.network}; `trevision predict` reads it"
        )
    path = folder / MODEL_FILE
    try:
        tensors: dict[str, Tensor] = load_file(path)
        initial, matrix = tensors.pop("transition.initial"), tensors.pop("transition.matrix")
    except (SafetensorError, KeyError, OSError) as error:
        raise _damaged(path, error) from None
    _check_tensors(path, tensors)
    # As float64, because numpy has no bfloat16.
    initials, matrices = (
        checked_transition(path, _as_numpy(each), len(card.classes)) for each in (initial, matrix)
    )
    in_model = tensors.pop("transition.in_model", None) is not None
    if network is None:
        if card.network == CUSTOM_NETWORK:
            raise DataError(f"{folder} was made with a network of your own: pass that network to load it")
        _check_sizes(path, tensors, card)
        try:
            network = build(card.network, card.shape, len(card.classes), seed=0)
        except ValueError as error:
            raise DamagedFile(f"{folder / 'config.json'}: {error}; was it edited?", path=folder) from None
    try:
        standardise = Standardise(tensors["standardise.mean"], tensors["standardise.scale"])
        tensors.setdefault("standardise.rest", standardise.rest)  # older models have none
        if in_model:
            tensors = NoisyLabelModel.state_with_transition(tensors, matrix.float())
        model = NoisyLabelModel.from_state(standardise, network, tensors)
        _check_mean(model, card)
    except (KeyError, ValueError, RuntimeError) as error:  # what torch says of a state of another model
        raise _damaged(path, error) from None
    return SavedModel(model.eval(), card, config, initials, matrices)


def _damaged(path: Path, error: object) -> DamagedFile:
    said = " ".join(str(error).split())[:300]
    return DamagedFile(f"{path} is no model that a run wrote, or is damaged ({said})", path=path)


def _as_numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = (tensor.double() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _check_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Raise a `DamagedFile` for weights that are no finite numbers."""
    for name, tensor in tensors.items():
        if tensor.is_complex() or (tensor.is_floating_point() and not tensor.float().isfinite().all()):
            raise _damaged(path, f"{name} must hold finite numbers")


def _check_sizes(path: Path, tensors: dict[str, Tensor], card: ModelCard) -> None:
    """Raise a `DamagedFile` for a shape in config.json whose network would be larger than the weights are."""
    weights = sum(tensor.numel() for tensor in tensors.values())
    inputs = 0 if card.network in CONVOLUTIONAL else math.prod(card.shape)
    if max(inputs, len(card.classes)) > weights:
        raise _damaged(path, f"config.json tells of samples of shape {card.shape}, too large for its weights")


def _check_mean(model: NoisyLabelModel, card: ModelCard) -> None:
    mean, shape = model.state_dict()["standardise.mean"], card.shape
    if torch.broadcast_shapes(tuple(mean.shape), shape) != torch.Size(shape):
        raise ValueError(f"the mean of samples of shape {shape} has the shape {tuple(mean.shape)}")
