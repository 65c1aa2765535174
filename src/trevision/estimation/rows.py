"""Probabilities and labels of the same rows, read again and again in chunks of rows.

Estimators of T work in passes over chunks, so that probabilities on disk may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trevision.noise import FloatArray, IntArray, check_labels, detached, refuse_masked

# Probabilities in a chunk: a few of its size are held at a time, and they stay near the processor.
NUMBERS_AT_ONCE = 2**21

# How far a row's sum may miss 1 before it is no rounding: two decimals of ten classes miss it by up to 0.05,
# but three decimals, as files print them, by 0.005.
SUM_TOLERANCE = 0.01


class RowSource(Protocol):
    """What gives rows by slices as numpy arrays: an array, a memory map, an HDF5 data set, ...

    Attributes
    ----------
    shape : tuple of int
        (n, C).
    dtype : numpy dtype
        Of the numbers.

    Examples
    --------
    >>> source: RowSource = np.zeros((4, 2))
    >>> source[1:3].shape
    (2, 2)
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, rows: slice, /) -> NDArray[Any]: ...


class Chunk(NamedTuple):
    """Some rows: `probs` (m, C) sum to 1, `labels` (m,) are given labels, `rows` where they stand."""

    probs: NDArray[np.floating]
    labels: IntArray
    rows: slice


