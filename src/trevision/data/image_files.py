"""Image files that are too many for memory: decoded when a batch of them is needed, and a little before.

Decoding runs in threads. Pillow lets go of Python's lock while it decodes and resizes, so threads use all
cores, and the decoded images need not be copied from one process to another.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from trevision.files import DataError


@dataclass(frozen=True)
class Framing:
    """What a decoded image is: resized to a shorter side of `resized` pixels, then a crop of it.

    With one of the `channels` it is grey, with three it has colours.
    """

    resized: int
    height: int
    width: int
    channels: int = 3

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image as networks see it."""
        return self.channels, self.height, self.width


PHOTOGRAPH = Framing(resized=256, height=224, width=224)
"""As is the custom for ImageNet."""

# Batches that are being decoded while one is used.
BATCHES_AHEAD = 3
MOST_WORKERS = 16


class ImageFiles:
    """Rows that are image files; to its users much like a uint8 tensor of shape (n, 3, 224, 224).

    Indexed with a tensor of row numbers, it gives those images as such a tensor, in the `framing`'s size: by
    default resized so that the shorter side has 256 pixels, then the 224 x 224 in the centre. `batches` gives
    many of them, decoded ahead of time, and, with a generator, cropped and flipped at random.
    """

    def __init__(
        self, folder: Path, names: np.ndarray, workers: int | None = None, framing: Framing = PHOTOGRAPH
    ) -> None:
        """`names` are paths relative to `folder`, as an array of bytes (utf-8): a million take 60 MB so."""
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
        channels, height, width = self.framing.shape
        pixels = torch.empty(len(rows), height, width, channels, dtype=torch.uint8)
        places = np.tile([0.5, 0.5, 1.0], (len(rows), 1))
        if generator is not None:
            places = torch.rand(len(rows), 3, generator=generator, dtype=torch.float64).numpy()
        jobs = [
            pool.submit(_decode_into, target, self.path(row), self.framing, *place)
            for target, row, place in zip(pixels.numpy(), rows.tolist(), places.tolist(), strict=True)
        ]
        return pixels.permute(0, 3, 1, 2), jobs


def _finish(images: Tensor, jobs: list[Future[None]]) -> Tensor:
    for job in jobs:
        job.result()
    return images


def decoding_threads() -> int:
    """As many threads as there are cores, within reason."""
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def _decode_into(
    target: np.ndarray, path: Path, framing: Framing, across: float, down: float, mirror: float
) -> None:
    target[:] = decode(path, across, down, mirrored=mirror < 0.5, framing=framing)


def decode(
    path: Path,
    across: float = 0.5,
    down: float = 0.5,
    *,
    mirrored: bool = False,
    framing: Framing = PHOTOGRAPH,
) -> np.ndarray:
    """The image at `path`, (height, width, channels) of bytes: resized by its shorter side, then cropped.

    `across` and `down`, in [0, 1), choose among the crop's possible places, all equally likely for uniform
    numbers; 0.5 is the centre.
    """
    try:
        with Image.open(path) as file:
            # A JPEG decoder can shrink by 2, 4 or 8 for less work than decoding all, and never below the
            # size that is needed.
            file.draft("L" if framing.channels == 1 else "RGB", (framing.resized, framing.resized))
            image = _eight_bits(file, framing.channels)
    except FileNotFoundError:
        raise DataError(f"{path}: does not exist; are all archives of images unpacked?") from None
    except Exception as error:  # of damaged files, Pillow's readers raise nearly anything
        raise DataError(f"{path}: cannot be decoded ({error}); fetch the file again") from error
    image = _resized_crop(image, framing, across, down)
    pixels = np.asarray(image).reshape(framing.height, framing.width, framing.channels)
    return pixels[:, ::-1] if mirrored else pixels


def _eight_bits(file: Image.Image, channels: int) -> Image.Image:
    """The image upright, in grey or in colours of 8 bits; what is transparent is white."""
    file = ImageOps.exif_transpose(file)
    if file.mode.startswith(("I", "F")):
        # Pillow's own conversion would cut off everything above 255.
        file = Image.fromarray(_deep_to_eight_bits(np.asarray(file)))
    if file.mode in ("LA", "PA", "RGBA") or "transparency" in file.info:
        layer = file.convert("RGBA")
        file = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return file.convert("L" if channels == 1 else "RGB")


def _deep_to_eight_bits(pixels: np.ndarray) -> np.ndarray:
    """Grey of more than 8 bits in bytes: 16 bits by their upper half, else by what the image's values span.

    Numbers within [0, 1] and within [0, 255] are what they seem to be; any others are spread, least to most.
    """
    if pixels.dtype == np.uint16:
        return (pixels >> 8).astype(np.uint8)
    numbers = np.nan_to_num(pixels.astype(np.float64), posinf=0, neginf=0)
    low, high = numbers.min(), numbers.max()
    if pixels.dtype.kind == "f" and low >= 0 and high <= 1:
        low, high = 0, 1
    elif low >= 0 and high <= 255:
        low, high = 0, 255
    elif pixels.dtype.kind == "i" and low >= 0 and high <= 65535:
        low, high = 0, 65535  # 16 bits, as some readers hand them over
    return np.rint((numbers - low) * (255 / max(high - low, np.finfo(float).tiny))).astype(np.uint8)


def _resized_crop(image: Image.Image, framing: Framing, across: float, down: float) -> Image.Image:
    shorter = min(framing.width, framing.height)
    # The resized image covers the crop and the same margin around it, whatever the shapes of both.
    covered = [framing.resized * side / shorter for side in (framing.width, framing.height)]
    scale = max(needed / side for needed, side in zip(covered, image.size, strict=True))
    width, height = (
        max(round(needed), round(side * scale)) for needed, side in zip(covered, image.size, strict=True)
    )
    left, top = int(across * (width - framing.width + 1)), int(down * (height - framing.height + 1))
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.crop((left, top, left + framing.width, top + framing.height))
