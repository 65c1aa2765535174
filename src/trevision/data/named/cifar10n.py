"""CIFAR-10N (Wei et al., ICLR 2022): CIFAR-10 with the labels that people gave.

Three people labelled every training image. `random1` to `random3` are the labels of one person each, `aggre`
is their vote, and `worse` is a wrong label of the three where there is one. The labels are one official file
beside the images of CIFAR-10. It also holds the clean labels: they tell whether its rows are in the order of
the images, and T is counted against them.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from trevision.budgets import check_unpacked
from trevision.data.named.cifar import read_cifar10
from trevision.data.named.download import obtain
from trevision.data.named.locations import FileSet, read_bytes
from trevision.data.named.plain_pickle import PickledArray, unpickle
from trevision.data.progress import Progress
from trevision.data.source import Source, SourceData
from trevision.files import DataError

LABEL_SETS = {
    "worse": "worse_label",
    "aggre": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
}
"""The official name of each noise set; the first is the default."""

_CLEAN = "clean_label"
_FILES = FileSet("cifar10n", ("cifar-n", "cifar10n", "CIFAR-N"), (("CIFAR-10_human.pt",),))


def read_cifar10n(
    data_dir: Path | None = None, progress: Progress | None = None, noise_set: str = "worse"
) -> SourceData:
    """The images of CIFAR-10 with the labels of one of `LABEL_SETS`, and the clean labels as the truth."""
    (path,) = obtain(_FILES, data_dir, _no_download)
    labels = human_labels(path)
    data = read_cifar10(data_dir, progress)
    if not np.array_equal(labels[_CLEAN], data.train_y):
        raise DataError(
            f"{path}: its clean labels must be those of the CIFAR-10 training images, row by row, but "
            "differ; take the official files of both, in their official order"
        )
    return replace(data, train_y=labels[LABEL_SETS[noise_set]], labels_are_noisy=True, true_y=data.train_y)


def human_labels(path: Path) -> dict[str, np.ndarray]:
    """The label sets of the official file by their official names; no code of the file is executed."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
            check_unpacked(path, archive.getinfo(member).file_size, path.stat().st_size)
            stored = unpickle(archive.read(member))
    except DataError:
        raise
    except Exception as error:  # a corrupt archive or pickle raises almost anything
        raise DataError(f"{path}: is not the label file of CIFAR-10N ({error})") from error
    names = (_CLEAN, *LABEL_SETS.values())
    if not isinstance(stored, dict) or not all(isinstance(stored.get(name), PickledArray) for name in names):
        raise DataError(f"{path}: must hold arrays named {', '.join(names)}; is it another file?")
    try:
        labels = {name: stored[name].to_numpy().astype(np.int64) for name in names}
    except ValueError as error:
        raise DataError(f"{path}: an array does not fit its shape ({error}); fetch the file again") from error
    for name, codes in labels.items():
        if codes.shape != labels[_CLEAN].shape or codes.ndim != 1 or codes.min() < 0 or codes.max() > 9:
            raise DataError(f"{path}: {name} must hold a label from 0 to 9 for every training image")
    return labels


def _no_download(folder: Path) -> None:
    raise DataError(
        "the authors ask to fetch CIFAR-10_human.pt from their page, https://github.com/UCSC-REAL/cifar-10-100n"
    )


_READERS: dict[str, Callable[[Path | None, Progress | None], SourceData]] = {
    name: partial(read_cifar10n, noise_set=name) for name in LABEL_SETS
}
CIFAR10N = Source(
    "cifar10n",
    "the photographs of cifar10 with labels that people gave: --noise-set " + ", ".join(LABEL_SETS),
    read_cifar10n,
    shape=(3, 32, 32),
    files=_FILES,
    on_request=True,
    augmentation="crop-flip",
    noise_sets=_READERS,
)
