"""What is computed from the training rows before training: mean and scale of inputs, whitening filters."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from trevision.data.decoding import PHOTOGRAPH
from trevision.data.noisy import NoisyData
from trevision.data.rows import Rows, select_rows
from trevision.data.sparse_rows import SparseRows
from trevision.networks.colour import ColourNet
from trevision.networks.standardise import Standardise

STANDARDISED_FILES = 2000
"""Number of image files from which mean and scale are computed."""

WHITENED_IMAGES = 1000
"""Number of images whose patches give the filters of a whitening layer."""


class NetworkMaker(Protocol):
    """Makes the network to train. Each `number` gives the same network with other initial weights."""

    def __call__(self, number: int = 0) -> nn.Module: ...


def standardise_for(x: Rows) -> Standardise:
    """Mean and scale of the training rows, or those of ImageNet for photographs in files."""
    if isinstance(x, torch.Tensor):
        return Standardise.from_data(x)
    if isinstance(x, SparseRows):
        return Standardise.from_statistics(*map(torch.from_numpy, x.statistics()))
    if x.framing == PHOTOGRAPH:
        return Standardise.imagenet()
    rows = np.random.default_rng(0).permutation(len(x))[:STANDARDISED_FILES]
    return Standardise.from_data(x[torch.from_numpy(rows)])


def set_up_by(data: NoisyData, standardise: nn.Module, make_network: NetworkMaker) -> NetworkMaker:
    """The same maker, of networks that know what they need to know of the training images.

    Only `ColourNet` needs anything: filters for patches, and whether a mirror image is of the same class. The
    filters are computed once, when the first network is made, so that all networks of a run have the same.
    """
    filters: Tensor | None = None

    def make(number: int = 0) -> nn.Module:
        nonlocal filters
        network = make_network(number)
        if isinstance(network, ColourNet):
            if filters is None:
                filters = network.whiten.filters_for(_some_images(data.train_x, standardise))
            network.set_up(filters, mirrored=data.augmentation == "crop-flip")
        return network

    return make


@torch.no_grad()
def _some_images(x: Rows, standardise: nn.Module) -> Tensor:
    """At most `WHITENED_IMAGES` of the images, standardised."""
    rows = np.sort(np.random.default_rng(0).permutation(len(x))[:WHITENED_IMAGES])
    some = select_rows(x, rows)
    images: Tensor = standardise(some if isinstance(some, Tensor) else some[torch.arange(len(some))])
    return images
