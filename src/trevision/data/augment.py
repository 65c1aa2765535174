"""Random crops and flips of a whole batch at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from trevision.data.dataset import AUGMENTATIONS

CROP_PADDING = 4
SHIFT = 2


def _check_images(images: Tensor) -> None:
    if images.ndim != 4:
        raise ValueError(
            f"images must have shape (n, channels, height, width), got {tuple(images.shape)}; "
            "tables are not augmented"
        )


def _windows(images: Tensor, padding: int, tops: Tensor, lefts: Tensor) -> Tensor:
    height, width = images.shape[2:]
    padded = functional.pad(images, (padding, padding, padding, padding))
    # A view of all (2 padding + 1)^2 crops of every image, of which one index copies one crop an image.
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    return crops[torch.arange(len(images), device=images.device), :, tops, lefts]


def crop_at(images: Tensor, padding: int, tops: Tensor, lefts: Tensor) -> Tensor:
    """Pad each image with zeros, then cut its own size out again at its own offset.

    result[k] = padded[k][:, tops[k] : tops[k] + height, lefts[k] : lefts[k] + width]

    `images` is (n, channels, height, width) of any dtype, which is kept; `tops` and `lefts` are n integers in
    [0, 2 padding], where `padding` leaves an image in its place.
    """
    _check_images(images)
    for name, offsets in (("tops", tops), ("lefts", lefts)):
        if offsets.shape != images.shape[:1]:
            raise ValueError(f"{name} must hold {len(images)} offsets, got shape {tuple(offsets.shape)}")
        if len(offsets) and not 0 <= int(offsets.min()) <= int(offsets.max()) <= 2 * padding:
            raise ValueError(
                f"{name} must lie in [0, {2 * padding}] for a padding of {padding}, "
                f"got {int(offsets.min())} to {int(offsets.max())}"
            )
    return _windows(images, padding, tops.long(), lefts.long())


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """`crop_at` an offset drawn uniformly for each image."""
    _check_images(images)
    if padding < 0:
        raise ValueError(f"padding must be 0 or more pixels, got {padding}")
    # Drawn where the generator lives, so a seed gives the same crops whatever device the images are on.
    size = (2, len(images))
    offsets = torch.randint(2 * padding + 1, size, generator=generator, device=generator.device)
    tops, lefts = offsets.to(images.device)
    return _windows(images, padding, tops, lefts)


def random_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image left to right with probability 1/2."""
    _check_images(images)
    draws = torch.rand(len(images), generator=generator, device=generator.device)
    flipped = (draws < 0.5).to(images.device).view(-1, 1, 1, 1)
    return torch.where(flipped, images.flip(-1), images)


def augment(images: Tensor, name: str, generator: torch.Generator) -> Tensor:
    """The augmentation `name` of a batch.

    none       the images as they are
    shift      moved by up to 2 pixels each way: for digits, of which a mirror image is no digit
    crop-flip  moved by up to 4 pixels each way, then mirrored or not
    """
    if name == "none":
        return images
    if name == "shift":
        return random_crop(images, SHIFT, generator)
    if name == "crop-flip":
        return random_flip(random_crop(images, CROP_PADDING, generator), generator)
    raise ValueError(f"augmentation must be one of {', '.join(AUGMENTATIONS)}, got {name!r}")
