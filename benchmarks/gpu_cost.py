"""What the paper's runs on data that are not at hand would cost on a GPU: operations counted, then a price.

Counted: floating-point operations of one training step and one prediction by torch's FlopCounterMode, times
the images of the schedule `paper` (stages, epochs, validation and test after each epoch). Assumed, and
printed: how fast the GPU does them, and what an hour of it costs. Hours and dollars rest on these two.

    python -m benchmarks gpu_cost
    TREVISION_TERAFLOPS=60 TREVISION_DOLLARS=1.5 python -m benchmarks gpu_cost

Printed as Markdown: operations of a run of `reweight-r` and of `standard`, hours and dollars, and the dollars
of all cells of the paper's tables with five seeds. docs/reproduce.md has what was printed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from trevision import losses
from trevision.methods.schedules import schedule_for
from trevision.networks.choose import build
from trevision.noise import symmetric
from trevision.runs.prepare import papers_network

TERAFLOPS = float(os.environ.get("TREVISION_TERAFLOPS", "30"))
"""What training gets from the GPU: a tenth of an A100's 312 in bf16, since these networks are small."""

DOLLARS = float(os.environ.get("TREVISION_DOLLARS", "2"))
"""The price of an hour of it."""

SEEDS, IMAGES = 5, 2


@dataclass(frozen=True)
class Source:
    """A data set of the paper: its size, and the cells of the paper's tables that it fills."""

    name: str
    shape: tuple[int, int, int]
    classes: int
    train: int
    valid: int
    test: int
    cells: int
    """Runs of one seed: methods, noises, with and without anchor points."""


SOURCES = (
    Source("cifar10", (3, 32, 32), 10, 45_000, 5_000, 10_000, 28),
    Source("cifar100", (3, 32, 32), 100, 45_000, 5_000, 10_000, 28),
    Source("clothing1m", (3, 224, 224), 14, 900_000, 100_000, 10_526, 7),
)


def operations_of_an_image(source: Source) -> tuple[float, float]:
    """Operations of a training step and of a prediction, for one image."""
    network = build(papers_network(source.name, source.shape), source.shape, source.classes, seed=0)
    x = torch.zeros(IMAGES, *source.shape)
    y = torch.zeros(IMAGES, dtype=torch.long)
    transition = torch.tensor(symmetric(source.classes, 0.2), dtype=torch.float32)
    with FlopCounterMode(display=False) as training:
        losses.reweight_nll(network(x), y, transition).mean().backward()
    with FlopCounterMode(display=False) as predicting, torch.no_grad():
        network(x)
    return training.get_total_flops() / IMAGES, predicting.get_total_flops() / IMAGES


def operations_of_a_run(source: Source, stages: tuple[str, ...]) -> float:
    """Operations of these stages of the paper's schedule."""
    schedule = schedule_for("paper", source.name, source.train, source.classes)
    epochs = sum(getattr(schedule, stage).epochs for stage in stages)
    step, prediction = operations_of_an_image(source)
    return epochs * (source.train * step + (source.valid + source.test) * prediction)


def main() -> None:
    print(f"Assumed: {TERAFLOPS:g} TFLOP/s in training, {DOLLARS:g} dollars an hour.\n")
    print("| data | network | method | 10^15 operations a run | hours | dollars | all cells, five seeds |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    methods = {
        "standard": ("noisy_posterior", "classifier"),
        "reweight-r": ("noisy_posterior", "classifier", "revision"),
    }
    for source in SOURCES:
        for method, stages in methods.items():
            operations = operations_of_a_run(source, stages)
            hours = operations / (TERAFLOPS * 1e12) / 3600
            bound = f"{hours * DOLLARS * source.cells * SEEDS:,.0f}" if method == "reweight-r" else ""
            cells = [
                source.name,
                papers_network(source.name, source.shape),
                method,
                f"{operations / 1e15:,.0f}",
                f"{hours:.1f}",
            ]
            print(f"| {' | '.join([*cells, f'{hours * DOLLARS:.1f}', bound])} |")
    print("\n`all cells`: dollars if every method cost as much as `reweight-r` and nothing were shared.")
