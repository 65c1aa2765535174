"""A data set by its name or its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trevision.data.dataset import Dataset
from trevision.data.files.arrays import read_npz, read_npz_rows
from trevision.data.files.image_folder import (
    list_folder,
    list_table,
    path_column,
    read_image_rows,
    read_images,
)
from trevision.data.files.preprocessing import Preprocessing
from trevision.data.files.reading import Reading, kind_of
from trevision.data.files.table_source import read_table, read_table_rows
from trevision.data.files.tables import open_table
from trevision.data.named.cifar import CIFAR10_FILES, CIFAR100_FILES, load_cifar10, load_cifar100
from trevision.data.named.clothing1m import CLOTHING1M_FILES, load_clothing1m
from trevision.data.named.digits import DIGITS_FOLDER, load_digits
from trevision.data.named.download import Progress
from trevision.data.named.locations import FileSet, candidate_folders, find
from trevision.data.named.mnist import FASHION_MNIST_FILES, MNIST_FILES, load_fashion_mnist, load_mnist
from trevision.data.rows import SourceRows
from trevision.files import DataError, did_you_mean


@dataclass(frozen=True)
class Source:
    """A named data set: what it is, how it is read, and its files (None: it comes with scikit-learn)."""

    description: str
    read: Callable[[Path | None, Progress | None], Dataset]
    files: FileSet | None
    on_request: bool = False


SOURCES: dict[str, Source] = {
    "digits": Source("1,797 handwritten digits, 8 x 8 grey, 10 classes", lambda *_: load_digits(), None),
    "mnist": Source("70,000 handwritten digits, 28 x 28 grey, 10 classes", load_mnist, MNIST_FILES),
    "fashion-mnist": Source(
        "70,000 articles of clothing, 28 x 28 grey, 10 classes", load_fashion_mnist, FASHION_MNIST_FILES
    ),
    "cifar10": Source("60,000 photographs, 32 x 32 colour, 10 classes", load_cifar10, CIFAR10_FILES),
    "cifar100": Source("60,000 photographs, 32 x 32 colour, 100 classes", load_cifar100, CIFAR100_FILES),
    "clothing1m": Source(
        "1,000,000 photographs of clothing with noisy labels, 14 classes",
        load_clothing1m,
        CLOTHING1M_FILES,
        on_request=True,
    ),
}


def load(
    source: str | Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    reading: Reading | None = None,
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """The data set named `source`, one of `SOURCES`, or the one in the file or folder at that path.

    Files of named sets are looked for in `data_dir`, `$TREVISION_DATA` and the cache, then downloaded into
    the cache. `reading` says how a file of the user's own is read; a `preprocessing` that was fitted before
    is used for a table in place of a new one.
    """
    name, reading = str(source), reading or Reading()
    kind = "named" if name in SOURCES else kind_of(source)
    if kind == "named" and name not in SOURCES:
        hint = did_you_mean(name.lower(), SOURCES, cutoff=0.5)
        raise DataError(
            f"source must be one of {', '.join(SOURCES)}, or a .csv, .parquet or .npz file or a folder of "
            f"images, got {name!r}{hint}"
        )
    reading.check(kind, name)
    if kind == "npz":
        return read_npz(Path(source), reading.clean_source)
    if kind == "folder":
        return read_images(list_folder(Path(source).expanduser()), reading, progress)
    if kind == "table":
        table = open_table(source)
        if path_column(table, reading) is None:
            return read_table(table, reading, progress, preprocessing)
        return read_images(list_table(table, reading), reading, progress)
    return SOURCES[name].read(data_dir, progress)


def load_rows(
    source: str | Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    reading: Reading | None = None,
    preprocessing: Preprocessing | None = None,
    shape: tuple[int, ...] = (),
) -> SourceRows:
    """The rows of `source` to predict, with their labels where it has any.

    Those are the test rows of a named data set, what `read_npz_rows` finds in an .npz file, all rows of a
    table, for which the `preprocessing` of the training table is needed, and all images of a folder or a
    table of paths, which are brought to `shape`.
    """
    reading = reading or Reading()
    kind = "named" if str(source) in SOURCES else kind_of(source)
    if kind == "npz":
        return SourceRows(*read_npz_rows(source))
    if kind == "folder":
        return read_image_rows(list_folder(Path(source).expanduser(), training=False), shape, progress)
    if kind == "table":
        table = open_table(source)
        if preprocessing is not None:
            return read_table_rows(table, reading, preprocessing, progress)
        if path_column(table, reading) is None:
            raise DataError(
                f"{source} is a table without paths of images, and the model was not trained on one"
            )
        return read_image_rows(list_table(table, reading, training=False), shape, progress)
    dataset = load(source, data_dir, progress)
    # Every named set has a test part.
    assert dataset.test_x is not None
    assert dataset.test_y is not None
    return SourceRows(dataset.test_x, dataset.class_values[dataset.test_y.numpy()])


@dataclass(frozen=True)
class Availability:
    """Whether a named data set is at hand: `found_at` is its folder, or None after looking in `looked_in`."""

    name: str
    found_at: Path | None
    looked_in: tuple[Path, ...]
    description: str
    on_request: bool = False


def available(data_dir: Path | None = None) -> list[Availability]:
    """Where each of `SOURCES` lies, without reading or downloading any."""
    states = []
    for name, source in SOURCES.items():
        if source.files is None:
            states.append(Availability(name, DIGITS_FOLDER, (), source.description))
            continue
        paths = find(source.files, data_dir)
        looked_in = tuple(candidate_folders(source.files, data_dir))
        found_at = paths[0].parent if paths else None
        states.append(Availability(name, found_at, looked_in, source.description, source.on_request))
    return states
