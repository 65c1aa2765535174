"""Images in class folders, or named by a table, as lists of paths; no image is opened here.

All listed images are numbered, even damaged ones, so that a row's number does not depend on which images can
be read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trevision.data.files.columns import plain
from trevision.data.files.labels import LabelColumn, class_column, counted
from trevision.data.files.reading import Reading, listed
from trevision.data.files.survey import find_column, prediction_roles, survey, training_roles
from trevision.data.files.tables import MISSING, Table
from trevision.files import DataError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
MOST_FILES_NAMED = 3
PATHS_LOOKED_AT = 20
MOST_BYTES = 2 << 30
"""Maximum bytes of images that are held in memory; more are decoded whenever they are needed."""


@dataclass(frozen=True, eq=False)
class Listing:
    """Images by their paths relative to `folder`, with names and labels."""

    where: Path
    folder: Path
    paths: list[str]
    labels: LabelColumn | None
    names: np.ndarray
    clean: np.ndarray | None = None
    notes: tuple[str, ...] = ()


def fits_in_memory(images: int, shape: tuple[int, ...]) -> bool:
    """Whether this many images of this shape fit in memory."""
    return images * math.prod(shape) <= MOST_BYTES


def is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def list_folder(folder: Path, labels_as_written: bool = False, *, training: bool = True) -> Listing:
    """The images of a folder by class, then by name; each folder in it is a class.

    Folders whose names are spellings of one class are one class, unless `labels_as_written`. Without
    `training` the folder may also hold images itself, which then have no labels.
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
        images, strange = _files_under(entry)
        paths += [f"{entry.name}/{name}" for name in images]
        classes += [entry.name] * len(images)
        others += [f"{entry.name}/{name}" for name in strange]
        if not images:
            notes.append(f"The folder {entry.name!r} holds no image, so there is no class of that name.")
    if others:
        notes.append(f"{counted(len(others), 'file')} passed over, no image by name: {few(others)}.")
    if not paths and not (loose and not training):
        repair = "images go into a folder for each class" if loose else f"images end in {', '.join(SUFFIXES)}"
        raise DataError(f"{folder}: has no folder with images in it; {repair}")
    if not paths:
        return Listing(folder, folder, loose, None, np.array(loose, dtype=object), notes=tuple(notes))
    if loose:
        notes.append(f"{counted(len(loose), 'image')} passed over, in no class's folder: {few(loose)}.")
    labels, more = class_column([pa.array(classes, pa.string())], str(folder), labels_as_written)
    names = np.array(paths, dtype=object)
    return Listing(folder, folder, paths, labels, names, notes=(*notes, *more))


def _files_under(folder: Path) -> tuple[list[str], list[str]]:
    """Images anywhere below a folder, and other files, by their paths in it; hidden ones are left out."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = sorted(path.as_posix() for path in files if not any(part.startswith(".") for part in path.parts))
    return [name for name in names if is_image(name)], [name for name in names if not is_image(name)]


def path_column(
    table: Table, reading: Reading, known: Iterable[int | None] = (), *, verbatim: bool = False
) -> int | None:
    """The number of the column that holds paths of images, or None.

    Parameters
    ----------
    table
        The table, opened. Its first block is looked at, unless `reading` names the column.
    reading
        What the user says about the table.
    known
        Columns with another role.
    verbatim
        How the table will be read, so that this reading can be continued.
    """
    if reading.path_column is not None:
        return find_column(table, reading.path_column, "path_column")
    first = table.first_block(verbatim=verbatim)
    for number in range(len(table.columns)):
        column = plain(first.column(number)).drop_null()
        if number in known or not pa.types.is_string(column.type):
            continue
        if verbatim:
            column = column.filter(pc.invert(pc.is_in(column, pa.array(MISSING))))
        paths = column[:PATHS_LOOKED_AT].to_pylist()
        if paths and all(is_image(path) for path in paths) and _any_exists(table.path.parent, paths):
            return number
    return None


def _any_exists(folder: Path, paths: list[str]) -> bool:
    return any((folder / path).is_file() for path in paths)


def list_table(table: Table, reading: Reading, *, training: bool = True) -> Listing:
    """The images that a table names, in its order.

    Parameters
    ----------
    table
        The table, opened.
    reading
        What the user says about it.
    training
        Whether it must have labels.

    Raises
    ------
    DataError
        If no column holds paths of images, or one is missing that `reading` names.
    """
    for role in ("text_column", "ignore_column"):
        if getattr(reading, role):
            raise DataError(f"{role} must be left out for {table.path}: it is a table of images")
    roles = training_roles(table, reading) if training else prediction_roles(table, reading)
    path_number = path_column(table, reading, roles.columns)
    if path_number is None:
        raise DataError(
            f"{table.path}: no column holds paths of images; say which with --path-column, "
            f"its columns: {listed(table.columns)}"
        )
    roles = replace(roles, path=path_number)
    surveyed, _ = survey(table, roles, None, sample_rows=0)
    assert surveyed.paths is not None
    paths = ["" if value != value else str(value) for value in surveyed.paths]
    if not reading.paths_anywhere:
        _check_below(table.path, paths)
    labels: LabelColumn | None = None
    notes: tuple[str, ...] = ()
    if roles.label is not None:
        column = table.columns[roles.label] if training else None
        labels, notes = class_column(surveyed.labels, str(table.path), reading.labels_as_written, column)
    unused = [name for number, name in enumerate(table.columns) if number not in roles.columns]
    if unused:
        notes += (f"Beside the images, {counted(len(unused), 'column')} not used: {listed(unused)}.",)
    names = np.array(paths, dtype=object) if surveyed.names is None else surveyed.names
    folder = table.path.resolve().parent
    return Listing(table.path, folder, paths, labels, names, surveyed.clean, (*table.notes, *notes))


def _check_below(table: Path, paths: list[str]) -> None:
    """Raise a DataError for a path out of the folder of its table, which may come from a stranger."""
    folders = (table.resolve().parent, table.absolute().parent)
    for row, path in enumerate(paths):
        if not os.path.isabs(path) and ".." not in path:
            continue
        where = Path(os.path.normpath(folders[0] / path))
        if not any(where.is_relative_to(folder) for folder in folders):
            raise DataError(
                f"{table}: the path in row {row} leads out of the folder of the table, {path!r}; copy the "
                "images into it, or allow such paths with --paths-anywhere",
                path=table,
                place=f"row {row}",
            )


def few(names: list[str]) -> str:
    return listed(names, MOST_FILES_NAMED)
