"""Image files that do not fit in memory: each batch is decoded shortly before it is needed.

Decoding runs in threads. Pillow releases Python's lock while it decodes and resizes, so threads use all
cores, and decoded images need not be copied between processes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.data.decoding import PHOTOGRAPH, Framing, decode, decoding_threads

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Number of batches that are decoded ahead.
BATCHES_AHEAD = 3


class ImageFiles:
    """Rows that are image files, used much like a uint8 tensor of shape (n, 3, 224, 224).

    Indexing with a tensor of row numbers decodes these images, in the size of `framing`: by default, the
    shorter side is resized to 256 pixels and the central 224 x 224 are taken. `batches` decodes ahead of time
    and, with a generator, crops and flips at random.
    """

    def __init__(
        self, folder: Path, names: np.ndarray, workers: int | None = None, framing: Framing = PHOTOGRAPH
    ) -> None:
        """`names` are paths relative to `folder`, as an array of bytes (utf-8), which saves memory."""
        self.folder = folder
        self.names = names
        self.workers = workers or decoding_threads()
        self.framing = framing

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.names), *self.framing.shape)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return next(self.batches([rows]))

    def path(self, row: int) -> Path:
        return self.folder / os.fsdecode(self.names[row])

    def select(self, rows: Tensor | np.ndarray) -> ImageFiles:
        """Some of the rows, still as files."""
        return ImageFiles(self.folder, self.names[np.asarray(rows)], self.workers, self.framing)

    def followed_by(self, others: Any) -> ImageFiles:
        """These images and behind them those of another folder."""
        names = [
            os.fsencode(rows.path(row).absolute()) for rows in (self, others) for row in range(len(rows))
        ]
        return ImageFiles(Path("/"), np.array(names), self.workers, self.framing)

    def batches(self, parts: Iterable[Tensor], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """The images of each of `parts`, tensors of row numbers, in order.

        With a `generator`, each image is cropped at a random position and mirrored with probability 1/2. The
        random numbers are drawn here, batch after batch, and not in the threads, so the same seed gives the
        same images.
        """
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="decode")
        pending: deque[tuple[Tensor, list[Future[None]]]] = deque()
        try:
            for rows in parts:
                pending.append(self._start(pool, rows, generator))
                if len(pending) > BATCHES_AHEAD:
                    yield _finish(*pending.popleft())
            while pending:
                yield _finish(*pending.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _start(
        self, pool: ThreadPoolExecutor, rows: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, list[Future[None]]]:
        import torch  # not needed for a list of files

        # Pixel by pixel in memory: images are decoded in this order, and convolutions are fast in it.
        channels, height, width = self.framing.shape
        pixels = torch.empty(len(rows), height, width, channels, dtype=torch.uint8)
        crops = np.tile([0.5, 0.5, 1.0], (len(rows), 1))
        if generator is not None:
            crops = torch.rand(len(rows), 3, generator=generator, dtype=torch.float64).numpy()
        jobs = [
            pool.submit(_decode_into, target, self.path(row), self.framing, *crop)
            for target, row, crop in zip(pixels.numpy(), rows.tolist(), crops.tolist(), strict=True)
        ]
        return pixels.permute(0, 3, 1, 2), jobs


def _finish(images: Tensor, jobs: list[Future[None]]) -> Tensor:
    for job in jobs:
        job.result()
    return images


def _decode_into(
    target: np.ndarray, path: Path, framing: Framing, across: float, down: float, mirror: float
) -> None:
    target[:] = decode(path, across, down, mirrored=mirror < 0.5, framing=framing)
