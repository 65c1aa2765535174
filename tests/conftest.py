"""What all tests share: one thread each, and a small problem whose noise is known."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

# Before torch is imported: tests run side by side, one core each, and downloads are never attempted.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TREVISION_OFFLINE"] = "1"

import numpy as np
import pytest

from trevision import noise

CORE = (
    *("estimation/*", "data/files/test_data_probabilities.py", "cli/test_estimate_command.py"),
    *("test_layers.py", "test_light_front.py", "test_noise.py", "refit/*", "models/*"),
    *("cli/test_fit_models.py", "cli/test_answers_models.py"),
)
"""The tests that need the core alone; without torch the others are not even imported."""

if find_spec("torch") is None:
    here = Path(__file__).parent
    core = {path for pattern in CORE for path in here.glob(pattern)}
    collect_ignore = [
        str(path) for path in here.rglob("*") if not any(file.is_relative_to(path) for file in core)
    ]
else:
    import torch

    torch.set_num_threads(1)


# An import system in which nobody has installed torch or what comes with it.
WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "lightning_fabric"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


@pytest.fixture(scope="session")
def without_torch() -> str:
    """The beginning of a program that runs as if torch were not installed."""
    return WITHOUT_TORCH


@dataclass(frozen=True)
class Blobs:
    """Well separated Gaussian classes with labels flipped by an asymmetric transition matrix."""

    x: np.ndarray
    clean: np.ndarray
    noisy: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    transition: np.ndarray


@pytest.fixture(scope="session")
def blobs() -> Blobs:
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(4, 8))
    clean = rng.integers(4, size=1600)
    x = (centres[clean] + 1.5 * rng.normal(size=(1600, 8))).astype(np.float32)
    transition = np.array(
        [[0.6, 0.4, 0.0, 0.0], [0.0, 0.7, 0.3, 0.0], [0.1, 0.1, 0.6, 0.2], [0.0, 0.3, 0.1, 0.6]]
    )
    noisy = noise.corrupt(clean, transition, rng)
    return Blobs(x[:1200], clean[:1200], noisy[:1200], x[1200:], clean[1200:], transition)


@pytest.fixture
def blobs_file(blobs: Blobs, tmp_path: Path) -> Path:
    """The blobs as an .npz file with clean labels and a clean test set, for noise to be added by the tool."""
    path = tmp_path / "blobs.npz"
    np.savez(path, x=blobs.x, y=blobs.clean, x_test=blobs.test_x, y_test=blobs.test_y)
    return path


@pytest.fixture
def every_epoch_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short an epoch is, a stopped run continues after it."""
    monkeypatch.setattr("trevision.training.checkpoint.MOST_TIME", np.inf)
