"""What is installed, and on what machine: what the report of a bug needs."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from trevision.data.named.locations import cache_folder
from trevision.data.sources import available
from trevision.extras import PACKAGES, is_installed
from trevision.runs.provenance import code
from trevision.training.processor import cpu

GB = 2**30


def described(data_dir: Path | None = None) -> Iterator[tuple[str, str]]:
    """What the machine and the installation are, as names and values of one line each."""
    yield "trevision", _own_version()
    yield "python", f"{platform.python_version()} ({platform.python_implementation()}), {platform.platform()}"
    yield "packages", _packages()
    yield "processor", _processor()
    yield "threads", _threads()
    yield "devices", _devices()
    yield "bfloat16", _bfloat16()
    yield "memory", _memory()
    for name, folder in (
        ("here", Path.cwd()),
        ("temporary", Path(tempfile.gettempdir())),
        ("cache", _cache()),
    ):
        free = shutil.disk_usage(folder).free / GB
        can = "" if os.access(folder, os.W_OK) else ", cannot be written to"
        yield f"disk ({name})", f"{free:.1f} GB free at {_without_home(folder)}{can}"
    found = [f"{one.name} in {_without_home(one.found_at)}" for one in available(data_dir) if one.found_at]
    yield "data sets", ", ".join(found) or "none found"


def _own_version() -> str:
    known = code()
    if "commit" not in known:
        return str(known["version"])
    return f"{known['version']}, commit {known['commit'][:12]}{'' if known['clean'] else ', changed'}"


def _packages() -> str:
    """The versions of everything that pyproject.toml asks for, and what is not installed."""
    try:
        asked = requires("trevision") or []
    except PackageNotFoundError:
        return "not installed: imported from a folder of source files"
    extras = "|".join(PACKAGES)
    names = [
        line.split(";")[0]
        for line in asked
        if "extra ==" not in line or line.split("extra ==")[1].strip(" '\"") in extras.split("|")
    ]
    told = []
    for name in dict.fromkeys(_package_name(name) for name in names):
        try:
            told.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            told.append(f"{name} not installed")
    return ", ".join(told)


def _package_name(requirement: str) -> str:
    for place, sign in enumerate(requirement):
        if not (sign.isalnum() or sign in "-_."):
            return requirement[:place]
    return requirement


def _processor() -> str:
    known = cpu()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    flags = " ".join(name for name, has in known.items() if has is True)
    return f"{known['name']}, {usable} of {os.cpu_count()} cores, {flags or 'no vector instructions known'}"


def _threads() -> str:
    set_ = [
        f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ
    ]
    if not is_installed("torch"):
        return ", ".join(set_) or "as numpy chooses"
    import torch

    return ", ".join([f"torch takes {torch.get_num_threads()}", *set_])


def _devices() -> str:
    if not is_installed("torch"):
        return "no torch (pip install 'trevision[torch]'); networks cannot be trained, everything else works"
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join(["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])])


def _bfloat16() -> str:
    if not is_installed("torch") or not is_installed("lightning_fabric"):
        return "not measured without torch"
    from trevision.training.precision import LEAST_SPEEDUP, bfloat16_speedup

    speedup = bfloat16_speedup()
    return (
        f"{speedup:g} times as fast as single precision; {'used' if speedup >= LEAST_SPEEDUP else 'not used'}"
    )


def _memory() -> str:
    told = []
    with suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        total, free = (kilobytes[name] * 1024 / GB for name in ("MemTotal", "MemAvailable"))
        told.append(f"{free:.1f} of {total:.1f} GB free")
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        told.append(f"limited to {limit / GB:.1f} GB")
    return ", ".join(told) or "not told by this system"


def _cache() -> Path:
    folder = cache_folder()
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _without_home(path: Path) -> str:
    """A path that may be shown to others: the home folder, which has a person's name, is ~."""
    with suppress(RuntimeError, ValueError):
        return f"~/{path.resolve().relative_to(Path.home().resolve()).as_posix()}"
    return str(path)
