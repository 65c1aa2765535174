"""Data sets of other libraries, read once into arrays: Hugging Face's, and torch's with their loaders.

They are known by what they can do: neither library is imported to look for it. A data set is read in batches
before any training; what is learnt from are arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS_AT_ONCE = 1000

Columns = str | Sequence[str] | None


def read_labelled(
    x: Any, y: Any, columns: Columns = None, *, numeric: bool, names: tuple[str, str] = ("X", "y")
) -> tuple[Any, Any, Columns]:
    """Rows and labels as arrays or frames, if `x` is a data set of another library; else as they are.

    Parameters
    ----------
    x
        Anything. A Hugging Face data set has columns; of a torch data set or loader, each sample is a pair of
        a row and its label.
    y
        The labels, or the name of their column. None: the samples hold them.
    columns
        The columns to learn from. A name gives the values of that column, several names give a table. None:
        all but that of the labels.
    numeric
        Whether rows must be numbers. Columns of something else are then left out, with a warning, unless they
        were named, and data sets of torch are read too.
    names
        What x and y are called in errors.

    Returns
    -------
    x, y, columns
        `columns` are those that were read; None if there are none.

    Raises
    ------
    ValueError, TypeError
        If the data set cannot be read, or its labels are missing or given twice.
    """
    if has_columns(x):
        return _read_table(x, y, columns, numeric, names)
    if columns is not None:
        raise ValueError(
            f"columns are those of a Hugging Face data set, got {type(x).__name__} as {names[0]}; "
            "leave them out"
        )
    if not numeric or not _has_samples(x):
        return x, y, None
    rows, labels = _read_samples(x, names[0])
    if y is None and labels is None:
        raise ValueError(
            f"{names[0]} must give pairs of a row and its label, got rows alone; pass {names[1]} too"
        )
    if y is not None and labels is not None:
        raise ValueError(f"{names[1]} must be left out, since every sample of {names[0]} has a label")
    return rows, labels if y is None else y, None


def read_rows(x: Any, columns: Columns, *, numeric: bool, name: str = "X") -> Any:
    """Rows to predict, as arrays; labels in the data set are not read.

    Parameters
    ----------
    x
        Anything.
    columns
        The columns that `read_labelled` read in `fit`; None if there were none.
    numeric
        As for `read_labelled`.
    name
        What x is called in errors.
    """
    if has_columns(x):
        if columns is None:
            raise ValueError(
                f"{name} has columns ({', '.join(x.column_names)}), but fit was given none; pass an array"
            )
        return _table(x, columns, name)[0]
    return _read_samples(x, name)[0] if numeric and _has_samples(x) else x


class ScoresDataSets:
    """Gives a classifier of scikit-learn a `score` that takes what its `fit` takes."""

    _numeric_rows = True
    dataset_columns_: Columns

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of labels that are predicted.

        Parameters
        ----------
        X : array-like or data set
            Rows as in `fit`.
        y : array-like of shape (n,), or str
            Their labels, as in `fit`.
        sample_weight : array-like of shape (n,), optional
            How often each row counts.

        Returns
        -------
        float
        """
        columns = getattr(self, "dataset_columns_", None) if has_columns(X) else None
        X, y, _ = read_labelled(X, y, columns, numeric=self._numeric_rows)
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


def has_columns(x: Any) -> bool:
    """Whether this is a data set of Hugging Face."""
    if isinstance(x, Mapping) and hasattr(x, "with_format"):
        parts = ", ".join(map(str, x))
        raise TypeError(f"X must be one data set, got {len(x)} ({parts}); write data[{next(iter(x), '')!r}]")
    if not all(hasattr(x, name) for name in ("column_names", "features", "with_format")):
        return False
    if not hasattr(x, "__len__"):
        raise TypeError("X must have a length, got a streamed data set; load it without streaming=True")
    return True


def _has_samples(x: Any) -> bool:
    """Whether this is a data set of torch, or a loader of one."""
    if _is_loader(x):
        return True
    if isinstance(x, str | bytes | Sequence | Mapping) or any(
        hasattr(x, name) for name in ("shape", "dtype", "__array__", "__array_interface__", "__dataframe__")
    ):
        return False
    if isinstance(x, Iterable) and not hasattr(x, "__len__"):
        raise TypeError(
            f"X must have a length, got {type(x).__name__}, which only gives one sample after the other; "
            "collect its samples first"
        )
    return hasattr(x, "__len__") and hasattr(x, "__getitem__")


def _is_loader(x: Any) -> bool:
    return all(hasattr(x, name) for name in ("dataset", "batch_size", "sampler", "collate_fn"))


def _read_table(
    data: Any, y: Any, columns: Columns, numeric: bool, names: tuple[str, str]
) -> tuple[Any, Any, Columns]:
    if y is None:
        raise ValueError(
            f"{names[1]} must name the column of the labels, as in {names[1]}='label'; the columns are "
            f"{', '.join(data.column_names)}"
        )
    labels = y
    if isinstance(y, str):
        labels = _values(data, [y], names[1])[y]
        if columns is not None and y in ([columns] if isinstance(columns, str) else columns):
            raise ValueError(f"columns must not hold that of the labels, got {y!r} in both")
    if columns is None:
        columns = _usable(data, [name for name in data.column_names if name != y], numeric)
    rows, read = _table(data, columns, names[0])
    return rows, labels, read


