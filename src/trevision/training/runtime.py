"""Where a run happens: devices and processes (Lightning Fabric), its store, its observer."""

from __future__ import annotations

import ctypes
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

from lightning_fabric import Fabric

from trevision.training.checkpoint import MemoryStore, Store
from trevision.training.progress import NoProgress, Progress

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")
"""Of those that Fabric knows, the ones in which T keeps its digits: it is never learnt in 16 bits."""


@dataclass(frozen=True)
class Runtime:
    """What the loop needs besides the problem: an engine, a place for checkpoints, an observer."""

    fabric: Fabric
    store: Store = field(default_factory=MemoryStore)
    progress: Progress = field(default_factory=NoProgress)


def launch(accelerator: str = "auto", devices: int = 1, precision: Any = "32-true") -> Fabric:
    """A launched Fabric: CPU or GPU, one process or several (data-parallel)."""
    if devices < 1:
        raise ValueError(f"devices must be at least 1, got {devices}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    keep_freed_memory()
    with warnings.catch_warnings():
        # Fabric tells of every GPU it does not use; the user chose the devices.
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


def keep_freed_memory() -> None:
    """Have the C library keep large blocks that are freed, where it is glibc; elsewhere do nothing.

    By default glibc hands them back to the system, and the next training step, which needs blocks of the same
    sizes, pays for a page fault in each of their pages: up to a fifth of a step of LeNet-5.
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
