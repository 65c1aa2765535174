"""Check the user's arrays of features and labels, and read .npz files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trevision.arguments import refuse_zero_bytes
from trevision.files import DataError
from trevision.noise import refuse_masked
from trevision.npy import open_npz

_IMAGE_CHANNELS = (1, 3)


def _as_array(values: Any, name: str, **options: Any) -> np.ndarray:
    if hasattr(values, "detach"):  # a tensor, perhaps on a device
        values = values.detach().cpu().numpy()
    if hasattr(values, "toarray"):
        raise DataError(f"{name} must be a dense array, got a sparse matrix; call its .toarray()")
    try:
        return np.asarray(values, **options)
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} must be an array with rows of one length ({error})") from error


def _is_missing(label: Any) -> bool:
    # NaN is the one value unequal to itself; pandas' NA refuses to be compared at all.
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True


def label_array(y: Any, name: str) -> np.ndarray:
    """`y` as a 1-D array of booleans, integers, whole floats, bytes or strings; anything else is refused."""
    refuse_masked(y, name)
    # A list goes through object, or numpy would quietly turn [1, "a"] into two strings.
    labels = _as_array(y, name, **({"dtype": object} if isinstance(y, list | tuple) else {}))
    if labels.ndim != 1:
        repair = "; call its .ravel()" if labels.ndim == 2 and labels.shape[1] == 1 else ""
        raise DataError(f"{name} must be one label a row, shape (n,), got shape {labels.shape}{repair}")
    if len(labels) == 0:
        raise DataError(f"{name} must hold at least one label, got none")
    if labels.dtype.kind in "OT":
        refuse_zero_bytes(labels.astype(object), name)
        labels = _narrow(labels.astype(object), name)
    if labels.dtype.kind == "f":
        broken = np.flatnonzero(~np.isfinite(labels))
        if len(broken):
            raise DataError(
                f"{name} must have a label in every row, got {labels[broken[0]]} in row {broken[0]}; "
                "drop such rows"
            )
        broken = np.flatnonzero(labels != np.floor(labels))
        if len(broken):
            raise DataError(
                f"{name} must be class labels, got the fraction {labels[broken[0]]} in row {broken[0]}; "
                "continuous targets cannot be classified"
            )
    elif labels.dtype.kind not in "biuUS":
        raise DataError(f"{name} must be integers, strings or booleans, got dtype {labels.dtype}")
    return labels


def _narrow(labels: np.ndarray, name: str) -> np.ndarray:
    """Python objects as an array of the plain dtype that they all share."""
    for row, label in enumerate(labels):
        if _is_missing(label):
            raise DataError(
                f"{name} must have a label in every row, got {label} in row {row}; drop such rows"
            )
    for kinds, dtype in (
        ((str,), np.str_),
        ((bytes,), np.bytes_),
        ((bool, np.bool_), np.bool_),
        ((int, np.integer), None),
        ((int, float, np.integer, np.floating), np.float64),
    ):
        if all(isinstance(label, kinds) for label in labels):
            narrowed = np.array(labels.tolist(), dtype=dtype)
            # Whole numbers beyond 64 bits would stay objects, or become floats that merge neighbours.
            if dtype is None and narrowed.dtype.kind not in "iu":
                raise DataError(f"{name} must be integers of at most 64 bits; write longer ones as strings")
            return narrowed
    types = sorted({type(label).__name__ for label in labels})
    raise DataError(f"{name} must be all integers, all strings or all booleans, got {', '.join(types)}")


def encode_labels(y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Number the label values: returns the sorted distinct `classes`, and int64 `codes` into them.

    classes[codes] equals y. Integers, strings, booleans and whole floats are labels; missing values,
    fractions, mixtures and a single class are errors.
    """
    classes, codes = np.unique(label_array(y, name), return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"{name} must hold at least two classes, got only the class {name_of(classes[0])!r}")
    return classes, codes.astype(np.int64).reshape(-1)


