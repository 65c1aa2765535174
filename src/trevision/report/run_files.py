"""Read and check the files of a run folder for the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.report.annotators import CrowdPart, crowd_part
from trevision.runs.audit_files import Audited, read_audited
from trevision.runs.issue_files import ISSUE_COLUMNS, ISSUES_PARQUET, FoundNoise
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Settings


@dataclass(frozen=True)
class Suspect:
    """A given and a suggested label; `likely` if it is among the estimated number of wrong labels."""

    row: int
    name: str
    given: str
    suggested: str
    p_given: float
    p_suggested: float
    likely: bool
    score: float


@dataclass(frozen=True)
class RunRecord:
    """A finished run and the results of `trevision issues`."""

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
    crowd: CrowdPart | None = None
    """The annotators, if the run learnt from several labels a row."""
    audit: Audited | None = None
    """What an audit told, if there was one."""


def read_run(folder: Path | RunFolder) -> RunRecord:
    """Read everything that the page shows. An error about a missing file names the command that writes it."""
    run = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    initial, revised = run.transitions
    return RunRecord(
        folder=run.path,
        source=run.source,
        settings=run.settings,
        result=run.result,
        history=run.history,
        shape=run.card.shape,
        initial=initial,
        revised=revised,
        noise=run.noise,
        suspects=_suspects(run),
        crowd=crowd_part(run) if run.has_annotators else None,
        audit=read_audited(run.path),
    )


def _suspects(run: RunFolder) -> list[Suspect]:
    """The labels of issues.parquet, in its order."""
    columns = [run.issues.column(name).to_pylist() for name in ISSUE_COLUMNS]
    suspects = [Suspect(*values) for values in zip(*columns, strict=True)]
    named = {suspect.given for suspect in suspects} | {suspect.suggested for suspect in suspects}
    if unknown := named - set(run.noise.classes):
        raise ValueError(
            f"{run.path / ISSUES_PARQUET} names the class {min(unknown)!r}, which noise.json does not; "
            f"run `trevision issues {run.path}` again"
        )
    return suspects
