"""Files that appear whole or not at all, and what every room needs to read and write them.

The bottom room: it knows nothing of labels or noise.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

MATRIX_SUFFIXES = (".csv", ".npy")


class TrevisionError(ValueError):
    """What a user's argument or file causes. The message is one line for the person who gave it.

    Attributes
    ----------
    code : str
        Which kind of error it is: a short word that stays the same when messages are reworded.
    path : Path or None
        The file that it speaks of, where there is one.
    place : str or None
        Where in that file: a row, a column, a member of an archive.

    Examples
    --------
    >>> try:
    ...     read_json(Path("no-such-folder") / "config.json")
    ... except TrevisionError as error:
    ...     print(error.code, error.path)
    damaged no-such-folder/config.json
    """

    code = "argument"

    def __init__(self, message: str, *, path: Path | None = None, place: str | None = None) -> None:
        # Messages quote files, and errors of other libraries that run over several lines.
        super().__init__(shortened(shown(" ".join(message.splitlines()))))
        self.path, self.place = path, place


class DataError(TrevisionError):
    """Data that is missing, unreadable or unfit."""

    code = "data"


class DamagedFile(DataError):
    """A file that is not what its name or its place in a folder promises."""

    code = "damaged"


class TooLarge(DataError):
    """A file that would need more memory or disk than the budgets of `budgets.py` allow."""

    code = "too-large"


class Busy(TrevisionError):
    """Something that another process holds."""

    code = "busy"


LONGEST_MESSAGE = 1500


def shortened(text: str) -> str:
    """The begin and the end of a text that is too long for a message."""
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[: LONGEST_MESSAGE - 500]} ... {text[-495:]}"


def shown(text: str) -> str:
    r"""A text for the terminal: what could move its cursor, or hide what follows, is written as an escape.

    >>> shown("stop \x1b[2J")
    'stop \\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


