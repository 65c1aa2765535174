"""A run of any model: of the network, or of one among several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trevision.data.progress import Progress as ReadingProgress
from trevision.files import locked, remove_unfinished
from trevision.models.names import NETWORK
from trevision.runs.run_folder import LOCK_FILE
from trevision.runs.settings import Hardware, Settings
from trevision.training.progress import Progress


def fit_source(
    source: str,
    settings: Settings,
    folder: Path,
    hardware: Hardware | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    reading: ReadingProgress | None = None,
) -> dict[str, Any]:
    """Do the run of `settings` and return the contents of its result.json; arguments as for `run`."""
    with held(folder):
        if settings.models.model == NETWORK:
            from trevision.runs.run import run  # imports torch

            return run(source, settings, folder, hardware, data_dir, progress, reading)
        from trevision.runs.model_run import run_model

        return run_model(source, settings, folder, hardware, progress, reading)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder of a run, so that no two processes write to it; a `Busy` if another one holds it."""
    shares_a_run = int(os.environ.get("LOCAL_RANK", "0")) > 0  # its first process holds the folder
    if shares_a_run or (folder.exists() and not folder.is_dir()):
        yield
        return
    made = not folder.exists()
    busy = f"{folder} is being written by another run; wait for its end, or choose another folder"
    with locked(folder / LOCK_FILE, busy):
        if not (folder / "result.json").exists():  # else other commands may be writing beside it
            for each in (folder, folder / "checkpoints"):
                remove_unfinished(each)
        try:
            yield
        finally:
            (folder / LOCK_FILE).unlink(missing_ok=True)
            if made:
                with suppress(OSError):  # it holds a run
                    folder.rmdir()
