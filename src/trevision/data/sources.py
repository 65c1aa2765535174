"""All named data sets, as the modules of `trevision.data.named` declare them.

A new data set is a new file there with a module-level `Source`; nothing else lists it.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from trevision.data import named
from trevision.data.named.locations import candidate_folders, find
from trevision.data.source import Source


def discover() -> dict[str, Source]:
    """Every module-level `Source` by its name: small samples first, those of one size by module."""
    declared: list[Source] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(named.__path__)):
        members = vars(import_module(f"{named.__name__}.{module}")).values()
        declared += [member for member in members if isinstance(member, Source)]
    sources = {source.name: source for source in sorted(declared, key=lambda source: source.sample_size)}
    if len(sources) < len(declared):
        names = [source.name for source in declared]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"a source must have a name of its own, got {repeated!r} twice")
    return sources


SOURCES = discover()


@dataclass(frozen=True)
class Availability:
    """Whether a named data set is at hand: `found_at` is its folder, or None after looking in `looked_in`."""

    name: str
    found_at: Path | None
    looked_in: tuple[Path, ...]
    description: str
    on_request: bool = False


def available(data_dir: Path | None = None) -> list[Availability]:
    """Where each of `SOURCES` lies, without reading or downloading any."""
    states = []
    for source in SOURCES.values():
        found_at = source.folder
        looked_in: tuple[Path, ...] = ()
        if source.files is not None:
            paths = find(source.files, data_dir)
            found_at = paths[0].parent if paths else None
            looked_in = tuple(candidate_folders(source.files, data_dir))
        states.append(Availability(source.name, found_at, looked_in, source.description, source.on_request))
    return states