class DiskFull(TrevisionError, OSError):
    """A disk without room for a file."""

    code = "disk-full"


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` on a temporary file beside `path`, then move it there in one step.

    A symbolic link is replaced by the file: what it names stays as it is. A pipe or a device cannot be
    replaced: it is written to, once everything is ready.

    Raises
    ------
    DiskFull
        If the disk has no room. What was at `path` before is then as it was.
    TrevisionError
        If there is no folder for the file, perhaps not any more.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path}: must be a file to write, but is a folder")
    with _told_if_full(path):
        if is_stream(path):
            with tempfile.TemporaryDirectory() as folder:
                ready = Path(folder) / path.name
                write(ready)
                _write_into(path, ready)
            return
        temporary = path
        try:
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=UNFINISHED, dir=path.parent)
            os.close(handle)
            temporary = Path(name)
            write(temporary)
            # mkstemp makes private files; the result gets the permissions an ordinary file would have.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            os.replace(temporary, path)
        except Exception as error:
            if path.parent.is_dir():
                raise
            raise folder_gone(path) from error
        finally:
            if temporary != path:
                temporary.unlink(missing_ok=True)


def folder_gone(path: Path) -> TrevisionError:
    """The error of a file whose folder is not there, perhaps not any more."""
    return TrevisionError(
        f"{path} cannot be written: there is no folder {path.parent}; was it removed meanwhile?", path=path
    )


UNFINISHED = ".unfinished"
"""How the name of a file ends that is still being written. A dot comes first, then the name it will have."""


def remove_unfinished(folder: Path) -> None:
    """Remove what a process that was killed had begun to write. Nobody else may be writing there."""
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device, or names one as /dev/stdout does, so that nothing is replaced."""
    if not path.is_symlink():
        return path.exists() and not path.is_file()
    # Only links of the system are followed: /dev/stdout, /dev/fd/3. That of a user might lead anywhere.
    return Path(os.path.abspath(path)).parts[1:2] in (("dev",), ("proc",))


def _write_into(path: Path, ready: Path) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise TrevisionError(
            f"{path} is a pipe that nobody reads; start its reader first, or write to a file", path=path
        ) from None
    os.set_blocking(handle, True)
    with ready.open("rb") as source, open(handle, "wb") as target:
        shutil.copyfileobj(source, target)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The numbers of the errors of a disk that is full, of a quota, and of a limit on the size of files."""
FULL_IN_WORDS = ("No space left", "Disk quota exceeded", "File too large", " requested and ")
"""What errors without a number say of it; the last is numpy's: 1000 requested and 109 written."""
SAFE = "what is finished is kept: make room, and give the same command again"


@contextmanager
def _told_if_full(path: Path) -> Iterator[None]:
    """Errors of a disk without room become a `DiskFull` that names the disk, and says what is safe."""
    try:
        yield
    except Exception as error:
        if isinstance(error, DiskFull) or not is_full(error, path.parent):
            raise
        raise DiskFull(
            f"{path} cannot be written: the disk at {mount_of(path.parent)} is full, or a limit on the size "
            f"of files is reached ({free_bytes(path.parent) >> 20:,} MB free). No file is left half written, "
            f"and {SAFE}",
            path=path,
        ) from error


def is_full(error: Exception, folder: Path) -> bool:
    """Whether an error says that a disk has no room. Libraries that write say so in words of their own."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return True
    if any(text in str(error) for text in FULL_IN_WORDS):
        return True
    # torch says only that its writer failed.
    return isinstance(error, RuntimeError) and "write" in str(error) and free_bytes(folder) < 2**20


def free_bytes(folder: Path) -> int:
    """The room on the disk of a folder; 0 if it cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def mount_of(folder: Path) -> Path:
    """Where the disk of a folder is mounted."""
    folder = Path(os.path.abspath(folder))
    return next((each for each in (folder, *folder.parents) if os.path.ismount(each)), folder)


DEEPEST_JSON = 64
"""How deep lists and objects of a JSON file may be nested. Files of a run nest them five deep."""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an error names the file."""
    if is_stream(path):
        raise DamagedFile(f"{path} must be a file, but is a pipe or a device", path=path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedFile(f"{path} cannot be read ({error})", path=path) from None
    value = parse_json(text, path)
    if not isinstance(value, dict):
        raise DamagedFile(f"{path} must hold a JSON object, got {type(value).__name__}", path=path)
    return value


def parse_json(text: str, path: Path, place: str | None = None, diverged: bool = False) -> Any:
    """The value of a JSON text in the file `path`. Nesting must be shallow, and numbers finite.

    With `diverged`, NaN and infinity are let through, as a loss that diverged is written.
    """
    try:
        value = json.loads(
            text, parse_constant=float if diverged else _refuse_number, parse_float=_finite, parse_int=_whole
        )
        _check_depth(value)
        return value
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        where = f"{place}: " if place else ""
        raise DamagedFile(
            f"{path} must be a JSON file, but is not ({where}{what}); was it edited?",
            path=path,
            place=place,
        ) from None


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text[:40])


def _whole(text: str) -> int:
    if len(text) > 20:  # beyond 64 bits
        _refuse_number(f"{text[:20]}... ({len(text)} digits)")
    number = int(text)
    if not -(2**63) <= number < 2**63:
        _refuse_number(text)
    return number


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST_JSON):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise RecursionError


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON in one step."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def json_digest(value: Any) -> str:
    """A short hash of a JSON value that does not depend on the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_npy(path: Path, array: np.ndarray) -> None:
    """Write an .npy file in one step."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # np.save would append .npy to the temporary name
            np.save(file, array)

    write_atomically(path, write)


def write_matrix(path: Path, matrix: np.ndarray) -> None:
    """Write a matrix as a .csv file without a header, in one step."""
    write_atomically(path, lambda file: np.savetxt(file, matrix, delimiter=",", fmt="%.8g"))


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold the lock of the file `path`; wait for it, or with `busy` raise that as a `Busy` at once.

    The operating system frees the lock when its holder ends, however it ends.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0 if busy else -1):
            yield
    except Timeout:
        raise Busy(busy or f"{path} is held by another process", path=path) from None


def did_you_mean(
    word: str, known: Iterable[str], cutoff: float = 0.6, show: Callable[[str], str] = str
) -> str:
    """`; did you mean sym-50?` for a misspelt word, to end an error with; empty if nothing is near.

    `show` writes the suggestion: `repr` puts it into quotes.

    >>> did_you_mean("reweigth", ["forward", "reweight"])
    '; did you mean reweight?'
    """
    near = difflib.get_close_matches(str(word), list(known), n=1, cutoff=cutoff)
    return f"; did you mean {show(near[0])}?" if near else ""
