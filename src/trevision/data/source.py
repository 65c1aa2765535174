"""The declaration of a named data set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trevision.data.named.locations import FileSet

if TYPE_CHECKING:
    from trevision.data.dataset import Dataset
    from trevision.data.image_files import ImageFiles
    from trevision.data.progress import Progress


@dataclass(frozen=True, eq=False)
class SourceData:
    """The rows and labels of a named data set as numpy arrays or image files, not yet as tensors.

    The fields mean what those of `Dataset` do.
    """

    train_x: np.ndarray | ImageFiles
    train_y: np.ndarray
    test_x: np.ndarray | ImageFiles
    test_y: np.ndarray
    class_names: tuple[str, ...]
    trusted_x: ImageFiles | None = None
    trusted_y: np.ndarray | None = None
    label_pairs: tuple[np.ndarray, np.ndarray] | None = None
    labels_are_noisy: bool = False


@dataclass(frozen=True, eq=False)
class Source:
    """A named data set. Every module-level instance in `trevision.data.named` is one.

    Parameters
    ----------
    name
        What the user types.
    description
        A line for `trevision data`.
    read
        Finds or downloads the files and reads them: `read(data_dir, progress)`.
    shape
        Shape of one sample, (channels, height, width).
    files
        The files; None if they come with another package, whose folder is `folder`.
    folder
        The folder of the data if `files` is None.
    on_request
        Whether the files are available only on request from the authors, so that nothing is downloaded.
    augmentation
        The usual augmentation in the literature, one of `AUGMENTATIONS`.
    distortion
        Augmentation of the schedule `strong`; `augmentation` if None.
    estimator
        The default estimator of T: the paper's.
    """

    name: str
    description: str
    read: Callable[[Path | None, Progress | None], SourceData]
    shape: tuple[int, int, int]
    files: FileSet | None = None
    folder: Path | None = None
    on_request: bool = False
    augmentation: str = "none"
    distortion: str | None = None
    estimator: str = "anchor"

    @property
    def sample_size(self) -> int:
        """Numbers in one sample."""
        return math.prod(self.shape)

    def load(self, data_dir: Path | None = None, progress: Progress | None = None) -> Dataset:
        """The data set as tensors."""
        from trevision.data.rows import dataset_of_source

        return dataset_of_source(self, self.read(data_dir, progress))
