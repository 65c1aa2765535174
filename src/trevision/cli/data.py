"""`trevision data`: the named data sets and where they are."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.terminal import console, table
from trevision.data.named.locations import search_folders
from trevision.data.sources import available


def data(data_dir: Path | None = None) -> None:
    """List the named data sets, and where each was found.

    For example:

    $ trevision data
    $ trevision data --data-dir ~/datasets

    Args:
        data_dir: Where to look first; then $TREVISION_DATA and the user's cache.
    """
    rows = [
        (
            source.name,
            source.description,
            str(source.found_at or _how_to_get(source.on_request)),
        )
        for source in available(data_dir)
    ]
    console.print(table(["name", "what it is", "where"], rows))
    console.print("Looked in: " + ", ".join(map(str, search_folders(data_dir))))


def _how_to_get(on_request: bool) -> str:
    return f"not found ({'given out on request' if on_request else 'fit tries to download it'})"
