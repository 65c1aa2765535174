"""All named data sets.

A new data set is a new file in `trevision.data.named` with a `Source` at module level.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trevision.data.named.locations import candidate_folders, find
from trevision.data.source import Source
from trevision.declared import declared_in

SOURCES: dict[str, Source] = declared_in(
    "trevision.data.named", Source, order=lambda source: source.sample_size
)
"""By name, small samples first."""


@dataclass(frozen=True)
class Availability:
    """Where a named data set is: `found_at` is its folder, or None if it is in none of `looked_in`."""

    name: str
    found_at: Path | None
    looked_in: tuple[Path, ...]
    description: str
    on_request: bool = False


def available(data_dir: Path | None = None) -> list[Availability]:
    """Where each of `SOURCES` is, without reading or downloading any."""
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
