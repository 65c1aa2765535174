"""Weights published for torchvision's ResNets, read into ours."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

HEAD = ("fc.weight", "fc.bias")
NAMES_SHOWN = 3


def load_torchvision_weights(network: nn.Module, path: str | PathLike[str]) -> tuple[str, ...]:
    """Read a `.safetensors` or `.pth` file of torchvision's weights into `network`, in place.

    Every name and shape must match, with two exceptions. If `fc` has another number of classes in the
    file, the network keeps its own `fc`. Older files lack the counters `num_batches_tracked`, which batch
    normalisation with a fixed momentum does not use. No pickle is executed.

    Parameters
    ----------
    network : nn.Module
        The network. It is not changed if the file does not fit.
    path : str or PathLike
        The file.

    Returns
    -------
    tuple of str
        Names of the parameters that were not in the file: `()`, or those of `fc`.

    Raises
    ------
    ValueError
        If the file cannot be read as tensors, or does not fit the network.
    FileNotFoundError
        If there is no such file.
    """
    path = Path(path)
    stored = _read_tensors(path)
    wanted = network.state_dict()

    fresh = HEAD if _differs_only_in_classes(stored, wanted) else ()
    missing = [name for name in wanted if name not in stored and not name.endswith(".num_batches_tracked")]
    unexpected = [name for name in stored if name not in wanted]
    misshapen = [
        f"{name}: {_times(stored[name])} in the file and {_times(wanted[name])} in the network"
        for name in wanted
        if name in stored and name not in fresh and stored[name].shape != wanted[name].shape
    ]
    complaints = [
        f"{what} ({_first_few(names)})"
        for what, names in (("missing", missing), ("unexpected", unexpected), ("of wrong shape", misshapen))
        if names
    ]
    if complaints:
        raise ValueError(
            f"weights must hold torchvision weights that fit the network, got {path} with names "
            f"{', '.join(complaints)}; "
            "take the file of the same ResNet (ImageNet weights fit resnet50 with 3 channels)"
        )
    network.load_state_dict({name: stored[name] for name in stored if name not in fresh}, strict=False)
    return fresh


def _read_tensors(path: Path) -> dict[str, Tensor]:
    if path.suffix not in (".safetensors", ".pth"):
        raise ValueError(f"weights must end in .safetensors or .pth, got {path}")
    if not path.is_file():
        raise FileNotFoundError(
            f"weights must name a file of weights, but {path} does not exist or is no file"
        )
    try:
        if path.suffix == ".safetensors":
            tensors = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises errors of many types for a damaged file
        raise ValueError(
            f"weights must hold tensors and nothing else, but {path} could not be read so; "
            "the file is damaged, of another format, or holds objects that only a pickle could make"
        ) from error
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise ValueError(
            f"weights must hold a dictionary from names to tensors, but {path} holds something else; "
            "save network.state_dict() alone, not a whole training checkpoint"
        )
    return tensors


def _differs_only_in_classes(stored: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> bool:
    """Whether both have an `fc` of the same input width, for different numbers of classes."""
    if not all(name in tensors for name in HEAD for tensors in (stored, wanted)):
        return False
    (weight, bias), (our_weight, _) = ([tensors[name] for name in HEAD] for tensors in (stored, wanted))
    return (
        weight.shape[1:] == our_weight.shape[1:]
        and bias.shape == weight.shape[:1]
        and weight.shape != our_weight.shape
    )


def _times(tensor: Tensor) -> str:
    return " x ".join(str(side) for side in tensor.shape) or "a scalar"


def _first_few(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
