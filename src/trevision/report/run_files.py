"""What a run folder holds, read and checked once for the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from trevision.files import read_json
from trevision.runs.run_folder import read_result
from trevision.runs.settings import Settings, settings_of
from trevision.training.model_files import load_model

VERDICTS = ("good", "caution", "bad")

ISSUE_COLUMNS = ("row", "name", "given", "suggested", "p_given", "p_suggested", "suspect")


@dataclass(frozen=True)
class Suspect:
    """A label and what is suspected of it; `likely` if it is among the estimated number of wrong ones."""

    row: int
    name: str
    given: str
    suggested: str
    p_given: float
    p_suggested: float
    likely: bool


@dataclass(frozen=True)
class Finding:
    """One check of T in a plain sentence, with its verdict, one of `VERDICTS`."""

    check: str
    verdict: str
    sentence: str


@dataclass(frozen=True)
class FoundNoise:
    """noise.json: the label noise as estimated out of sample, with intervals of confidence `level`.

    `low` and `high` are None where no intervals were made.
    """

    classes: tuple[str, ...]
    rows: int
    level: float
    wrong: tuple[float, float | None, float | None]
    """The number of wrong labels: estimate, low, high."""
    transition: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    joint: np.ndarray
    findings: tuple[Finding, ...]
    scored_by: str


@dataclass(frozen=True)
class RunRecord:
    """A finished run and what `trevision issues` found in it."""

    folder: Path
    source: str
    settings: Settings
    result: dict[str, Any]
    history: list[dict[str, Any]]
    shape: tuple[int, ...]
    """Of a sample: (features,), or (channels, height, width) of a picture."""
    initial: np.ndarray
    revised: np.ndarray
    noise: FoundNoise
    suspects: list[Suspect]
    """Every label, most suspicious first."""


def read_run(folder: Path) -> RunRecord:
    """Read a run folder; an error says which command writes what is missing."""
    saved = load_model(folder)
    source, settings = settings_of(saved.config)
    _written_by(folder / "result.json", "fit")
    result = read_result(folder)
    history = _read_lines(_written_by(folder / "metrics.jsonl", "fit"))
    noise = read_noise(_written_by(folder / "noise.json", "issues"))
    suspects = read_suspects(_written_by(folder / "issues.parquet", "issues"), noise.classes)
    classes = tuple(map(str, saved.card.classes))
    if noise.classes != classes:
        raise ValueError(
            f"{folder / 'noise.json'} must have the {len(classes)} classes of the run, got "
            f"{len(noise.classes)} that are not the same; run `trevision issues {folder}` again"
        )
    return RunRecord(
        folder=folder,
        source=source,
        settings=settings,
        result=result,
        history=history,
        shape=saved.card.shape,
        initial=saved.initial_transition,
        revised=saved.transition,
        noise=noise,
        suspects=suspects,
    )


def read_noise(path: Path) -> FoundNoise:
    """noise.json, with every matrix checked to be square in its classes."""
    found = read_json(path)
    try:
        classes = tuple(map(str, found["classes"]))
        ends = () if found["low"] is None and found["high"] is None else ("low", "high")
        matrices = {name: np.array(found[name], dtype=float) for name in ("transition", "joint", *ends)}
        for name, matrix in matrices.items():
            if matrix.shape != (len(classes), len(classes)) or not np.isfinite(matrix).all():
                raise ValueError(f"{name} is not a matrix of {len(classes)} x {len(classes)} numbers")
        wrong = found["wrong"]
        return FoundNoise(
            classes=classes,
            rows=int(found["rows"]),
            level=float(found["level"]),
            wrong=(
                float(wrong["estimate"]),
                float(wrong["low"]) if ends else None,
                float(wrong["high"]) if ends else None,
            ),
            transition=matrices["transition"],
            low=matrices.get("low"),
            high=matrices.get("high"),
            joint=matrices["joint"],
            findings=tuple(
                Finding(str(one["check"]), _verdict(one["verdict"]), str(one["sentence"]))
                for one in found["diagnosis"]
            ),
            scored_by=str(found["scored_by"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: {what}; run `trevision issues {path.parent}` again") from None


def read_suspects(path: Path, classes: tuple[str, ...]) -> list[Suspect]:
    """The labels of issues.parquet, in its order."""
    again = f"run `trevision issues {path.parent}` again"
    try:
        table = pyarrow.parquet.read_table(path, columns=list(ISSUE_COLUMNS))
    except (pyarrow.ArrowInvalid, KeyError) as error:
        raise ValueError(
            f"{path} must be a whole Parquet file of suspect labels ({error}); {again}"
        ) from None
    if missing := set(ISSUE_COLUMNS) - set(table.column_names):
        raise ValueError(f"{path} must have the columns {', '.join(sorted(missing))}; {again}")
    columns = [table.column(name).to_pylist() for name in ISSUE_COLUMNS]
    suspects = [Suspect(*values) for values in zip(*columns, strict=True)]
    named = {one.given for one in suspects} | {one.suggested for one in suspects}
    if unknown := named - set(classes):
        raise ValueError(f"{path} names the class {min(unknown)!r}, which noise.json does not; {again}")
    return suspects


def _verdict(word: str) -> str:
    if word not in VERDICTS:
        raise ValueError(f"a verdict must be one of {', '.join(VERDICTS)}, got {word!r}")
    return word


def _written_by(path: Path, command: str) -> Path:
    """`path`, or an error that names the command that would have written it."""
    if path.is_file():
        return path
    if command == "issues":
        raise ValueError(f"{path.parent} has no {path.name}; run `trevision issues {path.parent}` first")
    raise ValueError(
        f"{path.parent} must be a finished run of `trevision fit`: it has no {path.name}; "
        "the command that started the run continues it"
    )


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise ValueError(
            f"{path} must be JSON, a line an epoch, but is not ({error}); was it edited?"
        ) from None
