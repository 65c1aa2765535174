"""Networks for small colour images that a CPU can train: `narrow` and `wide`.

The family is that of cifar10-airbench (Jordan 2024): patches whitened by fixed filters, then three blocks of
two 3x3 convolutions. All of its work is in convolutions of many channels, which a processor does about as
fast as a matrix product.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTHS = {"narrow": (32, 128, 128), "wide": (64, 256, 256)}
"""Channels of the three blocks, by the name of the network."""

SIDE = 32
"""Larger images are reduced to about this many pixels per side by the first layer."""

SMALLEST_COLOUR_IMAGE = 9

# Patches vary least in fine detail, which is mostly noise, and whitening would amplify it. So this share of
# the mean variance is added to every variance.
VARIANCE_FLOOR = 5e-4

# Images whose patches are held in memory at a time.
CHUNK = 100

# Components of a patch that are kept, at most, for each channel of the image.
COMPONENTS_PER_CHANNEL = 8

# Batch norm follows the last few batches: rates change fast in a short training.
NORM_MOMENTUM = 0.4

LOGIT_SCALE = 0.1


class Whitening(nn.Module):
    """Patches of an image as uncorrelated features of equal variance, and their negatives, through a GELU.

        y = gelu([W x, -W x]),    W = diag(lambda + floor)^(-1/2) V'

    for a patch x of k x k pixels and all channels, with eigenvalues lambda and eigenvectors V of the
    covariance of patches of the training images. The filters are a buffer: they are saved with the model and
    never trained. Until they are set, W picks single pixels.

    Parameters
    ----------
    channels : int
        Channels of an image.
    factor : int, default=1
        By how much the image is reduced. At 1, patches of 2 x 2 pixels overlap; above 1, patches of
        `factor` pixels per side lie side by side.
    """

    filters: Tensor

    def __init__(self, channels: int, factor: int = 1) -> None:
        super().__init__()
        self.factor, self.patch = factor, max(2, factor)
        size = channels * self.patch**2
        kept = min(size, COMPONENTS_PER_CHANNEL * channels)
        pixels = torch.eye(size)[:kept].view(kept, channels, self.patch, self.patch)
        self.register_buffer("filters", torch.cat([pixels, -pixels]))

    @property
    def out_channels(self) -> int:
        return len(self.filters)

    @torch.no_grad()
    def filters_for(self, images: Tensor) -> Tensor:
        """The filters from standardised training images (n, channels, height, width).

        The sums are in float64, and each eigenvector gets the sign that makes its largest entry positive, so
        that the same images always give the same filters.
        """
        size = self.filters[0].numel()
        count, total = 0, torch.zeros(size, dtype=torch.float64)
        products = torch.zeros(size, size, dtype=torch.float64)
        for part in images.split(CHUNK):
            patches = F.unfold(part.double(), self.patch, stride=self.factor).transpose(1, 2).flatten(0, 1)
            count, total = count + len(patches), total + patches.sum(0)
            products += patches.T @ patches
        mean = total / count
        values, vectors = torch.linalg.eigh(products / count - torch.outer(mean, mean))
        floor = VARIANCE_FLOOR * values.mean() + torch.finfo(torch.float32).tiny
        kept = self.out_channels // 2
        values, vectors = values.flip(0)[:kept].clamp(min=0), vectors.flip(1)[:, :kept]
        largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
        whiten = (vectors * largest.sign() / (values + floor).sqrt()).T
        filters = whiten.reshape(kept, *self.filters.shape[1:]).float()
        return torch.cat([filters, -filters])

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        return F.gelu(F.conv2d(images, self.filters, stride=self.factor))


class ColourNet(nn.Module):
    """A convolutional network for colour images of about 32 x 32 pixels; larger ones are reduced.

    Parameters
    ----------
    widths : tuple of int
        Channels of the three blocks.
    num_classes : int
        The number of logits.
    shape : tuple of int
        (channels, height, width) of an image. The first layer reduces the shorter side to about 32 pixels, so
        that an image of 64 pixels costs what one of 32 does.

    Notes
    -----
    In evaluation, `mirrored` networks return the mean of the logits of an image and of its mirror image. It
    is a buffer, so that a saved model predicts as it was measured. `set_up` sets it and the whitening.
    """

    mirrored: Tensor

    def __init__(
        self, widths: tuple[int, int, int], num_classes: int, shape: tuple[int, int, int] = (3, SIDE, SIDE)
    ) -> None:
        super().__init__()
        channels, *sides = shape
        self.whiten = Whitening(channels, max(1, round(min(sides) / SIDE)))
        channels = self.whiten.out_channels
        blocks = []
        for width in widths:
            blocks.append(_block(channels, width))
            channels = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, num_classes, bias=False)
        self.register_buffer("mirrored", torch.tensor(False))

    def set_up(self, filters: Tensor, *, mirrored: bool) -> None:
        """Set what depends on the training data.

        Parameters
        ----------
        filters : Tensor
            From `whiten.filters_for` some standardised training images.
        mirrored : bool
            Whether the mirror image of a sample is a sample of the same class.
        """
        self.whiten.filters.copy_(filters)
        self.mirrored.fill_(mirrored)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of shape `(batch, num_classes)`."""
        if self.training or not self.mirrored:
            return self._logits(images)
        return (self._logits(images) + self._logits(images.flip(-1))) / 2

    def _logits(self, images: Tensor) -> Tensor:
        x = self.blocks(self.whiten(images))
        logits: Tensor = self.fc(F.adaptive_max_pool2d(x, 1).flatten(1))
        return LOGIT_SCALE * logits


def _block(in_channels: int, width: int) -> nn.Sequential:
    # Pooling comes before batch norm and GELU, which then see a quarter of the pixels.
    return nn.Sequential(
        _convolution(in_channels, width),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(width, momentum=NORM_MOMENTUM),
        nn.GELU(),
        _convolution(width, width),
        nn.BatchNorm2d(width, momentum=NORM_MOMENTUM),
        nn.GELU(),
    )


def _convolution(in_channels: int, width: int) -> nn.Conv2d:
    """A 3x3 convolution, half of whose outputs begin as copies of inputs; the others are random."""
    convolution = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
    nn.init.dirac_(convolution.weight.data[: min(in_channels, width // 2)])
    return convolution
