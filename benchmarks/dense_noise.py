"""Random dense noise on images: corrections by T against plain training of the same network.

Each seed draws a T with 25 to 45% wrong labels in every class, spread over the others by a Dirichlet draw.
Claims, for each T and schedule (`quick`, `strong`):
1. `reweight-r`, `forward-r` and `recursive` are at most 0.5 points below `standard` on clean test images;
2. the error of T after the revision is at most 1.1 times that before it.
docs/log.md has what was measured.

    python -m benchmarks dense_noise                                   # mnist, seeds 1 to 3
    TREVISION_SOURCE=fashion-mnist TREVISION_SEEDS=1 python -m benchmarks dense_noise
    TREVISION_METHODS=standard,auto python -m benchmarks dense_noise

The source is a named data set with idx files where `trevision data` finds them, or an .npz file with x, y,
x_test and y_test. With TREVISION_RUNS, runs are kept in that folder, and finished ones are not repeated.
Methods share stage 1. Printed: a line a run, then the claims, as Markdown.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.any_model import dense_transition
from trevision.files import write_matrix
from trevision.reproduce.sharing import SharedStore, shared_stages
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings

SOURCE = os.environ.get("TREVISION_SOURCE", "mnist")
SEEDS = tuple(int(word) for word in os.environ.get("TREVISION_SEEDS", "1,2,3").split(","))
SCHEDULES = ("strong", "quick")
METHODS = os.environ.get("TREVISION_METHODS", "standard,reweight-r,forward-r,recursive").split(",")
"""The first is the one that others are compared with."""
CLASSES = 10
MOST_BELOW = 0.5
MOST_GROWTH = 1.1
HEADING = """| seed | schedule | method | accuracy | over plain | T error before | after | guard | seconds |
| ---: | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |"""


def done(method: str, schedule: str, seed: int, folder: Path) -> dict[str, Any]:
    """The result of one run; stages that methods share are trained once."""
    noise = folder / f"dense-{seed}.csv"
    write_matrix(noise, dense_transition(CLASSES, seed))
    settings = Settings(noise=str(noise), method=method, schedule=schedule, seed=seed)
    own = folder / f"{method}-{schedule}-{seed}"
    shared = shared_stages(SOURCE, settings, Hardware())
    stages = {name: folder / ".stages" / digest for name, digest in shared.items()}
    return run(SOURCE, settings, own, store=SharedStore(own / "checkpoints", stages), keep_model=False)


def row(method: str, schedule: str, seed: int, result: dict[str, Any], plain: float) -> str:
    accuracy = 100 * result["test_accuracy"]
    cells = [str(seed), schedule, method, f"{accuracy:.2f}", f"{accuracy - plain:+.2f}"]
    if result["uses_transition"]:
        cells += [f"{result[name]:.4f}" for name in ("initial_transition_error", "transition_error")]
    else:
        cells += ["-", "-"]
    kept = ", ".join(f"{each['stage']} {'kept' if each['kept'] else 'not kept'}" for each in result["guard"])
    seconds = f"{result['seconds']:.0f}"
    return f"| {' | '.join([*cells, kept, seconds])} |"


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("TREVISION_RUNS", temporary))
        folder.mkdir(parents=True, exist_ok=True)
        print(HEADING)
        below: list[float] = []
        growth: list[float] = []
        for seed in SEEDS:
            for schedule in SCHEDULES:
                plain = np.nan
                for method in METHODS:
                    result = done(method, schedule, seed, folder)
                    if method == METHODS[0]:
                        plain = 100 * result["test_accuracy"]
                    else:
                        below.append(plain - 100 * result["test_accuracy"])
                    if method.endswith("-r") and result["uses_transition"]:
                        growth.append(result["transition_error"] / result["initial_transition_error"])
                    print(row(method, schedule, seed, result, plain), flush=True)
    held = sum(each <= MOST_BELOW for each in below)
    print(
        f"\n- at most {MOST_BELOW} points below plain: {held} of {len(below)} runs; worst {-max(below):+.2f}"
    )
    held = sum(each <= MOST_GROWTH for each in growth)
    print(f"- T error grows by at most a tenth: {held} of {len(growth)} runs; worst factor {max(growth):.2f}")
