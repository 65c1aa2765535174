"""Random crops, flips and small distortions of a whole batch at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from trevision.data.dataset import AUGMENTATIONS

CROP_PADDING = 4
SHIFT = 2

# Maximum changes by `random_affine`: degrees, fraction of the size, pixels.
LARGEST_TURN = 12
LARGEST_STRETCH = 0.1
LARGEST_SHIFT = 2


def _check_images(images: Tensor) -> None:
    if images.ndim != 4:
        raise ValueError(
            f"images must have shape (n, channels, height, width), got {tuple(images.shape)}; "
            "tables are not augmented"
        )


def _windows(images: Tensor, padding: int, tops: Tensor, lefts: Tensor) -> Tensor:
    height, width = images.shape[2:]
    padded = functional.pad(images, (padding, padding, padding, padding))
    # A view of all (2 padding + 1)^2 crops of every image; the index copies one crop per image.
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    return crops[torch.arange(len(images), device=images.device), :, tops, lefts]


def crop_at(images: Tensor, padding: int, tops: Tensor, lefts: Tensor) -> Tensor:
    """Pad each image with zeros, then cut its own size out again at its own offset.

    result[k] = padded[k][:, tops[k] : tops[k] + height, lefts[k] : lefts[k] + width]

    Parameters
    ----------
    images
        (n, channels, height, width) of any dtype, which is kept.
    padding
        Pixels of zeros added on each side.
    tops, lefts
        (n,) integers in [0, 2 padding]; `padding` leaves an image as it is.

    Raises
    ------
    ValueError
        If an offset lies outside, or there is not one for each image.
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
    """`crop_at` an offset drawn uniformly for each image.

    Parameters
    ----------
    images
        (n, channels, height, width) of any dtype, which is kept.
    padding
        Maximum shift in pixels.
    generator
        Draws the offsets.
    """
    _check_images(images)
    if padding < 0:
        raise ValueError(f"padding must be 0 or more pixels, got {padding}")
    # Drawn on the generator's device, so that a seed gives the same crops on every device.
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


def alternating_flips(count: int, generator: torch.Generator, epoch: int) -> Tensor:
    """Whether each of `count` images is mirrored in an epoch: a coin in the first, then every other time.

    A fair coin for every epoch would show an image the same way twice in half of all neighbouring epochs. A
    `generator` with the same seed must be given for every epoch of a training.
    """
    coins = torch.rand(count, generator=generator, device=generator.device) < 0.5
    return coins ^ bool(epoch % 2)


def warp(images: Tensor, angles: Tensor, scales: Tensor, shifts: Tensor) -> Tensor:
    """Turn, stretch and move each image about its centre, between pixels by bilinear interpolation.

    result[k] at u = image k at R u' + shifts[k],    u' = (scales[k, 0] u_x, scales[k, 1] u_y)

    with R the rotation by angles[k] and u = (x, y) in pixels from the centre. Outside its frame an image is
    zero. The result is of float32.

    Parameters
    ----------
    images
        (n, channels, height, width) of any dtype.
    angles
        (n,) in radians.
    scales, shifts
        (n, 2), across and down; shifts in pixels.
    """
    _check_images(images)
    height, width = images.shape[2:]
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    y = torch.arange(height, device=images.device) - (height - 1) / 2
    cos, sin = angles.cos(), angles.sin()
    # A source coordinate is the sum of a term of the column and a term of the row. torch's coordinates run
    # from -1 to 1 along each side.
    from_x = _outer_sum((cos * scales[:, 0], x), (-sin * scales[:, 1], y), shifts[:, 0], 2 / width)
    from_y = _outer_sum((sin * scales[:, 0], x), (cos * scales[:, 1], y), shifts[:, 1], 2 / height)
    return functional.grid_sample(images.float(), torch.stack([from_x, from_y], 3), align_corners=False)


def _outer_sum(
    columns: tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor], shifts: Tensor, unit: float
) -> Tensor:
    """unit (a_k x_c + b_k y_r + shift_k) of shape (n, rows, columns), from (a, x), (b, y) and shifts."""
    of_column = torch.outer(unit * columns[0], columns[1])
    of_row = torch.outer(unit * rows[0], rows[1]) + unit * shifts[:, None]
    return of_row[:, :, None] + of_column[:, None, :]


def random_affine(images: Tensor, generator: torch.Generator) -> Tensor:
    """`warp` by angles, scales and shifts drawn uniformly for each image, up to the constants above."""
    _check_images(images)
    drawn = 2 * torch.rand((len(images), 5), generator=generator, device=generator.device) - 1
    drawn = drawn.to(images.device)
    angles = math.radians(LARGEST_TURN) * drawn[:, 0]
    return warp(images, angles, 1 + LARGEST_STRETCH * drawn[:, 1:3], LARGEST_SHIFT * drawn[:, 3:5])


def augment(images: Tensor, name: str, generator: torch.Generator, mirrored: Tensor | None = None) -> Tensor:
    """The augmentation `name` of a batch.

    none       the images as they are
    affine     turned, stretched and moved a little, but not mirrored: for digits
    crop-flip  moved by up to 4 pixels each way, then mirrored or not
    shift      moved by up to 2 pixels each way
    shift-flip moved by up to 2 pixels each way, then mirrored or not

    Parameters
    ----------
    images
        (n, channels, height, width).
    name
        One of `AUGMENTATIONS`.
    generator
        Draws everything that is random.
    mirrored
        For shift-flip: which of the images to mirror, (n,); drawn if not given.
    """
    if name == "none":
        return images
    if name == "affine":
        return random_affine(images, generator)
    if name == "crop-flip":
        return random_flip(random_crop(images, CROP_PADDING, generator), generator)
    if name == "shift":
        return random_crop(images, SHIFT, generator)
    if name == "shift-flip":
        moved = random_crop(images, SHIFT, generator)
        if mirrored is None:
            return random_flip(moved, generator)
        return torch.where(mirrored.to(images.device).view(-1, 1, 1, 1), moved.flip(-1), moved)
    raise ValueError(f"augmentation must be one of {', '.join(AUGMENTATIONS)}, got {name!r}")
