"""Devices and processes (Lightning Fabric), checkpoints and progress of a run."""

from __future__ import annotations

import ctypes
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_fabric import Fabric

from trevision.training.checkpoint import MemoryStore, Store
from trevision.training.progress import NoProgress, Progress

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")
"""The precisions of Fabric that do not store T in 16 bits."""


@dataclass(frozen=True)
class Runtime:
    """Where and how a run is computed.

    Attributes
    ----------
    fabric : Fabric
        Devices and processes, from `launch`.
    store : Store
        Keeps checkpoints; by default nothing is kept.
    progress : Progress
        Observes the loop; by default nothing is shown.
    precision : str
        The precision that `fabric` was launched with.
    """

    fabric: Fabric
    store: Store = field(default_factory=MemoryStore)
    progress: Progress = field(default_factory=NoProgress)
    precision: str = "32-true"


def launch(accelerator: str = "auto", devices: int = 1, precision: Any = "32-true") -> Fabric:
    """Start Lightning Fabric on a CPU or GPU, in one process or several (data-parallel).

    Parameters
    ----------
    accelerator : str, default="auto"
        "auto", "cpu", "cuda" or "mps".
    devices : int, default=1
        Number of devices, or of CPU processes.
    precision : str, default="32-true"
        One of `PRECISIONS`.

    Returns
    -------
    Fabric
        The launched Fabric.

    Raises
    ------
    ValueError
        If an argument is invalid, or the accelerator is not installed.
    """
    if devices < 1:
        raise ValueError(f"devices must be at least 1, got {devices}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    keep_freed_memory()
    with warnings.catch_warnings(), _silent(logging.getLogger("lightning_fabric")):
        # Fabric warns about every GPU it does not use, but the user chose the devices; and it tells the
        # precision, which result.json has.
        warnings.filterwarnings("ignore", category=UserWarning, module="lightning_fabric")
        try:
            fabric = Fabric(
                accelerator=accelerator,
                devices=devices,
                precision=precision,
                strategy="ddp" if devices > 1 else "auto",
            )
        except ImportError as error:  # an accelerator whose driver is not installed
            raise ValueError(
                f"accelerator must be one that is installed, got {accelerator!r}: {error}"
            ) from None
        fabric.launch()
    return fabric


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Only warnings of a logger."""
    before = logger.level
    logger.setLevel(max(before, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(before)


def is_cpu(accelerator: str) -> bool:
    """Whether Fabric computes on the CPU if asked for this accelerator."""
    if accelerator == "auto":
        return not (torch.cuda.is_available() or torch.backends.mps.is_available())
    return accelerator == "cpu"


def keep_freed_memory() -> None:
    """Make glibc keep freed large blocks for reuse. Does nothing with other C libraries.

    By default glibc returns them to the system. The next training step needs blocks of the same sizes and
    pays for a page fault in each page: up to a fifth of a step of LeNet-5.
    """
    if not sys.platform.startswith("linux"):
        return
    allocator = ctypes.CDLL(None)
    if not hasattr(allocator, "gnu_get_libc_version"):
        return
    m_trim_threshold, m_mmap_threshold = -1, -3  # as malloc.h numbers them
    largest = 2**30
    allocator.mallopt(m_trim_threshold, largest)
    allocator.mallopt(m_mmap_threshold, largest)
