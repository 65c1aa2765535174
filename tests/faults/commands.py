"""The commands that are disturbed: what they need, what they write, and what of it must be equal."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROWS = 150
UNTOLD = ("seconds", "date", "commit", "clean")
"""What of a result depends on the clock or the checkout."""


@dataclass(frozen=True)
class Command:
    """A command that is run in a folder which `ready` has made."""

    name: str
    words: tuple[str, ...]
    ready: Callable[[Path], None]
    share: int
    """How many of a hundred kills are for it."""
    slow: bool = False
    """Whether it is left out of the short test."""
    left_out: tuple[str, ...] = field(default=(".lock", ".stages", "checkpoints"))


def table(folder: Path) -> None:
    """A table with a column that tells two classes apart, some labels wrong."""
    rng = np.random.default_rng(0)
    clean = np.arange(ROWS) % 2
    label = np.where(rng.random(ROWS) < 0.2, 1 - clean, clean)
    size = rng.normal(4 * clean, 1)
    lines = [f"{x:.3f},{'ab'[code]}" for x, code in zip(size, label, strict=True)]
    (folder / "data.csv").write_text("\n".join(["size,label", *lines, ""]), encoding="utf-8")


FIT = ("fit", "data.csv", "--method", "forward", "--threads", "1", "--out", "run")
LINEAR = ("fit", "data.csv", "--model", "linear", "--threads", "1", "--out", "run")
GRID = ("reproduce", "table3", "--dataset", "digits", "--methods", "standard", "forward", "--noise", "sym-20")
GRID += ("--seeds", "1", "--train-size", "150", "--results", "results")
CORRECTIONS = "corrections.csv"


def fitted(folder: Path) -> None:
    """A finished run, scored, with corrections of it."""
    from trevision.cli import main

    table(folder)
    main([*LINEAR])
    main(["issues", "run", "--bootstrap", "10"])
    listed = list(csv.DictReader(io.StringIO((folder / "run" / "issues.csv").read_text())))
    with (folder / CORRECTIONS).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["row", "name", "given", "corrected", "decision"])
        for line in listed[:10]:
            other = "a" if line["given"] == "b" else "b"
            lines.writerow([line["row"], line["name"], line["given"], other, "change"])


COMMANDS = {
    one.name: one
    for one in (
        Command("fit", FIT, table, share=30),
        Command("fit a model", LINEAR, table, share=15),
        Command("issues", ("issues", "run", "--bootstrap", "10"), fitted, share=10),
        Command("report", ("report", "run"), fitted, share=15),
        Command("apply", ("apply", "run", CORRECTIONS, "--out", "cleaned.csv"), fitted, share=12),
        Command("audit", ("audit", "run", "--rows", "20"), fitted, share=12),
        Command("grid", (*GRID, "--workers", "1"), lambda _: None, share=5, slow=True),
        Command("Ray grid", (*GRID, "--ray", "local"), lambda _: None, share=1, slow=True),
    )
}


def content(folder: Path, left_out: tuple[str, ...]) -> dict[str, object]:
    """Everything in a folder that must be equal, by its path; what tells the time is left out."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_dir() or any(part.startswith(".") or part in left_out for part in parts):
            continue
        found["/".join(parts)] = _timeless_file(path)
    return found


def _timeless_file(path: Path) -> object:
    if path.suffix == ".skops":
        return _skops(path)
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if path.name.endswith("-epochs.parquet"):
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path, use_threads=False).drop_columns("seconds").to_pylist()
    if path.suffix in (".md", ".tex", ".svg") and "tables" in path.parts:
        return "a page of the grid"  # which says how long it took
    return path.read_bytes()


def _skops(path: Path) -> str:
    """The contents of a skops file. It names objects by where they lay in memory, which says nothing."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = re.sub(r'"__id__": [0-9]+', "", members["schema.json"].decode())
    return re.sub(r'"([0-9]+\.np[yz])"', lambda found: repr(members[found[1]]), schema)


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if key not in UNTOLD}
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    return value


def fresh(template: Path, folder: Path) -> Path:
    """An empty folder filled from a template."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    return folder
