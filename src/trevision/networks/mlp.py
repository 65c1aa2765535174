"""A small fully connected network, for tables and for very small images."""

from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn


class MLP(nn.Module):
    """Fully connected layers with ReLU between them; the input is flattened.

    There is no batch normalisation: a batch may have one row. Dropout is off unless asked for; it acts in
    training only and adds no names to a state.

    Parameters
    ----------
    in_features : int
        Numbers in one sample.
    num_classes : int
        The number of logits.
    hidden : sequence of int, default=(256, 128)
        Widths of the hidden layers.
    dropout : float, default=0.0
        The share of each hidden layer's outputs that is set to zero in training.

    Raises
    ------
    ValueError
        If a width is below 1.
    """

    def __init__(
        self, in_features: int, num_classes: int, hidden: Sequence[int] = (256, 128), dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout = dropout
        widths = (in_features, *hidden, num_classes)
        if min(widths) < 1:
            raise ValueError(f"in_features, hidden and num_classes must be at least 1, got widths {widths}")
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])  # logits leave without ReLU

    def forward(self, batch: Tensor) -> Tensor:
        """Logits of shape `(batch, num_classes)`."""
        if not (self.training and self.dropout):
            logits: Tensor = self.layers(batch.flatten(1))
            return logits
        values = batch.flatten(1)
        for layer in self.layers:
            values = layer(values)
            if isinstance(layer, nn.ReLU):
                values = F.dropout(values, self.dropout)
        return values
