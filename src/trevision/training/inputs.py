"""Mean and scale of a network's inputs, by the kind of rows they come in."""

from __future__ import annotations

import numpy as np
import torch

from trevision.data.decoding import PHOTOGRAPH
from trevision.data.rows import Rows
from trevision.data.sparse_rows import SparseRows
from trevision.networks.standardise import Standardise

STANDARDISED_FILES = 2000
"""Number of image files from which mean and scale are computed."""


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
