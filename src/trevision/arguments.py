"""What both scikit-learn estimators demand of labels and weights, said in one sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trevision.noise import FloatArray, IntArray, detached, refuse_masked

MISSING = -1
"""The code of an answer that was not given; among labels that are numbers, -1 says the same."""


def check_weights(sample_weight: Any, count: int) -> FloatArray | None:
    """The weights as an array; None if there are none."""
    if sample_weight is None:
        return None
    weights: FloatArray = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (count,):
        raise ValueError(f"sample_weight must be one number a row, ({count},), got shape {weights.shape}")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight must be finite, got NaN or infinity")
    if weights.min() < 0:
        row = int(weights.argmin())
        raise ValueError(
            f"sample_weight must not be negative, got {weights[row]:g} in row {row}; a weight of 0 leaves a "
            "row out"
        )
    if not weights.any():
        raise ValueError("sample_weight must have at least one non-zero weight, got only zeros")
    return weights


def check_given(X: Any, y: Any, names: tuple[str, str] = ("X", "y")) -> None:
    """Raise a ValueError for masked values, and for labels that would lose a letter as an array."""
    for values, name in zip((X, y), names, strict=True):
        refuse_masked(values, name)
    refuse_zero_bytes(y, names[1])


def refuse_zero_bytes(labels: Any, name: str) -> None:
    """Raise a ValueError for texts that end in a zero byte: numpy drops it, and joins "a" and "a\\0"."""
    if not isinstance(labels, list | tuple) and getattr(getattr(labels, "dtype", None), "kind", "") != "O":
        return  # an array of texts has lost it already
    for row, label in enumerate(labels if getattr(labels, "ndim", 1) == 1 else ()):
        if isinstance(label, str) and label.endswith("\0"):
            raise ValueError(
                f"{name} must not hold labels that end in a zero byte, got {label!r} in row {row}; strip them"
            )


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Several labels a row.

    Attributes
    ----------
    codes : ndarray of shape (n, annotators)
        The answers as codes into `classes`; `MISSING` where there is none.
    classes : ndarray of shape (C,)
        The labels, sorted.
    names : tuple of str
        The annotators: the columns of a frame, else their numbers.
    """

    codes: IntArray
    classes: NDArray[Any]
    names: tuple[str, ...]


def answer_table(y: Any, rows: int) -> AnswerTable | None:
    """The answers of several annotators, from a `y` of two columns or more; None for one label a row.

    Parameters
    ----------
    y : array-like
        (n,), (n, 1) or (n, annotators). An answer that was not given is None or NaN or, among numbers, -1.
    rows : int
        How many rows X has.

    Raises
    ------
    ValueError
        If y has another shape, a row has no answer, or the answers are no labels.

    Examples
    --------
    >>> table = answer_table([["a", "b", None], ["b", "b", "a"]], rows=2)
    >>> table.codes
    array([[ 0,  1, -1],
           [ 1,  1,  0]])
    >>> answer_table(["a", "b"], rows=2) is None
    True
    """
    names = tuple(map(str, y.columns)) if hasattr(y, "columns") else None
    values = _as_table(y)
    if values is None:
        return None
    if len(values) != rows:
        raise ValueError(f"X and y must be of one length, got {rows} and {len(values)}")
    given = ~_missing(values)
    silent = np.flatnonzero(~given.any(axis=1))
    if len(silent):
        raise ValueError(
            f"y must have at least one answer a row, got none in row {silent[0]}; drop such rows, and "
            "predict them when the model is fitted"
        )
    classes, found = np.unique(_of_one_type(values[given]), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got only {classes[0]} in {len(values)} rows; -1 stands for "
            "an answer that was not given"
        )
    codes: IntArray = np.full(values.shape, MISSING)
    codes[given] = found
    # False and True count as 0 and 1.
    if len(codes) > 2 and classes.tolist() == [0, 1] and given.all() and (codes.sum(axis=1) == 1).all():
        raise ValueError(
            f"y must hold the answers of annotators, got {codes.shape[1]} columns with a single 1 in every "
            "row; for one-hot codes write y.argmax(axis=1)"
        )
    return AnswerTable(codes, classes, names or tuple(map(str, range(values.shape[1]))))


def _as_table(y: Any) -> NDArray[Any] | None:
    """`y` as an array if it has two columns or more; None for any other `y` of up to two dimensions."""
    if y is None or hasattr(y, "toarray"):
        return None
    try:
        if hasattr(y, "columns"):
            values = y.to_numpy(dtype=object)
        elif isinstance(y, list | tuple):
            # Through object: numpy would quietly turn [1, "a"] and NaN beside text into strings.
            values = np.asarray(y, dtype=object)
            if values.ndim == 1 and any(isinstance(row, list | tuple | np.ndarray) for row in values):
                raise ValueError("rows of different lengths")
        else:
            values = np.asarray(detached(y))
    except ValueError as error:
        raise ValueError(
            f"y must have rows of one length, an answer of each annotator, got {error}; fill in None where "
            "there is no answer"
        ) from None
    if values.ndim > 2:
        raise ValueError(f"y must be (n,) labels or (n, annotators) answers, got shape {values.shape}")
    return values if values.ndim == 2 and values.shape[1] > 1 else None


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind in "iu":
        return values == MISSING
    if values.dtype.kind == "f":
        return np.isnan(values) | (values == MISSING)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.vectorize(_is_missing, otypes=[bool])(values)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        # NaN is the one value unequal to itself; pandas' NA refuses to be compared.
        return bool(value != value) or (not isinstance(value, str | bytes) and value == MISSING)
    except (TypeError, ValueError):
        return True


def _of_one_type(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels (m,) in a type that numpy sorts: integers, texts or truths."""
    if labels.dtype.kind == "O":
        kinds = {str if isinstance(label, str) else type(label) for label in labels}
        if not (
            kinds == {str} or all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds)
        ):
            told = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"y must hold labels of one type, got {told}; write y.astype(str)")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != np.floor(labels)).any():
            first = labels[~np.isfinite(labels) | (labels != np.floor(labels))][0]
            raise ValueError(
                f"y must hold classes, got {first:g}; measurements must be put into classes first"
            )
        return labels.astype(np.int64)
    if labels.dtype.kind not in "iubUST":
        raise ValueError(f"y must hold integers, texts or truths, got {labels.dtype}")
    return labels
