"""Images in class folders, or named by a table: decoded once, into memory if they fit.

Rows are numbered over all images that are listed, also those that turn out to be damaged, so that a row's
number does not depend on what could be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from torch import Tensor

from trevision.data.dataset import Dataset
from trevision.data.files.columns import plain
from trevision.data.files.labels import LabelColumn, counted, label_column, sort_rows, trusted_codes
from trevision.data.files.reading import Reading, find_column, kind_of, listed
from trevision.data.files.table_source import Roles, label_texts, prediction_roles, survey, training_roles
from trevision.data.files.tables import Table, open_table
from trevision.data.image_files import Framing, ImageFiles, decode, decoding_threads
from trevision.data.named.download import Progress
from trevision.data.rows import Rows, SourceRows, select_rows
from trevision.files import DataError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
USUAL_SIZE = 64
MOST_BYTES = 2 << 30
"""Images that take more than this are decoded whenever they are needed."""
MOST_FILES_NAMED = 3
_GREY = {"1", "L", "LA", "F", "I", "I;16", "I;16B", "I;16L"}

ITEMS_AT_ONCE = 4096

T = TypeVar("T")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Listing:
    """Images by their paths, relative to `folder`, with what is known of each."""

    where: Path
    folder: Path
    paths: list[str]
    labels: LabelColumn | None
    names: np.ndarray
    clean: np.ndarray | None = None
    notes: tuple[str, ...] = ()


def is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def list_folder(folder: Path, *, training: bool = True) -> Listing:
    """The images of a folder by class, then by name; a class is a folder in it.

    Without `training` a folder that holds images itself will do, and they have no labels.
    """
    paths: list[str] = []
    classes: list[str] = []
    others: list[str] = []
    notes = []
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    loose = [path.name for path in entries if path.is_file() and is_image(path.name)]
    others += [path.name for path in entries if path.is_file() and not is_image(path.name)]
    for entry in entries:
        if not entry.is_dir():
            continue
        found, strange = _files_under(entry)
        paths += [f"{entry.name}/{name}" for name in found]
        classes += [entry.name] * len(found)
        others += [f"{entry.name}/{name}" for name in strange]
        if not found:
            notes.append(f"The folder {entry.name!r} holds no image, so there is no class of that name.")
    if others:
        notes.append(f"{counted(len(others), 'file')} passed over, no image by name: {_few(others)}.")
    if not paths and not (loose and not training):
        repair = "images go into a folder for each class" if loose else f"images end in {', '.join(SUFFIXES)}"
        raise DataError(f"{folder}: has no folder with images in it; {repair}")
    if not paths:
        return Listing(folder, folder, loose, None, np.array(loose, dtype=object), notes=tuple(notes))
    if loose:
        notes.append(f"{counted(len(loose), 'image')} passed over, in no class's folder: {_few(loose)}.")
    labels, _ = label_column([pa.array(classes, pa.string())], str(folder))
    return Listing(folder, folder, paths, labels, np.array(paths, dtype=object), notes=tuple(notes))


def _files_under(folder: Path) -> tuple[list[str], list[str]]:
    """Images anywhere below a folder and the files that are none, by their paths in it; none is hidden."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = sorted(path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts))
    return [name for name in names if is_image(name)], [name for name in names if not is_image(name)]


def path_column(table: Table, reading: Reading, known: Iterable[int | None] = ()) -> int | None:
    """The column that holds paths of images: the one that is named, or whose values are such; else None."""
    if reading.path_column is not None:
        return find_column(table, reading.path_column, "path_column")
    first = next(table.blocks())
    for place in range(len(table.columns)):
        column = plain(first.column(place)).drop_null()[:20]
        if place in known or len(column) == 0 or not pa.types.is_string(column.type):
            continue
        values = column.to_pylist()
        if all(is_image(v) for v in values) and any((table.path.parent / v).is_file() for v in values):
            return place
    return None


def list_table(table: Table, reading: Reading, *, training: bool = True) -> Listing:
    """The images that a table names, in its order."""
    for role in ("text_column", "ignore_column"):
        if getattr(reading, role):
            raise DataError(f"{role} must be left out for {table.path}: it is a table of images")
    roles = training_roles(table, reading) if training else prediction_roles(table, reading)
    place = path_column(table, reading, roles.places)
    if place is None:
        raise DataError(
            f"{table.path}: no column holds paths of images; say which with --path-column, "
            f"its columns: {listed(table.columns)}"
        )
    found, _ = survey(table, Roles(roles.label, roles.name, roles.clean, place), None, sample_rows=0)
    assert found.paths is not None
    paths = ["" if value != value else str(value) for value in found.paths]
    labels, notes = label_column(found.labels, str(table.path)) if roles.label is not None else (None, ())
    unused = [n for k, n in enumerate(table.columns) if k not in (*roles.places, place)]
    if unused:
        notes += (f"Beside the images, {counted(len(unused), 'column')} not used: {listed(unused)}.",)
    names = np.array(paths, dtype=object) if found.names is None else found.names
    folder = table.path.resolve().parent
    return Listing(table.path, folder, paths, labels, names, found.clean, (*table.notes, *notes))


