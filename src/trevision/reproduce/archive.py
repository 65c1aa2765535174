"""Recorded runs: for each table a file with one line per run, and a file with one row per epoch.

A run is done in its own folder, `runs/<name>`. When finished, it is recorded in the files of its table:

- `<table>.jsonl`: name, config, result and learnt T of each run, sorted by noise, anchors, method and seed;
- `<table>-epochs.parquet`: the records of metrics.jsonl, with the name of the run.

These files are kept and shared; run folders may be removed. A run that belongs to several tables is in the
files of each, and recording it again changes all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from trevision.files import read_json, write_atomically
from trevision.runs.provenance import numerics_of
from trevision.runs.settings import canonical

RUNS_FOLDER = "runs"
EPOCHS_ENDING = "-epochs.parquet"
EPOCH_COLUMNS = (
    *("run", "stage", "epoch", "train_loss", "noisy_validation_error", "noisy_validation_loss"),
    *("test_accuracy", "transition_error", "transition_row_sums", "seconds"),
)
"""The first columns of the epochs; any others follow by name."""

Matrix = list[list[float | None]]
Epoch = dict[str, Any]
Contents = TypeVar("Contents")


@dataclass(frozen=True)
class Recorded:
    """A finished run: a line of a table's file, or a run folder."""

    name: str
    config: dict[str, Any]
    """In its canonical form."""
    result: dict[str, Any]
    transition: Matrix | dict[str, Matrix] | None = None
    """The learnt T; for a comparison of estimators, the T of each by name."""
    files: dict[str, str] = field(default_factory=dict)
    """The digests of the files that the config names. Their paths are not recorded."""
    home: Path = field(default=Path(), compare=False)
    """The file or folder from which it was read."""

    @property
    def age(self) -> tuple[int, str]:
        """A sort key that is larger for the newer of two results: by numerics, then by date."""
        return numerics_of(self.result), str(self.result.get("date", ""))

    def line(self) -> str:
        files = {"files": self.files} if self.files else {}
        contents = {"name": self.name, "config": self.config, **files, "result": self.result}
        return json.dumps(contents | {"transition": self.transition}, ensure_ascii=False, allow_nan=False)


def run_folder(results: Path, name: str) -> Path:
    """The folder of a run."""
    return results / RUNS_FOLDER / name


def find_run(name: str, results: Path) -> Recorded | None:
    """A finished run from its folder or from the files of tables; the newer one if they differ.

    They differ if the files were copied from elsewhere, or if a refreshed run has just ended.
    """
    candidates = [lines[name] for lines in map(read_lines, table_files(results)) if name in lines]
    if (in_folder := read_run_folder(name, results)) is not None:
        candidates.insert(0, in_folder)
    return max(candidates, key=lambda run: run.age, default=None)


