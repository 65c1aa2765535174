"""Where a run happens: devices and processes (Lightning Fabric), its store, its observer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from lightning_fabric import Fabric

from trevision.training.checkpoint import MemoryStore, Store
from trevision.training.progress import NoProgress, Progress


@dataclass(frozen=True)
class Runtime:
    """What the loop needs besides the problem: an engine, a place for checkpoints, an observer."""

    fabric: Fabric
    store: Store = field(default_factory=MemoryStore)
    progress: Progress = field(default_factory=NoProgress)


def launch(accelerator: str = "auto", devices: int = 1, precision: Any = "32-true") -> Fabric:
    """A launched Fabric: CPU or GPU, one process or several (data-parallel)."""
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
