"""Which column holds the labels and which the text, where the user does not say: by names and values.

A guess is made once, before a run, and becomes part of how its source is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from trevision.data.files.columns import Column, plain, recognise
from trevision.data.files.corrections import CHECKED
from trevision.data.files.image_lists import path_column
from trevision.data.files.leaks import identifies
from trevision.data.files.reading import Reading
from trevision.data.files.survey import LABEL_COLUMNS
from trevision.data.files.tables import Table, open_table
from trevision.files import DataError

LOOKED_AT = 2_000
"""Rows, spread over the first block of the file, by which columns are judged."""
MOST_CLASSES = 50
FEW_CLASSES = 20
"""The most different values of a column that may be taken for the labels by its values alone."""
CLEAN_NAMES = re.compile(r"true|clean|gold|correct|verified|checked", re.IGNORECASE)

_NAMES = (
    {"labels", "noisylabel", "givenlabel", "observedlabel", "labelname", "classlabel", "labelgiven"},
    {"target", "class", "category", "targets", "classname", "categoryname", "targetclass", "labeltext"},
    {
        *("status", "outcome", "response", "sentiment", "species", "diagnosis", "topic", "intent", "verdict"),
        *("decision", "rating", "stars", "grade", "churn", "churned", "fraud", "spam", "genre", "result"),
        *("kind", "type", "group", "tag", "answer", "emotion", "language", "quality", "relation"),
    },
)
"""Names of label columns without case and signs, the plainest first."""


@dataclass(frozen=True)
class Guess:
    """How a source is read, and a sentence on each column that was guessed."""

    reading: Reading
    said: tuple[str, ...] = ()


def guess_columns(source: str, reading: Reading) -> Guess:
    """The reading of a table with the label column and the text column that the user did not name.

    Parameters
    ----------
    source
        The path of a table.
    reading
        What the user says about it.

    Raises
    ------
    DataError
        If no column is plainly that of the labels; the message lists all that it could be.
    """
    table = open_table(source)
    look = _Look.at(table, reading.id_column if reading.rows_source is None else None)
    said: list[str] = []
    known = [name for name in table.header if name.lower() in LABEL_COLUMNS]
    if reading.label_column is None and len(known) != 1:
        name = _label_column(table, reading, look)
        reading = replace(reading, label_column=name)
        said.append(f"labels: column {name!r} (guessed; --label-column NAME to change)")
    if _has_checked_rows(table, reading, look):
        reading = replace(reading, clean_column=CHECKED)
        said.append(f"rows known to be right: column {CHECKED!r}, as `trevision apply` writes it")
    texts = table if reading.rows_source is None else open_table(reading.rows_source)
    if not reading.text_column and path_column(texts, reading) is None:
        label = reading.label_column or known[0]
        look = look if texts is table else _Look.at(texts)
        found = [name for name in look.texts if name not in (label, *_taken(reading))]
        if len(found) == 1:
            reading = replace(reading, text_column=(found[0],))
            said.append(f"text: column {found[0]!r} (the only text; --text-column NAME to change)")
    return Guess(reading, tuple(said))


@dataclass(frozen=True)
class _Look:
    """The columns of a table by what a few of their values say."""

    columns: dict[str, Column]
    different: dict[str, int]
    """How many different values there are, of columns that could be labels."""
    identifiers: frozenset[str]

    @classmethod
    def at(cls, table: Table, once: str | None = None) -> _Look:
        """A look at the first rows; with several labels a row, at the first line of each value of `once`."""
        block = table.first_block()
        if once in table.columns:
            first = {value: line for line, value in reversed(list(enumerate(block.column(once).to_pylist())))}
            block = block.take(pa.array(sorted(first.values())))
        step = max(1, block.num_rows // LOOKED_AT)
        block = block.take(pa.array(range(0, block.num_rows, step)))
        columns, different, identifiers = {}, {}, set()
        for name in table.columns:
            values = plain(block.column(name))
            columns[name] = recognise(name, values, decimal_comma=table.delimiter != ",")
            if identifies(name, pa.chunked_array([values])):
                identifiers.add(name)
            count = _classes(values)
            if count:
                different[name] = count
        return cls(columns, different, frozenset(identifiers))

    @property
    def texts(self) -> list[str]:
        return [name for name, column in self.columns.items() if "looks like text" in column.reason]


def _classes(values: pa.Array) -> int:
    """How many different values a column has if it could be one of labels: few, and most more than once."""
    if pa.types.is_nested(values.type) or pa.types.is_temporal(values.type):
        return 0
    counts = pc.value_counts(values.drop_null()).field("counts").to_pylist()
    repeated = sum(count > 1 for count in counts)
    return len(counts) if 2 <= len(counts) <= MOST_CLASSES and repeated > len(counts) / 2 else 0


def _has_checked_rows(table: Table, reading: Reading, look: _Look) -> bool:
    """Whether a table is a corrected copy that says which rows were reviewed."""
    others = (reading.clean_column, reading.clean_source, reading.annotator_column)
    if any(other is not None for other in others) or CHECKED in _taken(reading):
        return False
    return CHECKED in table.header and look.columns[CHECKED].kind == "boolean"


def _label_column(table: Table, reading: Reading, look: _Look) -> str:
    """The label column, by names, else by values."""
    taken = _taken(reading)
    open_ones = [
        name
        for number, name in enumerate(table.columns)
        if not {name, table.header[number]} & taken
        and name not in (*look.identifiers, *look.texts)
        and look.columns[name].kind != "date"
    ]
    for names in ({"label"}, {"y"}, *_NAMES):
        found = [name for name in open_ones if _bare(name) in names]
        fitting = [name for name in found if name in look.different] or found
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            break  # several are called like labels: the user knows which
    else:
        last = open_ones[-1:] if table.columns[-1:] == open_ones[-1:] else []
        words = [name for name in open_ones if look.columns[name].kind in ("category", "boolean")]
        for candidates in (last, words if len(words) == 1 else []):
            few = [name for name in candidates if 2 <= look.different.get(name, 0) <= FEW_CLASSES]
            if few and not CLEAN_NAMES.search(few[0]):
                return few[0]
    candidates = [name for name in open_ones if name in look.different] or open_ones or table.columns
    raise DataError(
        f"{table.path}: which column holds the labels cannot be told from names and values; say it with "
        f"--label-column and one of: {', '.join(candidates)}"
    )


def _taken(reading: Reading) -> set[str]:
    """Columns that have another role."""
    roles = ("name_column", "clean_column", "path_column", "annotator_column", "id_column")
    named = {getattr(reading, role) for role in roles} - {None}
    return {*named, *reading.text_column, *reading.ignore_column}


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
