"""Rows of a source for display, and a copy of a source with some labels replaced."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from trevision.data.files.answers import open_source
from trevision.data.files.arrays import name_of, npz_members
from trevision.data.files.columns import plain
from trevision.data.files.image_lists import list_folder, path_column
from trevision.data.files.labels import counted
from trevision.data.files.reading import PARQUET_SUFFIXES, TEXT_SUFFIXES, Reading, kind_of
from trevision.data.files.shown import shown
from trevision.data.files.survey import find_column, find_label_column
from trevision.data.files.tables import Table
from trevision.files import DataError, write_atomically

Write = Callable[[Path], None]

CHECKED = "checked"
"""The new column of rows whose label is known to be right."""


def row_fields(source: str | Path, reading: Reading, row_numbers: Sequence[int]) -> list[dict[str, str]]:
    """The fields of some rows of a table as text for people, by column.

    Parameters
    ----------
    source, reading
        The source, and how it is read.
    row_numbers
        The rows, in the order of the result.

    Returns
    -------
    A dict for each row; an empty one where the source is no table.
    """
    wanted = [int(row) for row in row_numbers]
    if kind_of(source) != "table":
        return [{} for _ in wanted]
    table, _, _ = open_source(source, reading)
    fields_of: dict[int, dict[str, str]] = {}
    rows = np.unique(np.array(wanted, dtype=np.int64))
    start = 0
    for block in table.blocks(verbatim=True):
        here = rows[(rows >= start) & (rows < start + block.num_rows)]
        for row, fields in zip(here.tolist(), block.take(pa.array(here - start)).to_pylist(), strict=True):
            fields_of[row] = {name: shown(value) for name, value in fields.items()}
        start += block.num_rows
    _check_rows(table.path, wanted, start)
    return [fields_of[row] for row in wanted]


def write_labels(
    source: str | Path,
    reading: Reading,
    corrections: Mapping[int, str],
    out: Path,
    checked: Collection[int] = (),
) -> Reading:
    """Write a copy of a source with some labels replaced, and perhaps some said to be right.

    Parameters
    ----------
    source, reading
        The source, and how it is read.
    corrections
        The new label of each row to change, by the row's number.
    out
        The file to write. A .csv becomes a .csv in UTF-8 with the same columns and fields, a .parquet or an
        .npz one of the same types. A folder of images becomes a .csv with the columns path and label, as
        `fit` reads it: paths are relative to the folder of `out` if that is above the images, else absolute.
    checked
        Rows whose label, after the corrections, is known to be right. A table gets a column that says so
        (the clean_column of `reading`, or a new one); of an .npz file they go into a second file beside it.

    Returns
    -------
    How the copy is read: as `reading`, with the column or the file of right labels.

    Raises
    ------
    DataError
        If a label or the suffix of `out` does not fit; then nothing is written.
    """
    for row, label in corrections.items():
        if not str(label).strip():
            raise DataError(f"corrections must give each row a label, got none for row {row}")
    if checked and reading.clean_source is not None:
        raise DataError(
            f"the run already takes right labels from {reading.clean_source}, and a run takes them from one "
            "place; add the checked rows to that file"
        )
    kind, sources = kind_of(source), (source, reading.rows_source)
    suffixes: tuple[str, ...]
    mark = Mark.of(reading, (), checked)
    if kind == "named":
        raise DataError(f"source must be a file or folder whose labels can be replaced, got {str(source)!r}")
    if kind == "folder":
        suffixes, write = (".csv",), _folder_writer(Path(source).expanduser(), corrections, out, mark)
    elif kind == "npz":
        suffixes, write = (".npz",), _npz_writer(Path(source).expanduser(), corrections, checked)
    else:
        table, reading, _ = open_source(source, reading)
        mark = Mark.of(reading, (*table.header, *table.columns), checked)
        suffixes = TEXT_SUFFIXES if table.schema is None else PARQUET_SUFFIXES
        writer = _csv_writer if table.schema is None else _parquet_writer
        write = writer(table, reading, corrections, out, mark)
    if out.suffix.lower() not in suffixes:
        raise DataError(f"out must end in {' or '.join(suffixes)}, as a copy of {source} does, got {out}")
    for read in sources:
        if read is not None and out.exists() and Path(read).exists() and out.samefile(read):
            raise DataError(f"out must not be the source itself, got {out}")
    reading = reading_of_paths(source, reading, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if kind == "npz" and checked:
        beside = checked_beside(out)
        write_atomically(beside, _checked_npz_writer(Path(source).expanduser(), corrections, checked))
        write_atomically(out, write)
        return replace(reading, clean_source=str(beside))
    write_atomically(out, write)
    return replace(reading, clean_column=mark.column) if checked else reading


def checked_beside(out: Path) -> Path:
    """The file of right labels beside a copy of an .npz file."""
    return out.with_name(f"{out.stem}-checked.npz")


def reading_of_paths(source: str | Path, reading: Reading, out: Path) -> Reading:
    """How a copy in `out` is read: its images may lie outside its folder, unless that is above them."""
    kind = kind_of(source)
    if kind not in ("folder", "table"):
        return reading
    path = Path(source).expanduser().resolve()
    folder = path if kind == "folder" else path.parent
    if folder.is_relative_to(out.resolve().parent):
        return reading
    if kind == "table":
        table, reading, _ = open_source(source, reading)
        known = (find_label_column(table, reading),)
        if path_column(table, reading, known, verbatim=table.schema is None) is None:
            return reading
    return replace(reading, paths_anywhere=True)


@dataclass(frozen=True)
class Mark:
    """The column that says which labels are right: its name, whether it is new, and the rows it names."""

    column: str
    is_new: bool
    rows: Collection[int]

    @classmethod
    def of(cls, reading: Reading, columns: Sequence[str], rows: Collection[int]) -> Mark:
        """The clean column of `reading`; else one called checked, or checked_2 if that is taken, ..."""
        if reading.clean_column is not None:
            return cls(reading.clean_column, False, frozenset(rows))
        names = (CHECKED, *(f"{CHECKED}_{number}" for number in range(2, len(columns) + 3)))
        return cls(next(name for name in names if name not in columns), bool(rows), frozenset(rows))

    def text(self, row: int) -> str:
        """What a new column says of a row."""
        return "yes" if row in self.rows else "no"


def _csv_writer(
    table: Table, reading: Reading, corrections: Mapping[int, str], out: Path, mark: Mark
) -> Write:
    label = find_label_column(table, reading)
    marked = None if mark.is_new or not mark.rows else find_column(table, mark.column, "clean_column")
    moved = _path_mover(table, reading, label, out)

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, delimiter=table.delimiter, lineterminator="\n")
            lines.writerow([*table.header, mark.column] if mark.is_new else table.header)
            row = 0
            for block in table.blocks(verbatim=True):
                for fields in zip(*(column.to_pylist() for column in block.columns), strict=True):
                    changed = list(fields)
                    changed[label] = corrections.get(row, changed[label])
                    if marked is not None and row in mark.rows:
                        changed[marked] = "yes"
                    lines.writerow([*moved(changed), mark.text(row)] if mark.is_new else moved(changed))
                    row += 1
            _check_rows(table.path, corrections, row)

    return write


def _path_mover(table: Table, reading: Reading, label: int, out: Path) -> Callable[[list[Any]], list[Any]]:
    """A function that adjusts the paths of images when their table moves to another folder."""
    path_number = path_column(table, reading, (label,), verbatim=True)
    if path_number is None or out.resolve().parent == table.path.resolve().parent:
        return lambda fields: fields
    folder = table.path.resolve().parent

    def move(fields: list[Any]) -> list[Any]:
        if fields[path_number]:
            fields[path_number] = _path_from(out, folder / fields[path_number])
        return fields

    return move


def _parquet_writer(
    table: Table, reading: Reading, corrections: Mapping[int, str], out: Path, mark: Mark
) -> Write:
    label = find_label_column(table, reading)
    marked = None if mark.is_new or not mark.rows else find_column(table, mark.column, "clean_column")
    path_number = path_column(table, reading, (label,))
    schema = table.schema
    assert schema is not None
    if path_number is not None and out.resolve().parent != table.path.resolve().parent:
        raise DataError(
            f"out must lie in {table.path.parent}, as the paths of images are relative to it, got {out}"
        )

    written = schema.append(pa.field(mark.column, pa.bool_())) if mark.is_new else schema

    def write(path: Path) -> None:
        row = 0
        with pa.parquet.ParquetWriter(path, written) as file:
            for block in table.blocks():
                columns = list(block.columns)
                here = {r - row: text for r, text in corrections.items() if row <= r < row + block.num_rows}
                if here:
                    columns[label] = _replaced(columns[label], here, schema.field(label).type)
                sure = [r - row for r in mark.rows if row <= r < row + block.num_rows]
                if mark.is_new:
                    flags = np.zeros(block.num_rows, dtype=bool)
                    flags[sure] = True
                    columns.append(pa.array(flags))
                elif marked is not None and sure:
                    kind = schema.field(marked).type
                    said = "yes" if pa.types.is_string(plain(columns[marked]).type) else "1"
                    columns[marked] = _replaced(columns[marked], dict.fromkeys(sure, said), kind)
                file.write_table(pa.Table.from_arrays(columns, schema=written))
                row += block.num_rows
        _check_rows(table.path, corrections, row)

    return write


def _replaced(column: pa.Array, corrections: Mapping[int, str], kind: pa.DataType) -> pa.Array:
    """The column with some values replaced by texts, converted to its type."""
    values = plain(column)
    rows = sorted(corrections)
    mask = np.zeros(len(values), dtype=bool)
    mask[rows] = True
    try:
        new = pa.array([corrections[row] for row in rows], pa.string()).cast(values.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"corrections must be labels of type {values.type}, as the column's are ({error})"
        ) from None
    values = pa.compute.replace_with_mask(values, pa.array(mask), new)
    return values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values.cast(kind)


def _npz_writer(path: Path, corrections: Mapping[int, str], checked: Collection[int]) -> Write:
    """All rows; but if some are checked, the others, in their order."""
    arrays = _relabelled_arrays(path, corrections)
    if checked:
        others = np.setdiff1d(np.arange(len(arrays["y"])), list(checked))
        arrays |= {name: arrays[name][others] for name in ("x", "y")}
    return _npz_write(arrays)


def _checked_npz_writer(path: Path, corrections: Mapping[int, str], checked: Collection[int]) -> Write:
    arrays = _relabelled_arrays(path, corrections)
    return _npz_write({name: arrays[name][sorted(checked)] for name in ("x", "y")})


def _relabelled_arrays(path: Path, corrections: Mapping[int, str]) -> dict[str, np.ndarray]:
    arrays = npz_members(path)
    if "y" not in arrays:
        raise DataError(f"{path}: lacks the array y, whose labels are to be replaced")
    _check_rows(path, corrections, len(arrays["y"]))
    return arrays | {"y": _relabelled(path, arrays["y"], corrections)}


def _npz_write(arrays: dict[str, np.ndarray]) -> Write:
    def write(target: Path) -> None:
        with target.open("wb") as file:  # savez would append .npz to a name without it
            np.savez(file, allow_pickle=False, **arrays)

    return write


def _relabelled(path: Path, labels: np.ndarray, corrections: Mapping[int, str]) -> np.ndarray:
    """The labels with some replaced; a new class among numbers has to be a number."""
    # By their names in the run: whole numbers without a fraction, bytes as text.
    known = {name: value for value in np.unique(labels) for name in (str(value), _name(value))}
    values = labels.tolist()
    for row, text in corrections.items():
        try:
            if text in known:
                values[row] = known[text]
            elif labels.dtype.kind in "iuf":
                values[row] = int(text)
            elif labels.dtype.kind == "U":
                values[row] = text
            else:
                raise ValueError
        except ValueError:
            raise DataError(
                f"corrections must be labels of type {labels.dtype}, as those of {path}, "
                f"got {text!r} for row {row}"
            ) from None
    # Text gets the width that its longest label needs.
    return np.array(values, dtype=None if labels.dtype.kind == "U" else labels.dtype)


def _name(label: Any) -> str:
    whole = isinstance(label, np.floating) and float(label).is_integer()
    return name_of(int(label) if whole else label)


def _folder_writer(folder: Path, corrections: Mapping[int, str], out: Path, mark: Mark) -> Write:
    listing = list_folder(folder, labels_as_written=True)  # what is not corrected stays as it is
    assert listing.labels is not None
    _check_rows(folder, corrections, len(listing.paths))
    names = [listing.labels.names[code] for code in listing.labels.codes]

    def write(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["path", "label", mark.column] if mark.is_new else ["path", "label"])
            for row, (image, name) in enumerate(zip(listing.paths, names, strict=True)):
                fields = [_path_from(out, folder.resolve() / image), corrections.get(row, name)]
                lines.writerow([*fields, mark.text(row)] if mark.is_new else fields)

    return write


def _path_from(out: Path, image: Path) -> str:
    base = out.resolve().parent
    return image.relative_to(base).as_posix() if image.is_relative_to(base) else str(image)


def _check_rows(path: Path, wanted: Mapping[int, str] | Sequence[int], rows: int) -> None:
    beyond = [row for row in wanted if not 0 <= row < rows]
    if beyond:
        raise DataError(
            f"{path}: has {counted(rows, 'row')}, counted from 0, but row {beyond[0]} is asked for"
        )
