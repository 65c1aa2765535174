"""Load a data set by name or from a file, as tensors."""

from __future__ import annotations

from pathlib import Path

from trevision.data.dataset import Dataset, SourceRows
from trevision.data.files.answers import open_source, with_answers
from trevision.data.files.array_dataset import read_npz, read_npz_rows
from trevision.data.files.image_dataset import read_image_rows, read_images
from trevision.data.files.image_lists import list_folder, list_table, path_column
from trevision.data.files.preprocessing import Preprocessing
from trevision.data.files.reading import Reading
from trevision.data.files.table_dataset import read_table, read_table_rows
from trevision.data.files.tables import open_table
from trevision.data.progress import Progress
from trevision.data.read_labels import kind_of_source
from trevision.data.rows import as_tensors, with_tensors
from trevision.data.sources import SOURCES
from trevision.files import DataError


def load(
    source: str | Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    reading: Reading | None = None,
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """The data set named `source`, one of `SOURCES`, or the one in the file or folder at that path.

    Parameters
    ----------
    source
        A name, or a path.
    data_dir
        Where the files of a named data set are looked for first; then in `$TREVISION_DATA` and the cache.
        Files that are in none of them are downloaded into the cache.
    progress
        Called with the progress of reading or downloading.
    reading
        How a file of the user's own is read.
    preprocessing
        For a table: the preprocessing to use; a new one is fitted if not given.

    Raises
    ------
    DataError
        If there is no such source, or it cannot be read.
    """
    reading = reading or Reading()
    kind = kind_of_source(source)
    reading.check(kind, str(source))
    if kind == "npz":
        return as_tensors(read_npz(Path(source), reading.clean_source, reading.labels_as_written))
    if kind == "folder":
        return read_images(
            list_folder(Path(source).expanduser(), reading.labels_as_written), reading, progress
        )
    if kind == "table":
        table, reading, given = open_source(source, reading)
        if path_column(table, reading) is None:
            dataset = as_tensors(read_table(table, reading, progress, preprocessing))
        else:
            dataset = read_images(list_table(table, reading), reading, progress)
        return with_answers(dataset, given)
    return SOURCES[str(source)].load(data_dir, progress, reading.noise_set)


def load_rows(
    source: str | Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    reading: Reading | None = None,
    preprocessing: Preprocessing | None = None,
    shape: tuple[int, ...] = (),
) -> SourceRows:
    """The rows of `source` to predict, with their labels where it has any.

    Those are the test rows of a named data set, x_test or else x of an .npz file, all rows of a table, and
    all images of a folder or a table of paths.

    Parameters
    ----------
    source, data_dir, progress, reading
        As for `load`.
    preprocessing
        The preprocessing of the training table.
    shape
        The shape that images are brought to.

    Raises
    ------
    DataError
        If the source cannot be read, or does not fit the model.
    """
    reading = reading or Reading()
    kind = kind_of_source(source)
    if kind == "npz":
        return with_tensors(SourceRows(*read_npz_rows(source)))
    if kind == "folder":
        return read_image_rows(list_folder(Path(source).expanduser(), training=False), shape, progress)
    if kind == "table":
        table = open_table(source)
        if preprocessing is not None:
            return with_tensors(read_table_rows(table, reading, preprocessing, progress))
        if path_column(table, reading) is None:
            raise DataError(
                f"{source} is a table without paths of images; the model was not trained on a table, or its "
                "folder has lost preprocessing.skops"
            )
        return read_image_rows(list_table(table, reading, training=False), shape, progress)
    dataset = load(source, data_dir, progress)
    # Every named set has a test part.
    assert dataset.test_x is not None
    assert dataset.test_y is not None
    return SourceRows(dataset.test_x, dataset.class_values[dataset.test_y.numpy()])
