"""The images of some rows of a source, as arrays for display."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.data.files.reading import Reading
from trevision.data.progress import Progress
from trevision.data.read_labels import kind_of_source
from trevision.data.sources import SOURCES
from trevision.files import DataError


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images (channels, height, width), and the values that are shown as black and as white."""

    images: Iterable[np.ndarray]
    black: float
    white: float


def read_pictures(
    source: str | Path,
    reading: Reading,
    shape: tuple[int, ...],
    rows: Sequence[int],
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Pictures:
    """The images of these rows, in this order. No other image files are decoded.

    Parameters
    ----------
    source
        A name of a data set, or the path of a file or folder.
    reading
        How a file of the user's own is read.
    shape
        (channels, height, width) that image files are brought to.
    rows
        Numbers of the rows in the source.
    data_dir
        Where to look for the files of a named data set first.
    progress
        Called with the progress of reading.

    Raises
    ------
    DataError
        If the source lacks one of the rows.
    """
    kind = kind_of_source(source)
    if kind in ("folder", "table"):
        return _listed_pictures(Path(source).expanduser(), kind, reading, shape, rows)
    if kind == "npz":
        from trevision.data.files.arrays import feature_array, npz_arrays

        x = npz_arrays(Path(source).expanduser(), required=("x",), keys=("x",))["x"]
        assert x is not None
        _check_rows(source, rows, len(x))
        return _of_array(feature_array(x[list(rows)])) if len(rows) else _of_array(np.empty(0))
    files = SOURCES[str(source)].read(data_dir, progress).train_x
    _check_rows(source, rows, len(files))
    if isinstance(files, np.ndarray):
        return _of_array(files[list(rows)])
    from trevision.data.decoding import decode, in_threads

    decoded = in_threads(lambda row: decode(files.path(row), framing=files.framing), list(rows))
    return Pictures((image.transpose(2, 0, 1) for image in decoded), 0.0, 255.0)


def _listed_pictures(
    path: Path, kind: str, reading: Reading, shape: tuple[int, ...], rows: Sequence[int]
) -> Pictures:
    from trevision.data.decoding import decode, framing_of, in_threads
    from trevision.data.files.answers import open_source
    from trevision.data.files.image_lists import fits_in_memory, list_folder, list_table

    listing = (
        list_folder(path, reading.labels_as_written)
        if kind == "folder"
        else list_table(*open_source(path, reading)[:2])
    )
    _check_rows(path, rows, len(listing.paths))
    framing = framing_of(shape)
    paths = [listing.folder / listing.paths[row] for row in rows]
    decoded = in_threads(lambda file: decode(file, framing=framing), paths)
    images = (image.transpose(2, 0, 1) for image in decoded)
    if fits_in_memory(len(listing.paths), shape):
        return _of_array(np.array(list(images)))
    return Pictures(images, 0.0, 255.0)


def _of_array(x: np.ndarray) -> Pictures:
    """Pictures shown from the smallest value (0 for bytes) to the largest; 16 greys would else look black."""
    if not len(x):
        return Pictures((), 0.0, 1.0)
    black = 0.0 if x.dtype == np.uint8 else float(x.min())
    return Pictures(x, black, max(float(x.max()), black + 1e-12))


def _check_rows(source: str | Path, rows: Sequence[int], available: int) -> None:
    beyond = [row for row in rows if not 0 <= row < available]
    if beyond:
        raise DataError(
            f"row {beyond[0]} of the suspect labels is not in {Path(source).stem}; has the source changed?"
        )
