"""The files that a run's config names: their paths, and digests of their contents when the run began."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from trevision.data.files.reading import kind_of
from trevision.data.sources import SOURCES
from trevision.files import DataError
from trevision.forms import check_form

Files = Mapping[str, Mapping[str, str]]
"""For each name in the config its absolute `path`, and `sha256`, the digest of the contents."""


def describe(*names: str | None) -> dict[str, dict[str, str]]:
    """Path and digest of every name that is a file or folder, and not a data set or noise."""
    given = [name for name in names if name is not None and name not in SOURCES]
    files = [name for name in given if kind_of(name) != "named" or Path(name).suffix]
    return {
        name: {"path": str(_path(name).resolve()), "sha256": _digest(_path(name))}
        for name in files
        if _path(name).exists()
    }


def located(name: str, files: Files) -> str:
    """The name if it exists in the working directory, else the absolute path from when the run began."""
    known = files.get(name)
    return name if known is None or _path(name).exists() else known["path"]


def check_files(files: Files, config: Path = Path("config.json")) -> None:
    """Raise a `DamagedFile` unless these are files as `describe` wrote them to a config."""
    check_form(files, dict, config, "files")
    for name, known in files.items():
        check_form(known, {"path": str, "sha256": str}, config, f"files.{name[:60]}")


def check_unchanged(files: Files, config: Path = Path("config.json")) -> None:
    """Raise a DataError for a file of the run with this config that has changed since the run began."""
    check_files(files, config)
    for name, known in files.items():
        path = _path(located(name, files))
        if path.exists() and _digest(path) != known["sha256"]:
            raise DataError(
                f"{name} has changed since the run was begun, so its rows are no longer the run's; "
                "fit again into another folder"
            )


def _path(name: str) -> Path:
    return Path(name).expanduser()


def _digest(path: Path) -> str:
    """Digest of a file's bytes, or of the names and sizes in a folder, which may hold many images."""
    if path.is_file():
        state = path.stat()
        return _digest_of_file(path.resolve(), state.st_mtime_ns, state.st_size)
    files = (file for file in path.rglob("*") if file.is_file())
    listing = sorted(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}" for file in files)
    return hashlib.sha256("\n".join(listing).encode()).hexdigest()


@cache
def _digest_of_file(path: Path, changed: int, size: int) -> str:
    """Digest of a file. Cached until the file changes, because a grid asks for it in every run."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