class ProbabilityRows:
    """Rows of P(noisy | x) with the noisy label of each, checked and normalised whenever they are read.

    Parameters
    ----------
    noisy_probs : array-like or RowSource of shape (n, C)
        P(noisy | x). It is never held whole and never altered.
    noisy_labels : array-like of shape (n,)
        Integers from 0 to C - 1.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The labels given.
    num_classes : int
        C.

    Raises
    ------
    ValueError
        If shapes or labels do not fit; when rows are read, for the first that holds no probabilities.

    Examples
    --------
    >>> rows = ProbabilityRows([[0.8, 0.2], [0.1, 0.9]], [0, 1])
    >>> len(rows), rows.num_classes
    (2, 2)
    """

    def __init__(self, noisy_probs: ArrayLike | RowSource, noisy_labels: ArrayLike) -> None:
        refuse_masked(noisy_probs, "noisy_probs")
        refuse_masked(noisy_labels, "noisy_labels")
        source: RowSource = noisy_probs if _gives_rows(noisy_probs) else np.asarray(noisy_probs)
        shape = tuple(source.shape)
        if len(shape) != 2 or shape[0] == 0 or shape[1] < 2:
            raise ValueError(f"noisy_probs must be (n, C) with n >= 1 and C >= 2, got shape {shape}")
        if not np.issubdtype(source.dtype, np.floating):
            raise ValueError(f"noisy_probs must be floating-point probabilities, got dtype {source.dtype}")
        self.source = source
        self.labels = check_labels(noisy_labels, shape[1], "noisy_labels")
        if len(self.labels) != shape[0]:
            raise ValueError(
                f"noisy_probs and noisy_labels must be of one length, got {shape[0]} and {len(self.labels)}"
            )
        self.num_classes = shape[1]

    def __len__(self) -> int:
        return len(self.labels)

    def chunks(self) -> Iterator[Chunk]:
        """All rows in their order, a chunk after the other: one pass."""
        step = max(1, NUMBERS_AT_ONCE // self.num_classes)
        for first in range(0, len(self), step):
            rows = slice(first, min(first + step, len(self)))
            yield Chunk(_normalised(self.source[rows], first), self.labels[rows], rows)

    def at(self, numbers: IntArray) -> NDArray[np.floating]:
        """The probabilities of a few rows, by their numbers."""
        return np.concatenate([_normalised(self.source[row : row + 1], row) for row in numbers.tolist()])

    def label_counts(self, weights: FloatArray | None = None) -> FloatArray:
        """How many rows are given each label, each row counted `weights` times."""
        return np.bincount(self.labels, weights, minlength=self.num_classes).astype(np.float64)


def label_codes(labels: ArrayLike, classes: ArrayLike, name: str = "labels") -> IntArray:
    """Labels of any values as integers from 0 to C - 1, their places in `classes`.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The labels.
    classes : array-like of shape (C,)
        Their values, in the order of the columns.
    name : str
        What the labels are called in the message of an error.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    ValueError
        If a label is not in `classes`, or a class is there twice.

    Examples
    --------
    >>> label_codes(["dog", "cat", "dog"], classes=["cat", "dog"])
    array([1, 0, 1])
    """
    given, values = np.asarray(labels), np.asarray(classes)
    if given.ndim != 1 or values.ndim != 1:
        raise ValueError(
            f"{name} and classes must be one-dimensional, got shapes {given.shape} and {values.shape}"
        )
    codes = {value: code for code, value in enumerate(values.tolist())}
    if len(codes) < len(values):
        twice = next(value for code, value in enumerate(values.tolist()) if codes[value] != code)
        raise ValueError(f"classes must name each class once, got {twice!r} twice")
    try:
        return np.array([codes[value] for value in given.tolist()], dtype=np.int64)
    except KeyError as error:
        raise ValueError(
            f"{name} must be among the {len(codes)} classes, got {error.args[0]!r}; "
            "classes are the values of the labels in the order of the columns"
        ) from None


def check_probs(noisy_probs: ArrayLike) -> NDArray[np.floating]:
    """`noisy_probs` (n, C) as an array, once its rows are known to be probabilities."""
    probs = np.asarray(detached(noisy_probs))
    if probs.ndim != 2 or probs.shape[0] == 0 or probs.shape[1] < 2:
        raise ValueError(f"noisy_probs must be (n, C) with n >= 1 and C >= 2, got shape {probs.shape}")
    if not np.issubdtype(probs.dtype, np.floating):
        raise ValueError(f"noisy_probs must be floating-point probabilities, got dtype {probs.dtype}")
    if not np.isfinite(probs).all() or probs.min() < 0:
        raise ValueError("noisy_probs must hold finite probabilities, got NaN, infinity or a negative number")
    if np.abs(probs.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("noisy_probs must have rows that sum to 1; logits want a softmax first")
    return probs


def _gives_rows(values: Any) -> TypeGuard[RowSource]:
    # A torch tensor and a frame have a shape too, but no numpy dtype: they are converted whole.
    return isinstance(getattr(values, "dtype", None), np.dtype) and hasattr(values, "shape")


def _normalised(values: NDArray[Any], first: int) -> NDArray[np.floating]:
    """A checked copy whose rows sum to 1; `first` is the number of its first row, for the error."""
    probs: NDArray[np.floating] = values.astype(np.result_type(values.dtype, np.float32), copy=False)
    sums: NDArray[np.floating] = probs.sum(axis=1, keepdims=True)
    # min() is NaN where any entry is, and the negated comparison is then true.
    if not probs.min() >= 0 or not np.abs(sums - 1).max() <= SUM_TOLERANCE:
        _refuse(probs, first)
    return probs / sums


def _refuse(probs: NDArray[np.floating], first: int) -> None:
    """Say which row is the first that holds no probabilities, and what it may hold instead."""
    sums = probs.sum(axis=1)
    finite = np.isfinite(probs).all(axis=1)
    row = int(np.flatnonzero(~finite | (probs.min(axis=1) < 0) | ~(np.abs(sums - 1) <= SUM_TOLERANCE))[0])
    rule = "noisy_probs must hold probabilities that sum to 1 in every row"
    if not finite[row]:
        value = probs[row][~np.isfinite(probs[row])][0]
        raise ValueError(f"{rule}, got {value} in row {first + row}; drop or mend such rows")
    if probs[row].max() <= 0:
        raise ValueError(
            f"{rule}, got none above 0 in row {first + row}; log-probabilities want np.exp first"
        )
    if probs[row].min() < 0:
        raise ValueError(
            f"{rule}, got {probs[row].min():.4g} in row {first + row}; logits want a softmax first"
        )
    raise ValueError(
        f"{rule}, got a sum of {sums[row]:.4g} in row {first + row}; logits want a softmax first, and "
        "columns that are no class's probability must go"
    )
