"""LeNet-5, arranged so that its first layer is quick on a CPU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SMALLEST_IMAGE = 12  # the least side that leaves one pixel after the second pooling


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and max pooling, for images of shape `(in_channels, height, width)`.

        conv 6@5x5, padding 2 - pool 2 - conv 16@5x5 - pool 2 - 120 - 84 - num_classes

    `image_size` is the side of a square image, or `(height, width)`. Images of 28 x 28 pixels
    arrive at the fully connected layers as the classic 400 features.

    Notes
    -----
    ReLU follows the pooling instead of preceding it: both are monotone, so the outcome and its
    gradient are the same for a quarter of the work. The first convolution and its pooling are
    computed together, see `convolve_then_pool`.
    """

    def __init__(
        self, num_classes: int = 10, in_channels: int = 1, image_size: int | tuple[int, int] = 28
    ) -> None:
        super().__init__()
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        if min(height, width) < SMALLEST_IMAGE:
            raise ValueError(
                f"image_size must be at least {SMALLEST_IMAGE} pixels each way, got {height} x {width}; "
                "use MLP for smaller images"
            )
        self.conv1 = nn.Conv2d(in_channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * _side_after_pooling(height) * _side_after_pooling(width), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of shape `(batch, num_classes)`."""
        maps = F.relu(convolve_then_pool(images, self.conv1))
        maps = convolve(maps, self.conv2)
        # Sixteen channels side by side in memory fill a vector register: pooling is several times
        # quicker in this layout.
        maps = F.relu(F.max_pool2d(maps.contiguous(memory_format=torch.channels_last), 2))
        hidden = F.relu(self.fc1(maps.flatten(1)))
        logits: Tensor = self.fc3(F.relu(self.fc2(hidden)))
        return logits


def convolve_then_pool(images: Tensor, conv: nn.Conv2d) -> Tensor:
    """`max_pool2d(conv(images), 2)` for a convolution of stride 1, computed as one strided convolution.

    The four members of each pooling window are four shifts of the kernel, each laid in a kernel one
    pixel larger. One convolution of stride 2 computes them as four groups of channels, and pooling
    becomes a maximum over the groups. The two are equal up to the order of summation, also in their
    gradients: the groups stand in the order in which pooling visits its window.

    It pays where the channels are few (LeNet's first layer has six): there the ordinary pooling
    works one number at a time, whereas a maximum over groups runs along whole images.
    """
    weight = conv.weight
    shifted = [F.pad(weight, (right, 1 - right, down, 1 - down)) for down in (0, 1) for right in (0, 1)]
    kernels = torch.cat(shifted)
    bias = None if conv.bias is None else conv.bias.repeat(4)
    padding = conv.padding if isinstance(conv.padding, str) else tuple(conv.padding)
    maps = _planar(F.conv2d(_planar(images), _planar(kernels), bias, stride=2, padding=padding))

    batch, channels, height, width = len(maps), weight.shape[0], *maps.shape[2:]
    # Read as a channels_last image of 2 x 2 pixels, whose "channels" are all that lies in a group.
    # The way back is a permutation and not a view, so that the gradient arrives in this layout too.
    window = maps.view(batch, 2, 2, channels * height * width).permute(0, 3, 1, 2)
    pooled = F.max_pool2d(window, 2).permute(0, 2, 3, 1)
    return pooled.reshape(batch, channels, height, width)


def convolve(maps: Tensor, conv: nn.Conv2d) -> Tensor:
    """`conv(maps)` for a convolution of stride 1 without padding, each pass in its best layout."""
    plain = not torch.is_grad_enabled() or maps.device.type != "cpu" or torch.is_autocast_enabled("cpu")
    if plain:  # other devices and types choose for themselves, and without gradients there is one pass only
        output: Tensor = conv(maps)
        return output
    return _Convolve.apply(maps, conv.weight, conv.bias)  # type: ignore[no-any-return, no-untyped-call]


class _Convolve(torch.autograd.Function):
    """On a CPU and with few channels, the passes of a convolution differ by up to a factor of two by layout.

    The output and the input's gradient are quicker on planes, the latter also as what it is, a convolution of
    the output's gradient with the turned kernel; the kernel's gradient is quicker in channels_last.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        maps = _planar(maps)
        ctx.save_for_backward(maps, weight)
        return F.conv2d(maps, _planar(weight), bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        maps, weight = ctx.saved_tensors
        for_maps = None
        if ctx.needs_input_grad[0]:
            turned = _planar(weight.flip(2, 3).transpose(0, 1))
            full = (weight.shape[2] - 1, weight.shape[3] - 1)
            for_maps = F.conv2d(_planar(gradient), turned, padding=full)
        last = torch.channels_last
        _, for_weight, for_bias = torch.ops.aten.convolution_backward(
            gradient.contiguous(memory_format=last), maps.contiguous(memory_format=last), weight,
            [len(weight)], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, True],
        )  # fmt: skip
        return for_maps, for_weight, for_bias


def _planar(images: Tensor) -> Tensor:
    """The same tensor with one plane of memory per channel, without a copy if it is so already.

    `contiguous()` would not do: the strides of a one-channel image may say either layout, and torch
    then convolves in the one they happen to spell.
    """
    return images.contiguous().flatten(1).view(images.shape)


def _side_after_pooling(side: int) -> int:
    """Pixels along one side after both poolings: padding keeps the first map, the second loses 4."""
    return (side // 2 - 4) // 2
