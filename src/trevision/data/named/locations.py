"""Find the files of a named data set, and read them."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from trevision.budgets import check_unpacked, unpacked_budget
from trevision.files import DamagedFile, DataError
from trevision.npy import open_regular


@dataclass(frozen=True)
class FileSet:
    """The files that make up one named data set.

    `folders` are relative to a search folder; a new copy goes to the first. `versions` are lists of file
    names: one complete list in one folder is enough. Every file may also be gzipped (.gz).
    """

    name: str
    folders: tuple[str, ...]
    versions: tuple[tuple[str, ...], ...]


def cache_folder() -> Path:
    """The per-user cache: on Linux `$XDG_CACHE_HOME/trevision`, or `~/.cache/trevision`."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and sys.platform == "linux" and not Path(named).is_absolute():
        # By the XDG specification, relative values are ignored; platformdirs does not ignore them.
        return Path.home() / ".cache" / "trevision"
    return user_cache_path("trevision", appauthor=False)


def search_folders(data_dir: Path | None = None) -> list[Path]:
    """The folders to search for data sets, best first: `data_dir`, `$TREVISION_DATA`, the cache."""
    folders = [] if data_dir is None else [Path(data_dir).expanduser()]
    if from_environment := os.environ.get("TREVISION_DATA"):
        folders.append(Path(from_environment).expanduser())
    folders.append(cache_folder())
    return list(dict.fromkeys(folders))


def candidate_folders(files: FileSet, data_dir: Path | None = None) -> list[Path]:
    """Every folder that may hold `files`, best first.

    Only a folder that the user named may hold the files directly. In a shared folder, files with the same
    names (MNIST and Fashion-MNIST) could belong to either set.
    """
    folders: list[Path] = []
    for folder in search_folders(data_dir):
        folders += [folder / relative for relative in files.folders]
        if data_dir is not None and folder == Path(data_dir).expanduser():
            folders.append(folder)
    return folders


def file_in(folder: Path, name: str) -> Path | None:
    """The file `name` in `folder`, plain if there is a plain one, else gzipped, else None."""
    for path in (folder / name, folder / f"{name}.gz"):
        # os.path rather than Path.is_file: a folder without permission counts as one without the file.
        if os.path.isfile(path):
            return path
    return None


def _holdings(files: FileSet, data_dir: Path | None) -> Iterator[tuple[list[Path], list[str]]]:
    for folder in candidate_folders(files, data_dir):
        for version in files.versions:
            paths = {name: file_in(folder, name) for name in version}
            yield (
                [path for path in paths.values() if path is not None],
                [name for name, path in paths.items() if path is None],
            )


def find(files: FileSet, data_dir: Path | None = None) -> list[Path] | None:
    """The paths of the first complete version, in the order of its list, or None."""
    return next((present for present, missing in _holdings(files, data_dir) if not missing), None)


def not_found(files: FileSet, data_dir: Path | None, reason: str) -> DataError:
    """The error for missing files: one line with a missing file, the folders searched, and where to put it.

    The file named is missing in the most complete copy.

    Parameters
    ----------
    files
        The files of the data set.
    data_dir
        Where they were looked for first.
    reason
        Why they could not be downloaded.
    """
    lacking = min((missing for _, missing in _holdings(files, data_dir)), key=len)
    searched = search_folders(data_dir)
    # Mention a folder that does not exist, since it may be mistyped, but not a missing cache.
    looked_in = ", ".join(
        str(folder) if folder.is_dir() or folder == cache_folder() else f"{folder} (no such folder)"
        for folder in searched
    )
    name = lacking[0] if lacking else files.versions[0][0]
    return DataError(
        f"{files.name}: {name}(.gz) was found in none of {looked_in} (under {' or '.join(files.folders)}) "
        f"and could not be downloaded ({reason}); put it into {searched[0] / files.folders[0]}"
    )


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    with open_regular(path) as (file, size):
        if path.suffix != ".gz":
            return file.read()
        budget = unpacked_budget(size)
        try:
            with gzip.open(file) as packed:
                content = packed.read(budget + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DamagedFile(
                f"{path}: is truncated or corrupt ({error}); delete it and fetch it again", path=path
            ) from error
        check_unpacked(path, len(content), size)
        return content
