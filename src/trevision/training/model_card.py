"""Network, input shape and classes of a saved model; read without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MODEL_FILE = "model.safetensors"
CLASSIFIER_FILE = "model.skops"


@dataclass(frozen=True)
class ModelCard:
    """What is needed, besides its weights, to use a saved model: network, input shape and classes.

    For a scikit-learn model, `network` is its name among the models of `fit --model`.
    """

    network: str
    shape: tuple[int, ...]
    classes: np.ndarray
    is_network: bool = True

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as text."""
        return tuple(map(str, self.classes))

    def to_json(self) -> dict[str, Any]:
        kind = "str" if self.classes.dtype.kind in "OUS" else self.classes.dtype.name
        values = [str(v) for v in self.classes] if kind == "str" else self.classes.tolist()
        return {
            "network": self.network,
            "shape": list(self.shape),
            "class_type": kind,
            "classes": values,
            **({} if self.is_network else {"is_network": False}),
        }

    @classmethod
    def from_json(cls, card: dict[str, Any]) -> ModelCard:
        try:
            classes = np.array(card["classes"], dtype=card["class_type"])
            is_network = bool(card.get("is_network", True))  # older cards are of networks
            return cls(card["network"], tuple(card["shape"]), classes, is_network)
        except (KeyError, TypeError) as error:
            raise ValueError(f"config.json must say what model it goes with, but {error!r}") from None


def read_card(folder: Path, config: dict[str, Any]) -> ModelCard:
    """The card of the model in `folder`. Raises a ValueError if there is no finished model."""
    card = config.get("model")
    if card is None or not any((folder / name).is_file() for name in (MODEL_FILE, CLASSIFIER_FILE)):
        why = (
            "the run that writes it has not ended, or was told to keep none (reproduce without --keep-models)"
        )
        raise ValueError(f"{folder} holds no finished model: {why}")
    return ModelCard.from_json(card)
