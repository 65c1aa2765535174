"""Choose a network by the shape of a sample, and build it by name from a seed."""

from math import prod

import torch
from torch import nn

from trevision.files import did_you_mean

from .colour import SMALLEST_COLOUR_IMAGE, WIDTHS, ColourNet
from .lenet import SMALLEST_IMAGE, LeNet5
from .mlp import MLP
from .resnet import resnet8, resnet18, resnet34, resnet50

NETWORKS = ("lenet", "resnet8", "resnet18", "resnet34", "resnet50", "narrow", "wide", "mlp")

# Minimum side of an image. The ResNets halve a small image three times and a photograph five times; with
# smaller sides their last stages would see little but padding.
_SMALLEST_SIDE = {"lenet": SMALLEST_IMAGE, "resnet8": 8, "resnet18": 8, "resnet34": 8, "resnet50": 32}
_SMALLEST_SIDE |= dict.fromkeys(WIDTHS, SMALLEST_COLOUR_IMAGE)


def choose(shape: tuple[int, ...], colour: str = "resnet18") -> str:
    """A sensible network for samples of a shape.

    - one channel of at least 20 pixels each way: lenet
    - three channels of 24 to 96 pixels each way, or fewer than 32 one way: `colour`
    - three channels of more pixels: resnet50
    - anything else, such as tables and 8 x 8 images: mlp

    Parameters
    ----------
    shape : tuple of int
        The shape of one sample: `(channels, height, width)` for images, `(columns,)` for tables.
    colour : str, default="resnet18"
        The network for small colour images: the paper's, or one that a CPU can train.

    Returns
    -------
    str
        A name for `build`.
    """
    shape = _checked_shape(shape)
    if len(shape) != 3:
        return "mlp"
    channels, *sides = shape
    if channels == 1 and min(sides) >= 20:
        return "lenet"
    if channels == 3 and min(sides) >= 24:
        return colour if max(sides) <= 96 or min(sides) < _SMALLEST_SIDE["resnet50"] else "resnet50"
    return "mlp"


def build(name: str, shape: tuple[int, ...], num_classes: int, seed: int) -> nn.Module:
    """Build a network with initial weights drawn from a seed.

    Torch's global generators are left as they were. Weights of convolutions are in `channels_last` order.

    Parameters
    ----------
    name : str
        One of `NETWORKS`.
    shape : tuple of int
        The shape of one sample.
    num_classes : int
        The number of logits.
    seed : int
        The same seed gives the same weights.

    Returns
    -------
    nn.Module
        From a batch to logits `(n, num_classes)`.

    Raises
    ------
    ValueError
        If there is no such network, or it cannot take this shape.
    """
    if name not in NETWORKS:
        hint = did_you_mean(name, NETWORKS)
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}, got {name!r}{hint}")
    shape = _checked_shape(shape)
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes}")
    if name != "mlp":
        _require_image(name, shape)
    # Only the CPU's generator is forked and seeded: torch.manual_seed would also reseed the GPUs'
    # generators, whose state is not restored. So weights are always drawn on the CPU.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(int(seed))
        network = _draw(name, shape, num_classes)
    # torch's type stubs do not know this argument of Module.to.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _draw(name: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    if name == "mlp":
        return MLP(prod(shape), num_classes)
    channels, height, width = shape
    if name == "lenet":
        return LeNet5(num_classes, channels, (height, width))
    if name in WIDTHS:
        return ColourNet(WIDTHS[name], num_classes, (channels, height, width))
    resnets = {"resnet8": resnet8, "resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}
    return resnets[name](num_classes, channels)


def _checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    shape = tuple(shape)
    if not shape or min(shape) < 1:
        raise ValueError(
            f"shape must be the shape of one sample, of positive sides, got {shape}; "
            "a table of 20 columns has the shape (20,)"
        )
    return shape


def _require_image(name: str, shape: tuple[int, ...]) -> None:
    least = _SMALLEST_SIDE[name]
    if len(shape) != 3:
        raise ValueError(
            f"shape must be (channels, height, width) for {name}, got {shape}; "
            "use mlp for anything but images"
        )
    if min(shape[1:]) < least:
        swapped = shape[2] in (1, 3) and min(shape[:2]) >= least
        hint = "move the channels to the front" if swapped else "use mlp for smaller images"
        raise ValueError(f"shape must have at least {least} pixels each way for {name}, got {shape}; {hint}")
