"""The rows of a run's source, read again for people to look at: small pictures, or fields as text."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from trevision.data.dataset import Dataset
from trevision.data.files.corrections import row_fields
from trevision.data.image_files import ImageFiles
from trevision.data.rows import Rows, batches_of, places_of, select_rows
from trevision.files import DataError
from trevision.runs.settings import Settings

THUMBNAIL = 64
"""Pixels of a thumbnail's longer side."""
LOSSLESS = 32
"""Up to this many pixels a PNG is as small as a JPEG, and shows every pixel as it is."""
BATCH = 500


@dataclass(frozen=True)
class Pictures:
    """Thumbnails in the order of the rows asked for, each the base64 text of a file of type `mime`."""

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


def thumbnails(dataset: Dataset, rows: Sequence[int]) -> Pictures:
    """A small picture for each of these rows of a data set of images."""
    shape = tuple(dataset.train_x.shape[1:])
    places = places_of(dataset, rows)
    if (places < 0).any():
        row = rows[int(np.flatnonzero(places < 0)[0])]
        raise DataError(f"row {row} of the suspect labels is not in {dataset.name}; has the source changed?")
    lossless = max(shape[1:]) <= LOSSLESS
    chosen = select_rows(dataset.train_x, torch.from_numpy(places))
    low, high = _range(chosen)
    encoded = [
        _encode(_as_bytes(image, low, high), "PNG" if lossless else "JPEG")
        for batch in batches_of(chosen, BATCH)
        for image in batch
    ]
    return Pictures(f"image/{'png' if lossless else 'jpeg'}", encoded, min(THUMBNAIL, max(shape[1:])))


def _range(x: Rows) -> tuple[float, float]:
    """The numbers that become black and white: digits of sixteen greys would be all but black otherwise."""
    if isinstance(x, ImageFiles):
        return 0.0, 255.0
    if not len(x):
        return 0.0, 1.0
    low = 0.0 if x.dtype == torch.uint8 else float(x.min())
    return low, max(float(x.max()), low + 1e-12)


def _encode(pixels: np.ndarray, kind: str) -> str:
    picture = Image.fromarray(pixels)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    file = io.BytesIO()
    picture.save(file, kind, quality=80, optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _as_bytes(image: Tensor, low: float, high: float) -> np.ndarray:
    """(channels, height, width) of any numbers as RGB, or as grey where there are not three channels."""
    pixels = (image.float().cpu().numpy() - low) / (high - low) * 255
    shown = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels.mean(axis=0)
    return np.ascontiguousarray(shown.round().astype(np.uint8))


def field_texts(
    source: str, settings: Settings, rows: Sequence[int], most_columns: int, most_letters: int
) -> Fields | None:
    """The first columns of these rows as short texts, or None where the source is no table."""
    found = row_fields(source, settings.reading, rows)
    columns = list(dict.fromkeys(name for row in found for name in row))
    if not columns:
        return None
    shown = columns[:most_columns]
    texts = [[_shortened(row.get(name, ""), most_letters) for name in shown] for row in found]
    return Fields(shown, texts, len(columns))


def _shortened(text: str, most_letters: int) -> str:
    return text if len(text) <= most_letters else text[: most_letters - 1] + "…"
