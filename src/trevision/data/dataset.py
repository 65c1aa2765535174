"""A data set: plain tensors or arrays, and names for the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.data.row_labels import RowLabels
from trevision.files import DataError

if TYPE_CHECKING:
    from trevision.data.files.preprocessing import Preprocessing
    from trevision.estimation import Answers

Values = Any
"""Rows or labels: a tensor or `ImageFiles`, or a numpy array where torch is not needed."""

AUGMENTATIONS = ("none", "affine", "crop-flip", "shift", "shift-flip")


# Equality is identity: comparing tensors field by field would raise an error.
@dataclass(frozen=True, eq=False)
class Dataset:
    """Training rows and perhaps test rows, as tensors in memory or as `ImageFiles`.

    Where no torch is needed, they are numpy arrays; `as_tensors` of rows.py turns them into tensors.

    Parameters
    ----------
    name
        The name of a named data set, or a file's name without its suffix.
    train_x, test_x
        Images are uint8 (n, channels, height, width) and stay so until a batch is used; tables are float32
        (n, features).
    train_y, test_y
        int64 codes in [0, num_classes).
    class_names
        The name of each code.
    augmentation
        The usual augmentation in the literature, one of `AUGMENTATIONS`.
    classes
        The label value of each code in the data; None if it is the name.
    trusted_x, trusted_y
        Rows with clean labels, which may be used to select an epoch.
    trusted_row_numbers
        Of a table, their numbers in it, or in the file that they come from; None for other data.
    label_pairs
        Clean and noisy labels of samples for which both are known.
    labels_are_noisy
        Whether the labels are already noisy, so that no noise may be added.
    true_y
        The right labels of the training rows, if labels are noisy and the right ones come with them. Only the
        evaluation may see them.
    names
        The source's names of the training rows; None if it has none.
    row_numbers
        The number of each training row in its source, counted from 0; None for 0 to n - 1.
    notes
        Sentences about rows or values that were left out or repaired.
    preprocessing
        The preprocessing of a table's columns; None for other data.
    answers
        With several labels a row, who gave which label to which training row; `train_y` is their vote.
    """

    name: str
    train_x: Values
    train_y: Values
    test_x: Values | None
    test_y: Values | None
    class_names: tuple[str, ...]
    augmentation: str = "none"
    classes: np.ndarray | None = None
    trusted_x: Values | None = None
    trusted_y: Values | None = None
    trusted_row_numbers: np.ndarray | None = None
    label_pairs: tuple[np.ndarray, np.ndarray] | None = None
    labels_are_noisy: bool = False
    true_y: Values | None = None
    names: np.ndarray | None = None
    row_numbers: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    answers: Answers | None = None

    @property
    def num_classes(self) -> int:
        """The number of classes, also of those without a row."""
        return len(self.class_names)

    @property
    def labels(self) -> RowLabels:
        """The training rows without their features."""
        numbers = np.arange(len(self.train_y)) if self.row_numbers is None else self.row_numbers
        return RowLabels(numbers, np.asarray(self.train_y), self.class_names, self.names)

    @property
    def class_values(self) -> np.ndarray:
        """The label value of each code: what a prediction for this data set is made of."""
        return np.array(self.class_names) if self.classes is None else self.classes


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Rows of a source to predict, each with its number there.

    `labels` are None if the source has none, and "" for a row without a label. `names` are None if rows have
    no names.
    """

    x: Values
    """For a model that takes words, a sparse matrix."""
    labels: np.ndarray | None = None
    names: np.ndarray | None = None
    row_numbers: np.ndarray | None = None
    notes: tuple[str, ...] = ()


def drawn_rows(dataset: Dataset, train_size: int, random_state: int | np.random.Generator) -> np.ndarray:
    """The numbers of `train_size` training rows, drawn without replacement.

    With the same seed, a larger size contains the rows of a smaller size.
    """
    available = len(dataset.train_y)
    if not 1 <= train_size <= available:
        raise DataError(
            f"train_size must lie in [1, {available}], the training rows of {dataset.name}, "
            f"got {train_size}; leave it out to use all of them"
        )
    return np.random.default_rng(random_state).permutation(available)[:train_size]
