"""Tables of probabilities, .csv or .parquet, copied in batches into one binary file of float32."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from trevision.data.files.columns import plain
from trevision.data.files.mapped import MappedRows
from trevision.data.files.parquet_files import open_parquet, parquet_blocks
from trevision.data.files.tables import Table, csv_blocks, open_table, with_progress
from trevision.data.progress import Progress
from trevision.files import DataError

LABEL_COLUMNS = ("label", "labels", "noisy_label", "given_label", "given", "noisy", "y", "target", "class")
PREFIXES = ("p_", "prob_", "proba_", "pred_")
NUMBERS_AT_ONCE = 2**21


@dataclass(frozen=True, eq=False)
class ProbabilityTable:
    """The probabilities, and labels as `codes` into their distinct `values`; columns in the file's order."""

    probs: MappedRows
    values: tuple[str, ...]
    codes: np.ndarray
    class_names: tuple[str, ...]


def read_table(
    path: Path, scratch: Path, label_column: str | None, ignore: Sequence[str], progress: Progress | None
) -> ProbabilityTable:
    """Copy a table's probabilities into one binary file, and read its labels.

    The columns named P(...) are the probabilities, if there are any; else all other columns are. A class is
    named by its column, without P() or a prefix that all columns share (`PREFIXES`).

    Parameters
    ----------
    path
        The table.
    scratch
        The folder to copy into.
    label_column
        The column of labels; if not given, the first one named in `LABEL_COLUMNS`.
    ignore
        Columns that are neither labels nor probabilities.
    progress
        Called with the progress of copying.

    Raises
    ------
    DataError
        If the table has no labels or no probabilities, or cannot be read.
    """
    table = open_table(path)
    label, columns = _roles(path, table.header, label_column, ignore)
    batches = (_csv_batches if table.schema is None else _parquet_batches)(table, label, columns, progress)
    seen: dict[str, int] = {}
    codes: list[np.ndarray] = []
    rows = 0
    target = scratch / "probabilities"
    try:
        with target.open("wb") as file:
            for batch in batches:
                codes.append(_label_codes(path, batch.column(0), seen, rows))
                probs = [_floats(path, name, batch.column(name)) for name in columns]
                np.stack(probs, axis=1).tofile(file)
                rows += batch.num_rows
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    if not rows:
        raise DataError(f"{path}: has no rows below its header")
    mapped = MappedRows(target, 0, (rows, len(columns)), np.dtype(np.float32))
    return ProbabilityTable(mapped, tuple(seen), np.concatenate(codes), _class_names(columns))


def _roles(
    path: Path, header: list[str], label_column: str | None, ignore: Sequence[str]
) -> tuple[str, list[str]]:
    """The label column and the columns of probabilities."""
    listed = ", ".join(header[:10]) + (", ..." if len(header) > 10 else "")
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{path}: has two columns named {twice!r}; columns must have names of their own")
    for name in (*ignore, *([] if label_column is None else [label_column])):
        if name not in header:
            raise DataError(f"{path}: has no column {name!r}; its columns: {listed}")
    label = label_column or next((name for name in header if name.lower() in LABEL_COLUMNS), None)
    if label is None:
        raise DataError(f"{path}: name the column of labels with --label-column; its columns: {listed}")
    columns = [name for name in header if name != label and name not in ignore]
    marked = [name for name in columns if re.fullmatch(r"P\(.*\)", name)]
    columns = marked or columns
    if len(columns) < 2:
        raise DataError(f"{path}: must have columns of probabilities for at least 2 classes: {listed}")
    return label, columns


def _class_names(columns: Sequence[str]) -> tuple[str, ...]:
    if all(re.fullmatch(r"P\(.*\)", name) for name in columns):
        return tuple(name[2:-1] for name in columns)
    for prefix in PREFIXES:
        if all(name.startswith(prefix) and name != prefix for name in columns):
            return tuple(name.removeprefix(prefix) for name in columns)
    return tuple(columns)


def _csv_batches(table: Table, label: str, columns: list[str], progress: Progress | None) -> Iterator[Any]:
    form = table.form
    assert form is not None
    types = {label: pa.string(), **dict.fromkeys(columns, pa.float32())}
    point = "."
    if form.delimiter != ",":
        first = table.first_block().slice(0, 1).select(columns).to_pylist()
        point = "," if any("," in (value or "") for row in first for value in row.values()) else "."
    blocks = csv_blocks(table.path, form, table.columns, types, decimal_point=point)
    yield from with_progress(blocks, progress)


def _parquet_batches(
    table: Table, label: str, columns: list[str], progress: Progress | None
) -> Iterator[Any]:
    # These options give every column its own buffer; else one large row group would be read as a whole.
    with open_parquet(table.path) as file:
        rows = file.metadata.num_rows
    step = max(1, NUMBERS_AT_ONCE // len(columns))
    done = 0
    for batch in parquet_blocks(table.path, step, [label, *columns], buffer_size=2**16, pre_buffer=False):
        yield batch
        done += batch.num_rows
        if progress is not None:
            progress(done, rows)


def _floats(path: Path, name: str, column: Any) -> np.ndarray:
    try:
        # A missing value becomes NaN and is reported, with its row, when rows are checked.
        numbers: np.ndarray = column.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise DataError(
            f"{path}: column {name!r} must hold probabilities, got {column.type}; name a column that is none "
            "with --ignore"
        ) from error
    return numbers


def _label_codes(path: Path, column: Any, seen: dict[str, int], first: int) -> np.ndarray:
    """Codes of a batch's labels into `seen`, which new labels extend."""
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{path}: must have a label in every row, got none in row {row}; drop such rows")
    column = plain(column)
    if pa.types.is_string(column.type):
        column = pa.compute.utf8_trim_whitespace(column)
    encoded = column.dictionary_encode()
    texts = [_text(value) for value in encoded.dictionary.to_pylist()]
    codes = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int64)
    return codes[encoded.indices.to_numpy(zero_copy_only=False)]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
