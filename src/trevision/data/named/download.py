"""Download the official files: checked, and complete or not at all.

pooch would replace only the copying below. Progress, whole archives and one-line errors would still be ours.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from trevision.data.named.locations import FileSet, cache_folder, find, not_found
from trevision.data.progress import Progress
from trevision.files import DataError

TIMEOUT_SECONDS = 10
_CHUNK = 1 << 18


def offline() -> bool:
    """Whether `$TREVISION_OFFLINE` forbids downloads (set, and neither empty nor 0)."""
    return os.environ.get("TREVISION_OFFLINE", "") not in ("", "0")


def fetch(url: str, target: Path, md5: str, progress: Progress | None = None) -> None:
    """Download a file. It appears only if its checksum is right.

    Parameters
    ----------
    url
        Where it comes from.
    target
        The file to write.
    md5
        The checksum of its content.
    progress
        Called with the progress of the download.

    Raises
    ------
    DataError
        If the download fails, or the content has another checksum.
    """
    if offline():
        raise DataError("$TREVISION_OFFLINE is set")
    part: Path | None = None
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            target.parent.mkdir(parents=True, exist_ok=True)
            # In the target's own folder, because a rename is atomic within one file system only.
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
            part = Path(name)
            with os.fdopen(handle, "wb") as sink:
                digest = _copy(response, sink, progress)
        if digest != md5:
            raise DataError(f"{url}: the content has md5 {digest} instead of {md5}")
        os.replace(part, target)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url}: {_reason(error)}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _copy(response: http.client.HTTPResponse, sink: IO[bytes], progress: Progress | None) -> str:
    """Stream a response into a file and return the md5 of its content."""
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    digest, done = hashlib.md5(usedforsecurity=False), 0
    if progress is not None:
        progress(0, total)
    while chunk := response.read(_CHUNK):
        sink.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, total)
    if total is not None and done != total:
        raise OSError(f"the connection ended after {done} of {total} bytes")
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    """What went wrong; urllib wraps the useful part in `reason`."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    cause = getattr(error, "reason", None) or error
    return str(cause) or type(cause).__name__


def extract(archive: Path, member_folder: str, target: Path) -> None:
    """Unpack one folder of a tar archive, whole or not at all.

    Uses tarfile's "data" filter, which refuses paths and links that lead out of the destination.

    Parameters
    ----------
    archive
        The archive.
    member_folder
        The folder in it.
    target
        What the folder is unpacked to.

    Raises
    ------
    DataError
        If the archive is damaged or lacks the folder.
    """
    if not hasattr(tarfile, "data_filter"):
        raise DataError("unpacking an archive safely needs Python 3.11.4 or newer")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")
            unpacked = Path(scratch) / member_folder
            if not unpacked.is_dir():
                raise DataError(f"{archive}: holds no folder {member_folder}")
            try:
                os.rename(unpacked, target)
            except OSError:
                if not target.is_dir():
                    raise
                # An incomplete copy is in the way, or another process was faster: replace file by file.
                for path in unpacked.iterdir():
                    os.replace(path, target / path.name)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{archive}: cannot be unpacked ({error})") from error


def fetch_archive(
    url: str, md5: str, member_folder: str, target: Path, progress: Progress | None = None
) -> None:
    """Download a tar archive and unpack one folder of it; the archive is not kept.

    Parameters
    ----------
    url, md5, progress
        As for `fetch`.
    member_folder, target
        As for `extract`.
    """
    if offline():
        raise DataError("$TREVISION_OFFLINE is set")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(dir=target.parent, prefix=".download.")
    except OSError as error:
        raise DataError(f"{target.parent}: cannot be written to ({error.strerror})") from error
    try:
        archive = Path(scratch) / url.rsplit("/", 1)[-1]
        fetch(url, archive, md5, progress)
        extract(archive, member_folder, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def obtain(files: FileSet, data_dir: Path | None, download: Callable[[Path], None]) -> list[Path]:
    """The paths of a data set's files. They are downloaded if they are not found.

    Parameters
    ----------
    files
        The files.
    data_dir
        Where to look first.
    download
        Called with the folder in the cache to download to.

    Raises
    ------
    DataError
        If the files are not found and cannot be downloaded.
    """
    if (paths := find(files, data_dir)) is not None:
        return paths
    try:
        download(cache_folder() / files.folders[0])
    except DataError as error:
        raise not_found(files, data_dir, str(error)) from error
    if (paths := find(files, data_dir)) is None:
        raise not_found(files, data_dir, "the download lacks it")
    return paths
