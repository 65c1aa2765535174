"""What a data set is to the rest of the package: plain tensors, names for the classes, and one error type."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

AUGMENTATIONS = ("none", "crop-flip")


class DataError(ValueError):
    """Data that is missing, unreadable or unfit; the message is one line for the person who gave it."""

    def __init__(self, message: str) -> None:
        # Messages quote errors of other libraries, some of which run over several lines.
        super().__init__(" ".join(message.splitlines()))


# Comparing two data sets field by field would ask a tensor for its truth value, so equality is identity.
@dataclass(frozen=True, eq=False)
class Dataset:
    """Training rows and, where there are any, test rows, held whole in memory.

    Images are uint8 (n, channels, height, width) and stay so until a batch is used; tables are float32
    (n, features). Labels are int64 codes in [0, num_classes); `class_names[code]` is the name of a code, and
    `classes[code]` the label value it stood for in the data (None: its name).
    `augmentation`, one of `AUGMENTATIONS`, is what the literature trains this data set with.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor | None
    test_y: Tensor | None
    class_names: tuple[str, ...]
    augmentation: str = "none"
    classes: np.ndarray | None = None

    @property
    def num_classes(self) -> int:
        """The number of classes, also of those without a row."""
        return len(self.class_names)

    @property
    def class_values(self) -> np.ndarray:
        """The label value of each code: what a prediction for this data set is made of."""
        return np.array(self.class_names) if self.classes is None else self.classes


def take_rows(dataset: Dataset, n: int, random_state: int | np.random.Generator) -> Dataset:
    """Keep `n` training rows, drawn without replacement; the test rows stay as they are.

    Equal seeds nest: the rows for a small `n` are the first of those for a larger one.
    """
    available = len(dataset.train_y)
    if not 1 <= n <= available:
        raise DataError(
            f"n must lie in [1, {available}], the training rows of {dataset.name}, got {n}; "
            "leave it out to use all of them"
        )
    rows = torch.from_numpy(np.random.default_rng(random_state).permutation(available)[:n])
    return replace(dataset, train_x=dataset.train_x[rows], train_y=dataset.train_y[rows])
