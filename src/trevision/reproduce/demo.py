"""The demonstration on scikit-learn's digits: wrong labels found, and plain training beside T-Revision."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trevision import noise
from trevision.data.load import load
from trevision.estimation import transition_error
from trevision.methods.options import Options
from trevision.runs.label_issues import RunIssues, find_run_issues
from trevision.runs.noise_files import read_noise
from trevision.runs.pictures import draw_transitions
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.model_files import load_model
from trevision.training.progress import Progress

Watch = Callable[[str], AbstractContextManager[Progress]]
"""Takes the name of a run and returns the observer of its progress."""

MISFILED = 0.1
"""The share of digits in the wrong folder, whatever folder that is."""
PHOTOS, PHOTOS_RUN = "photos", "photos-run"

SOURCE = "digits"
NOISE = "sym-50"
LATENT = "forward, latent T"
METHODS = {
    "standard": Settings(noise=NOISE, method="standard"),
    "reweight-r": Settings(noise=NOISE, method="reweight-r"),
    LATENT: Settings(noise=NOISE, method="forward", options=Options(estimator="latent")),
}
"""The compared methods: plain training, T-Revision, and our own way to T."""
SEEDS = (0, 1, 2)
PICTURE = "transition.svg"


@dataclass(frozen=True, eq=False)
class Review:
    """The digits in wrong folders: the run that looked for them, and what it found beside the truth."""

    run_folder: Path
    issues: RunIssues
    wrong: np.ndarray
    """Which rows of the table, most suspicious first, are in the wrong folder."""

    @property
    def misfiled(self) -> int:
        return int(self.wrong.sum())

    @property
    def listed(self) -> int:
        return int(self.issues.table["suspect"].sum())

    @property
    def rightly_listed(self) -> int:
        return int(np.sum(self.wrong & self.issues.table["suspect"].to_numpy()))


@dataclass(frozen=True)
class Comparison:
    """The results by (method, seed), and a picture of T of the first seed whose T was revised."""

    results: dict[tuple[str, int], dict[str, Any]]
    picture: Path
    picture_seed: int

    def mean(self, method: str, field: str) -> float:
        return float(np.mean([self.results[method, seed][field] for seed in SEEDS]))

    def spread(self, method: str, field: str) -> float:
        return float(np.std([self.results[method, seed][field] for seed in SEEDS], ddof=1))


def names_written() -> set[str]:
    """The names of all that a demonstration writes into its folder."""
    runs = {run_name(method, seed) for method in METHODS for seed in SEEDS}
    return {*runs, PHOTOS, PHOTOS_RUN, PICTURE}


def run_name(method: str, seed: int) -> str:
    return f"{METHODS[method].method}-{seed}"


def find_misfiled(folder: Path, watch: Watch, threads: int = 1, images: int | None = None) -> Review:
    """Write the digits as a folder of images for each class, some in the wrong one, and look for those.

    Parameters
    ----------
    folder
        The folder for the images and the run.
    watch
        The observers of progress.
    threads
        CPU threads of the run.
    images
        How many digits to write; all if not given.

    Returns
    -------
    Review
    """
    from PIL import Image
    from sklearn.datasets import load_digits

    pixels, clean = (part[:images] for part in load_digits(return_X_y=True))
    filed = noise.corrupt(clean, noise.symmetric(10, MISFILED), random_state=0)
    for number, (image, label) in enumerate(zip(pixels.reshape(-1, 8, 8), filed, strict=True)):
        path = folder / PHOTOS / str(label) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((15 * image).astype(np.uint8)).save(path)
    hardware = Hardware(accelerator="cpu", threads=threads)
    with watch(PHOTOS) as progress:
        run(str(folder / PHOTOS), Settings(method="auto"), folder / PHOTOS_RUN, hardware, progress=progress)
        issues = find_run_issues(folder / PHOTOS_RUN, progress=progress)
    numbers = [int(Path(name).stem) for name in issues.table["name"]]
    wrong = clean[numbers].astype(str) != issues.table["given"].to_numpy()
    return Review(folder / PHOTOS_RUN, issues, wrong)


def compare(folder: Path, watch: Watch, threads: int = 1) -> Comparison:
    """Train each method with each seed on digits with half of the labels wrong, and draw T.

    Parameters
    ----------
    folder
        The folder for the run folders and the picture.
    watch
        The observers of progress.
    threads
        CPU threads of a run.

    Returns
    -------
    Comparison
    """
    results = {}
    for seed in SEEDS:
        for method, settings in METHODS.items():
            with watch(f"{method}, seed {seed}") as progress:
                results[method, seed] = run(
                    SOURCE,
                    replace(settings, seed=seed),
                    folder / run_name(method, seed),
                    Hardware(accelerator="cpu", threads=threads),
                    progress=progress,
                )
    revised = [seed for seed in SEEDS if results["reweight-r", seed]["uses_transition"]]
    shown = revised[0] if revised else SEEDS[0]
    _draw(folder, shown)
    return Comparison(results, folder / PICTURE, shown)


def _draw(folder: Path, seed: int) -> None:
    """The true T, that of anchor points, the revised one and that of `latent`, with their errors."""
    names = load(SOURCE).class_names
    true = read_noise(NOISE, len(names))
    revision = load_model(folder / run_name("reweight-r", seed))
    latent = load_model(folder / run_name(LATENT, seed))
    learnt = {
        "from anchor points": revision.initial_transition,
        "revised (T-Revision)": revision.transition,
        "from latent": latent.initial_transition,
    }
    titles = {
        f"{name}: error {transition_error(matrix, true):.3f}": matrix for name, matrix in learnt.items()
    }
    draw_transitions(folder / PICTURE, {f"true ({NOISE})": true, **titles}, names)
