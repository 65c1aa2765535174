"""The kinds of columns of a table, and their values as numbers, categories or text.

The kind of a column is decided once, from a sample of the training rows. A value in any row that does not fit
the kind counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pandas as pd

ColumnKind = Literal["number", "boolean", "date", "category", "text", "ignored"]

DATE_FORMATS = ("ISO8601", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
DATE_PARTS = ("days", "month", "weekday", "hour")
BOOLEANS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0, "y": 1.0, "n": 0.0}

FITTING = 0.95
"""Minimum fraction of values that are numbers, or dates, in a column of numbers or dates."""
DISTINCT = 0.5
"""Maximum fraction of different values in a column of categories; with more, it identifies rows."""
WORDS_OF_TEXT = 4
FEW_ROWS = 20
DATES_LOOKED_AT = 1000
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Column:
    """A column: name, kind, format of its dates and numbers and, if it is ignored, the reason."""

    name: str
    kind: ColumnKind
    date_format: str | None = None
    reason: str = ""
    decimal_comma: bool = False


def recognise(name: str, values: pa.Array | pa.ChunkedArray, *, decimal_comma: bool = False) -> Column:
    """The kind of a column, decided by a sample of its values.

    Parameters
    ----------
    name
        The column's name.
    values
        The sample.
    decimal_comma
        Whether 1,5 may be a number.
    """
    values = plain(values)
    present = values.drop_null()
    if len(present) == 0:
        return Column(name, "ignored", reason="has no values")
    kind = values.type
    if pa.types.is_boolean(kind):
        return Column(name, "boolean")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Column(name, "date")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Column(name, "number")
    if not pa.types.is_string(kind):
        return Column(name, "ignored", reason=f"holds {kind}, which is neither number, word, nor date")
    return _recognise_words(name, present, decimal_comma)


def _recognise_words(name: str, present: pa.Array, decimal_comma: bool) -> Column:
    if _are_codes(present):
        if pc.count_distinct(present).as_py() <= max(2, DISTINCT * len(present)):
            return Column(name, "category")
        return Column(name, "ignored", reason="has a different value in most rows")
    if np.isfinite(_parsed(present)).mean() >= FITTING:
        return Column(name, "number")
    if decimal_comma and np.isfinite(_parsed(_with_points(present))).mean() >= FITTING:
        return Column(name, "number", decimal_comma=True)
    words = pc.unique(pc.utf8_lower(pc.utf8_trim_whitespace(present))).to_pylist()
    if len(words) <= 2 and all(word in BOOLEANS for word in words):
        return Column(name, "boolean")
    some = pc.unique(present)[:DATES_LOOKED_AT]
    for date_format in DATE_FORMATS:
        if _dates(some, date_format).notna().mean() >= FITTING:
            return Column(name, "date", date_format)
    texts = present.to_pylist()
    if len(texts) >= FEW_ROWS and len(words) > DISTINCT * len(texts):
        if np.mean([len(text.split()) for text in texts]) >= WORDS_OF_TEXT:
            return Column(name, "ignored", reason=f"looks like text; use it with --text-column {name!r}")
        return Column(name, "ignored", reason="has a different value in most rows")
    return Column(name, "category")


def _are_codes(present: pa.Array) -> bool:
    """Whether digits are no numbers: all of one length and some with a leading zero, as postal codes are."""
    trimmed = pc.utf8_trim_whitespace(present)
    lengths = pc.unique(pc.utf8_length(trimmed))
    if len(lengths) != 1 or lengths[0].as_py() < 2 or not pc.all(pc.utf8_is_digit(trimmed)).as_py():
        return False
    return bool(pc.any(pc.starts_with(trimmed, "0")).as_py())


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same values in one piece, without dictionaries, and of the ordinary type of text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if pa.types.is_null(values.type):
        values = values.cast(pa.string())
    return cast(pa.Array, values)


def numbers(values: pa.Array, *, decimal_comma: bool = False) -> np.ndarray:
    """float64 values; nan if a value is missing or not a number that float32 can hold."""
    values = plain(values)
    if pa.types.is_string(values.type):
        floats = _parsed(_with_points(values) if decimal_comma else values)
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    elif pa.types.is_boolean(values.type) or pa.types.is_decimal(values.type):
        floats = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    else:
        floats = np.full(len(values), np.nan)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(floats) <= LARGEST, floats, np.nan)


def _with_points(values: pa.Array) -> pa.Array:
    return pc.replace_substring(values, ",", ".")


def _parsed(values: pa.Array) -> np.ndarray:
    try:
        return cast(np.ndarray, values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        import pandas as pd  # here and below: slow to import, and not needed for labels and names

        trimmed = pc.utf8_trim_whitespace(values).to_pandas().astype(object)
        return pd.to_numeric(trimmed, errors="coerce").to_numpy(np.float64)


def booleans(values: pa.Array) -> np.ndarray:
    """1 for true and yes, 0 for false and no, nan for anything else."""
    values = plain(values)
    if not pa.types.is_string(values.type):
        return numbers(values)
    words = pc.utf8_lower(pc.utf8_trim_whitespace(values)).dictionary_encode()
    meanings = np.array([BOOLEANS.get(word, _zero_or_one(word)) for word in words.dictionary.to_pylist()])
    codes = words.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(meanings, np.nan)[codes]


def _zero_or_one(word: str) -> float:
    return {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0}.get(word, np.nan)


def date_parts(values: pa.Array, date_format: str | None) -> np.ndarray:
    """(n, 4): days since 1970 with their fraction, month, weekday and hour; nan if there is no date."""
    import pandas as pd

    dates = _dates(plain(values), date_format)
    moments = dates.dt
    try:
        days = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    except pd.errors.OutOfBoundsDatetime:  # counted in nanoseconds, time begins in 1677
        start, day = pd.Timestamp(0, tz="UTC").as_unit("s"), pd.Timedelta(days=1).as_unit("s")
        days = (dates - start) / day
    parts = (days, moments.month, moments.day_of_week, moments.hour)
    return np.column_stack([part.to_numpy(np.float64, na_value=np.nan) for part in parts])


def _dates(values: pa.Array, date_format: str | None) -> pd.Series:
    import pandas as pd

    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return pd.to_datetime(values.to_pandas(), utc=True, errors="coerce")
    if not pa.types.is_string(values.type):
        return pd.Series(pd.NaT, index=range(len(values)), dtype="datetime64[ns, UTC]")
    words = pc.utf8_trim_whitespace(values).to_pandas().astype(object)
    return pd.to_datetime(words, format=date_format, utc=True, errors="coerce")


def words(values: pa.Array) -> np.ndarray:
    """Text as objects; nan if missing."""
    values = plain(values)
    if not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    texts = values.to_numpy(zero_copy_only=False).astype(object)
    texts[values.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return texts