def epochs_of(run: Recorded) -> list[Epoch]:
    """The records of a run's metrics.jsonl, one per epoch."""
    if run.home.is_dir():
        lines = (run.home / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    return read_epochs(_epochs_path(run.home)).get(run.name, [])


def finished_names(results: Path) -> set[str]:
    """The names of all finished runs of a folder of results."""
    recorded = {name for path in table_files(results) for name in read_lines(path)}
    return recorded | {path.parent.name for path in (results / RUNS_FOLDER).glob("*/result.json")}


def unrecorded(tables: Mapping[str, Collection[str]], results: Path) -> bool:
    """Whether `record` would change a file; arguments as there."""
    return bool(_changes(tables, results))


def record(tables: Mapping[str, Collection[str]], results: Path) -> None:
    """Write finished runs to the files of their tables. The caller holds the lock of the folder.

    Parameters
    ----------
    tables
        The names of the runs of each table, finished or not. Lines of other runs stay.
    results
        The folder of results.
    """
    for path, lines in _changes(tables, results).items():
        ordered = sorted(lines.values(), key=_sort_key)
        # The epochs first, so that a run with a line has its epochs even if this is stopped.
        _write_epochs(_epochs_path(path), ordered)
        _write_lines(path, ordered)


def _changes(tables: Mapping[str, Collection[str]], results: Path) -> dict[Path, dict[str, Recorded]]:
    """The files that have to change, with their new contents."""
    before = {path: read_lines(path) for path in table_files(results)}
    after = {path: dict(lines) for path, lines in before.items()}
    for table, names in tables.items():
        path = results / f"{table}.jsonl"
        for name in names:
            if (run := find_run(name, results)) is None:
                continue
            after.setdefault(path, {})[name] = run
            for lines in after.values():
                if name in lines:
                    lines[name] = run
    return {path: lines for path, lines in after.items() if lines != before.get(path)}


def table_files(results: Path) -> list[Path]:
    return sorted(results.glob("*.jsonl"))


def _epochs_path(table: Path) -> Path:
    return table.with_name(table.stem + EPOCHS_ENDING)


def _sort_key(run: Recorded) -> tuple[Any, ...]:
    """Sort by noise, anchors, method with its options, and seed."""
    config = run.config
    words = re.split(r"([0-9]+)", config.get("noise") or "")  # words and numbers in turn
    noise = [int(word) if number % 2 else word for number, word in enumerate(words)]
    options = json.dumps(config.get("options", {}))
    return noise, config.get("remove_anchors") or 0.0, config["method"], options, config["seed"], run.name


# Reading. A file is read again only if it has changed.

_READ: dict[Path, tuple[tuple[int, int, int], Any]] = {}


def _read_once(path: Path, read: Callable[[Path], Contents]) -> Contents:
    path = path.absolute()
    state = path.stat()
    stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
    if path not in _READ or _READ[path][0] != stamp:
        _READ[path] = (stamp, read(path))
    contents: Contents = _READ[path][1]
    return contents


def read_lines(path: Path) -> dict[str, Recorded]:
    """The runs of a table's file, by name."""
    return _read_once(path, _parse_lines)


def _parse_lines(path: Path) -> dict[str, Recorded]:
    runs = {}
    # Not splitlines, which would also split at rarer characters within a name.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            run = Recorded(**json.loads(line), home=path)
            if not isinstance(run.config, dict) or not isinstance(run.result, dict):
                raise ValueError("config and result must be objects")
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}, must be a recorded run, but is not ({error}); was it edited?"
            ) from None
        runs[run.name] = run
    return runs


def read_epochs(path: Path) -> dict[str, list[Epoch]]:
    """The epochs of a table's runs, by name of the run; empty if there is no such file."""
    return _read_once(path, _parse_epochs) if path.is_file() else {}


def _parse_epochs(path: Path) -> dict[str, list[Epoch]]:
    from pyarrow import parquet

    runs: dict[str, list[Epoch]] = {}
    for row in parquet.read_table(path).to_pylist():
        epoch = {key: value for key, value in row.items() if value is not None}
        runs.setdefault(epoch.pop("run"), []).append(epoch)
    return runs


def read_run_folder(name: str, results: Path) -> Recorded | None:
    """A run from its folder; None if it is not finished there."""
    folder = run_folder(results, name)
    if not (folder / "result.json").is_file() or not (folder / "config.json").is_file():
        return None
    config = read_json(folder / "config.json")
    transition: Matrix | dict[str, Matrix] | None = {
        path.stem.removeprefix("transition-"): _read_matrix(path)
        for path in sorted(folder.glob("transition-*.csv"))
    }
    if (folder / "transition.csv").is_file():
        transition = _read_matrix(folder / "transition.csv")
    files = {named: file["sha256"] for named, file in config.get("files", {}).items()}
    result = read_json(folder / "result.json")
    return Recorded(name, canonical(config), result, transition or None, files, folder)


def _read_matrix(path: Path) -> Matrix:
    """A matrix as written, with None for entries that are not finite."""
    try:
        matrix = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} must hold a matrix, but does not ({error}); was it edited?") from None
    return [[float(value) if np.isfinite(value) else None for value in row] for row in matrix]


def _write_lines(path: Path, runs: Iterable[Recorded]) -> None:
    text = "".join(f"{run.line()}\n" for run in runs)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _write_epochs(path: Path, runs: Iterable[Recorded]) -> None:
    """Write one row per epoch, in the order of the lines."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [{"run": run.name, **epoch} for run in runs for epoch in _epochs_if_any(run)]
    others = sorted({key for row in rows for key in row}.difference(EPOCH_COLUMNS))
    columns = {key: pa.array([row.get(key) for row in rows]) for key in (*EPOCH_COLUMNS, *others)}
    table = pa.table({key: column for key, column in columns.items() if column.null_count < len(rows)})
    write_atomically(path, lambda temporary: parquet.write_table(table, temporary, compression="zstd"))


def _epochs_if_any(run: Recorded) -> list[Epoch]:
    try:
        return epochs_of(run)
    except FileNotFoundError:
        return []
