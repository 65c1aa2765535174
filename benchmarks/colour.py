"""What a training step on colour images costs: `narrow` and `wide` beside ResNet-18, one thread.

Claims, measured as ratios inside one interleaved run:
1. in fp32, a step of `narrow` and of `wide` (fetch, standardise, forward, Forward loss through T, backward,
   update; batch 512) runs at 60% or more of the rate of a large matrix product, in floating-point operations
   a second;
2. bf16-mixed is faster where `--precision auto` chooses it.
docs/schedules.md has what was measured.

    python -m benchmarks colour

Each round times every variant once, in a fresh random order, so that a slow moment of the machine falls on
all alike. Operations are counted by torch's FlopCounterMode: those of convolutions and matrix products,
forward and backward. Images are random: the time of a step does not depend on what they show. Printed:
medians over rounds, and ratios with their quartiles.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.step import MatrixProduct, quartiles, seconds, true_transition
from trevision import losses
from trevision.methods.schedules import COLOUR_BATCH
from trevision.networks.choose import build
from trevision.networks.colour import WIDTHS
from trevision.networks.standardise import Standardise
from trevision.training.loop import Batch, train_batch
from trevision.training.model import NoisyLabelModel
from trevision.training.optimizers import make_optimizers
from trevision.training.phase import Phase
from trevision.training.precision import BFLOAT16, SINGLE, bfloat16_speedup, settled_precision
from trevision.training.runtime import launch
from trevision.transition import Transition

ROUNDS = 7
SHAPE = (3, 32, 32)
PAPERS = "resnet18"
LEAST_SHARE = 0.6
BATCHES = {**dict.fromkeys(WIDTHS, COLOUR_BATCH), PAPERS: 128}


class ColourStep:
    """The body of the training loop for one network in one precision, on images held in memory."""

    def __init__(self, network: str, precision: str, x: Tensor, y: Tensor) -> None:
        transition = Transition(true_transition())
        model = NoisyLabelModel(Standardise.from_data(x), build(network, SHAPE, 10, seed=0), transition)
        self.fabric = launch("cpu", precision=precision)
        self.model, *self.optimizers = self.fabric.setup(model, *make_optimizers(model, Phase(1, lr=1e-3)))
        self.x, self.y, self.batch = x, y, BATCHES[network]
        self.generator = torch.Generator().manual_seed(0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, matrix = model(batch.x)
        return losses.forward_nll(logits, batch.noisy_labels, matrix)

    def __call__(self) -> None:
        rows = torch.randint(len(self.x), (self.batch,), generator=self.generator)
        batch = Batch(self.x[rows], self.y[rows], rows, 0)
        train_batch(self.fabric, self.model, self.optimizers, self.loss, batch)

    def flops(self) -> int:
        """Floating-point operations of one step."""
        with FlopCounterMode(display=False) as counter:
            self()
        return counter.get_total_flops()


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (4 * COLOUR_BATCH, *SHAPE), dtype=torch.uint8, generator=generator)
    y = torch.randint(10, (len(x),), generator=generator)
    chosen = settled_precision("auto", next(iter(WIDTHS)), "cpu")
    names = [(network, precision) for network in BATCHES for precision in (SINGLE, BFLOAT16)]
    if not bfloat16_speedup():
        names = [name for name in names if name[1] == SINGLE]
    ours = {name: ColourStep(*name, x, y) for name in names}
    flops = {network: ours[network, SINGLE].flops() for network in BATCHES}
    steps: dict[object, Callable[[], None]] = {"product": MatrixProduct(), **ours}
    for step in steps.values():
        step()  # the first call allocates and chooses kernels
    times: dict[object, list[float]] = {name: [] for name in steps}
    order = list(steps)
    shuffle = random.Random(0).shuffle
    for _ in track(range(ROUNDS), "colour", console=Console(stderr=True)):
        shuffle(order)
        for name in order:
            times[name].append(seconds(steps[name], 20 if name == "product" else 1))
    table = Table(title=f"32 x 32 colour images, one thread, torch {torch.__version__}, {ROUNDS} rounds")
    columns = (
        "network",
        "precision",
        "batch",
        "images a second",
        "of the product's rate",
        "faster than fp32",
    )
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:2] else "right")
    for network, precision in names:
        own, exact = times[network, precision], times[network, SINGLE]
        shares = [
            flops[network] / a / (MatrixProduct.flops / b) for a, b in zip(own, times["product"], strict=True)
        ]
        faster = [b / a for a, b in zip(own, exact, strict=True)]
        batch = BATCHES[network]
        table.add_row(
            network,
            precision,
            str(batch),
            f"{batch / statistics.median(own):.0f}",
            quartiles(shares),
            "1" if precision == SINGLE else quartiles(faster),
        )
    product = MatrixProduct.flops / statistics.median(times["product"]) / 1e9
    console = Console(width=120)
    console.print(table)
    console.print(f"Matrix product: {product:.0f} GFLOP/s in fp32. Precision that auto chooses: {chosen}.")
    console.print(f"Claim: {' and '.join(WIDTHS)} in fp32 at {LEAST_SHARE:.0%} of that rate or more.")
