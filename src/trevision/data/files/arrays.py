"""Anyone's arrays as a data set: features and labels checked once, at the door."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trevision.data.dataset import Dataset
from trevision.files import DataError

_IMAGE_CHANNELS = (1, 3)


def _as_array(values: Any, name: str, **options: Any) -> np.ndarray:
    if isinstance(values, Tensor):
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


def _label_array(y: Any, name: str) -> np.ndarray:
    """`y` as a 1-D array of booleans, integers, whole floats, bytes or strings; anything else is refused."""
    # A list goes through object, or numpy would quietly turn [1, "a"] into two strings.
    labels = _as_array(y, name, **({"dtype": object} if isinstance(y, list | tuple) else {}))
    if labels.ndim != 1:
        repair = "; call its .ravel()" if labels.ndim == 2 and labels.shape[1] == 1 else ""
        raise DataError(f"{name} must be one label a row, shape (n,), got shape {labels.shape}{repair}")
    if len(labels) == 0:
        raise DataError(f"{name} must hold at least one label, got none")
    if labels.dtype.kind in "OT":
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
    """Python objects as the one plain dtype they all share."""
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
            # Whole numbers beyond 64 bits stay objects, or become floats that merge neighbours.
            if dtype is None and narrowed.dtype.kind not in "iu":
                raise DataError(f"{name} must be integers of at most 64 bits; write longer ones as strings")
            return narrowed
    found = sorted({type(label).__name__ for label in labels})
    raise DataError(f"{name} must be all integers, all strings or all booleans, got {', '.join(found)}")


def encode_labels(y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Number the label values: returns the sorted distinct `classes`, and int64 `codes` into them.

    classes[codes] equals y. Integers, strings, booleans and whole floats are labels; missing values,
    fractions, mixtures and a single class are errors.
    """
    classes, codes = np.unique(_label_array(y, name), return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"{name} must hold at least two classes, got only the class {name_of(classes[0])!r}")
    return classes, codes.astype(np.int64).reshape(-1)


