"""Listed images as a data set: decoded once, into memory if they fit."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trevision.data.dataset import Dataset, SourceRows
from trevision.data.decoding import FORMATS, Framing, decode, framing_of, in_threads
from trevision.data.files.image_lists import Listing, few, fits_in_memory, list_folder, list_table
from trevision.data.files.labels import LabelColumn, counted, label_texts, sort_rows, trusted_codes
from trevision.data.files.reading import Reading, kind_of
from trevision.data.files.tables import open_table
from trevision.data.image_files import ImageFiles
from trevision.data.progress import Progress
from trevision.data.rows import Rows, select_rows
from trevision.files import DataError

USUAL_SIZE = 64
_GREY = {"1", "L", "LA", "F", "I", "I;16", "I;16B", "I;16L"}


def read_images(listing: Listing, reading: Reading, progress: Progress | None = None) -> Dataset:
    """The images of a listing as a data set.

    Parameters
    ----------
    listing
        Paths and labels.
    reading
        What the user says about the source: the size of images, and labels known to be right.
    progress
        Called with the progress of decoding.

    Raises
    ------
    DataError
        If no image can be decoded, or there are too few labels.
    """
    assert listing.labels is not None
    framing = choose_framing(listing, reading.image_size)
    x, broken = decode_all(listing, framing, progress)
    usable = np.ones(len(listing.paths), dtype=bool)
    usable[list(broken)] = False
    chosen = sort_rows(listing.labels, listing.clean, str(listing.where), usable)
    notes = (*listing.notes, *_notes_on(broken, listing), *chosen.notes)
    trusted_x, trusted_y = x_of(x, chosen.trusted_rows), torch.from_numpy(chosen.trusted_codes)
    if reading.clean_source is not None:
        trusted_x, trusted_y, more = _clean_images(reading, framing, chosen.classes)
        notes += more
    return Dataset(
        name=listing.where.stem,
        train_x=x_of(x, chosen.rows),
        train_y=torch.from_numpy(chosen.codes),
        test_x=None,
        test_y=None,
        class_names=tuple(str(value) for value in chosen.classes),
        classes=chosen.classes,
        trusted_x=trusted_x if len(trusted_y) else None,
        trusted_y=trusted_y if len(trusted_y) else None,
        names=listing.names[chosen.rows],
        row_numbers=chosen.rows,
        notes=notes,
    )


def read_image_rows(listing: Listing, shape: tuple[int, ...], progress: Progress | None = None) -> SourceRows:
    """All images of a listing that can be decoded, to predict.

    Parameters
    ----------
    listing
        Paths, and labels if there are any.
    shape
        (channels, height, width) that the model takes.
    progress
        Called with the progress of decoding.

    Raises
    ------
    DataError
        If the model does not take images, or none can be decoded.
    """
    if len(shape) != 3:
        raise DataError(f"{listing.where}: holds images, but the model was trained on rows of shape {shape}")
    x, broken = decode_all(listing, framing_of(shape), progress)
    rows = np.array([row for row in range(len(listing.paths)) if row not in broken], dtype=np.int64)
    labels = None if listing.labels is None else label_texts(listing.labels)
    return SourceRows(
        x_of(x, rows),
        None if labels is None else labels[rows],
        listing.names[rows],
        rows,
        (*listing.notes, *_notes_on(broken, listing)),
    )


def _clean_images(
    reading: Reading, framing: Framing, classes: np.ndarray
) -> tuple[Rows, Tensor, tuple[str, ...]]:
    """The images of `clean_source`, whose labels are right."""
    assert reading.clean_source is not None
    source = Path(reading.clean_source).expanduser()
    if kind_of(source) not in ("folder", "table"):
        raise DataError(
            "clean_source must be a folder of images or a table of their paths, as the source is, "
            f"got {reading.clean_source!r}"
        )
    if kind_of(source) == "folder":
        listing = list_folder(source, reading.labels_as_written)
    else:
        known = Reading(
            label_column=reading.label_column,
            path_column=reading.path_column,
            paths_anywhere=reading.paths_anywhere,
            labels_as_written=reading.labels_as_written,
        )
        listing = list_table(open_table(source), known)
    assert listing.labels is not None
    x, broken = decode_all(listing, framing, None)
    codes = listing.labels.codes.copy()
    codes[list(broken)] = -1
    rows, kept, note = trusted_codes(
        LabelColumn(codes, listing.labels.names), classes, str(listing.where), reading.labels_as_written
    )
    notes = (*_notes_on(broken, listing), *((note,) if note else ()))
    return x_of(x, rows), torch.from_numpy(kept), notes


def x_of(x: Rows, rows: np.ndarray) -> Rows:
    """Some rows; without a copy if these are all rows."""
    return x if len(rows) == len(x) else select_rows(x, rows)


def choose_framing(listing: Listing, image_size: int | None) -> Framing:
    """Grey if all images are grey; their own size if it is small and the same for all, else squares."""
    from PIL import Image  # whoever learns from a table needs no pillow

    def look(path: str) -> tuple[tuple[int, int], bool] | None:
        try:
            with Image.open(listing.folder / path, formats=FORMATS) as file:
                return file.size, file.mode in _GREY
        except Exception:  # `decode` reports the error later
            return None

    seen = [size_and_grey for size_and_grey in in_threads(look, listing.paths) if size_and_grey is not None]
    if not seen:
        raise DataError(
            f"{listing.where}: none of its {counted(len(listing.paths), 'image')} can be read, "
            f"such as {listing.folder / listing.paths[0]}"
        )
    channels = 1 if all(grey for _, grey in seen) else 3
    sizes = {size for size, _ in seen}
    width, height = next(iter(sizes))
    if image_size is None and len(sizes) == 1 and max(width, height) <= USUAL_SIZE:
        return framing_of((channels, height, width))
    side = image_size or USUAL_SIZE
    return Framing(side, side, side, channels)


def decode_all(listing: Listing, framing: Framing, progress: Progress | None) -> tuple[Rows, dict[int, str]]:
    """All images of a listing, and the reason for each row that cannot be used.

    Images that do not fit in memory stay files; they are decoded here only as a check.

    Parameters
    ----------
    listing
        The paths of the images.
    framing
        The size that they are brought to.
    progress
        Called with the progress of decoding.

    Raises
    ------
    DataError
        If no image can be decoded.
    """
    channels, height, width = framing.shape
    total = len(listing.paths)
    fits = fits_in_memory(total, framing.shape)
    pixels = np.zeros((total if fits else 0, height, width, channels), dtype=np.uint8)
    broken: dict[int, str] = {}

    def take(row: int) -> None:
        try:
            image = decode(listing.folder / listing.paths[row], framing=framing)
        except DataError as error:
            broken[row] = str(error)
            return
        if fits:
            pixels[row] = image

    for done, _ in enumerate(in_threads(take, range(total)), start=1):
        if progress is not None and (done % 64 == 0 or done == total):
            progress(done, total)
    if len(broken) == total:
        raise DataError(f"{listing.where}: no image can be decoded; {broken[0]}")
    if fits:
        return torch.from_numpy(pixels).permute(0, 3, 1, 2), broken
    names = np.array([os.fsencode(path) for path in listing.paths], dtype=bytes)
    return ImageFiles(listing.folder, names, framing=framing), broken


def _notes_on(broken: dict[int, str], listing: Listing) -> tuple[str, ...]:
    if not broken:
        return ()
    names = [f"{listing.paths[row] or 'no path'} (row {row})" for row in sorted(broken)]
    return (f"{counted(len(names), 'image')} left out that cannot be decoded: {few(names)}.",)
