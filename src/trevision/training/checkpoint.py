"""Stages on disk: what a stopped run continues from.

A run is a sequence of named stages. A finished stage is kept whole, so that a resumed run passes
over it; the stage under way is kept from epoch to epoch. Files are replaced atomically and read with
`weights_only=True`: no pickle from disk is executed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

import torch

from trevision.files import write_atomically


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
