"""Parquet files that keep to their budget. Errors name the file, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from trevision.budgets import DECODED_TABLE_TIMES, UNPACKED_BYTES
from trevision.files import DamagedFile, TooLarge, TrevisionError


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
        budget = max(UNPACKED_BYTES, DECODED_TABLE_TIMES * size)
        if rows * columns * 8 > budget or sum(group.total_byte_size for group in groups) > budget:
            raise TooLarge(
                f"{path}: {size:,} bytes that claim {rows:,} rows x {columns:,} columns, more than the "
                f"{budget:,} bytes that are allowed ({DECODED_TABLE_TIMES:,} times its size); if you trust "
                "it, give it as .csv",
                path=path,
            )
        yield file


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """A small .parquet file as a whole, such as a run folder has."""
    with open_parquet(path) as file:
        if lacking := set(columns or ()) - set(file.schema_arrow.names):
            raise DamagedFile(f"{path}: lacks the columns {', '.join(sorted(lacking))}", path=path)
        return file.read(columns)


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
