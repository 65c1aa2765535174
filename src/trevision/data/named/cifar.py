"""CIFAR-10 and CIFAR-100, read from their official binary or python files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np

from trevision.data.named.download import fetch_archive, obtain
from trevision.data.named.locations import FileSet, read_bytes
from trevision.data.named.plain_pickle import PickledArray, unpickle
from trevision.data.progress import Progress
from trevision.data.source import Source, SourceData
from trevision.files import DataError

_PIXELS = 3 * 32 * 32
_URL = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True)
class _Official:
    """The official files, and the layout of their records."""

    files: FileSet  # each version lists its training files, then its one test file
    archive: str
    md5: str
    label_bytes: int  # a binary record's labels; the last one is used (CIFAR-100: coarse, then fine)
    label_key: str  # of the python version
    class_names: tuple[str, ...]


_CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

_CIFAR10 = _Official(
    files=FileSet(
        "cifar10",
        (
            "cifar-10-batches-bin",
            "cifar10/cifar-10-batches-bin",
            "cifar-10-batches-py",
            "cifar10/cifar-10-batches-py",
        ),
        (tuple(f"{name}.bin" for name in _BATCHES), _BATCHES),
    ),
    archive="cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    label_bytes=1,
    label_key="labels",
    class_names=tuple(_CIFAR10_CLASSES.split()),
)
_CIFAR100 = _Official(
    files=FileSet(
        "cifar100",
        (
            "cifar-100-binary",
            "cifar100/cifar-100-binary",
            "cifar-100-python",
            "cifar100/cifar-100-python",
        ),
        (("train.bin", "test.bin"), ("train", "test")),
    ),
    archive="cifar-100-binary.tar.gz",
    md5="03b5dce01913d631647c71ecec9e9cb8",
    label_bytes=2,
    label_key="fine_labels",
    class_names=tuple(_CIFAR100_CLASSES.split()),
)


def read_cifar10(data_dir: Path | None = None, progress: Progress | None = None) -> SourceData:
    """CIFAR-10: 50,000 + 10,000 colour images of 10 classes, 32 x 32."""
    return _read(_CIFAR10, data_dir, progress)


def read_cifar100(data_dir: Path | None = None, progress: Progress | None = None) -> SourceData:
    """CIFAR-100: 50,000 + 10,000 colour images of 100 classes (the fine labels), 32 x 32."""
    return _read(_CIFAR100, data_dir, progress)


CIFAR10 = Source(
    "cifar10",
    "60,000 photographs, 32 x 32 colour, 10 classes",
    read_cifar10,
    shape=(3, 32, 32),
    files=_CIFAR10.files,
    augmentation="crop-flip",
)
CIFAR100 = Source(
    "cifar100",
    "60,000 photographs, 32 x 32 colour, 100 classes",
    read_cifar100,
    shape=(3, 32, 32),
    files=_CIFAR100.files,
    augmentation="crop-flip",
    network="resnet34",
)


def _read(source: _Official, data_dir: Path | None, progress: Progress | None) -> SourceData:
    def download(folder: Path) -> None:
        fetch_archive(_URL + source.archive, source.md5, source.files.folders[0], folder, progress)

    *train_paths, test_path = obtain(source.files, data_dir, download)
    parts = [_read_part(source, path) for path in train_paths]
    test_x, test_y = _read_part(source, test_path)
    return SourceData(
        train_x=np.concatenate([images for images, _ in parts]),
        train_y=np.concatenate([labels for _, labels in parts]),
        test_x=test_x,
        test_y=test_y,
        class_names=source.class_names,
    )


def _read_part(source: _Official, path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.name.removesuffix(".gz").endswith(".bin"):
        rows, labels = _read_binary(path, source.label_bytes)
    else:
        rows, labels = _read_python(path, source.label_key)
    if labels.min() < 0 or labels.max() >= len(source.class_names):
        raise DataError(
            f"{path}: holds labels from {labels.min()} to {labels.max()}, "
            f"but those of {source.files.name} lie in [0, {len(source.class_names) - 1}]"
        )
    # Both versions store a row as the red, the green and the blue plane, each row by row.
    images = np.ascontiguousarray(rows).reshape(-1, 3, 32, 32)
    return images, labels.astype(np.int64)


def _read_binary(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    content, record = read_bytes(path), label_bytes + _PIXELS
    if not content or len(content) % record:
        raise DataError(
            f"{path}: {len(content)} bytes are not a whole number of {record}-byte records; "
            "it is truncated or another file, fetch it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return records[:, label_bytes:].copy(), records[:, label_bytes - 1]


def _is_bytes(data: object) -> TypeGuard[PickledArray]:
    return isinstance(data, PickledArray) and data.dtype == "u1"


def _read_python(path: Path, label_key: str) -> tuple[np.ndarray, np.ndarray]:
    content = read_bytes(path)
    try:
        # The official files come from Python 2, whose strings are bytes.
        batch = unpickle(content, encoding="bytes")
    except Exception as error:  # a corrupt pickle raises almost anything
        raise DataError(f"{path}: is not a CIFAR python file ({error})") from error
    if not isinstance(batch, dict):
        raise DataError(f"{path}: holds a {type(batch).__name__} instead of a dictionary of data and labels")
    data, labels = (batch.get(key.encode(), batch.get(key)) for key in ("data", label_key))
    if not _is_bytes(data) or not isinstance(labels, list) or not labels:
        raise DataError(f"{path}: lacks the array 'data' or the list {label_key!r}; is it another file?")
    if data.shape != (len(labels), _PIXELS) or len(data.content) != len(labels) * _PIXELS:
        raise DataError(
            f"{path}: 'data' has shape {data.shape} and {len(data.content)} bytes, "
            f"but {len(labels)} labels need ({len(labels)}, {_PIXELS})"
        )
    # bool is an int to Python, hence the exact type; the bound keeps numpy from overflowing.
    if any(type(label) is not int or not 0 <= label < 256 for label in labels):
        raise DataError(f"{path}: {label_key!r} must be small whole numbers from 0 up")
    return data.to_numpy(), np.array(labels)
