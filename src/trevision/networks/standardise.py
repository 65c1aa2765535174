"""Standardising batches inside the model, so that a saved model carries its own statistics."""

from typing import Self

import torch
from torch import Tensor, nn

# Elements turned into float64 at a time (8 MB), whatever the size of the training set.
CHUNK_ELEMENTS = 2**20

# Red, green and blue in [0, 1].
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_SCALE = (0.229, 0.224, 0.225)


class Standardise(nn.Module):
    """`(batch - mean) / scale` in float32, for batches of bytes or of floats.

    `mean` and `scale` have the shape `(C, 1, 1)` for images of `C` channels and the shape of a
    sample for anything else. Batches of images leave contiguous in `channels_last` order, in which
    the convolutions run faster. Both tensors are buffers: they move and are saved with the model.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        mean = torch.as_tensor(mean, dtype=torch.float32)
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
        self.register_buffer("scale", scale.clone())

    @classmethod
    def from_data(cls, x: Tensor) -> Self:
        """The mean and standard deviation of the training samples `x`, of shape `(n, *sample)`.

        Images `(n, C, H, W)` get statistics per channel, everything else per feature. A feature
        that never changes gets scale 1. Works in chunks with float64 sums, so that a training set
        of bytes is never held as floats.
        """
        if x.ndim < 2 or x.numel() == 0:
            raise ValueError(f"x must have the shape (n, *sample) and hold samples, got {tuple(x.shape)}")
        axes = (0, 2, 3) if x.ndim == 4 else (0,)
        count = 0
        mean = square = lowest = highest = torch.zeros((), dtype=torch.float64)
        rows = max(1, CHUNK_ELEMENTS // x[0].numel())
        for start in range(0, len(x), rows):
            # A copy even of float64, since it is worked on in place.
            values = x[start : start + rows].to(torch.float64, copy=True)
            # The kept axes, less that of the samples, are the shape in which statistics broadcast.
            new_mean = values.mean(axes, keepdim=True)[0]
            low, high = values.amin(axes, keepdim=True)[0], values.amax(axes, keepdim=True)[0]
            new_count = values.numel() // new_mean.numel()
            new_square = values.sub_(new_mean).square_().sum(axes, keepdim=True)[0]
            if count == 0:
                mean, square, lowest, highest = new_mean, new_square, low, high
            else:
                # Merging two sets keeps the sums about the mean (Chan, Golub and LeVeque 1979), so
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
        # Rounding leaves a constant feature a spread of about 1e-17, so ask the extremes instead.
        constant = lowest == highest
        scale = (square / count).sqrt().to(torch.float32)
        scale = torch.where(constant | (scale == 0), 1.0, scale)
        return cls(torch.where(constant, lowest, mean), scale)

    @classmethod
    def imagenet(cls) -> Self:
        """ImageNet's mean and standard deviation, which published weights expect, for colours as bytes."""
        mean, scale = (255 * torch.tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_SCALE))
        return cls(mean, scale)

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> Self:
        """Mean 0 and scale 1 for samples of `shape`: changes the type and memory order, no value."""
        statistics = (shape[0], 1, 1) if len(shape) == 3 else tuple(shape)
        return cls(torch.zeros(statistics), torch.ones(statistics))

    def forward(self, batch: Tensor) -> Tensor:
        """The standardised batch, in float32; a `batch` of floats is not changed."""
        if batch.ndim == 4:
            # Reordered while still bytes, at a quarter of the traffic. No copy for one channel.
            batch = batch.contiguous(memory_format=torch.channels_last)
        if batch.dtype != torch.uint8:
            batch = batch.to(torch.float32)
        # A byte minus a float32 is computed in float32, without a separate pass for the conversion.
        return (batch - self.mean).div_(self.scale)
