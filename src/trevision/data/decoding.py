"""Decode an image file into an array of bytes, resized by its shorter side and cropped."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

from trevision.budgets import MB, PICTURE_BYTES
from trevision.files import DataError, TooLarge

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""The formats that are read. Pillow knows more, and starts another program for some of them."""
MOST_THREADS = 16
ITEMS_AT_ONCE = 4096

T = TypeVar("T")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Framing:
    """How an image is decoded: its shorter side resized to `resized` pixels, then cropped.

    One channel means grey, three channels mean colour.
    """

    resized: int
    height: int
    width: int
    channels: int = 3

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image: (channels, height, width)."""
        return self.channels, self.height, self.width


PHOTOGRAPH = Framing(resized=256, height=224, width=224)
"""The usual size of ImageNet's photographs."""


def framing_of(shape: tuple[int, ...]) -> Framing:
    """The framing for images of shape (channels, height, width), with as little cropping as possible."""
    channels, height, width = shape
    return Framing(min(height, width), height, width, channels)


def decoding_threads() -> int:
    """One thread per core, at most `MOST_THREADS`."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


def in_threads(work: Callable[[T], Result], items: Sequence[T]) -> Iterator[Result]:
    """The results of `work` for each item, in order. Items are given to the threads in parts."""
    with ThreadPoolExecutor(decoding_threads(), thread_name_prefix="decode") as pool:
        for start in range(0, len(items), ITEMS_AT_ONCE):
            yield from pool.map(work, items[start : start + ITEMS_AT_ONCE])


def decode(
    path: Path,
    across: float = 0.5,
    down: float = 0.5,
    *,
    mirrored: bool = False,
    framing: Framing = PHOTOGRAPH,
) -> np.ndarray:
    """The image at `path`, (height, width, channels) of bytes: resized by its shorter side, then cropped.

    Parameters
    ----------
    path
        The image file.
    across, down
        Where the crop lies, in [0, 1): uniform numbers make all positions equally likely, 0.5 is the centre.
    mirrored
        Whether left and right are exchanged.
    framing
        The size to resize to, the size of the crop, and the channels.

    Raises
    ------
    DataError
        If the file is missing or damaged.
    """
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as file:
            # A JPEG decoder can shrink by 2, 4 or 8 for less work than decoding all, and never below the
            # size that is needed.
            file.draft("L" if framing.channels == 1 else "RGB", (framing.resized, framing.resized))
            _check_pixels(path, file.size, file.mode, framing)
            image = _eight_bits(file, framing.channels)
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: does not exist; are all archives of images unpacked?") from None
    except Exception as error:  # of damaged files, Pillow's readers raise nearly anything
        raise DataError(f"{path}: cannot be decoded ({error}); fetch the file again") from error
    image = _resized_crop(image, framing, across, down)
    pixels = np.asarray(image).reshape(framing.height, framing.width, framing.channels)
    return pixels[:, ::-1] if mirrored else pixels


def _check_pixels(path: Path, size: tuple[int, int], mode: str, framing: Framing) -> None:
    """Raise a `TooLarge` for a picture whose pixels, as they are or resized, go beyond their budget."""
    per_pixel = 16 if mode.startswith(("I", "F")) else 4
    resized = math.prod(_resized(size, framing))
    if max(math.prod(size) * per_pixel, resized * 4) > PICTURE_BYTES:
        raise TooLarge(
            f"{path}: a picture of {size[0]:,} x {size[1]:,} pixels needs more than the "
            f"{PICTURE_BYTES // MB} MB that one may take; make it smaller",
            path=path,
        )


def _eight_bits(file: Image.Image, channels: int) -> Image.Image:
    """The image upright, in grey or in colours of 8 bits; transparent parts become white."""
    from PIL import Image, ImageOps

    file = ImageOps.exif_transpose(file)
    if file.mode.startswith(("I", "F")):
        # Pillow's own conversion would cut off everything above 255.
        file = Image.fromarray(_deep_to_eight_bits(np.asarray(file)))
    if file.mode in ("LA", "PA", "RGBA") or "transparency" in file.info:
        layer = file.convert("RGBA")
        file = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return file.convert("L" if channels == 1 else "RGB")


def _deep_to_eight_bits(pixels: np.ndarray) -> np.ndarray:
    """Convert grey of more than 8 bits to bytes. Of unsigned 16 bits, the upper 8 are used.

    Floats within [0, 1], numbers within [0, 255] and integers within [0, 65535] are scaled from this range.
    Other values are scaled from their minimum to their maximum.
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
        low, high = 0, 65535  # some readers return 16 bits in a wider type
    return np.rint((numbers - low) * (255 / max(high - low, np.finfo(float).tiny))).astype(np.uint8)


def _resized_crop(image: Image.Image, framing: Framing, across: float, down: float) -> Image.Image:
    from PIL import Image

    width, height = _resized(image.size, framing)
    left, top = int(across * (width - framing.width + 1)), int(down * (height - framing.height + 1))
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.crop((left, top, left + framing.width, top + framing.height))


def _resized(size: tuple[int, int], framing: Framing) -> tuple[int, int]:
    """Width and height of the resized image: it covers the crop with the same margin, for any shapes."""
    shorter = min(framing.width, framing.height)
    covered = [framing.resized * side / shorter for side in (framing.width, framing.height)]
    scale = max(needed / side for needed, side in zip(covered, size, strict=True))
    width, height = (
        max(round(needed), round(side * scale)) for needed, side in zip(covered, size, strict=True)
    )
    return width, height