def codes_in(y: Any, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """The int64 codes of labels.

    Parameters
    ----------
    y
        The labels.
    classes
        The sorted classes.
    name
        The name of `y` in errors.

    Raises
    ------
    DataError
        For a label that is not one of the classes.
    """
    labels = label_array(y, name)
    text = [array.dtype.kind in "US" for array in (labels, classes)]
    if text[0] != text[1] or (text[0] and labels.dtype.kind != classes.dtype.kind):
        raise DataError(f"{name} must be labels of the training kind ({classes.dtype}), got {labels.dtype}")
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    unknown = np.flatnonzero(classes[codes] != labels)
    if len(unknown):
        raise DataError(
            f"{name} holds {name_of(labels[unknown[0]])!r} in row {unknown[0]}, a label that the training "
            "labels never take"
        )
    return codes.astype(np.int64)


def name_of(label: Any) -> str:
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


# Rounding errors of single precision, in units of a column's standard deviation, that do no harm.
HARMLESS_ROUNDING = 1e-4


def feature_array(x: Any, name: str = "x", precise: bool = False) -> np.ndarray:
    """`x` copied: a float32 table, or uint8 or float32 images (n, channels, height, width).

    With `precise`, a table stays in float64 if a column varies too little for single precision.

    (n, features) is a table. (n, height, width) are grey images. (n, height, width, channels) is recognised
    if the last axis has length 1 or 3 and the second has not. Only uint8 images keep their dtype.
    """
    array = _as_array(x, name)
    if array.dtype.kind not in "biuf":
        repair = "; turn text columns into numbers first" if array.dtype.kind in "OUST" else ""
        raise DataError(f"{name} must be numbers, got dtype {array.dtype}{repair}")
    if array.ndim not in (2, 3, 4):
        repair = "; a single feature is written x.reshape(-1, 1)" if array.ndim == 1 else ""
        raise DataError(
            f"{name} must be a table (n, features) or images (n, channels, height, width), "
            f"got shape {array.shape}{repair}"
        )
    if array.size == 0:
        raise DataError(f"{name} must not be empty, got shape {array.shape}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in _IMAGE_CHANNELS and array.shape[1] not in _IMAGE_CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    if array.dtype == np.uint8 and array.ndim == 4:
        return np.array(array, order="C")
    with np.errstate(over="ignore"):  # reported below, with the row
        numbers = np.array(array, dtype=np.float32, order="C")
    finite = np.isfinite(numbers)
    if not finite.all():
        first = tuple(int(index[0]) for index in np.nonzero(~finite))
        raise DataError(
            f"{name} must be finite numbers within float32, got {array[first]} in row {first[0]}; "
            "fill in, rescale or drop such rows"
        )
    if precise and array.ndim == 2 and _varies_too_little(array):
        return np.array(array, dtype=np.float64, order="C")
    return numbers


def _varies_too_little(table: np.ndarray) -> bool:
    """Whether rounding to single precision would blur a column, as it does timestamps."""
    if table.dtype.itemsize < 8:
        return False
    exact = table.astype(np.float64)
    spread = exact.std(axis=0)
    rounding = np.abs(exact).max(axis=0) * np.finfo(np.float32).eps / 2
    return bool((rounding > HARMLESS_ROUNDING * spread)[spread > 0].any())


def npz_members(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file by their names."""
    with open_npz(path) as archive:
        return {name: archive.read(name) for name in archive.names}


def npz_arrays(
    path: Path,
    required: tuple[str, ...],
    keys: tuple[str, ...] = ("x", "y", "x_test", "y_test"),
) -> dict[str, np.ndarray | None]:
    """Some arrays of an .npz file.

    Parameters
    ----------
    path
        The file.
    required
        Arrays that it must have.
    keys
        Arrays to read; None if the file does not have the array.

    Raises
    ------
    DataError
        If the file cannot be read, or lacks a required array.
    """
    with open_npz(path) as archive:
        for key in required:
            if key not in archive.names:
                held = ", ".join(archive.names[:20]) or "none"
                raise DataError(f"{path}: lacks the array {key}; the arrays it holds: {held}", path=path)
        arrays = {key: archive.read(key) if key in archive.names else None for key in keys}
    return arrays | {key: _plain_labels(path, arrays[key]) for key in keys if key.startswith("y")}


def _plain_labels(path: Path, labels: np.ndarray | None) -> np.ndarray | None:
    """Labels of a file in plain types: bytes become text, and whole numbers become integers."""
    if labels is None:
        return None
    if labels.dtype.kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: labels that are bytes must be text in UTF-8 ({error})") from None
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.floor(labels)).all():
        exact = np.abs(labels).max(initial=0) <= 2.0 ** np.finfo(labels.dtype).nmant
        return labels.astype(np.int64) if exact else labels
    return labels
