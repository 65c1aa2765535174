"""The bound of Theorem 1 for a trained network, term by term, and the gap that it bounds.

    E[R] - R <= 2 B C L (sqrt(2 d log 2) + 1) prod_i M_i / sqrt(n) + C M sqrt(log(1 / delta) / (2 n))

R is the weighted risk of Eq. 3 on n rows with noisy labels (Xia et al. 2019, Theorem 1). The first term is
the complexity of the network (Golowich et al. 2018), the second is due to chance. docs/bound.md says how
each letter is computed here, and why the bound is loose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from trevision.data.progress import Progress
from trevision.data.rows import Rows, batches_of
from trevision.files import DataError
from trevision.losses import cross_entropy, reweight_nll
from trevision.runs.prepare import prepare, read_source
from trevision.runs.settings import settings_of
from trevision.training.model import NoisyLabelModel
from trevision.training.model_files import load_model

BATCH = 500


@dataclass(frozen=True)
class Layer:
    """One linear layer of the network, with Frobenius norms of its matrix and its stored weights."""

    name: str
    kernel_norm: float
    """The norm of the stored weight; for a convolution, of its kernel."""
    norm: float
    """M_i, the norm of the matrix. A convolution's matrix holds its kernel once per output position."""
    bias_norm: float
    """The norm of the bias at all positions; 0 without a bias."""


@dataclass(frozen=True)
class Bound:
    """Every letter of the theorem, and its two terms."""

    layers: tuple[Layer, ...]
    input_norm: float
    """B: the largest norm of a training row as the network sees it."""
    loss_bound: float
    """M: the largest cross-entropy of a training row against its noisy label."""
    num_classes: int
    """C."""
    rows: int
    """n."""
    delta: float = 0.05
    """The probability that the bound fails."""
    lipschitz: float = 1.0
    """L, of the cross-entropy as a function of one logit."""

    @property
    def depth(self) -> int:
        """d, the number of linear layers."""
        return len(self.layers)

    @property
    def complexity(self) -> float:
        """The first term."""
        return self._complexity(self.input_norm, [layer.norm for layer in self.layers])

    @property
    def chance(self) -> float:
        """The second term."""
        return self.num_classes * self.loss_bound * math.sqrt(math.log(1 / self.delta) / (2 * self.rows))

    @property
    def total(self) -> float:
        """The bound as the theorem states it, without biases."""
        return self.complexity + self.chance

    @property
    def total_with_biases(self) -> float:
        """The bound of the network with biases, treated as weights of a constant input of 1.

        A layer's matrix is then [[W, b], [0, 1]], the last layer's [W, b], and a row's norm sqrt(B^2 + 1).
        """
        if not any(layer.bias_norm for layer in self.layers):
            return self.total
        carried = [1.0] * (self.depth - 1) + [0.0]
        norms = [
            math.hypot(layer.norm, layer.bias_norm, carry)
            for layer, carry in zip(self.layers, carried, strict=True)
        ]
        return self._complexity(math.hypot(self.input_norm, 1.0), norms) + self.chance

    def _complexity(self, input_norm: float, norms: list[float]) -> float:
        depth = math.sqrt(2 * self.depth * math.log(2)) + 1
        product = math.prod(norms)
        return 2 * input_norm * self.num_classes * self.lipschitz * depth * product / math.sqrt(self.rows)


@dataclass(frozen=True)
class Gap:
    """The weighted risk of Eq. 3 on noisy labels, for training and for validation rows."""

    training_risk: float
    validation_risk: float
    validation_rows: int

    @property
    def gap(self) -> float:
        """The gap that the theorem bounds, with the validation risk as the expected risk."""
        return self.validation_risk - self.training_risk


@dataclass(frozen=True)
class RunBound:
    """The bound and the gap of one run, and whether its T meets the theorem's condition."""

    bound: Bound
    gap: Gap
    transition_is_valid: bool


def bound_of_run(
    folder: Path, delta: float = 0.05, data_dir: Path | None = None, progress: Progress | None = None
) -> RunBound:
    """The bound for the model of a run, on its training rows.

    Parameters
    ----------
    folder
        A finished run with its model.
    delta
        The probability that the bound fails.
    data_dir
        Where to look for data files first.
    progress
        Called with the progress of a download or a measurement.

    Returns
    -------
    RunBound
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}; 5 percent is written 0.05")
    saved = load_model(folder)
    layers = linear_layers(saved.model.network, saved.card.shape)
    if "source" not in saved.config:
        raise DataError(f"{folder} does not say what it was trained on: only runs of `trevision fit` do")
    source, settings = settings_of(saved.config)
    data, _ = prepare(read_source(folder, source, settings, data_dir, progress), settings)
    if tuple(data.train_x.shape[1:]) != saved.card.shape:
        raise DataError(
            f"{source} must have samples of shape {saved.card.shape}, as {folder} was trained on, "
            f"got {tuple(data.train_x.shape[1:])}"
        )
    matrix = torch.from_numpy(saved.transition).float()
    on_training = measure(saved.model, matrix, data.train_x, data.train_y)
    on_validation = measure(saved.model, matrix, data.valid_x, data.valid_y)
    bound = Bound(
        layers, on_training.input_norm, on_training.largest_loss, data.num_classes, len(data.train_y), delta
    )
    gap = Gap(on_training.risk, on_validation.risk, len(data.valid_y))
    return RunBound(bound, gap, is_valid(saved.transition))


def is_valid(transition: np.ndarray) -> bool:
    """The theorem's condition on T: no negative entry, and the diagonal is the largest of each row."""
    others = np.where(np.eye(len(transition), dtype=bool), -np.inf, transition)
    return bool((transition >= 0).all() and (transition.diagonal() > others.max(axis=1)).all())


