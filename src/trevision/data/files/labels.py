"""Labels of the user's own files: rows with labels, classes, and labels known to be right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trevision.data.files import spelling, targets
from trevision.data.files.columns import booleans, plain
from trevision.data.files.reading import listed
from trevision.files import DataError

MOST_ROWS_NAMED = 5
_ZERO_FRACTION = re.compile(r"\.0+\Z")


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """Labels as text, `names[codes]`; the code is -1 for a row without a label."""

    codes: np.ndarray
    names: list[str]


@dataclass(frozen=True, eq=False)
class Sorted:
    """The rows of a source by use (noisy or trusted): row numbers and codes into `classes`."""

    rows: np.ndarray
    codes: np.ndarray
    trusted_rows: np.ndarray
    trusted_codes: np.ndarray
    classes: np.ndarray
    notes: tuple[str, ...]


def label_column(parts: Iterable[pa.Array], where: str) -> tuple[LabelColumn, tuple[str, ...]]:
    """The labels of a column as text, trimmed; whole numbers are written without a fraction.

    `where` begins an error's line.
    """
    try:
        texts = pa.chunked_array([_as_text(part) for part in parts], type=pa.string())
    except pa.ArrowException as error:
        raise DataError(f"{where}: labels must be words, whole numbers or truths ({error})") from None
    trimmed = pc.utf8_trim_whitespace(texts)
    spaces = int(pc.sum(pc.not_equal(trimmed, texts)).as_py() or 0)
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(trimmed, ""), None, trimmed)).combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    notes = (f"Spaces around {spaces} labels were removed.",) if spaces else ()
    if strange := [name for name in encoded.dictionary.to_pylist() if "\0" in name]:
        raise DataError(f"{where}: labels must not hold zero bytes, got {strange[0][:60]!r}; remove them")
    return _without_fractions(LabelColumn(codes, encoded.dictionary.to_pylist())), notes


def class_column(
    parts: Iterable[pa.Array], where: str, as_written: bool = False, column: str | None = None
) -> tuple[LabelColumn, tuple[str, ...]]:
    """The labels to learn from: as `label_column`, but with one name for all spellings of a class.

    Parameters
    ----------
    parts, where
        As for `label_column`.
    as_written
        Whether every different label is a class of its own.
    column
        The name of a table's column, whose labels must look like classes; None for labels that do anyway.

    Raises
    ------
    DataError
        If the labels are lists of labels, or numbers with many levels.
    """
    labels, notes = label_column(parts, where)
    if as_written:
        return labels, notes
    counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names)).tolist()
    if column is not None:
        targets.check(labels.names, counts, f"{where}: column {column!r}", column)
    codes, names, merged = spelling.merge(labels.names, counts)
    if len(names) == 1 and merged:
        raise DataError(f"{where}: holds one class alone. {spelling.note_of(merged)}")
    if merged:
        labels = LabelColumn(np.append(codes, -1)[labels.codes], names)
        counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(names)).tolist()
        notes += (spelling.note_of(merged),)
    if alike := spelling.nearly_alike(labels.names, counts):
        notes += (spelling.hint_of(alike, dict(zip(labels.names, counts, strict=True))),)
    return labels, notes


def _without_fractions(labels: LabelColumn) -> LabelColumn:
    """1.0 and 1 as one label if all are whole numbers: with missing values, some tools write 1.0 for 1."""
    whole = [_ZERO_FRACTION.sub("", name) for name in labels.names]
    if whole == labels.names or not all(_is_whole(name) for name in whole):
        return labels
    code_of = {name: code for code, name in enumerate(dict.fromkeys(whole))}
    new_codes = np.array([code_of[name] for name in whole] + [-1])
    return LabelColumn(new_codes[labels.codes], list(code_of))


def _as_text(part: pa.Array) -> pa.Array:
    part = plain(part)
    if pa.types.is_floating(part.type):
        part = pc.if_else(pc.is_nan(part), None, part)
        whole = pc.all(pc.and_(pc.is_finite(part), pc.equal(part, pc.floor(part)))).as_py()
        part = part.cast(pa.int64()) if whole is not False else part
    return part if pa.types.is_string(part.type) else part.cast(pa.string())


def truths(parts: Iterable[pa.Array], where: str) -> np.ndarray:
    """A column that says whether each row's label is right; a missing value means no."""
    chunks, start = [], 0
    for part in parts:
        values = booleans(part)
        known = (values == 0) | (values == 1) | plain(part).is_null().to_numpy(zero_copy_only=False)
        if not known.all():
            row = int(np.flatnonzero(~known)[0])
            raise DataError(
                f"{where} must say true or false, yes or no, 1 or 0, got {part[row].as_py()!r} "
                f"in row {start + row}"
            )
        chunks.append(values == 1)
        start += len(values)
    return np.concatenate(chunks)


