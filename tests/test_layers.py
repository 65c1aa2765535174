"""A room imports only rooms below it, in the order in which ARCHITECTURE.md lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "trevision"
ENTRANCES = {"__init__", "__main__"}  # they may import anything


def rooms() -> list[str]:
    """The rooms from top to bottom, as the first list of ARCHITECTURE.md has them."""
    listing = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1]
    return re.findall(r"^  ([a-z]+)(?:/|\.py)\s", listing, re.MULTILINE)


def imported_rooms(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue  # a relative import stays in its room
        yield from (name.split(".")[1] for name in modules if name.startswith("trevision."))


def upward_imports(package: Path, order: list[str]) -> list[str]:
    """`file: room` for every import of a room above the file's own."""
    upward = []
    for path in sorted(package.rglob("*.py")):
        own = path.relative_to(package).parts[0].removesuffix(".py")
        above = [] if own in ENTRANCES else order[: order.index(own)]
        upward += [f"{path.relative_to(package)}: {room}" for room in imported_rooms(path) if room in above]
    return upward


def test_the_list_names_every_room():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert sorted(rooms()) == sorted(packages | modules - ENTRANCES)


def test_no_room_imports_one_above_it():
    assert upward_imports(PACKAGE, rooms()) == []


@pytest.mark.parametrize("line", ["from trevision.methods import problem", "import trevision.cli.fit"])
def test_an_upward_import_is_found(tmp_path, line):
    (tmp_path / "estimation").mkdir()
    (tmp_path / "estimation" / "planted.py").write_text(f"def late():\n    {line}\n", encoding="utf-8")
    (finding,) = upward_imports(tmp_path, rooms())
    assert finding == f"estimation/planted.py: {line.split('.')[1].split()[0]}"