@dataclass(frozen=True)
class Measured:
    """The numbers that the theorem needs of some rows."""

    risk: float
    largest_loss: float
    input_norm: float


@torch.no_grad()
def measure(model: NoisyLabelModel, transition: Tensor, x: Rows, noisy_labels: Tensor) -> Measured:
    """The weighted risk of Eq. 3, the largest cross-entropy and the largest norm of a standardised row.

    Parameters
    ----------
    model
        The classifier.
    transition
        T, which weights the risk.
    x
        Rows of samples.
    noisy_labels
        Their labels.

    Returns
    -------
    Measured
    """
    model.eval()
    total = largest_loss = input_norm = 0.0
    done = 0
    for part in batches_of(x, BATCH):
        labels = noisy_labels[done : done + len(part)]
        done += len(part)
        seen = model.standardise(part)
        logits = model.network(seen)
        total += reweight_nll(logits, labels, transition, reduction="sum").item()
        largest_loss = max(largest_loss, cross_entropy(logits, labels, reduction="none").max().item())
        input_norm = max(input_norm, seen.flatten(1).norm(dim=1).max().item())
    return Measured(total / len(noisy_labels), largest_loss, input_norm)


def linear_layers(network: nn.Module, shape: tuple[int, ...]) -> tuple[Layer, ...]:
    """The linear layers of a plain feed-forward network for samples of `shape`, in the order of its modules.

    The theorem is only about these networks. Parameters outside linear layers and convolutions, such as the
    batch normalisation of a ResNet, raise a ValueError.
    """
    modules = {
        name: module
        for name, module in network.named_modules()
        if next(module.parameters(False), None) is not None
    }
    for name, module in modules.items():
        if not isinstance(module, nn.Linear | nn.Conv2d):
            raise ValueError(
                "network must be a chain of linear layers and convolutions for Theorem 1 to apply, got "
                f"{type(module).__name__} as {name or 'the network'}; lenet and mlp are such chains"
            )
    sizes = _input_sizes(network, shape)
    layers = []
    for number, (name, module) in enumerate(modules.items()):
        if isinstance(module, nn.Linear):
            bias = 0.0 if module.bias is None else _norm(module.bias)
            layers.append(Layer(name, _norm(module.weight), _norm(module.weight), bias))
            continue
        assert isinstance(module, nn.Conv2d)
        # LeNet computes its first convolution together with the pooling, without calling the layer.
        size = sizes.get(name, tuple(shape[1:]) if number == 0 else None)
        if size is None:
            raise ValueError(f"network must call its layer {name} in forward for its norm to be known")
        layers.append(_convolution(name, module, size))
    return tuple(layers)


def _convolution(name: str, conv: nn.Conv2d, size: tuple[int, ...]) -> Layer:
    """A convolution as a matrix: each kernel entry occurs once per output that it contributes to.

    At the borders, entries that would read padding do not contribute, so the counts differ.
    """
    if isinstance(conv.padding, str) or conv.padding_mode != "zeros":
        raise ValueError(f"network must pad {name} with a number of zeros, got {conv.padding!r}")
    counts, outputs = [], 1
    for side, kernel, stride, padding, dilation in zip(
        size, conv.kernel_size, conv.stride, conv.padding, conv.dilation, strict=True
    ):
        positions = (side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        read = np.arange(positions) * stride - padding + dilation * np.arange(kernel)[:, None]
        counts.append(torch.from_numpy(((read >= 0) & (read < side)).sum(axis=1)))
        outputs *= positions
    times = torch.outer(counts[0], counts[1]).double()
    squares = conv.weight.detach().double().square().sum(dim=(0, 1))
    bias = 0.0 if conv.bias is None else math.sqrt(outputs) * _norm(conv.bias)
    return Layer(name, _norm(conv.weight), math.sqrt((times * squares).sum().item()), bias)


def _input_sizes(network: nn.Module, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Height and width of the input of each convolution."""
    sizes: dict[str, tuple[int, ...]] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs, name=name: sizes.__setitem__(name, tuple(inputs[0].shape[2:]))
        )
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d)
    ]
    try:
        with torch.no_grad():
            network.eval()(torch.zeros(1, *shape))
    finally:
        for hook in hooks:
            hook.remove()
    return sizes


def _norm(weight: Tensor) -> float:
    return weight.detach().double().norm().item()
