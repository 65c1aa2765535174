"""Tables on disk as a stream of blocks: .csv or .tsv of any common form, and .parquet.

All values of a .csv are read as text, since the kind of a column is known only after reading all of it.
Blocks have some megabytes, so a table may have any length. Errors name the file and the row.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from trevision.budgets import CSV_COLUMNS, CSV_HEADER_BYTES, MB
from trevision.data.files.parquet_files import BLOCK_ROWS, open_parquet, parquet_blocks
from trevision.data.files.reading import PARQUET_SUFFIXES
from trevision.data.progress import Progress
from trevision.files import DamagedFile, DataError, TooLarge

MOST_NOTES = 20
BLOCK_BYTES = 16 << 20
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "<NA>")
"""Texts that stand for a missing value."""

DELIMITERS = ",;\t|"
# pyarrow counts columns from 0, and rows from 1 with the header.
_MISFIT = re.compile(r"CSV column #([0-9]+): Row #([0-9]+): .*invalid value '(.*)'")
_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


Progressed = tuple[pa.RecordBatch, int, int]
"""A block, the amount read up to its end, and the total amount."""


@dataclass(frozen=True)
class Form:
    """The format of a .csv file: its encoding, its separator, and the number of empty lines at its start."""

    encoding: str
    delimiter: str
    blank_lines: int


@dataclass(frozen=True)
class Table:
    """A table that is read block by block, as often as needed.

    `header` has the names in the file, `columns` the same names made unique. Blocks have the columns in this
    order.
    """

    path: Path
    header: list[str]
    columns: list[str]
    notes: tuple[str, ...]
    read: Callable[[bool], Iterator[Progressed]]
    """Opens the file and reads it from its start; the argument is `verbatim`, as for `blocks`."""
    schema: pa.Schema | None = None
    """The types of a .parquet file; None for text."""
    form: Form | None = None
    """The format of a text file; None for a .parquet file."""
    _begun: dict[bool, tuple[Progressed, Iterator[Progressed]]] = field(default_factory=dict, repr=False)
    """Readings of which only the first block was used so far, by `verbatim`."""

    @property
    def delimiter(self) -> str:
        return "," if self.form is None else self.form.delimiter

    def blocks(self, progress: Progress | None = None, *, verbatim: bool = False) -> Iterator[pa.RecordBatch]:
        """All rows in order; with `verbatim`, text that stands for a missing value stays text."""
        if verbatim in self._begun:
            first, others = self._begun.pop(verbatim)
            return with_progress(chain([first], others), progress)
        return with_progress(self.read(verbatim), progress)

    def first_block(self, *, verbatim: bool = False) -> pa.RecordBatch:
        """The first rows. The next `blocks` continues this reading, so nothing is read twice."""
        if verbatim not in self._begun:
            reading = self.read(verbatim)
            self._begun[verbatim] = next(reading), reading
        return self._begun[verbatim][0][0]


def with_progress(blocks: Iterable[Progressed], progress: Progress | None) -> Iterator[pa.RecordBatch]:
    """The blocks; `progress` is called after each has been used."""
    for block, done, total in blocks:
        yield block
        if progress is not None:
            progress(done, total)


def open_table(path: Path | str) -> Table:
    """The table at `path`, one of `TABLE_SUFFIXES`. Only its beginning is read."""
    path = Path(path).expanduser()
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise DataError(f"{path}: must be a file, but is {what}", path=path)
    return _open_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else _open_csv(path)


def _open_parquet(path: Path) -> Table:
    with open_parquet(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    if rows == 0:
        raise DataError(f"{path}: holds no rows", path=path)
    _check_columns(path, len(schema.names))
    columns, notes = _distinct(schema.names)

    def read(verbatim: bool) -> Iterator[Progressed]:
        done = 0
        for block in parquet_blocks(path, BLOCK_ROWS):
            done += block.num_rows
            yield pa.RecordBatch.from_arrays(block.columns, names=columns), done, rows

    return Table(path, schema.names, columns, notes, read, schema)


def _open_csv(path: Path) -> Table:
    encoding, open_quote, notes = _encoding(path)
    header, form = _header(path, encoding)
    _check_columns(path, len(header))
    columns, more_notes = _distinct(header)

    def read(verbatim: bool) -> Iterator[Progressed]:
        rows = 0
        last = None
        types = dict.fromkeys(columns, pa.string())
        for block, done, size in csv_blocks(path, form, columns, types, verbatim=verbatim):
            rows += block.num_rows
            last = block if block.num_rows else last
            yield block, done, size
        if rows == 0 or last is None:
            raise DataError(f"{path}: holds a header and no rows")
        if open_quote and any("\n" in str(column[-1]) for column in last.columns):
            raise DataError(f"{path}: a quotation mark that opens in row {rows - 1} is never closed")

    return Table(path, header, columns, notes + more_notes, read, form=form)


def csv_blocks(
    path: Path,
    form: Form,
    names: list[str],
    types: dict[str, pa.DataType],
    *,
    verbatim: bool = False,
    decimal_point: str = ".",
) -> Iterator[Progressed]:
    """Some columns of a .csv file, block by block.

    Parameters
    ----------
    path, form
        The file, and how it is written.
    names
        All columns of the file.
    types
        The columns to read, in this order, and their types.
    verbatim
        Whether text that stands for a missing value stays text.
    decimal_point
        The sign before the fraction of a number.

    Raises
    ------
    DataError
        For a row that does not fit, with its number.
    """
    ragged: list[pa.csv.InvalidRow] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            # One thread: with several, errors do not say their row.
            blocks = pa.csv.open_csv(
                file,
                pa.csv.ReadOptions(
                    use_threads=False, block_size=BLOCK_BYTES, column_names=names, encoding=form.encoding,
                    skip_rows=form.blank_lines, skip_rows_after_names=1,
                ),
                pa.csv.ParseOptions(
                    delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=refuse
                ),
                pa.csv.ConvertOptions(
                    column_types=types, include_columns=list(types), strings_can_be_null=not verbatim,
                    null_values=list(MISSING), decimal_point=decimal_point,
                ),
            )  # fmt: skip
            for block in blocks:
                yield block, min(file.tell(), size), size
    except pa.ArrowInvalid as error:
        if ragged:
            raise _ragged_row(path, ragged[0], form) from None
        if "straddl" in str(error):
            # pyarrow says this also of a header without an end of line.
            if size <= BLOCK_BYTES:
                raise DataError(f"{path}: holds a header and no rows") from None
            raise DataError(
                f"{path}: holds a row of more than {BLOCK_BYTES >> 20} MB; is a quotation mark left open?"
            ) from None
        if misfit := _MISFIT.search(str(error)):
            column, row, value = misfit.groups()
            raise DataError(
                f"{path}: column {names[int(column)]!r} must hold numbers, got {value!r} in row "
                f"{int(row) - 2 - form.blank_lines}"
            ) from None
        raise DataError(f"{path}: cannot be read as a table ({str(error)[:300]})") from None
    except UnicodeError as error:
        raise DamagedFile(f"{path}: cannot be read as text in {form.encoding} ({error})", path=path) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _ragged_row(path: Path, row: pa.csv.InvalidRow, form: Form) -> DataError:
    number = row.number - 2 - form.blank_lines  # counted from 1, with the header
    if row.actual_columns > row.expected_columns:
        count, repair = "too many", f"put fields that hold a {form.delimiter!r} in quotes"
    else:
        count, repair = "too few", "add the missing ones, or close a quotation mark that is left open"
    return DataError(
        f"{path}: row {number} has {count} fields, {row.actual_columns} instead of "
        f"{row.expected_columns} ({row.text[:60]!r}); {repair}"
    )


def _encoding(path: Path) -> tuple[str, bool, tuple[str, ...]]:
    """The encoding of a text file, whether its number of quotation marks is odd, and notes."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    quotes, position = 0, 0
    try:
        with path.open("rb") as file:
            start = file.read(2)
            if not start:
                raise DataError(f"{path}: is empty")
            if start in _BYTE_ORDER_MARKS:
                return _BYTE_ORDER_MARKS[start], False, (f"{path.name} is in UTF-16.",)
            file.seek(0)
            try:
                while part := file.read(BLOCK_BYTES):
                    quotes += part.count(b'"')
                    if b"\0" in part:
                        raise DamagedFile(
                            f"{path}: holds zero bytes, so it is no .csv file, or one in UTF-16 without a "
                            "mark that says so; save it in UTF-8",
                            path=path,
                        )
                    decoder.decode(part)
                    position += len(part)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError as error:
                # Every byte is valid in Latin-1; Windows' variant has printable characters for most.
                line = _line_of(path, position + error.start)
                note = (
                    f"{path.name} is not in UTF-8 (line {line} is the first to show it) and was read as "
                    "Windows-1252 or Latin-1; letters with accents may be wrong."
                )
                return _single_byte_encoding(path), False, (note,)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return "utf-8", bool(quotes % 2), ()


