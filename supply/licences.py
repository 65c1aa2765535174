"""List what trevision depends on, with versions and licences: `make licences` writes docs/licences.md.

Read from the metadata of what is installed. A package is listed once, under the first group that needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[1] / "docs" / "licences.md"
GROUPS = ("", "torch", "images", "ray", "bench", "docs", "dev")
"""The extras, the core first."""

HEAD = """# Licences

trevision is under the Apache License 2.0. It contains no code of others; what it depends on is installed
beside it. Written by `make licences` from the metadata of the versions in constraints.txt, as installed on
Linux with torch for the CPU. torch for Nvidia's GPUs also brings Nvidia's libraries (`nvidia-*`, `cuda-*`),
most of them under Nvidia's own licence, and triton (MIT).
"""


def licence(name: str) -> str:
    """The licence that a package declares: an expression, else what its classifiers or its text say."""
    known = distribution(name).metadata
    if known.get("License-Expression"):
        return str(known["License-Expression"])
    said = [line.split(" :: ") for line in known.get_all("Classifier") or () if line.startswith("License ::")]
    named = sorted({parts[-1] for parts in said if parts[-1] != "OSI Approved"})
    if named:
        return ", ".join(named)
    files = [file for file in distribution(name).files or () if "licen" in str(file).lower()]
    text = known.get("License") or "".join(file.read_text() for file in files[:1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[: 2 if "version" in "".join(lines[:2]).lower() else 1]) or "see its own files"


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """The names of everything that a package needs here, itself among them."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:  # for another system, or another build of torch
        return
    yield name
    for each in map(Requirement, requires):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield from needed(canonicalize_name(each.name), frozenset(each.extras), seen)


def page() -> str:
    """The text of docs/licences.md."""
    lines, listed = [HEAD], {"trevision"}
    counts: Counter[str] = Counter()
    for group in GROUPS:
        found = sorted(set(needed("trevision", frozenset({group}), set())) - listed)
        listed |= set(found)
        what = f"Added by the extra `{group}`" if group else "The core"
        lines += [f"## {what}", "| package | version | licence |", "|---|---|---|"]
        for name in found:
            lines.append(f"| {name} | {distribution(name).version} | {licence(name)} |")
            counts[licence(name)] += 1
        lines.append("")
    copyleft = sorted(each for each in counts if "GPL" in each and "LGPL" not in each)
    lines.append(
        f"{sum(counts.values())} packages. Under a GPL: {', '.join(copyleft) if copyleft else 'none'}. "
        f"Without a stated licence: {counts['see its own files'] or 'none'}."
    )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
