"""What `estimation.estimate` costs on arrays, and how near its T comes, beside cleanlab.

Claims, on one core (processor time of this process):
1. 1,000,000 rows of 10 classes: T with intervals within 6 s;
2. 100,000 rows of 100 classes: T with intervals within 20 s;
3. from 100,000 to 1,000,000 rows of 10 classes, time grows with an exponent of at most 1.05;
4. the error of T is at most 1.05 times that of the fit of every start to all rows (`--full`, which takes
   several minutes).

The planted T is asymmetric: 55 to 90% of a class are labelled rightly, most mistakes go to the next class
and the rest to a few at random. Classes overlap a little, and the noisy posteriors are raised to the power
0.7, as those of a model that is not sure enough. 1,000 classes are too many for `latent`: the confident
joint takes its place.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from trevision import noise
from trevision.estimation import Latent, ProbabilityRows, default_estimator, estimate, transition_error

CASES = ((100_000, 10), (1_000_000, 10), (100_000, 100), (20_000, 1_000))
SOFTNESS, APART, SPREAD = 0.7, 6.0, 1.5

T = TypeVar("T")


def planted(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy posteriors, noisy labels and the T that made them."""
    rng = np.random.default_rng(seed)
    right = rng.uniform(0.55, 0.9, classes)
    transition = 0.4 * rng.dirichlet(np.full(classes, 0.3), classes)
    transition[np.arange(classes), (np.arange(classes) + 1) % classes] += 0.6
    transition *= ((1 - right) / transition.sum(axis=1))[:, None]
    transition[np.arange(classes), np.arange(classes)] += right
    clean = rng.integers(classes, size=rows)
    scores = rng.normal(size=(rows, classes)).astype(np.float32) * SPREAD
    scores[np.arange(rows), clean] += APART
    scores *= APART / SPREAD**2
    posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    probs = (posterior @ transition.astype(np.float32)) ** SOFTNESS
    return probs / probs.sum(axis=1, keepdims=True), noise.corrupt(clean, transition, rng), transition


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returns, and its processor time."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def by_cleanlab(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """cleanlab's T, in our convention."""
    from cleanlab import count

    joint = count.compute_confident_joint(labels, probs)
    return noise.from_cleanlab(count.estimate_latent(joint, labels)[1])


def main() -> None:
    full = "--full" in sys.argv
    table = Table(title=f"estimation.estimate, processor seconds, {os.cpu_count()} cores")
    for column in ("rows x classes", "estimator", "T", "T and intervals", "error of T", "converged"):
        table.add_column(column, justify="right")
    for column in ("cleanlab", "its error", "full fit", "its error"):
        table.add_column(column, justify="right")
    seconds = {}
    for rows, classes in CASES:
        probs, labels, transition = planted(rows, classes)
        made, alone = timed(lambda p=probs, y=labels: estimate(p, y, bootstrap=0))
        _, together = timed(lambda p=probs, y=labels: estimate(p, y))
        theirs, cleanlab = timed(lambda p=probs, y=labels: by_cleanlab(p, y))
        seconds[rows, classes] = alone
        whole = ["", ""]
        if full and default_estimator(classes) == "latent":
            fit_all = Latent(whole_numbers=probs.size)
            solution, long = timed(lambda p=probs, y=labels, f=fit_all: f.solve(ProbabilityRows(p, y)))
            whole = [f"{long:.0f}", f"{transition_error(solution.transition, transition):.4f}"]
        table.add_row(
            f"{rows:,} x {classes:,}",
            made.estimator,
            f"{alone:.1f}",
            f"{together:.1f}",
            f"{transition_error(made.transition, transition):.4f}",
            "yes" if made.converged else "no",
            f"{cleanlab:.2f}",
            f"{transition_error(theirs, transition):.4f}",
            *whole,
        )
    console = Console(width=140)
    console.print(table)
    exponent = np.log10(seconds[1_000_000, 10] / seconds[100_000, 10])
    console.print(f"exponent in rows, 100,000 to 1,000,000 x 10: {exponent:.2f} (<= 1.05)")
