"""The labels of a source without its features: no image is decoded, and torch is not imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trevision.data.files.reading import Kind, Reading, kind_of
from trevision.data.progress import Progress
from trevision.data.row_labels import RowLabels
from trevision.data.sources import SOURCES
from trevision.files import DataError, did_you_mean

if TYPE_CHECKING:
    from trevision.data.files.image_lists import Listing


def kind_of_source(source: str | Path) -> Kind:
    """The kind of a source. Raises a DataError for a name that is neither a data set nor a path."""
    name = str(source)
    if name in SOURCES:
        return "named"
    kind = kind_of(source)
    if kind == "named":
        hint = did_you_mean(name.lower(), SOURCES, cutoff=0.5)
        raise DataError(
            f"source must be one of {', '.join(SOURCES)}, or a .csv, .parquet or .npz file or a folder of "
            f"images, got {name!r}{hint}"
        )
    return kind


def read_labels(
    source: str | Path,
    reading: Reading | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> RowLabels:
    """The labels and names of the training rows of `source`.

    They equal `load(source).labels`, except that images which cannot be decoded are included.

    Parameters
    ----------
    source
        A name of a data set, or the path of a file or folder.
    reading
        How a file of the user's own is read.
    data_dir
        Where to look for the files of a named data set first.
    progress
        Called with the progress of reading.

    Raises
    ------
    DataError
        If there is no such source, or its labels cannot be read.
    """
    reading = reading or Reading()
    kind = kind_of_source(source)
    reading.check(kind, str(source))
    if kind == "named":
        data = SOURCES[str(source)].read_set(reading.noise_set, data_dir, progress)
        return RowLabels(np.arange(len(data.train_y)), data.train_y, data.class_names)
    if kind == "npz":
        return _npz_labels(Path(source).expanduser(), reading)
    if kind == "folder":
        from trevision.data.files.image_lists import list_folder

        return _listed_labels(list_folder(Path(source).expanduser(), reading.labels_as_written))
    return _table_labels(Path(source), reading, progress)


def _npz_labels(path: Path, reading: Reading) -> RowLabels:
    from trevision.data.files.array_dataset import one_spelling
    from trevision.data.files.arrays import encode_labels, name_of, npz_arrays

    labels = npz_arrays(path, required=("x", "y"), keys=("y",))["y"]
    try:
        if not reading.labels_as_written:
            labels, _ = one_spelling(labels)
        classes, codes = encode_labels(labels, "y")
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return RowLabels(np.arange(len(codes)), codes, tuple(name_of(label) for label in classes))


def _table_labels(path: Path, reading: Reading, progress: Progress | None) -> RowLabels:
    from trevision.data.files.answers import open_source
    from trevision.data.files.image_lists import list_table, path_column
    from trevision.data.files.labels import class_column, sort_rows
    from trevision.data.files.survey import survey, training_roles

    table, reading, _ = open_source(path, reading)
    if path_column(table, reading) is not None:
        return _listed_labels(list_table(table, reading))
    roles = training_roles(table, reading)
    surveyed, _ = survey(table, roles, progress, sample_rows=0)
    assert roles.label is not None
    labels, _ = class_column(
        surveyed.labels, str(table.path), reading.labels_as_written, table.columns[roles.label]
    )
    chosen = sort_rows(labels, surveyed.clean, str(table.path))
    names = None if surveyed.names is None else surveyed.names[chosen.rows]
    return RowLabels(chosen.rows, chosen.codes, tuple(map(str, chosen.classes)), names)


def _listed_labels(listing: Listing) -> RowLabels:
    from trevision.data.files.labels import sort_rows

    assert listing.labels is not None
    chosen = sort_rows(listing.labels, listing.clean, str(listing.where))
    return RowLabels(chosen.rows, chosen.codes, tuple(map(str, chosen.classes)), listing.names[chosen.rows])
