"""Where a result comes from: which code made it, when, and on what machine."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SCHEMA = 1
"""The version of the form of result.json. Raise it when a field is renamed or changes its meaning."""

NUMERICS = 2
"""The version of the numbers. Raise it whenever training, estimation or losses change results.

Tables mark the runs that were made with a lower one, and `trevision reproduce --refresh` runs them anew.
Results that do not say theirs were made before results did, and count as 0.
"""

CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""The instructions on which the last bits of a result depend."""

GIT_SECONDS = 5
"""How long to wait for an answer of git."""


def provenance(threads: int) -> dict[str, Any]:
    """The fields of result.json that tell where it comes from; `threads` is how many computed it.

    `commit` and `clean` are there only if the package is imported from its own git checkout.
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
    """The version of the numbers of a result; 0 for one that does not say."""
    return int(result.get("numerics", 0))


@cache
def code() -> dict[str, Any]:
    """Version, commit, and whether the code was as committed.

    Asked once in a process: call it early, since the checkout may move on while a long run trains.
    """
    return {"version": _version(), **commit_of(Path(__file__).resolve().parents[1])}


def _version() -> str | None:
    try:
        return version("trevision")
    except PackageNotFoundError:  # its source is on the path, but it is not installed
        return None


def commit_of(package: Path) -> dict[str, Any]:
    """The commit of the checkout whose src/ holds the folder `package`; empty if it lies in none.

    `clean` is about what results depend on: src/ and the pinned versions. A grid writes to the results of
    the same checkout, which does not make the code another.
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    # A virtual environment often lies in somebody's checkout, which is not the package's own.
    if top is None or Path(top).resolve() / "src" / package.name != package:
        return {}
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return {}
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(Path(top), "status", "--porcelain", "--", "src", "pyproject.toml", "constraints.txt")
    return {} if commit is None or changes is None else {"commit": commit, "clean": not changes}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says; None if it fails, is not installed or does not answer in time."""
    # Variables such as GIT_DIR, which hooks set, would answer for another repository.
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


@cache
def cpu() -> dict[str, Any]:
    """The processor's name, and which of CPU_FLAGS it has; None where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return cpu_from(text)


def cpu_from(cpuinfo: str) -> dict[str, Any]:
    """The same from the text of /proc/cpuinfo."""
    told: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        told.setdefault(key.strip(), value.strip())
    flags = told["flags"].split() if "flags" in told else None
    name = told.get("model name") or platform.processor() or platform.machine()
    return {"name": name, **{flag: None if flags is None else flag in flags for flag in CPU_FLAGS}}
