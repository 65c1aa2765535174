"""Answers of several annotators, one a line, as a table of one label a row.

    answers.csv: id, annotator, label        rows.csv: id, text, ...

The rows are those of `rows_source` or, if the answers hold the features themselves, the first line of each
id. As label they get the vote of their annotators, so that everything which reads a table of labels reads
this one too: `fit`, `issues`, `report` and `apply` count rows alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trevision.data.dataset import Dataset
from trevision.data.files.image_lists import path_column
from trevision.data.files.labels import LabelColumn, class_column, class_values, counted, label_column
from trevision.data.files.reading import Reading
from trevision.data.files.survey import find_column, find_label_column
from trevision.data.files.tables import Progressed, Table, open_table
from trevision.files import DataError

if TYPE_CHECKING:
    from trevision.estimation import Answers


@dataclass(frozen=True, eq=False)
class GivenAnswers:
    """The answers of a file.

    Attributes
    ----------
    row, who, label
        (m,) the number of the row, of the annotator in `names`, and of the label in `labels`.
    names
        The annotators, in the order in which they appear.
    labels
        The labels as text, in the order of the classes.
    notes
        Sentences about lines that were left out.
    """

    row: np.ndarray
    who: np.ndarray
    label: np.ndarray
    names: list[str]
    labels: list[str]
    notes: tuple[str, ...]

    def among(self, row_numbers: np.ndarray, class_names: tuple[str, ...]) -> tuple[Answers, tuple[str, ...]]:
        """The answers to some rows in their order, with codes into `class_names`, and notes on the others."""
        from trevision.estimation import Answers  # imports scipy, which reading labels does not need

        code_of = {name: code for code, name in enumerate(class_names)}
        codes = np.array([code_of.get(name, -1) for name in self.labels])[self.label]
        place = np.full(max(row_numbers.max(), self.row.max(initial=0)) + 1, -1)
        place[row_numbers] = np.arange(len(row_numbers))
        asked = place[self.row] >= 0
        kept = asked & (codes >= 0)
        lost = int((asked & (codes < 0)).sum())
        notes = (f"{counted(lost, 'answer')} left out, whose label won too few votes to be a class.",)
        people, who = np.unique(self.who[kept], return_inverse=True)
        names = tuple(self.names[number] for number in people)
        given = Answers(place[self.row[kept]], who, codes[kept], len(row_numbers), len(class_names), names)
        return given, notes if lost else ()


def open_source(source: str | Path, reading: Reading) -> tuple[Table, Reading, GivenAnswers | None]:
    """The table at `source`, how to read it, and the answers of several annotators if it holds such.

    With answers, the table has one row for each thing that was asked about, and the reading is that of a
    table with one label a row.

    Parameters
    ----------
    source
        The path of a table.
    reading
        What the user says about it.

    Raises
    ------
    DataError
        If a table or column is not there, or the answers cannot be joined to rows.
    """
    table = open_table(source)
    if reading.annotator_column is None or reading.id_column is None:
        return table, reading, None
    lines = _Lines.read(table, reading)
    if reading.rows_source is None:
        rows = open_table(source)
        places = _first_lines(lines.ids, lines.complete)
        kept: np.ndarray | None = np.zeros(len(lines.complete), dtype=bool)
        assert kept is not None
        kept[places] = True
        row_of_id = np.full(len(lines.ids.names), -1)
        row_of_id[lines.ids.codes[places]] = np.arange(len(places))
        count = len(places)
    else:
        rows = open_table(reading.rows_source)
        row_of_id, count = _rows_of_ids(rows, reading, lines.ids)
        kept = None
    given = _joined(lines, row_of_id, str(table.path), str(rows.path))
    label = table.header[find_label_column(table, reading)]
    votes = _votes(given, count)
    dropped = find_column(table, reading.annotator_column, "annotator_column")
    view = _view(rows, label, votes, kept, rows.columns[dropped] if reading.rows_source is None else None)
    view = replace(view, notes=(*table.notes, *view.notes) if reading.rows_source else view.notes)
    return view, _one_label(view, reading, label), given


def with_answers(dataset: Dataset, given: GivenAnswers | None) -> Dataset:
    """The data set of a table that `open_source` opened, with the answers to its rows if there are any."""
    if given is None:
        return dataset
    answers, notes = given.among(dataset.labels.row_numbers, dataset.class_names)
    return replace(dataset, answers=answers, notes=(*given.notes, *dataset.notes, *notes))


@dataclass(frozen=True, eq=False)
class _Lines:
    """The three columns of the answers, line by line, and which lines have all three."""

    ids: LabelColumn
    who: LabelColumn
    given: LabelColumn
    complete: np.ndarray
    notes: tuple[str, ...] = ()
    """About the labels."""

    @classmethod
    def read(cls, table: Table, reading: Reading) -> _Lines:
        assert reading.id_column is not None
        assert reading.annotator_column is not None
        numbers = (
            find_column(table, reading.id_column, "id_column"),
            find_column(table, reading.annotator_column, "annotator_column"),
            find_label_column(table, reading),
        )
        parts: list[list[pa.Array]] = [[], [], []]
        for block in table.blocks():
            for part, number in zip(parts, numbers, strict=True):
                part.append(block.column(number))
        ids, who = (label_column(part, str(table.path))[0] for part in parts[:2])
        column = table.columns[numbers[2]]
        given, notes = class_column(parts[2], str(table.path), reading.labels_as_written, column)
        complete = (ids.codes >= 0) & (who.codes >= 0) & (given.codes >= 0)
        if not complete.any():
            raise DataError(f"{table.path}: no line has an id, an annotator and a label")
        return cls(ids, who, given, complete, notes)


def _first_lines(ids: LabelColumn, complete: np.ndarray) -> np.ndarray:
    """The first line of each id, in the order of the file."""
    lines = np.flatnonzero(complete)
    _, first = np.unique(ids.codes[lines], return_index=True)
    return np.sort(lines[first])


def _rows_of_ids(rows: Table, reading: Reading, ids: LabelColumn) -> tuple[np.ndarray, int]:
    """The row of each id that was answered, -1 where there is none, and the number of all rows."""
    assert reading.id_column is not None
    column = find_column(rows, reading.id_column, "id_column")
    named, _ = label_column([block.column(column) for block in rows.blocks()], str(rows.path))
    numbers = np.flatnonzero(named.codes >= 0)
    counts = np.bincount(named.codes[numbers], minlength=len(named.names))
    if (counts > 1).any():
        twice = int(np.flatnonzero(counts > 1)[0])
        first, second = np.flatnonzero(named.codes == twice)[:2]
        raise DataError(
            f"{rows.path}: id_column {reading.id_column!r} must name each row once, and "
            f"{named.names[twice]!r} is in rows {first} and {second}"
        )
    row_of = {named.names[named.codes[number]]: number for number in numbers}
    return np.array([row_of.get(name, -1) for name in ids.names]), len(named.codes)


def _joined(lines: _Lines, row_of_id: np.ndarray, where: str, rows_path: str) -> GivenAnswers:
    """The answers with the numbers of their rows; each annotator answers a row once."""
    notes = [*lines.notes]
    if broken := int((~lines.complete).sum()):
        notes.append(f"{counted(broken, 'line')} without an id, an annotator or a label left out.")
    row = np.where(lines.complete, row_of_id[lines.ids.codes], -1)
    stray = lines.complete & (row < 0)
    if stray.any():
        first = lines.ids.names[lines.ids.codes[int(np.flatnonzero(stray)[0])]]
        if (row < 0).all():
            raise DataError(
                f"{where}: no id is in {rows_path}, the first is {first!r}; both need the same id_column"
            )
        told = (
            f"{counted(int(stray.sum()), 'answer')} left out, whose id is in no row of {Path(rows_path).name}"
        )
        notes.append(f"{told} (the first is {first!r}).")
    kept = np.flatnonzero(row >= 0)
    people = len(lines.who.names)
    _, first_of, pair = np.unique(
        row[kept] * people + lines.who.codes[kept], return_index=True, return_inverse=True
    )
    same = lines.given.codes[kept] == lines.given.codes[kept][first_of[pair]]
    if not same.all():
        line = int(kept[np.flatnonzero(~same)[0]])
        raise DataError(
            f"{where}: annotator {lines.who.names[lines.who.codes[line]]!r} gave "
            f"{lines.ids.names[lines.ids.codes[line]]!r} two different labels (the second in row {line}); "
            "keep one of them"
        )
    if len(first_of) < len(kept):
        notes.append(f"{counted(len(kept) - len(first_of), 'answer')} left out, given twice.")
    kept = kept[np.sort(first_of)]
    classes, order = class_values(lines.given.names)
    labels = [""] * len(classes)
    for name, code in zip(lines.given.names, order, strict=True):
        labels[code] = name
    return GivenAnswers(
        row[kept],
        lines.who.codes[kept],
        order[lines.given.codes[kept]],
        lines.who.names,
        labels,
        tuple(notes),
    )


def _votes(given: GivenAnswers, rows: int) -> np.ndarray:
    """The label that most annotators gave to each row, as text; None for a row without answers."""
    size = len(given.labels)
    counts = np.bincount(given.row * size + given.label, minlength=rows * size).reshape(rows, size)
    votes = np.array(given.labels, dtype=object)[counts.argmax(axis=1)]
    votes[counts.sum(axis=1) == 0] = None
    return votes


def _view(rows: Table, label: str, votes: np.ndarray, kept: np.ndarray | None, dropped: str | None) -> Table:
    """The rows with their votes in the column `label`; only `kept` lines, without the column `dropped`."""
    columns = [name for name in rows.columns if name != dropped]
    header = [name for name, unique in zip(rows.header, rows.columns, strict=True) if unique != dropped]
    replaced = header.index(label) if label in header else None
    if replaced is None:
        columns, header = [*columns, label], [*header, label]

    def read(verbatim: bool) -> Iterator[Progressed]:
        line = row = 0
        for block, done, total in rows.read(verbatim):
            here = None if kept is None else kept[line : line + block.num_rows]
            line += block.num_rows
            part = block if here is None else block.filter(pa.array(here))
            own = pa.array(votes[row : row + part.num_rows], pa.string())
            row += part.num_rows
            taken = [part.column(name) for name in columns[: len(columns) - (replaced is None)]]
            if replaced is None:
                taken.append(own)
            else:
                taken[replaced] = own
            yield pa.RecordBatch.from_arrays(taken, names=columns), done, total

    schema = rows.schema
    if schema is not None:
        kinds = dict(zip(rows.columns, schema.types, strict=True)) | {
            columns[header.index(label)]: pa.string()
        }
        schema = pa.schema([(name, kinds[unique]) for name, unique in zip(header, columns, strict=True)])
    return Table(rows.path, header, columns, rows.notes, read, schema, rows.form)


def _one_label(view: Table, reading: Reading, label: str) -> Reading:
    """The reading of a table with one label a row. Rows are named by their ids, unless by the user."""
    assert reading.id_column is not None
    plain = replace(reading, label_column=label, id_column=None, annotator_column=None, rows_source=None)
    if plain.path_column is None:
        found = path_column(view, plain)
        plain = replace(plain, path_column=None if found is None else view.columns[found])
    if plain.path_column is None or plain.path_column != reading.id_column:
        plain = replace(plain, name_column=reading.name_column or reading.id_column)
    return plain
