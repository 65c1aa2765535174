"""Rows of samples: a tensor in memory, or image files or a sparse table, made into batches when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trevision.data.augment import augment
from trevision.data.dataset import Dataset, SourceRows, drawn_rows
from trevision.data.image_files import ImageFiles
from trevision.data.source import Source, SourceData
from trevision.data.sparse_rows import SparseRows

Rows = Tensor | ImageFiles | SparseRows

# Batch size for predicting images of a photograph's size.
FILES_AT_ONCE = 100


def dataset_of_source(source: Source, data: SourceData) -> Dataset:
    """A named data set as tensors."""
    return Dataset(
        name=source.name,
        train_x=_as_rows(data.train_x),
        train_y=torch.from_numpy(data.train_y),
        test_x=_as_rows(data.test_x),
        test_y=torch.from_numpy(data.test_y),
        class_names=data.class_names,
        augmentation=source.augmentation,
        trusted_x=data.trusted_x,
        trusted_y=None if data.trusted_y is None else torch.from_numpy(data.trusted_y),
        label_pairs=data.label_pairs,
        labels_are_noisy=data.labels_are_noisy,
        true_y=None if data.true_y is None else torch.from_numpy(data.true_y),
    )


def as_tensors(dataset: Dataset) -> Dataset:
    """A data set of numpy arrays as one of tensors, which share their memory."""
    converted: dict[str, Any] = {}
    for name in ("train_x", "train_y", "test_x", "test_y", "trusted_x", "trusted_y"):
        part = getattr(dataset, name)
        converted[name] = None if part is None else _as_rows(part)
    return replace(dataset, **converted)


def with_tensors(rows: SourceRows) -> SourceRows:
    """Rows of numpy arrays as rows of tensors, which share their memory."""
    return replace(rows, x=_as_rows(rows.x))


def _as_rows(x: np.ndarray | ImageFiles) -> Rows:
    return x if isinstance(x, ImageFiles) else torch.from_numpy(x)


def select_rows(x: Rows, rows: Tensor | np.ndarray) -> Rows:
    """Some rows of `x`, of the same kind as `x`."""
    if isinstance(x, Tensor):
        return x[torch.as_tensor(rows).to(x.device)]
    return x.select(rows)


def joined_rows(x: Rows, others: Rows) -> Rows:
    """The rows of `x` and behind them others of the same kind."""
    if isinstance(x, Tensor):
        assert isinstance(others, Tensor)
        return torch.cat([x, others.to(x)])
    return x.followed_by(others)


def keep_rows(dataset: Dataset, rows: Tensor) -> Dataset:
    """The data set with only these training rows. They keep their row numbers in the source."""
    kept = dataset.labels.take(rows.numpy())
    return replace(
        dataset,
        train_x=select_rows(dataset.train_x, rows),
        train_y=dataset.train_y[rows],
        true_y=None if dataset.true_y is None else dataset.true_y[rows],
        names=kept.names,
        row_numbers=kept.row_numbers,
        answers=None if dataset.answers is None else dataset.answers.take(rows.numpy()),
    )


def take_rows(dataset: Dataset, train_size: int, random_state: int | np.random.Generator) -> Dataset:
    """The data set with some of its training rows, drawn without replacement; test rows stay as they are.

    With the same seed, a larger size contains the rows of a smaller size.

    Parameters
    ----------
    dataset
        The whole data set.
    train_size
        Number of training rows to keep.
    random_state
        A seed or a generator.

    Raises
    ------
    DataError
        If there are not so many rows.
    """
    return keep_rows(dataset, torch.from_numpy(drawn_rows(dataset, train_size, random_state)))


def batches_of(x: Rows, batch_size: int) -> Iterator[Tensor]:
    """All rows in order, batch after batch, without augmentation."""
    if isinstance(x, ImageFiles):
        return x.batches(torch.arange(len(x)).split(min(batch_size, FILES_AT_ONCE)))
    if isinstance(x, SparseRows):
        step = min(batch_size, x.at_once)
        return (x[first : first + step] for first in range(0, len(x), step))
    return iter(x.split(batch_size))


def augmented_batches(
    x: Rows,
    parts: Sequence[Tensor],
    augmentation: str,
    generator: torch.Generator,
    mirrored: Tensor | None = None,
) -> Iterator[Tensor]:
    """The batches of one epoch, augmented.

    For image files "crop-flip" means a random crop of the resized image, without padding.

    Parameters
    ----------
    x
        All rows.
    parts
        The numbers of the rows of each batch.
    augmentation
        One of `AUGMENTATIONS`.
    generator
        Draws everything that is random.
    mirrored
        For "shift-flip": which of all rows to mirror, (n,); drawn if not given.
    """
    if isinstance(x, ImageFiles) and augmentation == "crop-flip":
        return x.batches(parts, generator)
    batches = x.batches(parts) if isinstance(x, ImageFiles) else (x[rows] for rows in parts)
    return (
        augment(batch, augmentation, generator, None if mirrored is None else mirrored[rows])
        for rows, batch in zip(parts, batches, strict=True)
    )
