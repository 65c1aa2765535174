"""The demonstration: plain training and T-Revision compared on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.data.load import load
from trevision.runs.noise_files import read_noise
from trevision.runs.pictures import draw_transitions
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.model_files import load_model
from trevision.training.progress import Progress

SOURCE = "digits"
NOISE = "sym-50"
METHODS = ("standard", "reweight-r")
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Demo:
    """The results by (method, seed), and the path of the picture of T."""

    results: dict[tuple[str, int], dict[str, Any]]
    picture: Path

    def mean(self, method: str, field: str) -> float:
        return float(np.mean([self.results[method, seed][field] for seed in SEEDS]))

    def uses_transition(self, method: str) -> bool:
        return bool(self.results[method, SEEDS[0]]["uses_transition"])

    def spread(self, method: str, field: str) -> float:
        return float(np.std([self.results[method, seed][field] for seed in SEEDS], ddof=1))


def demonstrate(
    folder: Path,
    watch: Callable[[str], AbstractContextManager[Progress]],
    threads: int = 1,
) -> Demo:
    """Train each method with each seed on digits with half of the labels wrong, and draw T of the first seed.

    Parameters
    ----------
    folder
        The folder for the run folders and the picture.
    watch
        Takes the name of a run and returns the observer of its progress.
    threads
        CPU threads of a run.

    Returns
    -------
    Demo
    """
    results = {}
    for seed in SEEDS:
        for method in METHODS:
            settings = Settings(noise=NOISE, method=method, seed=seed)
            with watch(f"{method}, seed {seed}") as progress:
                results[method, seed] = run(
                    SOURCE,
                    settings,
                    folder / f"{method}-{seed}",
                    Hardware(accelerator="cpu", threads=threads),
                    progress=progress,
                )
    names = load(SOURCE).class_names
    saved = load_model(folder / f"reweight-r-{SEEDS[0]}")
    picture = folder / "transition.svg"
    matrices = {
        f"true ({NOISE})": read_noise(NOISE, len(names)),
        "initial, from anchor points": saved.initial_transition,
        "revised": saved.transition,
    }
    draw_transitions(picture, matrices, names)
    return Demo(results, picture)