def _usable(data: Any, columns: list[str], numeric: bool) -> Columns:
    """The columns that can be learnt from."""
    first = _values(data.select(range(min(len(data), ROWS_AT_ONCE))), columns, "X", ragged=True)
    kept = [name for name in columns if not numeric or first[name].dtype.kind in "biuf"]
    if not kept:
        raise ValueError(
            f"X must have a column of numbers beside the labels, got {', '.join(columns) or 'none'}; "
            "add one, for instance of embeddings"
        )
    if len(kept) < len(columns):
        left = ", ".join(name for name in columns if name not in kept)
        warnings.warn(
            f"columns that hold no numbers are left out: {left}; name the columns to learn from to be sure",
            UserWarning,
            stacklevel=5,
        )
    alone = len(kept) == 1 and (first[kept[0]].ndim > 1 or first[kept[0]].dtype.kind not in "biuf")
    return kept[0] if alone else kept


def _table(data: Any, columns: Columns, name: str) -> tuple[Any, Columns]:
    """The values of one column, or a table of several."""
    assert columns is not None
    if isinstance(columns, str):
        return _values(data, [columns], name)[columns], columns
    columns = list(columns)
    values = _values(data, columns, name)
    if all(each.ndim == 1 for each in values.values()):
        import pandas as pd

        return pd.DataFrame(values), columns
    for column, each in values.items():
        if each.ndim > 2 or each.dtype.kind not in "biuf":
            raise ValueError(
                f"columns must be numbers or rows of numbers to be put side by side, got {column!r} of shape "
                f"{each.shape[1:]} and type {each.dtype}; name it alone"
            )
    return np.column_stack(list(values.values())), columns


def _values(data: Any, columns: list[str], name: str, ragged: bool = False) -> dict[str, NDArray[Any]]:
    """The values of each column, read in batches."""
    lacking = [column for column in columns if column not in data.column_names]
    if lacking:
        raise ValueError(
            f"{name} must have the column {lacking[0]!r}, got the columns {', '.join(data.column_names)}"
        )
    double = [column for column in columns if _is_double(data.features[column])]
    single = [column for column in columns if column not in double]
    # Without a dtype, the library would round to single precision.
    exact = data.with_format("numpy", columns=double, dtype=np.float64)
    values = _read(exact, double, len(data), name, ragged)
    values |= _read(data.with_format("numpy", columns=single), single, len(data), name, ragged)
    return {column: values[column] for column in columns}


def _is_double(feature: Any) -> bool:
    while getattr(feature, "feature", None) is not None:
        feature = feature.feature
    return getattr(feature, "dtype", None) == "float64"


def _read(data: Any, columns: list[str], rows: int, name: str, ragged: bool) -> dict[str, NDArray[Any]]:
    values: dict[str, NDArray[Any]] = {}
    for first in range(0, rows if columns else 0, ROWS_AT_ONCE):
        batch = data[first : first + ROWS_AT_ONCE]
        for column in columns:
            part = np.asarray(batch[column])
            if part.dtype.kind == "O" and not ragged and isinstance(part.flat[0], np.ndarray | list):
                raise ValueError(f"{name} must have rows of one shape, got several in the column {column!r}")
            values[column] = _filled(
                values.get(column), part, first, rows, f"the column {column!r} of {name}"
            )
    return values


def _filled(whole: NDArray[Any] | None, part: NDArray[Any], first: int, rows: int, name: str) -> NDArray[Any]:
    """`whole` with `part` in its place, made at the first part."""
    kind = np.dtype(object) if part.dtype.kind in "OUS" else part.dtype
    if whole is None:
        whole = np.empty((rows, *part.shape[1:]), dtype=kind)
    elif whole.shape[1:] != part.shape[1:]:
        raise ValueError(
            f"{name} must have rows of one shape, got {whole.shape[1:]} and, from row {first} on, "
            f"{part.shape[1:]}"
        )
    elif whole.dtype != kind:
        # A missing value makes floats of integers.
        whole = whole.astype(np.result_type(whole.dtype, kind))
    whole[first : first + len(part)] = part
    return whole


def _read_samples(data: Any, name: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The rows and labels of a torch data set, or of a loader's, in the order of the data set."""
    from torch.utils.data import DataLoader

    options: dict[str, Any] = {"batch_size": ROWS_AT_ONCE}
    dataset = data
    if _is_loader(data):
        order = type(data.sampler).__name__
        if order not in ("SequentialSampler", "RandomSampler") or getattr(data.sampler, "replacement", False):
            raise ValueError(
                f"{name} must be a loader that gives every row once, got one with {order}; pass its data set"
            )
        dataset = data.dataset
        options = {
            "batch_size": data.batch_size or ROWS_AT_ONCE,
            "collate_fn": data.collate_fn,
            "num_workers": data.num_workers,
        }
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"{name} must have a length, got {type(dataset).__name__}; collect its samples first")
    rows: NDArray[Any] | None = None
    labels: list[NDArray[Any]] = []
    done = 0
    try:
        for batch in DataLoader(dataset, shuffle=False, **options):
            pair = batch if isinstance(batch, list | tuple) else (batch,)
            if len(pair) > 2 or isinstance(pair[0], Mapping):
                got = f"{len(pair)} parts" if len(pair) > 2 else f"{type(pair[0]).__name__} as a row"
                raise ValueError(f"{name} must give pairs of a row and its label, got {got}")
            part = _plain(pair[0])
            rows = _filled(rows, part, done, len(dataset), name)
            done += len(part)
            labels += [_plain(label) for label in pair[1:]]
    except (TypeError, RuntimeError) as error:
        # What torch cannot put into one batch: pictures that are no tensors yet, rows of several lengths.
        line = str(error).strip().splitlines()[0]
        raise TypeError(
            f"{name} must give samples that torch can put into batches, such as tensors of one shape ({line})"
        ) from error
    if rows is None:
        raise ValueError(f"{name} must hold samples, got none")
    return rows, np.concatenate(labels) if labels else None


def _plain(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
