"""Clothing1M (Xiao et al. 2015): a million photographs with labels from the text around them.

The official folder: label files and key lists as below, and images/0 to images/9. The labels of the training
images are noisy. Of some 50,000 further training images with clean labels, about half have a noisy label
too: T is counted from these pairs (Patrini et al. 2017). Clean validation and test images are separate.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trevision.data.named.download import obtain
from trevision.data.named.locations import FileSet, read_bytes
from trevision.data.progress import Progress
from trevision.data.source import Source, SourceData
from trevision.files import DataError

if TYPE_CHECKING:
    from trevision.data.image_files import ImageFiles

NUM_CLASSES = 14
_FILES = FileSet(
    "clothing1m",
    ("clothing1m", "clothing1M", "Clothing1M"),
    (
        (
            "noisy_label_kv.txt",
            "clean_label_kv.txt",
            "noisy_train_key_list.txt",
            "clean_train_key_list.txt",
            "clean_val_key_list.txt",
            "clean_test_key_list.txt",
            "category_names_eng.txt",
        ),
    ),
)


def read_clothing1m(data_dir: Path | None = None, progress: Progress | None = None) -> SourceData:
    """Clothing1M: noisy training images, clean validation (`trusted`) and test images, and label pairs.

    No image is opened before it is needed.
    """
    noisy_file, clean_file, train_file, clean_train_file, valid_file, test_file, names_file = obtain(
        _FILES, data_dir, _on_request
    )
    folder = train_file.parent
    names = _lines(names_file)
    if len(names) != NUM_CLASSES:
        raise DataError(f"{names_file}: must name {NUM_CLASSES} classes, got {len(names)} lines")
    noisy, clean = read_labels(noisy_file), read_labels(clean_file)
    train, valid, test = (_lines(path) for path in (train_file, valid_file, test_file))
    paired = [key for key in _lines(clean_train_file) if key in noisy]
    pairs = (_codes(paired, clean, clean_file), _codes(paired, noisy, noisy_file)) if paired else None
    return SourceData(
        train_x=_images(folder, train),
        train_y=_codes(train, noisy, noisy_file),
        test_x=_images(folder, test),
        test_y=_codes(test, clean, clean_file),
        class_names=tuple(names),
        trusted_x=_images(folder, valid),
        trusted_y=_codes(valid, clean, clean_file),
        label_pairs=pairs,
        labels_are_noisy=True,
    )


CLOTHING1M = Source(
    "clothing1m",
    "1,000,000 photographs of clothing with noisy labels, 14 classes",
    read_clothing1m,
    shape=(3, 224, 224),
    files=_FILES,
    on_request=True,
    augmentation="crop-flip",
)


def read_labels(path: Path) -> dict[str, int]:
    """The label of each key in a file of lines `images/0/12/345,678.jpg 5`."""
    labels = {}
    for number, line in enumerate(_lines(path), start=1):
        key, _, label = line.rpartition(" ")
        if not key or not label.isascii() or not label.isdigit() or int(label) >= NUM_CLASSES:
            raise DataError(
                f"{path}: entry {number} must be a path and a label in [0, {NUM_CLASSES - 1}], "
                f"got {line[:80]!r}"
            )
        labels[key] = int(label)
    return labels


def _codes(keys: list[str], labels: dict[str, int], label_file: Path) -> np.ndarray:
    try:
        return np.array([labels[key] for key in keys], dtype=np.int64)
    except KeyError as error:
        raise DataError(f"{label_file}: has no label for {error.args[0]}, which a key list names") from None


def _images(folder: Path, keys: list[str]) -> ImageFiles:
    from trevision.data.image_files import ImageFiles  # needs Pillow, which the list of data sets does not

    return ImageFiles(folder, np.array([key.encode() for key in keys], dtype=bytes))


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in read_bytes(path).decode("utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text in utf-8 ({error})") from error
    lines = [line for line in lines if line]
    if not lines:
        raise DataError(f"{path}: is empty")
    return lines


def _on_request(folder: Path) -> None:
    raise DataError("its authors give it out on request, see https://github.com/Cysu/noisy_label")