def _line_of(path: Path, position: int) -> int:
    with path.open("rb") as file:
        line = 1
        while position > 0 and (part := file.read(min(position, BLOCK_BYTES))):
            line += part.count(b"\n")
            position -= len(part)
    return line


def _single_byte_encoding(path: Path) -> str:
    undefined = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
    with path.open("rb") as file:
        while part := file.read(BLOCK_BYTES):
            if part.translate(None, undefined) != part:
                return "latin-1"
    return "cp1252"


def _header(path: Path, encoding: str) -> tuple[list[str], Form]:
    """The names in the first row. Fields are separated by its most frequent usual separator."""
    text_encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    lines: list[str] = []
    quotes = length = blank_lines = 0
    with path.open(encoding=text_encoding, newline="") as file:
        try:
            while line := file.readline(CSV_HEADER_BYTES + 1):
                if not lines and not line.strip("\r\n"):
                    blank_lines += 1
                    continue
                lines.append(line)
                quotes, length = quotes + line.count('"'), length + len(line)
                # A name in quotes may hold a line break.
                if (quotes % 2 == 0 and line.endswith(("\r", "\n"))) or length > CSV_HEADER_BYTES:
                    break
        except UnicodeError as error:
            raise DamagedFile(f"{path}: cannot be read as text in {encoding} ({error})", path=path) from None
    first = "".join(lines)
    if length > CSV_HEADER_BYTES:
        raise TooLarge(
            f"{path}: its header has more than {CSV_HEADER_BYTES // MB} MB; is a quotation mark left open?",
            path=path,
        )
    if "\0" in first:
        raise DamagedFile(f"{path}: holds zero bytes, so it is no .csv file", path=path)
    if not first.strip():
        raise DataError(f"{path}: is empty", path=path)
    bare = "".join(first.split('"')[::2])
    delimiter = max(DELIMITERS, key=lambda sign: (bare.count(sign), sign == ","))
    try:
        names = next(csv.reader(io.StringIO(first, ""), delimiter=delimiter))
    except csv.Error as error:  # a name longer than the reader takes
        raise DamagedFile(f"{path}: its header cannot be read ({error})", path=path) from None
    return [name.strip() for name in names], Form(encoding, delimiter, blank_lines)


def _check_columns(path: Path, columns: int) -> None:
    if columns > CSV_COLUMNS:
        raise TooLarge(
            f"{path}: has {columns:,} columns, more than the {CSV_COLUMNS:,} allowed; give numbers as an "
            ".npz file",
            path=path,
        )


def _distinct(header: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """A unique name for every column, and a note on repeated names."""
    names: dict[str, None] = {}  # in their order
    last: dict[str, int] = {}  # the number that a repeated name got last
    notes = []
    for column, given in enumerate(header, start=1):
        name = base = given.strip() or f"column {column}"
        number = last.get(base, 1)
        while name in names:
            number += 1
            name = f"{base} ({number})"
        if number > 1:
            last[base] = number
            notes.append(f"Column {column} is named {base!r} like another one; it is read as {name!r}.")
        names[name] = None
    if len(notes) > MOST_NOTES:
        left = len(notes) - MOST_NOTES
        more = f"{left:,} more columns are named like another one; they are read with a number."
        notes = [*notes[:MOST_NOTES], more]
    return list(names), tuple(notes)