def read_images(listing: Listing, reading: Reading, progress: Progress | None = None) -> Dataset:
    """The images of a listing as a data set."""
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
    """All images of a listing that can be decoded, in the shape that a model takes."""
    if len(shape) != 3:
        raise DataError(f"{listing.where}: holds images, but the model was trained on rows of shape {shape}")
    channels, height, width = shape
    x, broken = decode_all(listing, Framing(min(height, width), height, width, channels), progress)
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
    """The images of the second source, whose labels are right."""
    assert reading.clean_source is not None
    source = Path(reading.clean_source).expanduser()
    if kind_of(source) not in ("folder", "table"):
        raise DataError(
            "clean_source must be a folder of images or a table of their paths, as the source is, "
            f"got {reading.clean_source!r}"
        )
    if kind_of(source) == "folder":
        listing = list_folder(source)
    else:
        known = Reading(label_column=reading.label_column, path_column=reading.path_column)
        listing = list_table(open_table(source), known)
    assert listing.labels is not None
    x, broken = decode_all(listing, framing, None)
    codes = listing.labels.codes.copy()
    codes[list(broken)] = -1
    rows, kept, note = trusted_codes(LabelColumn(codes, listing.labels.names), classes, str(listing.where))
    notes = (*_notes_on(broken, listing), *((note,) if note else ()))
    return x_of(x, rows), torch.from_numpy(kept), notes


def x_of(x: Rows, rows: np.ndarray) -> Rows:
    """Some rows, without a copy where they are all."""
    return x if len(rows) == len(x) else select_rows(x, rows)


def choose_framing(listing: Listing, image_size: int | None) -> Framing:
    """Grey if all images are; their own size if all have the same small one; else squares."""

    def look(path: str) -> tuple[tuple[int, int], bool] | None:
        try:
            with Image.open(listing.folder / path) as file:
                return file.size, file.mode in _GREY
        except Exception:  # as in `decode`, which tells it
            return None

    seen = [one for one in _in_threads(look, listing.paths) if one is not None]
    if not seen:
        raise DataError(
            f"{listing.where}: none of its {counted(len(listing.paths), 'image')} can be read, "
            f"such as {listing.folder / listing.paths[0]}"
        )
    channels = 1 if all(grey for _, grey in seen) else 3
    sizes = {size for size, _ in seen}
    width, height = next(iter(sizes))
    if image_size is None and len(sizes) == 1 and max(width, height) <= USUAL_SIZE:
        return Framing(min(height, width), height, width, channels)
    side = image_size or USUAL_SIZE
    return Framing(side, side, side, channels)


def decode_all(listing: Listing, framing: Framing, progress: Progress | None) -> tuple[Rows, dict[int, str]]:
    """All images of a listing, and why some rows of it cannot be used.

    More than fit in memory stay files, which are decoded here to see that they can be.
    """
    channels, height, width = framing.shape
    total = len(listing.paths)
    fits = total * channels * height * width <= MOST_BYTES
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

    for done, _ in enumerate(_in_threads(take, range(total)), start=1):
        if progress is not None and (done % 64 == 0 or done == total):
            progress(done, total)
    if len(broken) == total:
        raise DataError(f"{listing.where}: no image can be decoded; {broken[0]}")
    if fits:
        return torch.from_numpy(pixels).permute(0, 3, 1, 2), broken
    names = np.array([os.fsencode(path) for path in listing.paths], dtype=bytes)
    return ImageFiles(listing.folder, names, framing=framing), broken


def _in_threads(work: Callable[[T], Result], items: Sequence[T]) -> Iterator[Result]:
    """What `work` gives for each item, in order; not all are handed to the threads at once."""
    with ThreadPoolExecutor(decoding_threads(), thread_name_prefix="decode") as pool:
        for start in range(0, len(items), ITEMS_AT_ONCE):
            yield from pool.map(work, items[start : start + ITEMS_AT_ONCE])


def _notes_on(broken: dict[int, str], listing: Listing) -> tuple[str, ...]:
    if not broken:
        return ()
    names = [f"{listing.paths[row] or 'no path'} (row {row})" for row in sorted(broken)]
    return (f"{counted(len(names), 'image')} left out that cannot be decoded: {_few(names)}.",)


def _few(names: list[str]) -> str:
    return listed(names, MOST_FILES_NAMED)
