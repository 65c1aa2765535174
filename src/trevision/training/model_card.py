"""Network, input shape and classes of a saved model; read without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.files import DamagedFile, DataError
from trevision.forms import NUMBER, check_form

MODEL_FILE = "model.safetensors"
CLASSIFIER_FILE = "model.skops"
CARD = {
    "network": str,
    "shape": [int],
    "class_type": str,
    "classes": [str | NUMBER | bool],
    "is_network?": bool,
}
CLASS_TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "int": int,
    "uint": int,
    "float": float,
    "bytes": str,
}


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
    def from_json(cls, card: Any, path: Path) -> ModelCard:
        """The card in the config.json at `path`."""
        check_form(card, CARD, path, "model")
        kind, names, shape = card["class_type"], card["classes"], card["shape"]
        if kind.rstrip("0123456789") not in CLASS_TYPES or len(kind) > 9:
            raise DamagedFile(
                f"{path} must have a known type in model.class_type, got {kind[:20]!r}", path=path
            )
        check_form(names, [CLASS_TYPES[kind.rstrip("0123456789")]], path, "model.classes")
        try:
            classes = np.array(names, dtype=kind)
        except (TypeError, ValueError, OverflowError) as error:
            raise DamagedFile(f"{path} names classes that are no {kind[:20]} ({error})", path=path) from None
        if len(names) < 2 or len(set(names)) < len(names):
            raise DamagedFile(f"{path} must name two classes or more in model.classes, each once", path=path)
        if not 1 <= len(shape) <= 3 or min(shape) < 1:
            raise DamagedFile(f"{path} must have one to three sides in model.shape, 1 or more", path=path)
        # Older cards are of networks.
        return cls(card["network"], tuple(shape), classes, card.get("is_network", True))


def read_card(folder: Path, config: dict[str, Any]) -> ModelCard:
    """The card of the model in `folder`. Raises a ValueError if there is no finished model."""
    card = config.get("model")
    if card is None or not any((folder / name).is_file() for name in (MODEL_FILE, CLASSIFIER_FILE)):
        why = (
            "the run that writes it has not ended, or was told to keep none (reproduce without --keep-models)"
        )
        raise DataError(f"{folder} holds no finished model: {why}")
    return ModelCard.from_json(card, folder / "config.json")


def checked_transition(path: Path, matrix: Any, classes: int) -> np.ndarray:
    """T as it was read from the file of a model. Raises a `DamagedFile` unless it is (C, C) and finite.

    Its rows need not be distributions: `slack` may move T off the simplex.
    """
    array = np.asarray(matrix)
    if array.dtype.kind != "f" or array.shape != (classes, classes) or not np.isfinite(array).all():
        raise DamagedFile(
            f"{path} is no model that a run wrote, or is damaged: T must be {classes} x {classes} numbers, "
            f"got {array.dtype} of shape {array.shape}",
            path=path,
        )
    return array
