"""A .csv or .parquet file as a data set of numpy arrays: read twice in blocks, held once as float32.

The first reading finds the labels and draws a sample. Columns are recognised and the preprocessing is fitted
on this sample. The second reading turns every block into rows of one array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

from trevision.data.dataset import Dataset, SourceRows
from trevision.data.files.columns import DATE_PARTS, Column, booleans, plain, recognise
from trevision.data.files.labels import (
    class_column,
    counted,
    label_column,
    label_texts,
    sort_rows,
    trusted_codes,
)
from trevision.data.files.leaks import identifies, leaks, notes_of
from trevision.data.files.preprocessing import Preprocessing, fit_preprocessing, part_name, prepared
from trevision.data.files.reading import Reading, kind_of, listed
from trevision.data.files.survey import (
    Roles,
    Survey,
    find_label_column,
    prediction_roles,
    survey,
    training_roles,
)
from trevision.data.files.tables import Table, open_table
from trevision.data.progress import Progress
from trevision.files import DataError

SAMPLE_ROWS = 50_000
"""Maximum rows for recognising columns and fitting the preprocessing; drawn at random from longer tables."""


def read_table(
    table: Table,
    reading: Reading,
    progress: Progress | None = None,
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """The table as a data set.

    Parameters
    ----------
    table
        The table, opened.
    reading
        What the user says about it.
    progress
        Called with the progress of both readings.
    preprocessing
        The preprocessing to use; a new one is fitted if not given.

    Raises
    ------
    DataError
        If the table cannot be read, or has no labels or columns to learn from.
    """
    if reading.image_size is not None:
        raise DataError(
            f"image_size is a choice for images, but no column of {table.path} holds paths of any; leave it "
            "out, or name the column with --path-column"
        )
    roles = training_roles(table, reading)
    if preprocessing is not None:
        _check_columns(table, preprocessing)
    first, second = halves(progress)
    surveyed, sample = survey(table, roles, first, sample_rows=0 if preprocessing else SAMPLE_ROWS)
    assert roles.label is not None
    labels, notes = class_column(
        surveyed.labels, str(table.path), reading.labels_as_written, table.columns[roles.label]
    )
    chosen = sort_rows(labels, surveyed.clean, str(table.path))
    notes = (*table.notes, *notes, *chosen.notes)
    if preprocessing is None:
        columns, more = recognise_columns(table, surveyed, sample, roles, reading)
        preprocessing = fit_preprocessing(columns, sample, surveyed.rows)
        notes += more
    del sample  # frees memory for the second reading
    target_rows = np.full(surveyed.rows, -1)
    target_rows[chosen.rows] = np.arange(len(chosen.rows))
    target_rows[chosen.trusted_rows] = np.arange(len(chosen.trusted_rows)) + len(chosen.rows)
    x, misfits = transformed(table, preprocessing, target_rows, second)
    trusted_x, trusted_y = x[len(chosen.rows) :], chosen.trusted_codes
    trusted_rows = chosen.trusted_rows
    if reading.clean_source is not None:
        trusted_x, trusted_y, trusted_rows, more = _clean_rows(reading, preprocessing, chosen.classes)
        notes += more
    return Dataset(
        name=table.path.stem,
        train_x=x[: len(chosen.rows)],
        train_y=chosen.codes,
        test_x=None,
        test_y=None,
        class_names=tuple(str(value) for value in chosen.classes),
        classes=chosen.classes,
        trusted_x=trusted_x if len(trusted_y) else None,
        trusted_y=trusted_y if len(trusted_y) else None,
        trusted_row_numbers=trusted_rows if len(trusted_y) else None,
        names=None if surveyed.names is None else surveyed.names[chosen.rows],
        row_numbers=chosen.rows,
        notes=notes + misfits,
        preprocessing=preprocessing,
    )


def read_table_rows(
    table: Table,
    reading: Reading,
    preprocessing: Preprocessing,
    progress: Progress | None = None,
    words: bool = False,
) -> SourceRows:
    """Every row of a table to predict, with its label and name if the table has them.

    Parameters
    ----------
    table, reading, progress
        As for `read_table`.
    preprocessing
        The preprocessing of the training table.
    words
        As for `transformed`.
    """
    roles = prediction_roles(table, reading)
    _check_columns(table, preprocessing)
    first, second = halves(progress)
    surveyed, _ = survey(table, roles, first, sample_rows=0)
    x, misfits = transformed(table, preprocessing, np.arange(surveyed.rows), second, words)
    labels = None
    if roles.label is not None:
        labels = label_texts(label_column(surveyed.labels, str(table.path))[0])
    return SourceRows(x, labels, surveyed.names, np.arange(surveyed.rows), (*table.notes, *misfits))


def _clean_rows(
    reading: Reading, preprocessing: Preprocessing, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """The rows of `clean_source`, whose labels are right: values, codes and numbers, and a note."""
    assert reading.clean_source is not None
    if kind_of(reading.clean_source) != "table":
        raise DataError(
            f"clean_source must be a .csv or .parquet file, as the source is, got {reading.clean_source!r}"
        )
    table = open_table(reading.clean_source)
    label = find_label_column(table, reading)
    surveyed, _ = survey(table, Roles(label), None, sample_rows=0)
    labels, _ = label_column(surveyed.labels, str(table.path))
    rows, codes, note = trusted_codes(labels, classes, str(table.path), reading.labels_as_written)
    _check_columns(table, preprocessing)
    target_rows = np.full(surveyed.rows, -1)
    target_rows[rows] = np.arange(len(rows))
    x, _ = transformed(table, preprocessing, target_rows, None)
    return x, codes, rows, (note,) if note else ()


def _check_columns(table: Table, preprocessing: Preprocessing) -> None:
    lacking = [c.name for c in preprocessing.columns if c.name not in table.columns]
    if lacking:
        raise DataError(
            f"{table.path}: lacks {counted(len(lacking), 'column')} of the training table: {listed(lacking)}"
        )


def halves(progress: Progress | None) -> tuple[Progress | None, Progress | None]:
    """Split one progress into two, for two readings of the same length."""
    if progress is None:
        return None, None
    known = progress
    return (
        lambda done, total: known(done, None if total is None else 2 * total),
        lambda done, total: known(done + (total or 0), None if total is None else 2 * total),
    )


def recognise_columns(
    table: Table, surveyed: Survey, sample: pa.Table, roles: Roles, reading: Reading
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns to learn from, recognised from a sample, and notes on columns that are not used.

    Parameters
    ----------
    table, surveyed, sample, roles
        The table, and what `survey` found in it.
    reading
        What the user says about its columns.
    """
    columns, notes = [], []
    told = _columns_that_tell(table, sample, roles, reading)
    for number, name in enumerate(table.columns):
        called = {name, table.header[number]}
        if number in roles.columns or called & set(reading.ignore_column):
            continue
        if called & set(reading.text_column):
            columns.append(Column(name, "text"))
            continue
        if name in told:
            continue
        # If fields are not separated by commas, the comma may be a decimal comma.
        column = recognise(name, sample.column(name), decimal_comma=table.delimiter != ",")
        if name in surveyed.counting and surveyed.rows > 2:
            column = Column(name, "ignored", reason="only counts the rows")
        elif column.kind == "number" and identifies(name, sample.column(name)):
            column = Column(name, "ignored", reason="is different in every row and names it")
        if column.kind == "ignored":
            notes.append(f"Column {name!r} is not used: it {column.reason}.")
        else:
            columns.append(column)
        if column.decimal_comma:
            notes.append(f"The comma in column {name!r} is read as a decimal point.")
        if column.date_format == "%m/%d/%Y":
            notes.append(f"Dates in column {name!r} are read as month/day/year.")
    notes += notes_of(told)
    if not columns:
        raise DataError(" ".join([f"{table.path}: has no column left to learn from.", *notes]))
    if surveyed.rows > len(sample):
        notes.append(
            f"Columns were recognised and scaled by {len(sample)} of the {surveyed.rows} rows, "
            "drawn at random."
        )
    return tuple(columns), tuple(notes)


