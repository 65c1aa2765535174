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
from torch import nn

from trevision.files import DamagedFile, write_atomically

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
            state: Any = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception:  # torch raises errors of many types for files that are no checkpoint
            state = None
        if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
            raise DamagedFile(
                f"{path} is damaged, or holds more than weights; remove it, and its stage is trained again",
                path=path,
            )
        return state

    def save(self, name: str, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"{name}.pt", lambda path: torch.save(state, path))

    def clear(self) -> None:
        """Remove all checkpoints: the run is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


def check_fits(saved: dict[str, Any], model: nn.Module, stage: str) -> None:
    """Raise a `DamagedFile` unless a checkpoint is one of this stage, of a model like this one."""
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    best, history, done = saved.get("best"), saved.get("history"), saved.get("done")
    fits = isinstance(saved.get("selected"), dict) and isinstance(done, str)
    if fits and isinstance(best, dict):
        fits = {name: getattr(value, "shape", None) for name, value in best.items()} == shapes
    else:
        fits = False
    fits = fits and isinstance(history, list) and all(isinstance(each, dict) for each in history)
    if not fits or not (done or (history and "model" in saved)):
        raise DamagedFile(
            f"the checkpoint of the stage {stage} is damaged, or of another run; remove it from the folder "
            "`checkpoints`, and the stage is trained again"
        )


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
