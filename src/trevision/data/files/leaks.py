"""Columns that tell the label itself, or only which row it is: nothing is learnt from them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trevision.data.files.columns import plain
from trevision.data.files.reading import listed
from trevision.data.files.spelling import key

FEWEST_ROWS = 20
"""With fewer rows, a column may agree with the label by chance."""
MOSTLY_THERE = 0.9
"""The share of rows in which a copy of the label must have a value."""
NEARLY = 0.98
"""The share of rows in which a column that is called like the label must agree with it to be made from it."""
RARE = 0.1
"""A class with a smaller share of the rows that a class has on average may be a typing error."""
_IDENTIFIER = re.compile(r"(?:^|[\W_])(?:id|uuid|guid|pk|idx|index|rowid|nr)$", re.IGNORECASE)
_CAMEL_CASE = re.compile(r"[a-z](?:Id|ID|Idx|Index)$")


def leaks(sample: pa.Table, label: str, columns: Sequence[str], as_written: bool = False) -> dict[str, str]:
    """Columns that are made from the label, and what they are, for a note.

    A feature that agrees with labels of which some are wrong, in every single row, was made from them: a copy
    of the label or its code, or columns that each mark the rows of one class (one-hot codes). A column that
    is called like the label or its class may differ in a few rows, whose label was perhaps corrected since.

    Parameters
    ----------
    sample
        Some rows of the table.
    label
        The label column.
    columns
        The columns that could be learnt from.
    as_written
        Whether spellings of a label are different labels.
    """
    codes, names = _codes(sample.column(label), as_written)
    rows_of = np.bincount(codes[codes >= 0], minlength=len(names))
    # A typing error in the label is a class of its own here, and its copies may be without the error.
    common = rows_of >= RARE * rows_of.mean() if len(names) else rows_of > 0
    found: dict[str, str] = {}
    marks: dict[str, int] = {}
    for column in columns:
        values, value_names = _codes(sample.column(column), as_written, most=len(names))
        there = (codes >= 0) & (values >= 0)
        if there.sum() < max(FEWEST_ROWS, MOSTLY_THERE * (codes >= 0).sum()) or len(value_names) < 2:
            continue
        there &= common[codes]
        table = np.zeros((len(names), len(value_names)), dtype=np.int64)
        np.add.at(table, (codes[there], values[there]), 1)
        classes = np.flatnonzero(table.any(axis=1))
        value_of = table[classes].argmax(axis=1)
        share = table.max(axis=1).sum() / max(1, there.sum())
        if share < NEARLY:
            continue  # rows of one class have different values
        classes_of_value = np.bincount(value_of, minlength=len(value_names))
        exact = share == 1
        if (classes_of_value <= 1).all():
            if exact or _is_called(column, label):
                found[column] = f"is {_nearly(share)}a copy of the label, or a code for it"
        elif len(value_names) == 2 and classes_of_value.min() == 1:
            code = int(classes[np.argmax(classes_of_value[value_of] == 1)])
            if exact or _is_called(column, label) or _is_called(column, names[code]):
                marks[column] = code
    for column, code in marks.items():
        others = set(marks.values()) - {code}
        if others or key(names[code]) in key(column) or key(label) in key(column):
            found[column] = f"marks the rows of the class {names[code]!r}"
    return found


def notes_of(found: dict[str, str]) -> list[str]:
    """Sentences about the columns that are left out because they tell the label."""
    copies = [column for column, what in found.items() if not what.startswith("marks")]
    marks = [column for column in found if column not in copies]
    notes = [f"Column {column!r} is not used: it {found[column]}." for column in copies]
    if len(marks) == 1:
        notes.append(f"Column {marks[0]!r} is not used: it tells the label, since it {found[marks[0]]}.")
    elif marks:
        told = listed([repr(column) for column in marks])
        notes.append(f"Columns {told} are not used: they tell the label, since each marks one class.")
    return notes


def identifies(name: str, values: pa.ChunkedArray) -> bool:
    """Whether a column of whole numbers is there to name rows: by its own name, and different in each row."""
    if not (_IDENTIFIER.search(name) or _CAMEL_CASE.search(name)):
        return False
    present = plain(values).drop_null()
    if len(present) < FEWEST_ROWS or len(pc.unique(present)) < len(present):
        return False
    if pa.types.is_string(present.type):
        present = pc.utf8_trim_whitespace(present)
        return bool(pc.all(pc.match_substring_regex(present, r"^\d+(\.0*)?$")).as_py())
    return pa.types.is_integer(present.type)


def _is_called(column: str, name: str) -> bool:
    """Whether a column's name has a name in it, as a whole word."""
    word = re.escape(key(name))
    return bool(word and re.search(rf"(?:^|[\W_]){word}(?:$|[\W_])", key(column)))


def _nearly(share: float) -> str:
    return "" if share == 1 else f"in {share:.1%} of the rows "


def _codes(
    column: pa.ChunkedArray, as_written: bool, most: int | None = None
) -> tuple[np.ndarray, list[str]]:
    """The values of a column as codes, -1 where there is none; no values if there are more than `most`."""
    encoded = plain(column).dictionary_encode()
    texts = ["" if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    names = [text.strip() if as_written else key(text) for text in texts]
    different = list(dict.fromkeys(name for name in names if name))
    if most is not None and len(different) > most:
        return np.full(len(column), -1), []
    number = {name: code for code, name in enumerate(different)}
    code_of = np.array([*(number.get(name, -1) for name in names), -1])
    return code_of[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)], different
