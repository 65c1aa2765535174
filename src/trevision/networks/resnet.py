"""Residual networks with torchvision's parameter names and shapes."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al. 2016, figure 5 left)."""

    expansion = 1

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(in_channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(in_channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.bn2(self.conv2(x))
        return F.relu(x + shortcut, inplace=True)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut (He et al. 2016, figure 5 right).

    Notes
    -----
    The stride is on the 3x3 convolution and not, as in the paper, on the first 1x1. This is "v1.5", for
    which torchvision publishes weights.
    """

    expansion = 4

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out_channels = width * self.expansion
        self.conv1 = _conv(in_channels, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, out_channels, 1)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.downsample = _shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        x = self.bn3(self.conv3(x))
        return F.relu(x + shortcut, inplace=True)


class ResNet(nn.Module):
    """A residual network.

    Each stage has twice the channels of the stage before, at half the image size.

    Parameters
    ----------
    block : type
        `BasicBlock` or `Bottleneck`.
    blocks_per_stage : sequence of int
        The number of blocks in each stage.
    num_classes : int
        The number of logits.
    in_channels : int, default=3
        Channels of an image.
    cifar_stem : bool
        True for small images: a 3x3 convolution of stride 1 without pooling. False for photographs: a 7x7
        convolution of stride 2 and max pooling of stride 2, which together quarter the image.
    width : int, default=64
        Channels of the first stage.
    halve : bool, default=False
        Whether the CIFAR stem has stride 2.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        blocks_per_stage: Sequence[int],
        num_classes: int,
        in_channels: int = 3,
        *,
        cifar_stem: bool,
        width: int = 64,
        halve: bool = False,
    ) -> None:
        super().__init__()
        self.cifar_stem = cifar_stem
        side, stride = (3, 2 if halve else 1) if cifar_stem else (7, 2)
        self.conv1 = _conv(in_channels, width, side, stride)
        self.bn1 = nn.BatchNorm2d(width)

        self.layers = [f"layer{number}" for number in range(1, len(blocks_per_stage) + 1)]
        channels, stride = width, 1
        for name, blocks in zip(self.layers, blocks_per_stage, strict=True):
            later = [block(width * block.expansion, width, 1) for _ in range(blocks - 1)]
            self.add_module(name, nn.Sequential(block(channels, width, stride), *later))
            channels, width, stride = width * block.expansion, 2 * width, 2
        self.fc = nn.Linear(channels, num_classes)

        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Logits of shape `(batch, num_classes)`."""
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
        if not self.cifar_stem:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        for name in self.layers:
            x = self.get_submodule(name)(x)
        logits: Tensor = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def resnet8(num_classes: int, in_channels: int = 3) -> ResNet:
    """ResNet-8 for images of about 32 pixels: one block each of 16, 32 and 64 channels, for one CPU core.

    Parameters
    ----------
    num_classes : int
        The number of logits.
    in_channels : int, default=3
        Channels of an image.

    Returns
    -------
    ResNet
        With random weights.

    Notes
    -----
    This is ResNet-(6n + 2) with n = 1 (He et al. 2016, section 4.2), with two changes: the stem halves the
    image, for a quarter of the work, and shortcuts between stages are projections as in the other networks.
    """
    return ResNet(BasicBlock, (1, 1, 1), num_classes, in_channels, cifar_stem=True, width=16, halve=True)


def resnet18(num_classes: int, in_channels: int = 3) -> ResNet:
    """ResNet-18 with the CIFAR stem, for images of about 32 pixels.

    Parameters
    ----------
    num_classes : int
        The number of logits.
    in_channels : int, default=3
        Channels of an image.

    Returns
    -------
    ResNet
        With random weights.
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, in_channels, cifar_stem=True)


def resnet34(num_classes: int, in_channels: int = 3) -> ResNet:
    """ResNet-34 with the CIFAR stem, for images of about 32 pixels.

    Parameters
    ----------
    num_classes : int
        The number of logits.
    in_channels : int, default=3
        Channels of an image.

    Returns
    -------
    ResNet
        With random weights.
    """
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, in_channels, cifar_stem=True)


def resnet50(num_classes: int, in_channels: int = 3) -> ResNet:
    """ResNet-50 with the ImageNet stem, for photographs; torchvision's weights fit it.

    Parameters
    ----------
    num_classes : int
        The number of logits.
    in_channels : int, default=3
        Channels of an image.

    Returns
    -------
    ResNet
        With random weights.
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, in_channels, cifar_stem=False)


def _conv(in_channels: int, out_channels: int, side: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size at stride 1; batch normalisation supplies the bias."""
    return nn.Conv2d(in_channels, out_channels, side, stride, padding=side // 2, bias=False)


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Sequential | None:
    """A projection if the block changes the shape; None if the input can be added directly."""
    if stride == 1 and in_channels == out_channels:
        return None
    return nn.Sequential(_conv(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))
