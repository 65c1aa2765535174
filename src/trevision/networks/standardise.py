"""Standardise batches inside the model, so that a saved model contains its own statistics."""

from typing import Self

import torch
from torch import Tensor, nn

# Elements converted to float64 at a time (8 MB).
CHUNK_ELEMENTS = 2**20

# Red, green and blue in [0, 1].
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_SCALE = (0.229, 0.224, 0.225)


class Standardise(nn.Module):
    """`(batch - mean) / scale` in float32, for batches of bytes or of floats.

    Batches of images are returned contiguous in `channels_last` order, in which convolutions run faster.
    Both tensors are buffers: they move and are saved with the model.

    Parameters
    ----------
    mean, scale : Tensor
        Of shape `(C, 1, 1)` for images of `C` channels, else of the shape of one sample.

    Raises
    ------
    ValueError
        If shapes differ, or values are not finite, or a scale is not positive.
    """

    mean: Tensor
    rest: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        exact = torch.as_tensor(mean, dtype=torch.float64)
        mean = exact.to(torch.float32)
        scale = torch.as_tensor(scale, dtype=torch.float32)
        if mean.shape != scale.shape:
            raise ValueError(
                f"mean and scale must have the same shape, got {tuple(mean.shape)} and {tuple(scale.shape)}"
            )
        if not mean.isfinite().all():
            raise ValueError("mean must be finite, got nan or infinity; remove such values from the data")
        if not (scale.isfinite() & (scale > 0)).all():
            raise ValueError(
                f"scale must be finite and positive, got values down to {scale.min().item():g}; "
                "a constant feature takes scale 1"
            )
        # Copies: the caller's arrays may change later, the model's statistics may not.
        self.register_buffer("mean", mean.clone())
        # What single precision leaves out of the mean. Timestamps are larger than they are different.
        self.register_buffer("rest", (exact - mean).to(torch.float32))
        self.register_buffer("scale", scale.clone())

    @classmethod
    def from_data(cls, x: Tensor) -> Self:
        """Standardise by the mean and standard deviation of the training samples.

        Statistics are per channel for images, else per feature. A constant feature gets scale 1. Sums are
        in float64, in chunks, so that a training set of bytes is never held as floats.

        Parameters
        ----------
        x : Tensor of shape (n, *sample)
            The training samples; `(n, C, H, W)` for images.

        Raises
        ------
        ValueError
            If there are no samples, or a value is not finite.
        """
        if x.ndim < 2 or x.numel() == 0:
            raise ValueError(f"x must have the shape (n, *sample) and hold samples, got {tuple(x.shape)}")
        axes = (0, 2, 3) if x.ndim == 4 else (0,)
        count = 0
        mean = square = lowest = highest = torch.zeros((), dtype=torch.float64)
        rows = max(1, CHUNK_ELEMENTS // x[0].numel())
        for start in range(0, len(x), rows):
            # A copy even of float64, since it is changed in place.
            values = x[start : start + rows].to(torch.float64, copy=True)
            # keepdim and [0]: the statistics broadcast against one sample.
            new_mean = values.mean(axes, keepdim=True)[0]
            low, high = values.amin(axes, keepdim=True)[0], values.amax(axes, keepdim=True)[0]
            new_count = values.numel() // new_mean.numel()
            new_square = values.sub_(new_mean).square_().sum(axes, keepdim=True)[0]
            if count == 0:
                mean, square, lowest, highest = new_mean, new_square, low, high
            else:
                # Two sets are merged by their sums about the mean (Chan, Golub and LeVeque 1979), so
                # a large mean does not cancel the digits of a small variance.
                shift, total = new_mean - mean, count + new_count
                mean = mean + shift * (new_count / total)
                square = square + new_square + shift.square() * (count * new_count / total)
                lowest, highest = torch.minimum(lowest, low), torch.maximum(highest, high)
            count += new_count
        broken = (~(lowest.isfinite() & highest.isfinite())).flatten().nonzero().flatten().tolist()
        if broken:
            raise ValueError(
                f"x must hold finite numbers, got nan or infinity in feature {broken[0]} "
                f"({len(broken)} of {mean.numel()} features); fill or remove these values first"
            )
        return cls.from_statistics(mean, square / count, lowest, highest)

    @classmethod
    def from_statistics(cls, mean: Tensor, variance: Tensor, lowest: Tensor, highest: Tensor) -> Self:
        """Standardise by statistics of the training samples, in float64. A constant feature gets scale 1."""
        # Rounding gives a constant feature a spread of about 1e-17, so compare its extremes instead.
        constant = lowest == highest
        scale = variance.sqrt().to(torch.float32)
        scale = torch.where(constant | (scale == 0), 1.0, scale)
        return cls(torch.where(constant, lowest, mean), scale)

    @classmethod
    def imagenet(cls) -> Self:
        """Standardise bytes by ImageNet's mean and standard deviation, as published weights expect."""
        mean, scale = (255 * torch.tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_SCALE))
        return cls(mean, scale)

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> Self:
        """Mean 0 and scale 1 for samples of `shape`: changes type and memory order but no value."""
        statistics = (shape[0], 1, 1) if len(shape) == 3 else tuple(shape)
        return cls(torch.zeros(statistics), torch.ones(statistics))

    def forward(self, batch: Tensor) -> Tensor:
        """The standardised batch, in the precision of the statistics; a `batch` of floats is not changed."""
        if batch.dtype == torch.float64:
            # Centred before it is rounded: 200 different timestamps may be one number in float32.
            return (batch - self.mean - self.rest).div_(self.scale).to(self.mean.dtype)
        if batch.ndim == 4:
            # Reordered while still bytes: a quarter of the memory traffic. No copy for one channel.
            batch = batch.contiguous(memory_format=torch.channels_last)
        if batch.dtype != torch.uint8:
            batch = batch.to(torch.float32)
        # A byte minus a float32 is computed in float32, without a separate pass for the conversion.
        return (batch - self.mean).div_(self.scale)
