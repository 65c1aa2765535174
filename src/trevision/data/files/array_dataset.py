"""The user's arrays and .npz files as data sets of numpy arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.data.dataset import Dataset
from trevision.data.files import spelling, targets
from trevision.data.files.arrays import (
    codes_in,
    encode_labels,
    feature_array,
    label_array,
    name_of,
    npz_arrays,
)
from trevision.files import DataError

if TYPE_CHECKING:
    from torch import Tensor


def features(x: Any, name: str = "x", precise: bool = False) -> Tensor:
    """`x` copied into a tensor; see `feature_array`."""
    import torch

    return torch.from_numpy(feature_array(x, name, precise))


def _same_length(x: np.ndarray, codes: np.ndarray, x_name: str, y_name: str) -> None:
    if len(x) != len(codes):
        raise DataError(
            f"{x_name} and {y_name} must have the same number of rows, got {len(x)} and {len(codes)}"
        )


def from_arrays(x: Any, y: Any, test_x: Any = None, test_y: Any = None, name: str = "arrays") -> Dataset:
    """A data set copied from arrays, tensors, lists or data frames.

    Parameters
    ----------
    x, y
        Training rows and their labels; see `feature_array` and `encode_labels`.
    test_x, test_y
        Test rows and their clean labels: both, or neither.
    name
        The name of the data set.

    Raises
    ------
    DataError
        If the arrays do not fit each other, or hold something that is no number or label.
    """
    return _from_parts(name, {"x": x, "y": y}, {"test_x": test_x, "test_y": test_y})


def _from_parts(name: str, train: dict[str, Any], test: dict[str, Any]) -> Dataset:
    """A data set from rows and labels, by the names that errors should mention."""
    (x_name, x), (y_name, y) = train.items()
    train_x = feature_array(x, x_name)
    classes, codes = encode_labels(y, y_name)
    _same_length(train_x, codes, x_name, y_name)
    given = [key for key, value in test.items() if value is not None]
    if len(given) == 1:
        raise DataError(f"{' and '.join(test)} go together, got only {given[0]}")
    rows: np.ndarray | None = None
    labels: np.ndarray | None = None
    if given:
        (rows_name, test_x), (labels_name, test_y) = test.items()
        rows, labels = feature_array(test_x, rows_name), codes_in(test_y, classes, labels_name)
        _same_length(rows, labels, rows_name, labels_name)
        if rows.shape[1:] != train_x.shape[1:] or rows.dtype != train_x.dtype:
            raise DataError(
                f"{rows_name} must have rows like those of {x_name}, {tuple(train_x.shape[1:])} of "
                f"{train_x.dtype}, got {tuple(rows.shape[1:])} of {rows.dtype}"
            )
    return Dataset(
        name=name,
        train_x=train_x,
        train_y=codes,
        test_x=rows,
        test_y=labels,
        class_names=tuple(name_of(label) for label in classes),
        classes=classes,
    )


def read_npz(
    path: Path | str, clean_source: Path | str | None = None, labels_as_written: bool = False
) -> Dataset:
    """A data set from an .npz file with the arrays x and y and, optionally, x_test and y_test.

    `clean_source` is a second .npz file whose x and y are trusted: rows with labels known to be right.
    Spellings of one class are one class, unless `labels_as_written`.
    """
    path = Path(path).expanduser()
    arrays = npz_arrays(path, required=("x", "y"))
    notes: tuple[str, ...] = ()
    try:
        if not labels_as_written:
            arrays["y"], notes = one_spelling(arrays["y"])
            arrays["y_test"] = spelt_as(arrays["y_test"], arrays["y"])
        train, test = ({key: arrays[key] for key in keys} for keys in (("x", "y"), ("x_test", "y_test")))
        dataset = replace(_from_parts(path.stem, train, test), notes=notes)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return (
        dataset
        if clean_source is None
        else _with_trusted(dataset, Path(clean_source).expanduser(), labels_as_written)
    )


def one_spelling(labels: Any) -> tuple[Any, tuple[str, ...]]:
    """The labels of a file with one spelling a class, and notes; as in a table, for `class_column`.

    Raises a DataError for labels that are no classes.
    """
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iuU":
        return labels, ()  # nothing to spell, or refused later
    values, codes, numbers = np.unique(labels, return_inverse=True, return_counts=True)
    counts, names = numbers.tolist(), [str(value) for value in values]
    targets.check(names, counts, "the array y")
    if labels.dtype.kind != "U":
        return labels, ()
    new_codes, kept, merged = spelling.merge(names, counts)
    notes: tuple[str, ...] = (spelling.note_of(merged),) if merged else ()
    rows = dict(zip(kept, np.bincount(new_codes[codes]).tolist(), strict=True))
    if alike := spelling.nearly_alike(kept, list(rows.values())):
        notes += (spelling.hint_of(alike, rows),)
    return (np.array(kept)[new_codes[codes]] if merged else labels), notes


def spelt_as(labels: Any, others: Any) -> Any:
    """Labels that are spelt as their classes among `others`; those of no such class stay as they are."""
    if not all(isinstance(each, np.ndarray) and each.dtype.kind == "U" for each in (labels, others)):
        return labels
    names, codes = np.unique(labels, return_inverse=True)
    classes = np.unique(others)
    code_of = spelling.codes_by_spelling(names.tolist(), classes.tolist())
    spelt = [name if code < 0 else classes[code] for name, code in zip(names, code_of, strict=True)]
    return np.array(spelt)[codes.reshape(labels.shape)]


def _with_trusted(dataset: Dataset, path: Path, labels_as_written: bool) -> Dataset:
    if path.suffix.lower() != ".npz":
        raise DataError(f"clean_source must be an .npz file as the source is, got {path}")
    arrays = npz_arrays(path, required=("x", "y"))
    try:
        y = arrays["y"] if labels_as_written else spelt_as(arrays["y"], dataset.class_values)
        x, codes = feature_array(arrays["x"]), codes_in(y, dataset.class_values)
        _same_length(x, codes, "x", "y")
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if x.shape[1:] != dataset.train_x.shape[1:]:
        raise DataError(
            f"{path}: must have rows of shape {tuple(dataset.train_x.shape[1:])}, as the source has, "
            f"got {tuple(x.shape[1:])}"
        )
    return replace(dataset, trusted_x=x, trusted_y=codes)


def read_npz_rows(path: Path | str) -> tuple[np.ndarray, np.ndarray | None]:
    """The rows of an .npz file to predict, x_test or else x, with their labels if there are any."""
    path = Path(path).expanduser()
    arrays = npz_arrays(path, required=())
    x_name, y_name = ("x", "y") if arrays["x_test"] is None else ("x_test", "y_test")
    if arrays[x_name] is None:
        raise DataError(f"{path}: lacks the array x")
    try:
        x = feature_array(arrays[x_name], x_name)
        labels = None if arrays[y_name] is None else label_array(arrays[y_name], y_name)
        if labels is not None:
            _same_length(x, labels, x_name, y_name)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return x, labels
