"""LeNet-5, with a first layer that is fast on a CPU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SMALLEST_IMAGE = 12  # the smallest side that leaves one pixel after the second pooling
_WIDE_REGISTERS = torch.backends.cpu.get_cpu_capability().startswith("AVX512")


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and max pooling.

        conv 6@5x5, padding 2 - pool 2 - conv 16@5x5 - pool 2 - 120 - 84 - num_classes

    Images of 28 x 28 pixels reach the fully connected layers as the classic 400 features.

    Parameters
    ----------
    num_classes : int, default=10
        The number of logits.
    in_channels : int, default=1
        Channels of an image.
    image_size : int or tuple of int, default=28
        The side of a square image, or `(height, width)`; at least 12 each way.

    Raises
    ------
    ValueError
        If the image is too small.

    Notes
    -----
    ReLU comes after the pooling and not before it: both are monotone, so output and gradient are the
    same for a quarter of the work. The first convolution and its pooling are computed together, see
    `convolve_then_pool`. On a CPU there are no second derivatives.
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
        # Without gradients there is only the forward pass, and the layer itself is fast enough.
        learning = torch.is_grad_enabled()
        maps = convolve(maps, self.conv2.weight, self.conv2.bias) if learning else self.conv2(maps)
        # Sixteen channels side by side in memory fill a vector register: pooling is several times
        # faster in this layout.
        maps = F.relu(F.max_pool2d(_channels_last(maps), 2))
        hidden = F.relu(self.fc1(maps.flatten(1)))
        logits: Tensor = self.fc3(F.relu(self.fc2(hidden)))
        return logits


def convolve_then_pool(images: Tensor, conv: nn.Conv2d) -> Tensor:
    """`max_pool2d(conv(images), 2)` for a convolution of stride 1, computed as one strided convolution.

    The four pixels of a pooling window come from four shifts of the kernel, each inside a kernel one
    pixel larger. One convolution of stride 2 computes them as four groups of channels, and pooling
    becomes a maximum over the groups. The result equals the ordinary one up to the order of summation,
    also in its gradients: the groups have the order in which pooling visits its window.

    This is faster if there are few channels (LeNet's first layer has six): ordinary pooling then works
    one number at a time, but a maximum over groups runs along whole images.
    """
    weight = conv.weight
    shifted = [F.pad(weight, (right, 1 - right, down, 1 - down)) for down in (0, 1) for right in (0, 1)]
    kernels = torch.cat(shifted)
    bias = None if conv.bias is None else conv.bias.repeat(4)
    padding = conv.padding if isinstance(conv.padding, str) else tuple(conv.padding)
    maps = _planar(convolve(images, kernels, bias, stride=2, padding=padding))

    batch, channels, height, width = len(maps), weight.shape[0], *maps.shape[2:]
    # Read as a channels_last image of 2 x 2 pixels, with a whole group as its "channels".
    # The way back is a permutation and not a view, so that the gradient has this layout too.
    window = maps.view(batch, 2, 2, channels * height * width).permute(0, 3, 1, 2)
    pooled = F.max_pool2d(window, 2).permute(0, 2, 3, 1)
    return pooled.reshape(batch, channels, height, width)


def convolve(
    maps: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int = 1,
    padding: str | tuple[int, ...] = (0, 0),
) -> Tensor:
    """`conv2d(maps, weight, bias, stride, padding)`; on a CPU, each pass runs in its fastest layout."""
    ours = maps.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not isinstance(padding, str)
    # torch.func's transforms would need extra rules for a Function, and need not be fast.
    ours = ours and not torch._C._are_functorch_transforms_active()
    if ours and torch.is_grad_enabled():
        return _Convolve.apply(maps, weight, bias, stride, padding)  # type: ignore[no-any-return, no-untyped-call]
    # Other devices and types choose their own layout. Without gradients there is only the forward pass.
    return F.conv2d(_planar(maps), _planar(weight), bias, stride, padding)


class _Convolve(torch.autograd.Function):
    """A convolution of few channels with each pass in its fastest layout: a factor of two to seven.

    The output is faster on planes, the kernel's gradient in channels_last. The input's gradient is faster on
    planes. With registers of sixteen numbers (AVX-512) it is fastest as a convolution of the output's
    gradient with the turned kernel; with eight (AVX2) that is the slowest way.
    """

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: tuple[int, ...]
    ) -> Tensor:
        maps, weight = _planar(maps), _planar(weight)
        ctx.save_for_backward(maps, weight)
        ctx.stride, ctx.padding, ctx.with_bias = [stride, stride], list(padding), bias is not None
        return F.conv2d(maps, weight, bias, stride, padding)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        maps, weight = ctx.saved_tensors

        def gradients(gradient: Tensor, maps: Tensor, of_maps: bool) -> tuple[Tensor | None, ...]:
            wanted = [of_maps, not of_maps, ctx.with_bias and not of_maps]
            return torch.ops.aten.convolution_backward(  # type: ignore[no-any-return]
                gradient, maps, weight, [len(weight)], ctx.stride, ctx.padding,
                [1, 1], False, [0, 0], 1, wanted,
            )  # fmt: skip

        for_maps = None
        if ctx.needs_input_grad[0]:
            planes = _planar(gradient)
            if _WIDE_REGISTERS and ctx.stride == [1, 1]:
                turned = _planar(weight.flip(2, 3).transpose(0, 1))
                full = [side - 1 - pad for side, pad in zip(weight.shape[2:], ctx.padding, strict=True)]
                for_maps = F.conv2d(planes, turned, padding=full)
            else:
                for_maps = gradients(planes, maps, of_maps=True)[0]
        _, for_weight, for_bias = gradients(_channels_last(gradient), _channels_last(maps), of_maps=False)
        return for_maps, for_weight, for_bias, None, None


def _planar(images: Tensor) -> Tensor:
    """The same tensor with one plane of memory per channel, without a copy if it has this layout already.

    `contiguous()` is not enough: the strides of a one-channel image fit both layouts, and torch then
    convolves in the layout that its strides happen to show.
    """
    return images.contiguous().flatten(1).view(images.shape)


def _channels_last(images: Tensor) -> Tensor:
    """The same tensor with a pixel's channels side by side, and strides that say so even for one channel."""
    batch, channels, height, width = images.shape
    pixels = images.permute(0, 2, 3, 1).contiguous().flatten(1)
    return pixels.view(batch, height, width, channels).permute(0, 3, 1, 2)


def _side_after_pooling(side: int) -> int:
    """Pixels along one side after both poolings: padding keeps the first map's size, the second loses 4."""
    return (side // 2 - 4) // 2
