"""The rows of a run's source for display: small pictures, or fields as text."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from trevision.data.files.reading import Reading, kind_of
from trevision.data.pictures import Pictures

THUMBNAIL = 64
"""Pixels of a thumbnail's longer side, if no other is asked for."""
LONG_NUMBER = re.compile(r"-?\d+\.\d{7,}(e[+-]?\d+)?", re.IGNORECASE)
MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[ T]00:00:00(\.0+)?")
LOSSLESS = 32
"""Maximum pixels for PNG: it is then as small as a JPEG, and exact."""


@dataclass(frozen=True)
class Thumbnails:
    """Small pictures in the order of the rows asked for, each the base64 text of a file of type `mime`."""

    mime: str
    encoded: list[str]
    pixels: int
    """Of the longer side; the page enlarges tiny ones without blurring them."""


@dataclass(frozen=True)
class Fields:
    """The text of some columns for the rows asked for."""

    columns: list[str]
    rows: list[list[str]]
    columns_in_source: int


def thumbnails(pictures: Pictures, shape: tuple[int, ...], most_pixels: int = THUMBNAIL) -> Thumbnails:
    """Small versions of pictures of this shape, (channels, height, width)."""
    side = max(shape[1:])
    kind = "PNG" if side <= LOSSLESS else "JPEG"
    encoded = [
        _encode(_as_bytes(image, pictures.black, pictures.white), kind, most_pixels)
        for image in pictures.images
    ]
    return Thumbnails(f"image/{kind.lower()}", encoded, min(most_pixels, side))


def _encode(pixels: np.ndarray, kind: str, most_pixels: int) -> str:
    from PIL import Image  # only pages of images need it

    picture = Image.fromarray(pixels)
    picture.thumbnail((most_pixels, most_pixels))
    file = io.BytesIO()
    picture.save(file, kind, quality=80, optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _as_bytes(image: np.ndarray, black: float, white: float) -> np.ndarray:
    """(channels, height, width) of any numbers as RGB, or as grey where there are not three channels."""
    pixels = (image.astype(np.float32) - black) / (white - black) * 255
    shown = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels.mean(axis=0)
    return np.ascontiguousarray(shown.round().astype(np.uint8))


def field_texts(
    source: str,
    reading: Reading,
    rows: Sequence[int],
    most_columns: int,
    most_letters: int,
    hidden: Collection[str] = (),
) -> Fields | None:
    """The first columns of these rows as short texts, or None if the source is not a table.

    Parameters
    ----------
    source, reading
        The source, and how it is read.
    rows
        Numbers of the rows.
    most_columns
        Maximum number of columns.
    most_letters
        Maximum length of a text; longer texts end in three dots.
    hidden
        Columns that are not shown.
    """
    fields = source_fields(source, reading, rows)
    columns = list(dict.fromkeys(name for row in fields for name in row if name not in hidden))
    if not columns:
        return None
    shown = columns[:most_columns]
    texts = [[shortened(row.get(name, ""), most_letters) for name in shown] for row in fields]
    return Fields(shown, texts, len(columns))


def source_fields(source: str, reading: Reading, rows: Sequence[int]) -> list[dict[str, str]]:
    """The fields of some rows of a table, by column, as a person would write them; else empty ones."""
    from trevision.data.files.corrections import row_fields  # imports pyarrow, which pictures do not need

    return [
        {name: as_written(text) for name, text in row.items()} for row in row_fields(source, reading, rows)
    ]


def columns_told_elsewhere(source: str, reading: Reading) -> set[str]:
    """The columns of a table that hold the given label, the row's name, or whether the label is right."""
    if kind_of(source) != "table":
        return set()
    from trevision.data.files.survey import find_label_column
    from trevision.data.files.tables import open_table

    table = open_table(source)
    label = find_label_column(table, reading)
    named = {reading.name_column, reading.clean_column}
    return {table.header[label], table.columns[label], *(name for name in named if name is not None)}


def as_written(text: str) -> str:
    """A field without the digits that nobody would write.

    >>> as_written("0.30000000000000004"), as_written("2024-05-01 00:00:00"), as_written("12.50")
    ('0.3', '2024-05-01', '12.50')
    """
    if LONG_NUMBER.fullmatch(text):
        return f"{float(text):.7g}"
    midnight = MIDNIGHT.fullmatch(text)
    return midnight[1] if midnight else text


def shortened(text: str, most_letters: int) -> str:
    """The text, or its beginning and three dots."""
    return text if len(text) <= most_letters else text[: most_letters - 1] + "…"
