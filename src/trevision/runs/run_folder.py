"""The files of a run folder: which run it holds, whether it is finished, and what it found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trevision.data.noisy import NoisyData
from trevision.files import read_json, write_atomically
from trevision.methods.problem import OutOfSample
from trevision.runs.named_files import check_unchanged
from trevision.runs.settings import canonical

OUT_OF_SAMPLE_FILE = "probabilities.npz"
ALWAYS_TOLD = ("method", "seed", "noise", "epochs", "seconds")
"""What every result.json tells, whatever was run."""


def finished_result(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a finished run of this config; an error if the folder is another run's."""
    path = folder / "config.json"
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"out must be a new folder or that of an earlier run, got {folder}")
        return None
    found = read_json(path)
    known, wanted = canonical(found), canonical(config)
    if known != wanted:
        changed = sorted(key for key in known | wanted if known.get(key) != wanted.get(key))
        raise ValueError(
            f"{folder} holds a run with another {', '.join(changed) or 'configuration'}; "
            "choose another folder, or remove it"
        )
    check_unchanged(found.get("files", {}))
    return read_result(folder) if (folder / "result.json").exists() else None


def read_result(folder: Path) -> dict[str, Any]:
    """What a finished run's result.json holds."""
    path = folder / "result.json"
    result = read_json(path)
    if lacking := [key for key in ALWAYS_TOLD if key not in result]:
        raise ValueError(
            f"{path} must be the result of a run, but lacks {', '.join(lacking)}; was it edited?"
        )
    return result


def save_out_of_sample(folder: Path, found: OutOfSample, data: NoisyData) -> None:
    """Write probabilities.npz: P(noisy | x) of every row, its noisy label and its number in the source."""
    probs, labels = found.rows(data)
    rows = np.concatenate([data.train_rows, data.valid_rows])

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, probs=probs, labels=labels, rows=rows, folds=found.folds)

    write_atomically(folder / OUT_OF_SAMPLE_FILE, write)


def write_metrics(folder: Path, history: Sequence[dict[str, Any]]) -> None:
    """Write metrics.jsonl, a line an epoch."""
    lines = "".join(json.dumps(record) + "\n" for record in history)
    write_atomically(folder / "metrics.jsonl", lambda path: path.write_text(lines, encoding="utf-8"))
