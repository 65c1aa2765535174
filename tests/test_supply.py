"""What is depended on: pinned versions have hashes and licences, and the lowest are those claimed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(path: str) -> dict[str, str]:
    """The version that a file pins of each package."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", (ROOT / path).read_text(), flags=re.MULTILINE)
    return {canonical(name): version for name, version in found}


def claimed(*extras: str) -> dict[str, str]:
    """The lowest version of each direct dependency that pyproject.toml claims."""
    lines = PROJECT["dependencies"] + [
        line for extra in extras for line in PROJECT["optional-dependencies"][extra]
    ]
    found = [re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in lines]
    assert all(found), lines
    return {canonical(one[1]): one[2] for one in found if one}


def same(one: str, other: str) -> bool:
    """Whether two versions are equal, 2.4 and 2.4.0 among them."""
    parts = [[int(part) for part in version.split(".")] for version in (one, other)]
    most = max(map(len, parts))
    return len({tuple(each + [0] * (most - len(each))) for each in parts}) == 1


def test_the_tests_with_the_lowest_versions_use_the_versions_that_are_claimed():
    lowest = pinned("constraints-oldest.txt")
    for name, version in claimed("torch", "images", "ray", "bench").items():
        assert same(lowest[name], version), f"{name}: {lowest[name]} is tested, {version} is claimed"


def test_every_pinned_package_has_the_same_version_in_the_lock_and_a_hash():
    lock = (ROOT / "supply" / "requirements.lock").read_text()
    blocks = re.findall(r"^([\w.-]+)==(\S+) ?([^\n]*(?:\n {4}[^\n]+)*)", lock, flags=re.MULTILINE)
    hashed = {canonical(name): version for name, version, rest in blocks if "--hash=sha256:" in rest}
    assert hashed.keys() == pinned("supply/requirements.lock").keys()
    for name, version in pinned("constraints.txt").items():
        assert hashed.get(name) == version, name


def test_every_pinned_package_has_a_licence_on_the_page():
    page = (ROOT / "docs" / "licences.md").read_text()
    listed = {
        canonical(name): version
        for name, version in re.findall(r"^\| ([\w.-]+) \| ([\d.\w]+)", page, re.MULTILINE)
    }
    for name, version in pinned("constraints.txt").items():
        assert listed.get(name) == version, name
    assert "see its own files" not in page