def _columns_that_tell(table: Table, sample: pa.Table, roles: Roles, reading: Reading) -> dict[str, str]:
    """The columns that were made from the label, but for those that the user wants as text."""
    assert roles.label is not None
    kept = {*reading.text_column, *reading.ignore_column}
    others = [
        name
        for number, name in enumerate(table.columns)
        if number not in roles.columns and not {name, table.header[number]} & kept
    ]
    if roles.clean is not None:
        # Labels that were corrected no longer agree with columns that were made from them.
        known = booleans(sample.column(table.columns[roles.clean]))
        sample = sample.filter(pa.array(~(known == 1)))
    return leaks(sample, table.columns[roles.label], others, reading.labels_as_written)


def transformed(
    table: Table,
    preprocessing: Preprocessing,
    target_rows: np.ndarray,
    progress: Progress | None,
    words: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """Some rows of the table as numbers, and notes on values that do not fit their column.

    Parameters
    ----------
    table
        The table, read here once.
    preprocessing
        What turns its columns into numbers.
    target_rows
        For each row of the table its row in the result; negative for a row to leave out, as are rows beyond
        its end.
    progress
        Called with the progress of reading.
    words
        Whether texts are given as the weights of their words, in a sparse matrix, and not as directions.
    """
    x = np.empty((int((target_rows >= 0).sum()), 0 if words else preprocessing.width), dtype=np.float32)
    parts, places = [], []
    misfits: dict[str, tuple[int, int]] = {}
    start = 0
    for block in table.blocks(progress):
        here = target_rows[start : start + block.num_rows]
        here = np.pad(here, (0, block.num_rows - len(here)), constant_values=-1)
        used = here >= 0
        if used.any():
            block = block.filter(pa.array(used)) if not used.all() else block
            values = {column.name: plain(block.column(column.name)) for column in preprocessing.columns}
            ready = prepared(preprocessing.columns, values)
            _count_misfits(preprocessing.columns, values, ready, start + np.flatnonzero(used), misfits)
            if words:
                parts.append(preprocessing.transform_to_words(ready))
                places.append(here[used])
            else:
                x[here[used]] = preprocessing.transform(ready)
        start += len(here)
    notes = tuple(
        f"Column {name!r}: {counted(number, 'value')} taken as missing, being no number, date or truth, "
        f"or too large a number (the first in row {row})."
        for name, (number, row) in misfits.items()
    )
    return sparse.vstack(parts, format="csr")[np.argsort(np.concatenate(places))] if words else x, notes


def _count_misfits(
    columns: tuple[Column, ...],
    values: dict[str, pa.Array],
    ready: pd.DataFrame,
    rows: np.ndarray,
    misfits: dict[str, tuple[int, int]],
) -> None:
    """Add to `misfits` how many values of a column do not fit its kind, and the first row with one."""
    for column in columns:
        if column.kind not in ("number", "boolean", "date"):
            continue
        name = part_name(column, DATE_PARTS[0], columns) if column.kind == "date" else column.name
        lost = np.isnan(ready[name].to_numpy())
        lost &= ~values[column.name].is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if lost.any():
            number, row = misfits.get(column.name, (0, int(rows[np.flatnonzero(lost)[0]])))
            misfits[column.name] = number + int(lost.sum()), row
