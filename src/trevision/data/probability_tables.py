"""Tables of probabilities, .csv or .parquet, copied in batches into one binary file of float32."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.data.dataset import DataError
from trevision.data.download import Progress
from trevision.data.mapped import MappedRows

LABEL_COLUMNS = ("label", "labels", "noisy_label", "given_label", "given", "noisy", "y", "target", "class")
PREFIXES = ("p_", "prob_", "proba_", "pred_")
NUMBERS_AT_ONCE = 2**21
CSV_BLOCK = 2**24  # bytes, and so the longest row of a .csv file


@dataclass(frozen=True, eq=False)
class Table:
    """The probabilities, and labels as `codes` into their distinct `values`; columns in the file's order."""

    probs: MappedRows
    values: tuple[str, ...]
    codes: np.ndarray
    class_names: tuple[str, ...]


def read_table(
    path: Path, scratch: Path, label_column: str | None, ignore: Sequence[str], progress: Progress | None
) -> Table:
    """Copy a table's probabilities into a file in `scratch`, and read its labels.

    Where columns are named P(...), they are the probabilities; else all are but the label column and those
    of `ignore`. A class is named by its column, without P() or a prefix that all share (`PREFIXES`).
    """
    import pyarrow as pa

    is_csv = path.suffix.lower() == ".csv"
    header = _csv_header(path) if is_csv else _parquet_header(path)
    label, columns = _roles(path, header, label_column, ignore)
    batches = (_csv_batches if is_csv else _parquet_batches)(path, label, columns, progress)
    seen: dict[str, int] = {}
    codes: list[np.ndarray] = []
    rows = 0
    target = scratch / "probabilities"
    try:
        with target.open("wb") as file:
            for batch in batches:
                codes.append(_label_codes(path, batch.column(0), seen, rows))
                numbers = [batch.column(place) for place in range(1, batch.num_columns)]
                np.stack([_floats(path, *one) for one in zip(columns, numbers, strict=True)], axis=1).tofile(
                    file
                )
                rows += batch.num_rows
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    if not rows:
        raise DataError(f"{path}: has no rows below its header")
    probs = MappedRows(target, 0, (rows, len(columns)), np.dtype(np.float32))
    return Table(probs, tuple(seen), np.concatenate(codes), _class_names(columns))


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


def _csv_header(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: its first line cannot be read as UTF-8 text ({error})") from error
    if not header:
        raise DataError(f"{path}: is empty; its first line must name the columns")
    return header


def _csv_batches(path: Path, label: str, columns: list[str], progress: Progress | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow

    types = {label: pa.string(), **dict.fromkeys(columns, pa.float32())}
    with path.open("rb") as file:
        reader = arrow.open_csv(
            file,
            # One thread, so that an error knows its row.
            arrow.ReadOptions(block_size=CSV_BLOCK, use_threads=False),
            arrow.ParseOptions(newlines_in_values=True),
            arrow.ConvertOptions(
                column_types=types, include_columns=[label, *columns], strings_can_be_null=True
            ),
        )
        for batch in reader:
            yield batch
            if progress is not None:
                progress(file.tell(), path.stat().st_size)


def _parquet_header(path: Path) -> list[str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        names: list[str] = parquet.read_schema(path).names
    except pa.ArrowException as error:
        raise DataError(f"{path}: is not a Parquet file, or a corrupt one ({error})") from error
    return names


def _parquet_batches(path: Path, label: str, columns: list[str], progress: Progress | None) -> Iterator[Any]:
    from pyarrow import parquet

    # Without buffers of its own for every column, a file of one large row group would be read whole.
    with parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False) as file:
        step = max(1, NUMBERS_AT_ONCE // len(columns))
        done = 0
        for batch in file.iter_batches(step, columns=[label, *columns]):
            yield batch.select([label, *columns])
            done += batch.num_rows
            if progress is not None:
                progress(done, file.metadata.num_rows)


def _floats(path: Path, name: str, column: Any) -> np.ndarray:
    import pyarrow as pa

    try:
        # What is missing becomes NaN, and is found with its row where rows are checked.
        numbers: np.ndarray = column.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise DataError(
            f"{path}: column {name!r} must hold probabilities, got {column.type}; name a column that is none "
            "with --ignore"
        ) from error
    return numbers


def _label_codes(path: Path, column: Any, seen: dict[str, int], first: int) -> np.ndarray:
    """Codes of a batch's labels into `seen`, which new labels extend."""
    import pyarrow as pa

    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{path}: must have a label in every row, got none in row {row}; drop such rows")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = [_text(value) for value in encoded.dictionary.to_pylist()]
    codes = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int64)
    return codes[encoded.indices.to_numpy(zero_copy_only=False)]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
