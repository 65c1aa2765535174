"""Parquet files that keep to their budget. Errors name the file, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from trevision.budgets import DECODED_TABLE_TIMES, MB, UNPACKED_BYTES
from trevision.files import DamagedFile, TooLarge, TrevisionError

BLOCK_ROWS = 65_536
BLOCK_TEXT_BYTES = 64 * MB
"""The rows of a block, and what their texts may take together."""


class one_line_errors:
    """Turns pyarrow's errors about a file into one line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, TrevisionError):
            return
        # ValueError: of a text that is not in UTF-8, or a name or a type that pyarrow cannot convert.
        if isinstance(error, pa.ArrowException | OSError | EOFError | ValueError):
            what = f"is not a .parquet file, or a corrupt one ({str(error)[:300]})"
            raise DamagedFile(f"{self.path}: {what}", path=self.path) from error


def _budget(path: Path) -> int:
    return max(UNPACKED_BYTES, DECODED_TABLE_TIMES * path.stat().st_size)


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[pa.parquet.ParquetFile]:
    """An open .parquet file that keeps to its budget; its errors become one line about it.

    `options` are those of pyarrow's ParquetFile.
    """
    with one_line_errors(path), pa.parquet.ParquetFile(path, **options) as file:
        known = file.metadata
        rows, size = known.num_rows, path.stat().st_size
        columns = len(file.schema_arrow.names)
        groups = [known.row_group(number) for number in range(known.num_row_groups)]
        if rows < 0 or sum(group.num_rows for group in groups) != rows:
            raise DamagedFile(f"{path}: is a corrupt .parquet file (its numbers of rows differ)", path=path)
        budget = _budget(path)
        if rows * columns * 8 > budget or sum(group.total_byte_size for group in groups) > budget:
            raise TooLarge(
                f"{path}: {size:,} bytes that claim {rows:,} rows x {columns:,} columns, more than the "
                f"{budget:,} bytes that are allowed ({DECODED_TABLE_TIMES:,} times its size); if you trust "
                "it, give it as .csv",
                path=path,
            )
        yield file


def parquet_blocks(
    path: Path, rows: int, columns: list[str] | None = None, **options: Any
) -> Iterator[pa.RecordBatch]:
    """All rows of a .parquet file, or some of its columns, in blocks of at most `rows`.

    `options` are those of pyarrow's ParquetFile. Texts are decoded as numbers into their dictionary, so one
    huge text that many rows repeat takes memory once, until what it would expand to is compared with the
    budget. Blocks whose texts are long have fewer rows.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    budget, expanded = _budget(path), 0
    with open_parquet(path, read_dictionary=texts, **options) as file:
        for block in file.iter_batches(batch_size=rows, columns=columns):
            block = block if columns is None else block.select(columns)
            size = sum(_expanded_bytes(column) for column in block.columns)
            expanded += size
            if expanded > budget:
                raise TooLarge(
                    f"{path}: {path.stat().st_size:,} bytes whose texts expand to more than the {budget:,} "
                    f"bytes that are allowed ({DECODED_TABLE_TIMES:,} times its size); if you trust it, give "
                    "it as .csv",
                    path=path,
                )
            step = max(1, block.num_rows * BLOCK_TEXT_BYTES // max(size, BLOCK_TEXT_BYTES))
            for start in range(0, block.num_rows, step):
                part = block.slice(start, step)
                arrays = [
                    _plain(column, field.type) for column, field in zip(part.columns, wanted, strict=True)
                ]
                whole = pa.RecordBatch.from_arrays(arrays, schema=wanted)
                whole.validate(full=True)  # a text that is not in UTF-8 is told of here, not by who shows it
                yield whole


def _plain(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    return (column.dictionary_decode() if pa.types.is_dictionary(column.type) else column).cast(type_)


def _expanded_bytes(column: pa.Array) -> int:
    """The bytes of the texts in a column without a dictionary."""
    size = 0
    for array in _dictionaries(column):
        lengths = pc.fill_null(pc.binary_length(array.dictionary), 0).cast(pa.int64())
        size += pc.sum(lengths.take(array.indices)).as_py() or 0
    return size


def _dictionaries(column: pa.Array) -> Iterator[pa.DictionaryArray]:
    """The texts in a column with a dictionary, also within lists and records."""
    if pa.types.is_dictionary(column.type):
        if _is_text(column.type.value_type):
            yield column
    elif pa.types.is_struct(column.type):
        for inner in column.flatten():
            yield from _dictionaries(inner)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_map(column.type):
        yield from _dictionaries(column.values)


def _is_text(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(kind(type_) for kind in kinds)


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """A small .parquet file as a whole, such as a run folder has."""
    with open_parquet(path) as file:
        if lacking := set(columns or ()) - set(file.schema_arrow.names):
            raise DamagedFile(f"{path}: lacks the columns {', '.join(sorted(lacking))}", path=path)
        schema = file.schema_arrow
    with one_line_errors(path):
        whole = pa.Table.from_batches(parquet_blocks(path, BLOCK_ROWS), schema)
    return whole if columns is None else whole.select(columns)


def read_columns(
    path: Path, types: dict[str, pa.DataType], repair: str, optional: tuple[str, ...] = ()
) -> pa.Table:
    """Columns of these types, with a value in every row; an `optional` column may be missing."""
    try:
        table = read_parquet(path)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; {repair}", path=path) from None
    columns = [name for name in types if name in table.column_names or name not in optional]
    if lacking := set(columns) - set(table.column_names):
        raise DamagedFile(f"{path} must have the columns {', '.join(sorted(lacking))}; {repair}", path=path)
    wanted = pa.schema([(name, types[name]) for name in columns], metadata=table.schema.metadata)
    try:
        table = table.select(columns).cast(wanted)
    except (pa.ArrowException, ValueError) as error:
        raise DamagedFile(
            f"{path}: its columns must be other values ({error}); {repair}", path=path
        ) from None
    if empty := [name for name in columns if table.column(name).null_count]:
        raise DamagedFile(f"{path}: {empty[0]} must have a value in every row; {repair}", path=path)
    return table
