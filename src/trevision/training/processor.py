"""The processor: its name, and the instructions that affect the last bits of a result."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""CPU instructions that affect the last bits of a result."""


@cache
def cpu() -> dict[str, Any]:
    """The processor's name, and which of CPU_FLAGS it has; None if the system does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return cpu_from(text)


def cpu_from(cpuinfo: str) -> dict[str, Any]:
    """The same from the text of /proc/cpuinfo."""
    entries: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        entries.setdefault(key.strip(), value.strip())
    flags = entries["flags"].split() if "flags" in entries else None
    name = entries.get("model name") or platform.processor() or platform.machine()
    return {"name": name, **{flag: None if flags is None else flag in flags for flag in CPU_FLAGS}}
