"""Files that appear whole or not at all, and what every room needs to read and write them.

The bottom room: it knows nothing of labels or noise.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

MATRIX_SUFFIXES = (".csv", ".npy")


class DataError(ValueError):
    """Data that is missing, unreadable or unfit. The message is one line for the person who gave it."""

    def __init__(self, message: str) -> None:
        # Messages quote errors of other libraries, some of which run over several lines.
        super().__init__(" ".join(message.splitlines()))


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` on a temporary file beside `path`, then move it there in one step.

    A symbolic link stays, and the file that it names is replaced. A pipe or a device cannot be replaced:
    it is written to, once everything is ready.
    """
    path = path.resolve()
    if path.is_dir():
        raise IsADirectoryError(f"{path}: must be a file to write, but is a folder")
    if path.exists() and not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            ready = Path(folder) / path.name
            write(ready)
            with ready.open("rb") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        # mkstemp makes private files; the result gets the permissions an ordinary file would have.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an error names the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be a JSON file, but is not ({error}); was it edited?") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(value).__name__}")
    return value


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON in one step."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def json_digest(value: Any) -> str:
    """A short hash of a JSON value that does not depend on the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_npy(path: Path) -> np.ndarray:
    """The real numbers of an .npy file; a ValueError if it holds anything else."""
    try:
        array: Any = np.load(path, allow_pickle=False)
    except EOFError:
        raise ValueError("the file is empty") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = array.dtype if isinstance(array, np.ndarray) else "an archive"
        raise ValueError(f"the file must hold an array of real numbers, got {kind}")
    return array.astype(np.float64)


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
    """Hold the lock of the file `path`; wait for it, or with `busy` raise that as a ValueError at once.

    The operating system frees the lock when its holder ends, however it ends.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0 if busy else -1):
            yield
    except Timeout:
        raise ValueError(busy) from None


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
