"""Where a run goes if no folder is named: runs/NAME, or runs/NAME-2 if another run is there, and so on."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from trevision.data.sources import SOURCES
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Settings, run_config

RUNS = Path("runs")


def place_of(source: str, settings: Settings, runs: Path = RUNS) -> Path:
    """The folder of a run whose folder the user did not name.

    A run of the same settings, finished or stopped, is found again. Else it is the first folder that does not
    exist: a run never meets another one.

    Parameters
    ----------
    source, settings
        What the run is of.
    runs
        The folder of all runs.
    """
    name, config = _name(source, settings), run_config(source, settings)
    for number in count(1):
        folder = runs / (name if number == 1 else f"{name}-{number}")
        if not folder.exists() or _is_of(folder, config):
            return folder
    raise AssertionError  # count never ends


def _is_of(folder: Path, config: dict[str, object]) -> bool:
    """Whether a folder holds a run of this config, or nothing."""
    if not folder.is_dir():
        return False
    try:
        RunFolder(folder).finished_result(config)
    except ValueError:  # another run, one of files that have changed since, or no run at all
        return False
    return True


def _name(source: str, settings: Settings) -> str:
    """The source's name; for a named data set also the noise and the method, which tell its runs apart."""
    if source in SOURCES:
        noise = None if settings.noise is None else Path(settings.noise).stem
        parts = [source, noise, settings.method]
    else:
        path = Path(source).expanduser().resolve()
        parts = [path.name if path.is_dir() else path.stem]
    name = "-".join(part for part in parts if part)
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "run"
