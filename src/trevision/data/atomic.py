"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` on a temporary file beside `path`, then move it there in one step.

    A link stays and what it names is replaced. A pipe or a device cannot be replaced: it is written to, once
    all is ready.
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
