"""Where a result comes from: the code, the time and the machine."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trevision.training.processor import cpu

SCHEMA = 1
"""The version of the format of result.json. Raise it when a field is renamed or changes its meaning."""

NUMERICS = 4
"""The version of the numbers. Raise it whenever training, estimation or losses change results.

Tables mark runs with a lower version, and `trevision reproduce --refresh` repeats them. Old results without
this field count as 0.
"""

GIT_SECONDS = 5
"""Maximum seconds to wait for git."""


def provenance(threads: int) -> dict[str, Any]:
    """The fields of result.json about its origin; `threads` is the number of CPU threads used.

    There are `commit` and `clean` only if the package is imported from its own git checkout.
    """
    return {
        "schema": SCHEMA,
        "numerics": NUMERICS,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **code(),
        "cpu": dict(cpu()),
        "threads": threads,
    }


def numerics_of(result: dict[str, Any]) -> int:
    """The version of the numbers of a result; 0 if it has none."""
    return int(result.get("numerics", 0))


@cache
def code() -> dict[str, Any]:
    """Version, commit, and whether the code was as committed.

    Cached: call it early, since the checkout may change while a long run trains.
    """
    return {"version": _version(), **commit_of(Path(__file__).resolve().parents[1])}


def _version() -> str | None:
    try:
        return version("trevision")
    except PackageNotFoundError:  # imported from a source folder, not installed
        return None


def commit_of(package: Path) -> dict[str, Any]:
    """The commit of the checkout whose src/ holds the folder `package`; empty if there is none.

    `clean` is only about what results depend on: src/ and the pinned versions. A grid may write results to
    the same checkout without changing the code.
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    # A virtual environment is often inside the checkout of another project.
    if top is None or Path(top).resolve() / "src" / package.name != package:
        return {}
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return {}
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(Path(top), "status", "--porcelain", "--", "src", "pyproject.toml", "constraints.txt")
    return {} if commit is None or changes is None else {"commit": commit, "clean": not changes}


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git; None if it fails, is not installed or does not answer in time."""
    # Variables such as GIT_DIR, which hooks set, could point to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
            env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
