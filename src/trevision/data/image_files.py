"""Image files that are too many for memory: decoded when a batch of them is needed, and a little before.

Decoding runs in threads. Pillow lets go of Python's lock while it decodes and resizes, so threads use all
cores, and the decoded images need not be copied from one process to another.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from trevision.data.dataset import DataError

RESIZED = 256  # pixels of the shorter side before cropping, as is the custom for ImageNet
CROPPED = 224

# Batches that are being decoded while one is used.
BATCHES_AHEAD = 3
MOST_WORKERS = 16


class ImageFiles:
    """Rows that are image files; to its users much like a uint8 tensor of shape (n, 3, 224, 224).

    Indexed with a tensor of row numbers, it gives those images as such a tensor: resized so that the shorter
    side has 256 pixels, then the 224 x 224 in the centre. `batches` gives many of them, decoded ahead of
    time, and, with a generator, cropped and flipped at random.
    """

    def __init__(self, folder: Path, names: np.ndarray, workers: int | None = None) -> None:
        """`names` are paths relative to `folder`, as an array of bytes (utf-8): a million take 60 MB so."""
        self.folder = folder
        self.names = names
        self.workers = workers or min(MOST_WORKERS, len(os.sched_getaffinity(0)))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.names), 3, CROPPED, CROPPED)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return next(self.batches([rows]))

    def path(self, row: int) -> Path:
        return self.folder / self.names[row].decode("utf-8")

    def select(self, rows: Tensor | np.ndarray) -> ImageFiles:
        """Some of the rows, still as files."""
        return ImageFiles(self.folder, self.names[np.asarray(rows)], self.workers)

    def batches(self, parts: Iterable[Tensor], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """The images of each of `parts`, tensors of row numbers, in order.

        With a `generator` each image is cropped at a random place and mirrored with probability 1/2. The
        numbers for that are drawn here, a batch after the other, and not by the threads: the same seed gives
        the same images.
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
        # Pixel by pixel in memory: the order in which they are decoded, and in which convolutions are quick.
        pixels = torch.empty(len(rows), CROPPED, CROPPED, 3, dtype=torch.uint8)
        places = np.tile([0.5, 0.5, 1.0], (len(rows), 1))
        if generator is not None:
            places = torch.rand(len(rows), 3, generator=generator, dtype=torch.float64).numpy()
        jobs = [
            pool.submit(_decode_into, target, self.path(row), *place)
            for target, row, place in zip(pixels.numpy(), rows.tolist(), places.tolist(), strict=True)
        ]
        return pixels.permute(0, 3, 1, 2), jobs


def _finish(images: Tensor, jobs: list[Future[None]]) -> Tensor:
    for job in jobs:
        job.result()
    return images


def _decode_into(target: np.ndarray, path: Path, across: float, down: float, mirror: float) -> None:
    target[:] = decode(path, across, down, mirrored=mirror < 0.5)


def decode(path: Path, across: float = 0.5, down: float = 0.5, *, mirrored: bool = False) -> np.ndarray:
    """The image at `path`, (224, 224, 3) of bytes: resized to a shorter side of 256 pixels, then cropped.

    `across` and `down`, in [0, 1), choose among the crop's possible places, all equally likely for uniform
    numbers; 0.5 is the centre.
    """
    try:
        with Image.open(path) as file:
            # A JPEG decoder can shrink by 2, 4 or 8 for less work than decoding all; never below 256 pixels.
            file.draft("RGB", (RESIZED, RESIZED))
            image = file.convert("RGB")
    except FileNotFoundError:
        raise DataError(f"{path}: does not exist; are all archives of images unpacked?") from None
    except (OSError, SyntaxError, ValueError) as error:  # Pillow has all of these for damaged files
        raise DataError(f"{path}: cannot be decoded ({error}); fetch the file again") from error
    scale = RESIZED / min(image.size)
    width, height = (max(RESIZED, round(side * scale)) for side in image.size)
    left, top = int(across * (width - CROPPED + 1)), int(down * (height - CROPPED + 1))
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image.crop((left, top, left + CROPPED, top + CROPPED)))
    return pixels[:, ::-1] if mirrored else pixels
