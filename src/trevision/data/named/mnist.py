"""MNIST and Fashion-MNIST, read from their official idx files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.data.named.download import fetch, obtain
from trevision.data.named.locations import FileSet, file_in, read_bytes
from trevision.data.progress import Progress
from trevision.data.source import Source, SourceData
from trevision.files import DataError

_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class _Official:
    """The official files, and how to recognise them."""

    files: FileSet
    url: str
    md5: tuple[str, ...]  # of the gzipped files, in the order of _NAMES
    class_names: tuple[str, ...]
    first_labels: tuple[int, ...]  # of the training set; both data sets have the same file names


_MNIST = _Official(
    files=FileSet("mnist", ("mnist", "MNIST/raw"), (_NAMES,)),
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    md5=(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    class_names=tuple("0123456789"),
    first_labels=(5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5, 3, 6, 1, 7),
)
_FASHION = _Official(
    files=FileSet("fashion-mnist", ("fashion-mnist", "FashionMNIST/raw"), (_NAMES,)),
    # This server has only plain http; the checksum verifies the content.
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    md5=(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    first_labels=(9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9),
)


def read_mnist(data_dir: Path | None = None, progress: Progress | None = None) -> SourceData:
    """MNIST: 60,000 + 10,000 grey images of handwritten digits, 28 x 28."""
    return _read(_MNIST, _FASHION, data_dir, progress)


def read_fashion_mnist(data_dir: Path | None = None, progress: Progress | None = None) -> SourceData:
    """Fashion-MNIST: 60,000 + 10,000 grey images of articles of clothing, 28 x 28."""
    return _read(_FASHION, _MNIST, data_dir, progress)


MNIST = Source(
    "mnist",
    "70,000 handwritten digits, 28 x 28 grey, 10 classes",
    read_mnist,
    shape=(1, 28, 28),
    files=_MNIST.files,
    distortion="affine",
)
FASHION_MNIST = Source(
    "fashion-mnist",
    "70,000 articles of clothing, 28 x 28 grey, 10 classes",
    read_fashion_mnist,
    shape=(1, 28, 28),
    files=_FASHION.files,
    distortion="affine",
)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of unsigned bytes with `dimensions` axes in an idx file.

    The format: a big-endian magic number 0x0000080d, where d is the number of axes, one 32-bit length an
    axis, then the bytes in row-major order.
    """
    content = read_bytes(path)
    header = 4 * (1 + dimensions)
    if len(content) < header:
        raise DataError(f"{path}: ends within the idx header, after {len(content)} bytes; fetch it again")
    magic, *shape = (int(number) for number in np.frombuffer(content, ">u4", count=1 + dimensions))
    expected = 0x0800 + dimensions
    if magic != expected:
        raise DataError(
            f"{path}: starts with the number {magic}, but an idx file of bytes with {dimensions} axes "
            f"starts with {expected}; is it another file?"
        )
    if len(content) != header + math.prod(shape) or 0 in shape:
        raise DataError(
            f"{path}: announces {' x '.join(map(str, shape))} bytes but holds {len(content) - header}; "
            "it is truncated or corrupt, fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def _read_part(images_path: Path, labels_path: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise DataError(
            f"{labels_path}: holds {len(labels)} labels for {len(images)} images of {images_path}"
        )
    if labels.max() > 9:
        raise DataError(f"{labels_path}: holds the label {labels.max()}, but labels lie in [0, 9]")
    return images[:, None], labels.astype(np.int64)


def _read(
    source: _Official, namesake: _Official, data_dir: Path | None, progress: Progress | None
) -> SourceData:
    def download(folder: Path) -> None:
        for name, md5 in zip(_NAMES, source.md5, strict=True):
            if file_in(folder, name) is None:
                fetch(f"{source.url}{name}.gz", folder / f"{name}.gz", md5, progress)

    train_images, train_labels, test_images, test_labels = obtain(source.files, data_dir, download)
    train_x, train_y = _read_part(train_images, train_labels)
    test_x, test_y = _read_part(test_images, test_labels)
    if tuple(train_y[: len(namesake.first_labels)].tolist()) == namesake.first_labels:
        raise DataError(
            f"{train_labels}: is {namesake.files.name}, not {source.files.name}; check the folder"
        )
    if train_x.shape[1:] != test_x.shape[1:]:
        raise DataError(
            f"{test_images}: images of {tuple(test_x.shape[2:])} pixels, but those of {train_images} "
            f"have {tuple(train_x.shape[2:])}"
        )
    return SourceData(train_x, train_y, test_x, test_y, source.class_names)
