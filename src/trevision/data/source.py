"""The declaration of a named data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trevision.data.named.locations import FileSet
from trevision.files import DataError

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
    true_y: np.ndarray | None = None


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
    network
        The paper's network, where it is not the one that `networks.choose` takes for the shape.
    estimator
        The default estimator of T: the paper's.
    noise_sets
        For a data set with several sets of noisy labels: what to call instead of `read`, by the set's name.
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
    network: str | None = None
    estimator: str = "anchor"
    noise_sets: Mapping[str, Callable[[Path | None, Progress | None], SourceData]] = field(
        default_factory=dict
    )

    @property
    def sample_size(self) -> int:
        """Numbers in one sample."""
        return math.prod(self.shape)

    def read_set(
        self, noise_set: str | None, data_dir: Path | None = None, progress: Progress | None = None
    ) -> SourceData:
        """`read`, or the reader of the named set of noisy labels.

        Raises a DataError if there is no such set.
        """
        if noise_set is None:
            return self.read(data_dir, progress)
        if noise_set not in self.noise_sets:
            rule = f"be one of {', '.join(self.noise_sets)}" if self.noise_sets else "be left out"
            raise DataError(f"noise_set must {rule} for {self.name}, got {noise_set!r}")
        return self.noise_sets[noise_set](data_dir, progress)

    def load(
        self,
        data_dir: Path | None = None,
        progress: Progress | None = None,
        noise_set: str | None = None,
    ) -> Dataset:
        """The data set as tensors."""
        from trevision.data.rows import dataset_of_source

        return dataset_of_source(self, self.read_set(noise_set, data_dir, progress))
