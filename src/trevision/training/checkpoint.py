"""Stages on disk: what a stopped run continues from.

A run is a sequence of named stages. A finished stage is kept whole, so that a resumed run passes
over it; the stage under way is kept after every epoch. Files are replaced atomically and read with
`weights_only=True`: no pickle from disk is executed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch


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
        return torch.load(path, map_location="cpu", weights_only=True)

    def save(self, name: str, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"{name}.pt", lambda path: torch.save(state, path))

    def clear(self) -> None:
        """Forget everything: the run is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` on a temporary file beside `path`, then move it there in one step."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        # mkstemp makes private files; the result gets the permissions an ordinary file would have.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
