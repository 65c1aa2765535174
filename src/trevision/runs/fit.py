"""A run of any model: of the network, or of one among several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trevision.data.progress import Progress as ReadingProgress
from trevision.models.names import NETWORK
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
    if settings.models.model == NETWORK:
        from trevision.runs.run import run  # imports torch

        return run(source, settings, folder, hardware, data_dir, progress, reading)
    from trevision.runs.model_run import run_model

    return run_model(source, settings, folder, hardware, progress, reading)