def sort_rows(
    labels: LabelColumn, trusted: np.ndarray | None, where: str, usable: np.ndarray | None = None
) -> Sorted:
    """Rows with noisy labels, rows with trusted ones, and the classes.

    A row without a label is left out. So is a noisy row whose label occurs only once: a class of one row
    cannot be both trained on and validated, and is mostly a typing error.

    Parameters
    ----------
    labels
        The label of each row.
    trusted
        For each row whether its label is known to be right; None if no label is.
    where
        Begins the line of an error.
    usable
        For each row whether it can be used; None if every row can.

    Raises
    ------
    DataError
        If there are no two classes of at least two rows each.
    """
    trusted = np.zeros(len(labels.codes), dtype=bool) if trusted is None else trusted
    usable = np.ones(len(labels.codes), dtype=bool) if usable is None else usable
    present = (labels.codes >= 0) & usable
    notes = []
    if not present[usable].all():
        missing = np.flatnonzero(usable & ~present)
        notes.append(f"{counted(len(missing), 'row')} without a label left out ({rows_named(missing)}).")
    noisy = present & ~trusted
    counts = np.bincount(labels.codes[noisy], minlength=len(labels.names))
    single = counts == 1
    _check_classes(labels, counts, where)
    alone = np.flatnonzero(noisy & single[labels.codes])
    notes += [
        f"Row {row} left out: no other row has its label {labels.names[labels.codes[row]]!r}, "
        "and a class needs two."
        for row in alone[:MOST_ROWS_NAMED]
    ]
    if len(alone) > MOST_ROWS_NAMED:
        notes.append(f"{len(alone) - MOST_ROWS_NAMED} further rows left out whose label occurs once.")
    names = [name for name, count in zip(labels.names, counts, strict=True) if count > 1]
    classes, order = class_values(names)
    code_of = np.full(len(labels.names) + 1, -1)
    code_of[np.flatnonzero(counts > 1)] = order
    codes = np.where(usable, code_of[labels.codes], -1)
    unknown = np.flatnonzero(present & trusted & (codes < 0))
    if len(unknown):
        notes.append(
            f"{counted(len(unknown), 'trusted row')} left out, whose label no noisy row has "
            f"({rows_named(unknown)})."
        )
    rows, trusted_rows = np.flatnonzero(noisy & (codes >= 0)), np.flatnonzero(trusted & (codes >= 0))
    if trusted.any() and len(trusted_rows) == 0:
        raise DataError(f"{where}: none of the rows that are said to be right has a label that can be used")
    return Sorted(rows, codes[rows], trusted_rows, codes[trusted_rows], classes, tuple(notes))


def _check_classes(labels: LabelColumn, counts: np.ndarray, where: str) -> None:
    if counts.sum() == 0:
        raise DataError(f"{where}: no row has a label to learn from")
    if (counts == 1).sum() > 0.5 * counts.sum() and counts.sum() > 10:
        raise DataError(
            f"{where}: most labels occur once, such as {labels.names[int(np.argmax(counts == 1))]!r}; "
            "labels must be classes, not names or measurements"
        )
    if (counts > 1).sum() < 2:
        present = [name for name, count in zip(labels.names, counts, strict=True) if count]
        raise DataError(
            f"{where}: needs two classes of at least two rows each to learn from, got {listed(present)}"
        )


def class_values(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes, as whole numbers if all of them are, and the code of each name."""
    values: np.ndarray = np.array(names)
    if all(_is_whole(name) for name in names):
        values = np.array([int(name) for name in names], dtype=np.int64)
    classes, order = np.unique(values, return_inverse=True)
    return classes, order


def _is_whole(name: str) -> bool:
    # Only as Python would write it: 007 stays text, since two names must not become one number.
    return len(name) < 18 and name.removeprefix("-").isdecimal() and str(int(name)) == name


def trusted_codes(
    labels: LabelColumn, classes: np.ndarray, where: str, as_written: bool = False
) -> tuple[np.ndarray, np.ndarray, str]:
    """The usable rows of a source of right labels, their codes, and a note on the other rows ("" for none).

    Parameters
    ----------
    labels
        The label of each row.
    classes
        The classes that the noisy rows have.
    where
        Begins the line of an error, and the note.
    as_written
        Whether a label must be spelt as its class is.

    Raises
    ------
    DataError
        If no row has a label of these classes.
    """
    code_of = spelling.codes_by_spelling(labels.names, map(str, classes), as_written)
    codes = np.append(code_of, -1)[labels.codes]
    rows = np.flatnonzero(codes >= 0)
    if len(rows) == 0:
        raise DataError(
            f"{where}: none of its rows has a label of the classes {listed([str(c) for c in classes])}"
        )
    left = len(codes) - len(rows)
    note = (
        f"{where}: {counted(left, 'row')} left out, whose label is missing or no noisy row's." if left else ""
    )
    return rows, codes[rows], note


def label_texts(labels: LabelColumn) -> np.ndarray | None:
    """The label of each row as text, "" for none; None if no row has one."""
    if not len(labels.names):
        return None
    return np.array([*labels.names, ""], dtype=object)[labels.codes]


def counted(number: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def rows_named(rows: np.ndarray) -> str:
    """A few row numbers for a note."""
    shown = ", ".join(str(row) for row in rows[:MOST_ROWS_NAMED])
    return f"row{'' if len(rows) == 1 else 's'} {shown}" + (", ..." if len(rows) > MOST_ROWS_NAMED else "")
