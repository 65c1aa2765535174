"""A user's table or .npz file as numpy arrays, for models that need no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from trevision.data.dataset import Dataset, SourceRows
from trevision.data.files.answers import open_source, with_answers
from trevision.data.files.array_dataset import read_npz, read_npz_rows
from trevision.data.files.image_lists import path_column
from trevision.data.files.preprocessing import Preprocessing
from trevision.data.files.reading import Reading
from trevision.data.files.table_dataset import read_table, read_table_rows, transformed
from trevision.data.files.tables import open_table
from trevision.data.progress import Progress
from trevision.data.read_labels import kind_of_source
from trevision.files import DataError


def holds_rows(source: str | Path, reading: Reading) -> bool:
    """Whether a source is a table with columns to learn from, and not images or arrays."""
    if kind_of_source(source) != "table":
        return False
    reading.check("table", str(source))
    table, reading, _ = open_source(source, reading)
    return path_column(table, reading) is None


def load_arrays(source: str, reading: Reading, progress: Progress | None = None) -> Dataset:
    """The table or the two-dimensional arrays at the path `source`.

    Raises
    ------
    DataError
        If it cannot be read, or holds images.
    """
    kind = kind_of_source(source)
    reading.check(kind, source)
    if kind == "npz":
        dataset = read_npz(Path(source), reading.clean_source, reading.labels_as_written)
        if dataset.train_x.ndim == 2:
            return dataset
    elif kind == "table":
        table, reading, given = open_source(source, reading)
        if path_column(table, reading) is None:
            return with_answers(read_table(table, reading, progress), given)
    raise DataError(
        f"model must be network for images, and {source} holds images; boosting, forest, linear and auto are "
        "for tables, texts and two-dimensional arrays"
    )


def load_words(source: str, reading: Reading, dataset: Dataset, progress: Progress | None = None) -> Any:
    """The rows of a table that was read as `dataset`, with texts as weights of words: a sparse matrix.

    Trusted rows come last.
    """
    assert dataset.preprocessing is not None
    assert dataset.row_numbers is not None
    parts = [(open_source(source, reading)[0], dataset.row_numbers)]
    if dataset.trusted_row_numbers is not None:
        where = parts[0][0] if reading.clean_source is None else open_table(reading.clean_source)
        parts.append((where, dataset.trusted_row_numbers))
    found = []
    for table, numbers in parts:
        target_rows = np.full(numbers.max() + 1, -1)
        target_rows[numbers] = np.arange(len(numbers))
        found.append(transformed(table, dataset.preprocessing, target_rows, progress, words=True)[0])
    return found[0] if len(found) == 1 else sparse.vstack(found, format="csr")


def load_array_rows(
    source: str | Path,
    reading: Reading,
    preprocessing: Preprocessing | None,
    words: bool = False,
    progress: Progress | None = None,
) -> SourceRows:
    """The rows of `source` to predict: all of a table, x_test or else x of an .npz file.

    Parameters
    ----------
    source, reading, progress
        As for `load_rows`.
    preprocessing
        That of the training table; None if the model learnt from an .npz file.
    words
        Whether the model takes texts as weights of words.

    Raises
    ------
    DataError
        If the source cannot be read, or is of another kind than the training rows.
    """
    kind = kind_of_source(source)
    if kind == "npz":
        return SourceRows(*read_npz_rows(source))
    if kind == "table" and preprocessing is not None:
        return read_table_rows(open_table(source), reading, preprocessing, progress, words)
    learnt = "an .npz file" if preprocessing is None else "a table"
    raise DataError(f"{source} must hold rows as the run learnt from, those of {learnt}")
