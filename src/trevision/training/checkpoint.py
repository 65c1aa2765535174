"""Stages on disk: what a stopped run continues from.

A run is a sequence of named stages. A finished stage is kept whole, so that a resumed run passes
over it; the stage under way is kept from epoch to epoch. Files are replaced atomically and read with
`weights_only=True`: no pickle from disk is executed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from trevision.files import write_atomically

# Maximum fraction of the time spent on checkpoints. Very short epochs are then not kept one by one, and a
# stopped run repeats a few of them, to the same bits.
MOST_TIME = 0.1


class Store(Protocol):
    """Keeps the state of stages, by name."""

    def load(self, name: str) -> dict[str, Any] | None: ...

    def save(self, name: str, state: dict[str, Any]) -> None: ...

    def clear(self) -> None: ...


class MemoryStore:
    """Keeps nothing: for a fit that lives and dies with its process."""

    def load(self, name: str) -> dict[str, Any] | None:
        return None

    def save(self, name: str, state: dict[str, Any]) -> None:
        pass

    def clear(self) -> None:
        pass


class FolderStore:
    """Keeps one file a stage in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, name: str) -> dict[str, Any] | None:
        path = self.folder / f"{name}.pt"
        if not path.exists():
            return None
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception:  # torch's reader has no one error for bytes that are no checkpoint
            raise ValueError(
                f"{path} is damaged, or holds more than weights; remove it, and its stage is trained again"
            ) from None

    def save(self, name: str, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"{name}.pt", lambda path: torch.save(state, path))

    def clear(self) -> None:
        """Forget everything: the run is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Keeper:
    """Keeps checkpoints of one stage, as often as `MOST_TIME` allows.

    Of several processes, `only` one writes.
    """

    def __init__(self, store: Store, stage: str, only: bool = True) -> None:
        self.store, self.stage, self.only = store, stage, only
        self.kept_at, self.cost = time.perf_counter(), 0.0

    def keep(self, make_state: Callable[[], dict[str, Any]]) -> None:
        """Keep the state of a stage under way, unless the last time was too short ago."""
        began = time.perf_counter()
        if self.only and began - self.kept_at >= self.cost / MOST_TIME:
            self.store.save(self.stage, make_state())
            self.kept_at = time.perf_counter()
            self.cost = self.kept_at - began

    def finish(self, state: dict[str, Any]) -> None:
        """Keep the state of a finished stage."""
        if self.only:
            self.store.save(self.stage, state)
