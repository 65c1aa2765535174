"""The suspect labels of a run, scored out of sample, as files in its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from trevision.data.dataset import Dataset
from trevision.data.files.arrays import npz_members
from trevision.data.rows import places_of
from trevision.estimation import BOOTSTRAP, Finding, RowSource, diagnose
from trevision.files import DataError, write_atomically, write_json
from trevision.issues import LabelIssues, find_label_issues
from trevision.methods import cross_fit
from trevision.runs.noise_estimate import Watch, WatchedRows, listed, of_replicates
from trevision.runs.prepare import make_problem, prepare, read_source
from trevision.runs.run_folder import OUT_OF_SAMPLE_FILE, save_out_of_sample
from trevision.runs.settings import Hardware, Settings, settings_of
from trevision.training.checkpoint import FolderStore
from trevision.training.model_files import load_model
from trevision.training.progress import NoProgress, Progress
from trevision.training.runtime import Runtime, launch

ISSUES_CSV, ISSUES_PARQUET, NOISE_JSON = "issues.csv", "issues.parquet", "noise.json"

SCORED_BY = (
    "Each row was scored by a network that was not trained on it: the rows were divided into {folds} parts, "
    "and for each part a network was trained on the others with plain cross-entropy, for the few "
    "epochs of the first stage. T and the clean posterior were then fitted to these predictions by maximum "
    "likelihood."
)


def has_issues(folder: Path) -> bool:
    """Whether the labels of a run have been scored."""
    return (folder / ISSUES_PARQUET).is_file() and (folder / NOISE_JSON).is_file()


@dataclass(frozen=True, eq=False)
class RunIssues:
    """What was found in a run: the table of all rows, most suspicious first, and the noise behind it."""

    table: pd.DataFrame
    issues: LabelIssues
    findings: list[Finding]
    class_names: tuple[str, ...]


def find_run_issues(
    folder: Path,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    data_dir: Path | None = None,
    reading: Callable[[int, int | None], None] | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> RunIssues:
    """Score every label that the run in `folder` learnt from, and write issues.csv, .parquet and noise.json.

    The out-of-sample predictions are those that `fit` made and kept; a run that made none makes them now.
    `reading`, `progress` and `watch` are told how reading, training and estimating come along.
    """
    saved = load_model(folder)
    if "source" not in saved.config:
        raise DataError(f"{folder} does not say what it was trained on: only runs of `trevision fit` do")
    source, settings = settings_of(saved.config)
    dataset = read_source(folder, source, settings, data_dir, reading)
    path = folder / OUT_OF_SAMPLE_FILE
    if not path.is_file():
        _predict_out_of_sample(folder, source, settings, dataset, progress or NoProgress())
    arrays = npz_members(path)
    needed = ("probs", "labels", "rows", "folds")
    if lacking := [name for name in needed if name not in arrays]:
        raise DataError(f"{path}: lacks {', '.join(lacking)}; remove it to have it made again")
    probs, labels, rows, folds = (arrays[name] for name in needed)
    watched: RowSource = probs if watch is None else WatchedRows(probs, watch)
    told = of_replicates(watch)
    issues = find_label_issues(watched, labels, None, bootstrap, level, settings.seed, told)
    findings = diagnose(probs, labels, issues.estimate, dataset.class_names, settings.seed)
    found = RunIssues(_table(issues, dataset, rows), issues, findings, dataset.class_names)
    _write(folder, found, int(folds))
    return found


def _predict_out_of_sample(
    folder: Path, source: str, settings: Settings, dataset: Dataset, progress: Progress
) -> None:
    hardware = Hardware()
    torch.set_num_threads(hardware.threads or torch.get_num_threads())
    data, _ = prepare(dataset, settings, hardware.accelerator)
    # An interrupted command continues, as `fit` does.
    store = FolderStore(folder / "checkpoints")
    fabric = launch(hardware.accelerator, hardware.devices, hardware.precision)
    problem = make_problem(source, settings, data, None, Runtime(fabric, store, progress))
    save_out_of_sample(folder, cross_fit(problem), data)
    store.clear()


def _table(issues: LabelIssues, dataset: Dataset, rows: np.ndarray) -> pd.DataFrame:
    """A line a row, most suspicious first, in the words of the source."""
    order = issues.order
    numbers, names = rows[order], np.array(dataset.class_names)
    if dataset.names is None:
        called = numbers.astype(str)
    else:
        places = places_of(dataset, numbers)
        if (places < 0).any():
            raise DataError(f"{dataset.name} has lost rows since the run read it; fit again")
        called = dataset.names[places]
    return pd.DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "row": numbers,
            "name": called,
            "given": names[issues.given[order]],
            "suggested": names[issues.suggested[order]],
            "p_given": issues.p_given[order],
            "p_suggested": issues.p_suggested[order],
            "suspect": issues.suspect[order],
        }
    )


def _write(folder: Path, found: RunIssues, folds: int) -> None:
    table, made = found.table, found.issues.estimate
    write_atomically(folder / ISSUES_CSV, lambda path: table.to_csv(path, index=False, float_format="%.6g"))
    write_atomically(folder / ISSUES_PARQUET, lambda path: table.to_parquet(path, index=False))
    wrong, low, high = found.issues.wrong
    write_json(
        folder / NOISE_JSON,
        {
            "classes": list(found.class_names),
            "rows": made.rows,
            "level": made.level,
            "wrong": {"estimate": wrong, "low": low, "high": high},
            "class_prior": made.class_prior.tolist(),
            "transition": made.transition.tolist(),
            "low": listed(made.transition_low),
            "high": listed(made.transition_high),
            "joint": made.joint.tolist(),
            "diagnosis": [asdict(finding) for finding in found.findings],
            "estimator": made.estimator,
            "converged": made.converged,
            "resampling": made.resampling,
            "scored_by": SCORED_BY.format(folds=folds),
        },
    )
