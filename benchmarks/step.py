"""What a training step costs: LeNet-5, a batch of 128 MNIST-sized images, one thread.

Claims, measured as ratios inside one interleaved run:
1. a whole step of ours (fetch the batch from memory, standardise, forward, loss, backward, update) takes at
   most 1.2 times the bare forward and backward of the same network with plain cross-entropy on a batch that
   is already there;
2. it is at least 1.5 times as fast as the same step of a textbook LeNet-5 in torch's plain layout.

Each round times every variant once, in a fresh random order, so that a slow moment of the machine falls on
all alike. Printed: the median over rounds of the ratio within a round, with its quartiles. Images are
random: the time of a step does not depend on what they show.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from trevision import losses, noise
from trevision.networks.choose import build
from trevision.networks.lenet import LeNet5
from trevision.networks.standardise import Standardise
from trevision.training.loop import Batch, train_batch
from trevision.training.model import NoisyLabelModel
from trevision.training.optimizers import make_optimizers
from trevision.training.phase import Phase
from trevision.training.runtime import launch
from trevision.transition import Transition

ROUNDS = 20
STEPS_A_ROUND = 20
BATCH = 128
IMAGES = 12_800

# Multiplications of one image's forward pass, layer by layer. The backward pass does the same number again
# for the weights' gradient, and once more for the input's, which the first layer does not need.
FIRST_LAYER = 28 * 28 * 6 * 25
OTHER_LAYERS = 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10
FLOPS_A_STEP = 2 * BATCH * (2 * FIRST_LAYER + 3 * OTHER_LAYERS)


class TextbookLeNet5(LeNet5):
    """The same layers and weights, each computed as the textbook says, in torch's default layout."""

    def forward(self, images: Tensor) -> Tensor:
        maps = F.max_pool2d(F.relu(self.conv1(images)), 2)
        maps = F.max_pool2d(F.relu(self.conv2(maps)), 2)
        hidden = F.relu(self.fc1(maps.flatten(1)))
        logits: Tensor = self.fc3(F.relu(self.fc2(hidden)))
        return logits


class PlainStandardise(Standardise):
    """Without the change to channels_last."""

    def forward(self, batch: Tensor) -> Tensor:
        return (batch.float() - self.mean) / self.scale


Objective = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def objectives() -> dict[str, tuple[Objective, str | None]]:
    """Each loss with the parameterisation of T that its method trains it with."""
    inverted = losses.BackwardLoss(true_transition())
    return {
        "cross-entropy": (lambda logits, y, t: losses.cross_entropy(logits, y), None),
        "forward": (losses.forward_nll, "frozen"),
        "backward": (lambda logits, y, t: inverted(logits, y), "frozen"),
        "reweight": (losses.reweight_nll, "frozen"),
        "forward, T learnt": (losses.forward_nll, "simplex"),
        "reweight, T learnt": (partial(losses.reweight_nll, live_weight=True), "simplex"),
    }


def true_transition() -> Tensor:
    return torch.tensor(noise.pair_flip(10, 0.45), dtype=torch.float32)


class TrainingStep:
    """The body of the training loop, for one loss, on images held in memory."""

    def __init__(
        self, objective: Objective, kind: str | None, x: Tensor, y: Tensor, plain: bool = False
    ) -> None:
        network = TextbookLeNet5() if plain else build("lenet", (1, 28, 28), 10, seed=0)
        standardise = (PlainStandardise if plain else Standardise).from_data(x)
        transition = None if kind is None else Transition(true_transition(), kind)  # type: ignore[arg-type]
        model = NoisyLabelModel(standardise, network, transition)
        self.fabric = launch("cpu")
        self.model, *self.optimizers = self.fabric.setup(model, *make_optimizers(model, Phase(1, lr=1e-3)))
        self.x, self.y, self.objective = x, y, objective
        self.generator = torch.Generator().manual_seed(0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, matrix = model(batch.x)
        return self.objective(logits, batch.noisy_labels, matrix)

    def __call__(self) -> None:
        rows = torch.randint(len(self.x), (BATCH,), generator=self.generator)
        batch = Batch(self.x[rows], self.y[rows], rows, 0)
        train_batch(self.fabric, self.model, self.optimizers, self.loss, batch)


class BareStep:
    """Forward and backward of the network alone, on one resident batch, with plain cross-entropy."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.network = build("lenet", (1, 28, 28), 10, seed=0)
        self.batch, self.labels = Standardise.from_data(x)(x[:BATCH]), y[:BATCH]

    def __call__(self) -> None:
        self.network.zero_grad(set_to_none=True)
        F.cross_entropy(self.network(self.batch), self.labels).backward()


class MatrixProduct:
    """A large matrix product: the machine's attainable floating-point rate."""

    size = 768
    flops = 2 * size**3

    def __init__(self) -> None:
        self.a, self.b = torch.rand(2, self.size, self.size)

    def __call__(self) -> None:
        self.a @ self.b


def seconds(step: Callable[[], None], times: int = STEPS_A_ROUND) -> float:
    """Seconds a call, over so many calls."""
    began = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - began) / times


def quartiles(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (IMAGES, 1, 28, 28), dtype=torch.uint8, generator=generator)
    y = torch.randint(10, (IMAGES,), generator=generator)
    steps: dict[str, Callable[[], None]] = {"bare": BareStep(x, y), "product": MatrixProduct()}
    for name, (objective, kind) in objectives().items():
        steps[name] = TrainingStep(objective, kind, x, y)
        steps[f"{name}, plain"] = TrainingStep(objective, kind, x, y, plain=True)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        seconds(step)  # the first calls allocate and choose kernels
    order = list(steps)
    shuffle = random.Random(0).shuffle
    for _ in track(range(ROUNDS), "step", console=Console(stderr=True)):
        shuffle(order)
        for name in order:
            times[name].append(seconds(steps[name]))

    def ratios(one: str, other: str) -> list[float]:
        return [a / b for a, b in zip(times[one], times[other], strict=True)]

    rate = [
        FLOPS_A_STEP / a / (MatrixProduct.flops / b)
        for a, b in zip(times["bare"], times["product"], strict=True)
    ]
    table = Table(title=f"LeNet-5, batch {BATCH}, one thread, torch {torch.__version__}, {ROUNDS} rounds")
    for column in (
        "loss",
        "ms a step",
        "of bare (<= 1.2)",
        "faster than plain (>= 1.5)",
        "of matrix-product rate",
    ):
        table.add_column(column, justify="left" if column == "loss" else "right")
    table.add_row(
        "bare, cross-entropy", f"{1e3 * statistics.median(times['bare']):.2f}", "1", "", quartiles(rate)
    )
    for name in objectives():
        share = [r / ratio for r, ratio in zip(rate, ratios(name, "bare"), strict=True)]
        table.add_row(
            name,
            f"{1e3 * statistics.median(times[name]):.2f}",
            quartiles(ratios(name, "bare")),
            quartiles(ratios(f"{name}, plain", name)),
            quartiles(share),
        )
    product = MatrixProduct.flops / statistics.median(times["product"]) / 1e9
    Console().print(table)
    Console().print(f"Median and quartiles over rounds. Matrix product: {product:.0f} GFLOP/s.")
