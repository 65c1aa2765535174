"""A .csv or .parquet file as a data set: read twice in blocks, kept once as float32.

The first reading finds the labels and draws a sample, from which the columns are recognised and the
preprocessing is fitted; the second transforms every block into its place of one array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from trevision.data.dataset import Dataset
from trevision.data.files.columns import DATE_PARTS, Column, numbers, plain, recognise, words
from trevision.data.files.labels import LabelColumn, counted, label_column, sort_rows, trusted_codes, truths
from trevision.data.files.preprocessing import Preprocessing, fit_preprocessing, part_name, prepared
from trevision.data.files.reading import Reading, find_column, find_label_column, kind_of, listed
from trevision.data.files.tables import Table, open_table
from trevision.data.named.download import Progress
from trevision.data.rows import SourceRows
from trevision.files import DataError

SAMPLE_ROWS = 50_000
"""Rows that columns are recognised by and the preprocessing is fitted to; of longer tables a random part."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The columns with a part of their own, by their places; all others are features."""

    label: int | None
    name: int | None = None
    clean: int | None = None
    path: int | None = None

    @property
    def places(self) -> list[int]:
        places = (self.label, self.name, self.clean, self.path)
        return [place for place in places if place is not None]


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first reading finds: how many rows there are, and the columns with a role, whole."""

    rows: int
    labels: list[pa.Array]
    names: np.ndarray | None
    clean: np.ndarray | None
    paths: np.ndarray | None
    counting: frozenset[str]
    """Columns that only count the rows."""


def read_table(
    table: Table,
    reading: Reading,
    progress: Progress | None = None,
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """The table as a data set; with a `preprocessing`, its columns are read as that was fitted to do."""
    if reading.image_size is not None:
        raise DataError(
            f"image_size is a choice for images, but no column of {table.path} holds paths of any; leave it "
            "out, or name the column with --path-column"
        )
    roles = training_roles(table, reading)
    if preprocessing is not None:
        _check_columns(table, preprocessing)
    first, second = halves(progress)
    found, sample = survey(table, roles, first, sample_rows=0 if preprocessing else SAMPLE_ROWS)
    labels, notes = label_column(found.labels, str(table.path))
    chosen = sort_rows(labels, found.clean, str(table.path))
    notes = (*table.notes, *notes, *chosen.notes)
    if preprocessing is None:
        columns, more = recognise_columns(table, found, sample, roles, reading)
        preprocessing = fit_preprocessing(columns, sample, found.rows)
        notes += more
    del sample  # its memory serves the second reading
    place = np.full(found.rows, -1)
    place[chosen.rows] = np.arange(len(chosen.rows))
    place[chosen.trusted_rows] = np.arange(len(chosen.trusted_rows)) + len(chosen.rows)
    x, misfits = transformed(table, preprocessing, place, second)
    trusted_x, trusted_y = x[len(chosen.rows) :], torch.from_numpy(chosen.trusted_codes)
    if reading.clean_source is not None:
        trusted_x, trusted_y, more = _clean_rows(reading, preprocessing, chosen.classes)
        notes += more
    return Dataset(
        name=table.path.stem,
        train_x=x[: len(chosen.rows)],
        train_y=torch.from_numpy(chosen.codes),
        test_x=None,
        test_y=None,
        class_names=tuple(str(value) for value in chosen.classes),
        classes=chosen.classes,
        trusted_x=trusted_x if len(trusted_y) else None,
        trusted_y=trusted_y if len(trusted_y) else None,
        names=None if found.names is None else found.names[chosen.rows],
        row_numbers=chosen.rows,
        notes=notes + misfits,
        preprocessing=preprocessing,
    )


def read_table_rows(
    table: Table, reading: Reading, preprocessing: Preprocessing, progress: Progress | None = None
) -> SourceRows:
    """Every row of a table, with its label and its name where the table has those columns."""
    roles = prediction_roles(table, reading)
    _check_columns(table, preprocessing)
    first, second = halves(progress)
    found, _ = survey(table, roles, first, sample_rows=0)
    x, misfits = transformed(table, preprocessing, np.arange(found.rows), second)
    labels = None
    if roles.label is not None:
        labels = label_texts(label_column(found.labels, str(table.path))[0])
    return SourceRows(x, labels, found.names, np.arange(found.rows), (*table.notes, *misfits))


def label_texts(labels: LabelColumn) -> np.ndarray | None:
    """The label of each row as text, "" for none; None if no row has one."""
    if not len(labels.names):
        return None
    return np.array([*labels.names, ""], dtype=object)[labels.codes]


def _clean_rows(
    reading: Reading, preprocessing: Preprocessing, classes: np.ndarray
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """The rows of the second source, whose labels are right."""
    assert reading.clean_source is not None
    if kind_of(reading.clean_source) != "table":
        raise DataError(
            f"clean_source must be a .csv or .parquet file, as the source is, got {reading.clean_source!r}"
        )
    table = open_table(reading.clean_source)
    label = find_label_column(table, reading)
    found, _ = survey(table, Roles(label), None, sample_rows=0)
    labels, _ = label_column(found.labels, str(table.path))
    rows, codes, note = trusted_codes(labels, classes, str(table.path))
    _check_columns(table, preprocessing)
    place = np.full(found.rows, -1)
    place[rows] = np.arange(len(rows))
    x, _ = transformed(table, preprocessing, place, None)
    return x, torch.from_numpy(codes), (note,) if note else ()


def training_roles(table: Table, reading: Reading) -> Roles:
    """The places of the columns that the reading gives a role; every named column has to be there."""
    for role in ("text_column", "ignore_column"):
        for name in getattr(reading, role):
            find_column(table, name, role)
    named, clean = (
        None if column is None else find_column(table, column, role)
        for column, role in ((reading.name_column, "name_column"), (reading.clean_column, "clean_column"))
    )
    return Roles(find_label_column(table, reading), named, clean)


def prediction_roles(table: Table, reading: Reading) -> Roles:
    """The same for a table of new rows, which need have neither labels nor names."""
    return Roles(_label_if_any(table, reading), _place_if_any(table, reading.name_column))


def _check_columns(table: Table, preprocessing: Preprocessing) -> None:
    lacking = [c.name for c in preprocessing.columns if c.name not in table.columns]
    if lacking:
        raise DataError(
            f"{table.path}: lacks {counted(len(lacking), 'column')} of the training table: {listed(lacking)}"
        )


def _label_if_any(table: Table, reading: Reading) -> int | None:
    if reading.label_column is not None:
        return _place_if_any(table, reading.label_column)
    try:
        return find_label_column(table, reading)
    except DataError:
        return None


def _place_if_any(table: Table, name: str | None) -> int | None:
    names = table.header if name in table.header else table.columns
    return names.index(name) if name in names else None


def halves(progress: Progress | None) -> tuple[Progress | None, Progress | None]:
    """One progress over two readings of the same length."""
    if progress is None:
        return None, None
    known = progress
    return (
        lambda done, total: known(done, None if total is None else 2 * total),
        lambda done, total: known(done + (total or 0), None if total is None else 2 * total),
    )


def survey(
    table: Table, roles: Roles, progress: Progress | None, sample_rows: int
) -> tuple[Survey, pa.Table]:
    """Read the whole table once for its columns with a role and a sample of at most `sample_rows` rows.

    The sample is drawn with a fixed seed, in one pass: every row gets a random number, and the rows with the
    smallest numbers stay.
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
    found = Survey(
        rows,
        labels,
        np.concatenate(names) if names else None,
        truths(clean, f"{table.path}: clean_column") if clean else None,
        np.concatenate(paths) if paths else None,
        frozenset(counting),
    )
    return found, sample.table()


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
        for place in range(len(self.blocks)):
            self._drop(place)

    def _drop(self, place: int = -1) -> None:
        stays = self.keys[place] < self.limit
        if not stays.all():
            self.blocks[place] = self.blocks[place].filter(pa.array(stays))
            self.keys[place] = self.keys[place][stays]


