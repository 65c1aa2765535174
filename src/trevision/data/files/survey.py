"""The first reading of a table: which columns have a role, their values, and a sample of all columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trevision.data.files.columns import numbers, plain, words
from trevision.data.files.labels import truths
from trevision.data.files.reading import Reading, listed
from trevision.data.files.tables import Table
from trevision.data.progress import Progress
from trevision.files import DataError, did_you_mean

LABEL_COLUMNS = ("label", "y")
"""Default names of the label column; the table must have exactly one of them."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The numbers of the columns that are not features; None if there is no such column."""

    label: int | None
    name: int | None = None
    clean: int | None = None
    path: int | None = None

    @property
    def columns(self) -> list[int]:
        """All columns with a role."""
        columns = (self.label, self.name, self.clean, self.path)
        return [column for column in columns if column is not None]


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first reading gives: the number of rows, and the values of the columns with a role."""

    rows: int
    labels: list[pa.Array]
    names: np.ndarray | None
    clean: np.ndarray | None
    paths: np.ndarray | None
    counting: frozenset[str]
    """Names of columns that only count the rows."""


def find_column(table: Table, wanted: str, role: str) -> int:
    """The number of the column `wanted`, counted from 0.

    Parameters
    ----------
    table
        The table, opened.
    wanted
        A name in the header, or the unique name in `Table.columns` of a repeated name.
    role
        The setting that names the column, for the error.

    Raises
    ------
    DataError
        If there is no such column, or several.
    """
    numbers_of_wanted = [number for number, name in enumerate(table.header) if name == wanted]
    if len(numbers_of_wanted) == 1:
        return numbers_of_wanted[0]
    if numbers_of_wanted:
        raise DataError(
            f"{table.path}: has {len(numbers_of_wanted)} columns named {wanted!r}, the {role}; "
            "rename all but one"
        )
    if wanted in table.columns:
        return table.columns.index(wanted)
    hint = did_you_mean(wanted, table.columns, show=repr) or f"; its columns: {listed(table.columns)}"
    raise DataError(f"{table.path}: has no column {wanted!r}, the {role}{hint}")


def find_label_column(table: Table, reading: Reading) -> int:
    """The number of the label column: named by the user, or the only column called label or y."""
    if reading.label_column is not None:
        return find_column(table, reading.label_column, "label_column")
    columns = table.header
    known = [name for name in columns if name.lower() in LABEL_COLUMNS]
    if len(known) == 1:
        return columns.index(known[0])
    lacking = f"has {' and '.join(known)}" if known else "has no column label or y"
    raise DataError(
        f"{table.path}: {lacking}, so say which column holds the labels with --label-column; "
        f"its columns: {', '.join(columns)}"
    )


def training_roles(table: Table, reading: Reading) -> Roles:
    """The columns to which `reading` gives a role. All of them must be there."""
    for role in ("text_column", "ignore_column"):
        for name in getattr(reading, role):
            find_column(table, name, role)
    named, clean = (
        None if column is None else find_column(table, column, role)
        for column, role in ((reading.name_column, "name_column"), (reading.clean_column, "clean_column"))
    )
    return Roles(find_label_column(table, reading), named, clean)


def prediction_roles(table: Table, reading: Reading) -> Roles:
    """The columns with a role in a table of new rows, which may lack labels and names."""
    name = reading.name_column or reading.id_column
    return Roles(_label_if_any(table, reading), _column_if_any(table, name))


def _label_if_any(table: Table, reading: Reading) -> int | None:
    if reading.label_column is not None:
        return _column_if_any(table, reading.label_column)
    try:
        return find_label_column(table, reading)
    except DataError:
        return None


def _column_if_any(table: Table, name: str | None) -> int | None:
    names = table.header if name in table.header else table.columns
    return names.index(name) if name in names else None


def survey(
    table: Table, roles: Roles, progress: Progress | None, sample_rows: int
) -> tuple[Survey, pa.Table]:
    """Read the whole table once.

    Parameters
    ----------
    table
        The table, opened.
    roles
        The columns whose values are kept.
    progress
        Called with the progress of reading.
    sample_rows
        Maximum rows in the sample. It is drawn with a fixed seed, in one pass: every row gets a random
        number, and the rows with the smallest numbers stay.

    Returns
    -------
    The values of the columns with a role, and the sample with all columns.
    """
    sample = _Sample(sample_rows)
    labels: list[pa.Array] = []
    names: list[np.ndarray] = []
    clean: list[pa.Array] = []
    paths: list[np.ndarray] = []
    counting: dict[str, float | None] = dict.fromkeys(table.columns) if sample_rows else {}
    rows = 0
    for block in table.blocks(progress):
        if roles.label is not None:
            labels.append(block.column(roles.label))
        if roles.name is not None:
            names.append(_names(block.column(roles.name), rows))
        if roles.clean is not None:
            clean.append(block.column(roles.clean))
        if roles.path is not None:
            paths.append(words(block.column(roles.path)))
        if sample_rows:
            counting = _still_counting(counting, block)
            sample.add(block)
        rows += block.num_rows
    surveyed = Survey(
        rows,
        labels,
        np.concatenate(names) if names else None,
        truths(clean, f"{table.path}: clean_column") if clean else None,
        np.concatenate(paths) if paths else None,
        frozenset(counting),
    )
    return surveyed, sample.table()


class _Sample:
    """The rows that drew the smallest random numbers, at most `most` of them, in their order."""

    def __init__(self, most: int) -> None:
        self.most, self.limit = most, 1.0
        self.rng = np.random.default_rng(0)
        self.blocks: list[pa.RecordBatch] = []
        self.keys: list[np.ndarray] = []

    def add(self, block: pa.RecordBatch) -> None:
        self.blocks.append(block)
        self.keys.append(self.rng.random(block.num_rows))
        self._drop()
        if sum(map(len, self.keys)) > 2 * self.most:
            self._shrink()

    def table(self) -> pa.Table:
        if sum(map(len, self.keys)) > self.most:
            self._shrink()
        return pa.Table.from_batches(self.blocks) if self.blocks else pa.table({})

    def _shrink(self) -> None:
        """Lower the limit so that `most` rows remain under it."""
        self.limit = float(np.partition(np.concatenate(self.keys), self.most)[self.most])
        for number in range(len(self.blocks)):
            self._drop(number)

    def _drop(self, number: int = -1) -> None:
        """Leave out the rows of one block that are not under the limit; of the last block by default."""
        stays = self.keys[number] < self.limit
        if not stays.all():
            self.blocks[number] = self.blocks[number].filter(pa.array(stays))
            self.keys[number] = self.keys[number][stays]


def _still_counting(last: dict[str, float | None], block: pa.RecordBatch) -> dict[str, float | None]:
    """The columns that still increase by one from row to row, with their last value."""
    going: dict[str, float | None] = {}
    for name, before in last.items():
        column = plain(block.column(name))
        if len(column) == 0:
            going[name] = before
            continue
        if column.null_count or not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
            continue
        # The first two values rule out nearly every column, without reading the others.
        if len(column) > 1 and np.diff(numbers(column[:2]))[0] != 1:
            continue
        values = numbers(column)
        steps = np.diff(values, prepend=values[0] - 1 if before is None else before)
        if (steps == 1).all():
            going[name] = float(values[-1])
    return going


def _names(column: pa.Array, start: int) -> np.ndarray:
    """Names of rows; a row without a name is named by its number."""
    names = words(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    names[missing] = [str(start + row) for row in np.flatnonzero(missing)]
    return names
