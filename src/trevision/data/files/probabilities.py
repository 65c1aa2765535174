"""Probabilities and labels from an .npz, .npy, .csv or .parquet file, which may be larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.data.files.arrays import encode_labels, name_of
from trevision.data.files.mapped import MappedRows, map_npy, map_npz_member
from trevision.data.files.reading import TABLE_SUFFIXES
from trevision.data.progress import Progress
from trevision.files import DataError
from trevision.npy import open_npz

# The names that arrays of an .npz file may have: ours, scikit-learn's and cleanlab's words among them.
PROBS_NAMES = ("probs", "noisy_probs", "pred_probs", "probabilities", "y_proba", "proba")
LABELS_NAMES = ("labels", "noisy_labels", "given_labels", "y", "y_noisy")
CLASSES_NAMES = ("classes", "class_names")


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Probabilities (n, C) on disk, each row's label as the number of its column, and column names."""

    probs: MappedRows
    labels: np.ndarray
    class_names: tuple[str, ...]


@contextmanager
def open_probabilities(
    path: Path,
    labels: Path | None = None,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Probabilities]:
    """Open the probabilities and labels in a file, as a context manager.

    Data that cannot be mapped in the file is first copied, in pieces, to a temporary file.

    Parameters
    ----------
    path
        An .npz file with both (`PROBS_NAMES`, `LABELS_NAMES`, optionally `CLASSES_NAMES`); an .npy file of
        probabilities; or a .csv or .parquet file with a label column and one probability column per class.
    labels
        The .npy file of labels that goes with an .npy file.
    label_column, ignore
        Of a table: the column of labels, and columns that are neither labels nor probabilities.
    progress
        Called with the progress of copying.

    Raises
    ------
    DataError
        If the file cannot be read, or labels and probabilities do not fit.
    """
    suffix = path.suffix.lower()
    if (labels is not None) != (suffix == ".npy"):
        raise DataError(
            f"{path}: an .npy file of probabilities goes with --labels, another .npy file, and other files "
            "hold their labels themselves"
        )
    if suffix not in TABLE_SUFFIXES and (label_column is not None or ignore):
        raise DataError(
            f"{path}: has no columns to name; --label-column and --ignore are for .csv and .parquet"
        )
    if not path.is_file():
        lacking = "must be a file, but is a folder" if path.is_dir() else "there is no such file"
        raise DataError(f"{path}: {lacking}")
    with tempfile.TemporaryDirectory(prefix="trevision-") as name:
        scratch = Path(name)
        if suffix == ".npz":
            yield _from_npz(path, scratch, progress)
        elif labels is not None:
            yield _matched(path, map_npy(path), map_npy(labels)[:], None)
        elif suffix in TABLE_SUFFIXES:
            from trevision.data.files.probability_tables import read_table  # pyarrow, for tables only

            table = read_table(path, scratch, label_column, ignore, progress)
            if len(table.values) < 2:
                raise DataError(f"{path}: labels must hold two classes, got only {table.values[0]!r}")
            columns = _columns(path, table.values, table.codes, table.class_names, len(table.class_names))
            yield Probabilities(table.probs, columns[table.codes], table.class_names)
        else:
            raise DataError(f"{path}: must be an .npz, .npy, .csv or .parquet file")


def _from_npz(path: Path, scratch: Path, progress: Progress | None) -> Probabilities:
    with open_npz(path) as archive:
        held = archive.names
    probs = map_npz_member(path, _held(path, held, PROBS_NAMES), scratch, progress)
    labels = map_npz_member(path, _held(path, held, LABELS_NAMES), scratch)[:]
    classes = next((map_npz_member(path, key, scratch)[:] for key in CLASSES_NAMES if key in held), None)
    return _matched(path, probs, labels, classes)


def _held(path: Path, held: list[str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in held:
            return name
    raise DataError(
        f"{path}: lacks an array {names[0]} (or {', '.join(names[1:])}); the arrays it holds: "
        f"{', '.join(held[:20]) or 'none'}"
    )


def _matched(path: Path, probs: MappedRows, labels: np.ndarray, classes: Any) -> Probabilities:
    if len(probs.shape) != 2:
        raise DataError(f"{path}: probabilities must be (n, C), a column a class, got shape {probs.shape}")
    size = probs.shape[1]
    names = None if classes is None else tuple(name_of(label) for label in np.ravel(classes))
    if names is not None and len(set(names)) < len(names):
        raise DataError(f"{path}: must name each class once, got {', '.join(names[:10])}")
    if names is not None and len(names) != size:
        raise DataError(f"{path}: names {len(names)} classes, but its probabilities have {size} columns")
    try:
        values, codes = encode_labels(labels, "labels")
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    texts = [name_of(int(value) if values.dtype.kind == "f" else value) for value in values]
    if names is None:
        # If there are as many label values as columns, the columns belong to them in ascending order, as in
        # scikit-learn's `classes_`. Otherwise labels are column numbers.
        names = tuple(texts) if len(texts) == size else tuple(map(str, range(size)))
    return Probabilities(probs, _columns(path, texts, codes, names, size)[codes], names)


def _columns(
    path: Path, values: Sequence[str], codes: np.ndarray, names: Sequence[str], size: int
) -> np.ndarray:
    """The column number of each label: by its name or, if it is a whole number, the label itself."""
    column_of = {name: column for column, name in enumerate(names)}
    if not all(value in column_of for value in values) and all(value.isdecimal() for value in values):
        column_of = {str(column): column for column in range(size)}
    for code, value in enumerate(values):
        if value not in column_of:
            row = int(np.flatnonzero(codes == code)[0])
            shown = ", ".join(list(column_of)[:10]) + (", ..." if len(column_of) > 10 else "")
            raise DataError(
                f"{path}: the label {value!r} in row {row} must be one of the {size} classes that have "
                f"probabilities, {shown}"
            )
    return np.array([column_of[value] for value in values], dtype=np.int64)