def _still_counting(last: dict[str, float | None], block: pa.RecordBatch) -> dict[str, float | None]:
    """Of the columns that went up by one from row to row, those that still do, with their last value."""
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
    """Names of rows; a row without one goes by its number."""
    names = words(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    names[missing] = [str(start + row) for row in np.flatnonzero(missing)]
    return names


def recognise_columns(
    table: Table, found: Survey, sample: pa.Table, roles: Roles, reading: Reading
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns to learn from, by the sample, and notes on those that are not used."""
    columns, notes = [], []
    for place, name in enumerate(table.columns):
        called = {name, table.header[place]}
        if place in roles.places or called & set(reading.ignore_column):
            continue
        if called & set(reading.text_column):
            columns.append(Column(name, "text"))
            continue
        # A file that separates fields by another sign than the comma may need it for its numbers.
        column = recognise(name, sample.column(name), decimal_comma=table.delimiter != ",")
        if name in found.counting and found.rows > 2:
            column = Column(name, "ignored", reason="only counts the rows")
        if column.kind == "ignored":
            notes.append(f"Column {name!r} is not used: it {column.reason}.")
        else:
            columns.append(column)
        if column.decimal_comma:
            notes.append(f"The comma in column {name!r} is read as a decimal point.")
        if column.date_format == "%m/%d/%Y":
            notes.append(f"Dates in column {name!r} are read as month/day/year.")
    if not columns:
        raise DataError(" ".join([f"{table.path}: has no column left to learn from.", *notes]))
    if found.rows > len(sample):
        notes.append(
            f"Columns were recognised and scaled by {len(sample)} of the {found.rows} rows, drawn at random."
        )
    return tuple(columns), tuple(notes)


def transformed(
    table: Table, preprocessing: Preprocessing, place: np.ndarray, progress: Progress | None
) -> tuple[Tensor, tuple[str, ...]]:
    """The rows whose `place` is not negative, each at its place of one array, and notes."""
    x = np.empty((int((place >= 0).sum()), preprocessing.width), dtype=np.float32)
    misfits: dict[str, tuple[int, int]] = {}
    start = 0
    for block in table.blocks(progress):
        here = place[start : start + block.num_rows]
        used = here >= 0
        if used.any():
            block = block.filter(pa.array(used)) if not used.all() else block
            values = {column.name: plain(block.column(column.name)) for column in preprocessing.columns}
            ready = prepared(preprocessing.columns, values)
            _count_misfits(preprocessing.columns, values, ready, start + np.flatnonzero(used), misfits)
            x[here[used]] = preprocessing.transform(ready)
        start += len(here)
    notes = tuple(
        f"Column {name!r}: {counted(number, 'value')} taken as missing, being no number, date or truth, "
        f"or too large a number (the first in row {row})."
        for name, (number, row) in misfits.items()
    )
    return torch.from_numpy(x), notes


def _count_misfits(
    columns: tuple[Column, ...],
    values: dict[str, pa.Array],
    ready: pd.DataFrame,
    rows: np.ndarray,
    found: dict[str, tuple[int, int]],
) -> None:
    """Add up the values that are there but are not what their column is."""
    for column in columns:
        if column.kind not in ("number", "boolean", "date"):
            continue
        name = part_name(column, DATE_PARTS[0], columns) if column.kind == "date" else column.name
        lost = np.isnan(ready[name].to_numpy())
        lost &= ~values[column.name].is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if lost.any():
            number, row = found.get(column.name, (0, int(rows[np.flatnonzero(lost)[0]])))
            found[column.name] = number + int(lost.sum()), row