def codes_in(y: Any, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """The int64 codes of labels among the sorted `classes`; a label that is not one of them is an error."""
    labels = _label_array(y, name)
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


def features(x: Any, name: str = "x") -> Tensor:
    """`x` copied into a tensor: a float32 table, or uint8 or float32 images (n, channels, height, width).

    (n, features) is a table. (n, height, width) are grey images; (n, height, width, channels) is recognised
    by 1 or 3 channels at the end and another length in second place. Only uint8 images keep their dtype.
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
        return torch.from_numpy(np.array(array, order="C"))
    with np.errstate(over="ignore"):  # reported below, with the row
        numbers = np.array(array, dtype=np.float32, order="C")
    finite = np.isfinite(numbers)
    if not finite.all():
        place = tuple(int(index[0]) for index in np.nonzero(~finite))
        raise DataError(
            f"{name} must be finite numbers within float32, got {array[place]} in row {place[0]}; "
            "fill in, rescale or drop such rows"
        )
    return torch.from_numpy(numbers)


def _same_length(x: Tensor, codes: np.ndarray, x_name: str, y_name: str) -> None:
    if len(x) != len(codes):
        raise DataError(
            f"{x_name} and {y_name} must have the same number of rows, got {len(x)} and {len(codes)}"
        )


def from_arrays(x: Any, y: Any, test_x: Any = None, test_y: Any = None, name: str = "arrays") -> Dataset:
    """A data set copied from anyone's arrays, tensors, lists or frames; see `features`, `encode_labels`."""
    return _from_parts(name, {"x": x, "y": y}, {"test_x": test_x, "test_y": test_y})


def _from_parts(name: str, train: dict[str, Any], test: dict[str, Any]) -> Dataset:
    """A data set from rows and labels, each part under the names that its errors are to mention."""
    (x_name, x), (y_name, y) = train.items()
    train_x = features(x, x_name)
    classes, codes = encode_labels(y, y_name)
    _same_length(train_x, codes, x_name, y_name)
    given = [key for key, value in test.items() if value is not None]
    if len(given) == 1:
        raise DataError(f"{' and '.join(test)} go together, got only {given[0]}")
    rows: Tensor | None = None
    labels: Tensor | None = None
    if given:
        (rows_name, test_x), (labels_name, test_y) = test.items()
        rows, test_codes = features(test_x, rows_name), codes_in(test_y, classes, labels_name)
        _same_length(rows, test_codes, rows_name, labels_name)
        if rows.shape[1:] != train_x.shape[1:] or rows.dtype != train_x.dtype:
            raise DataError(
                f"{rows_name} must have rows like those of {x_name}, {tuple(train_x.shape[1:])} of "
                f"{train_x.dtype}, got {tuple(rows.shape[1:])} of {rows.dtype}"
            )
        labels = torch.from_numpy(test_codes)
    return Dataset(
        name=name,
        train_x=train_x,
        train_y=torch.from_numpy(codes),
        test_x=rows,
        test_y=labels,
        class_names=tuple(name_of(label) for label in classes),
        classes=classes,
    )


def read_npz(path: Path | str, clean_source: Path | str | None = None) -> Dataset:
    """A data set from an .npz file with the arrays x and y and, optionally, x_test and y_test.

    `clean_source` is a second .npz file whose x and y are trusted: rows with labels known to be right.
    """
    path = Path(path).expanduser()
    arrays = _npz_arrays(path, required=("x", "y"))
    try:
        train, test = ({key: arrays[key] for key in keys} for keys in (("x", "y"), ("x_test", "y_test")))
        dataset = _from_parts(path.stem, train, test)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return dataset if clean_source is None else _with_trusted(dataset, Path(clean_source).expanduser())


def _with_trusted(dataset: Dataset, path: Path) -> Dataset:
    if path.suffix.lower() != ".npz":
        raise DataError(f"clean_source must be an .npz file as the source is, got {path}")
    arrays = _npz_arrays(path, required=("x", "y"))
    try:
        x, codes = features(arrays["x"]), codes_in(arrays["y"], dataset.class_values)
        _same_length(x, codes, "x", "y")
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if x.shape[1:] != dataset.train_x.shape[1:]:
        raise DataError(
            f"{path}: must have rows of shape {tuple(dataset.train_x.shape[1:])}, as the source has, "
            f"got {tuple(x.shape[1:])}"
        )
    return replace(dataset, trusted_x=x, trusted_y=torch.from_numpy(codes))


def read_npz_rows(path: Path | str) -> tuple[Tensor, np.ndarray | None]:
    """The rows of an .npz file to predict, x_test if it has one and else x, with their labels if any."""
    path = Path(path).expanduser()
    arrays = _npz_arrays(path, required=())
    x_name, y_name = ("x", "y") if arrays["x_test"] is None else ("x_test", "y_test")
    if arrays[x_name] is None:
        raise DataError(f"{path}: lacks the array x")
    try:
        x = features(arrays[x_name], x_name)
        labels = None if arrays[y_name] is None else _label_array(arrays[y_name], y_name)
        if labels is not None:
            _same_length(x, labels, x_name, y_name)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return x, labels


def npz_members(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file by their names."""
    with _npz_archive(path) as archive:
        return {key: array for key in archive.files if (array := _member(path, archive, key)) is not None}


def _npz_arrays(path: Path, required: tuple[str, ...]) -> dict[str, np.ndarray | None]:
    """The four arrays an .npz file may have, None where it lacks one that is not `required`."""
    with _npz_archive(path) as archive:
        held = ", ".join(archive.files) or "none"
        for key in required:
            if key not in archive.files:
                raise DataError(f"{path}: lacks the array {key}; the arrays it holds: {held}")
        found = {key: _member(path, archive, key) for key in ("x", "y", "x_test", "y_test")}
    return found | {key: _plain_labels(path, found[key]) for key in ("y", "y_test")}


def _plain_labels(path: Path, labels: np.ndarray | None) -> np.ndarray | None:
    """Labels of a file by what they mean: bytes are text, and whole numbers are integers however stored."""
    if not isinstance(labels, np.ndarray):  # none, or a member of the archive that is no array
        return labels
    if labels.dtype.kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: labels that are bytes must be text in UTF-8 ({error})") from None
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.floor(labels)).all():
        exact = np.abs(labels).max(initial=0) <= 2.0 ** np.finfo(labels.dtype).nmant
        return labels.astype(np.int64) if exact else labels
    return labels


@contextmanager
def _npz_archive(path: Path) -> Iterator[Any]:
    """An .npz file, open; whatever goes wrong while it is becomes one line about it."""
    try:
        # The file is opened here because numpy leaves it open when it turns out to be corrupt.
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: is one array, not an .npz; write it with np.savez(path, x=x, y=y)")
            yield archive
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except DataError:
        raise
    # RuntimeError: an encrypted zip, or one packed in a way zipfile does not know.
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: is not an .npz file, or a corrupt one ({error})") from error


def _member(path: Path, archive: Any, key: str) -> np.ndarray | None:
    if key not in archive.files:
        return None
    try:
        member: np.ndarray = archive[key]
        return member
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        # Object arrays are pickles, and a pickle runs code.
        repair = "y.astype(str)" if key.startswith("y") else "x.astype(float)"
        raise DataError(
            f"{path}: the array {key} holds Python objects, which are not loaded; save {repair}"
        ) from error
