"""Checkpoints, from which a stopped run continues.

A run is a sequence of named stages. The result of a finished stage is kept, so that a resumed run skips it.
The current stage is saved from epoch to epoch. Files are replaced atomically and read with
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

# Maximum fraction of time spent checkpointing. Very short epochs are not all saved; a stopped run then
# repeats a few of them, with bit-identical results.
MOST_TIME = 0.1


class Store(Protocol):
    """Keeps the state of stages, by name."""

    def load(self, name: str) -> dict[str, Any] | None: ...

    def save(self, name: str, state: dict[str, Any]) -> None: ...

    def clear(self) -> None: ...


class MemoryStore:
    """Keeps nothing, for a fit that need not be resumed."""

    def load(self, name: str) -> dict[str, Any] | None:
        return None

    def save(self, name: str, state: dict[str, Any]) -> None:
        pass

    def clear(self) -> None:
        pass


class FolderStore:
    """Keeps one file per stage in a folder."""

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
        except Exception:  # torch raises errors of many types for files that are no checkpoint
            raise ValueError(
                f"{path} is damaged, or holds more than weights; remove it, and its stage is trained again"
            ) from None

    def save(self, name: str, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"{name}.pt", lambda path: torch.save(state, path))

    def clear(self) -> None:
        """Remove all checkpoints: the run is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Keeper:
    """Saves checkpoints of one stage, as often as `MOST_TIME` allows.

    Parameters
    ----------
    store : Store
        Where checkpoints go.
    stage : str
        The stage's name.
    only : bool, default=True
        Whether this process writes. Of several processes, exactly one should.
    """

    def __init__(self, store: Store, stage: str, only: bool = True) -> None:
        self.store, self.stage, self.only = store, stage, only
        self.kept_at, self.cost = time.perf_counter(), 0.0

    def keep(self, make_state: Callable[[], dict[str, Any]]) -> None:
        """Save the state of an unfinished stage, unless the last checkpoint is too recent."""
        began = time.perf_counter()
        if self.only and began - self.kept_at >= self.cost / MOST_TIME:
            self.store.save(self.stage, make_state())
            self.kept_at = time.perf_counter()
            self.cost = self.kept_at - began

    def finish(self, state: dict[str, Any]) -> None:
        """Save the state of a finished stage."""
        if self.only:
            self.store.save(self.stage, state)
