"""Read and check the files of a run folder for the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trevision.report.annotators import CrowdPart, crowd_part
from trevision.report.posterior import RowPosterior, posterior_of
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
    """A finished run and the results of `trevision issues`; or those of probabilities alone."""

    folder: Path | None
    """None for probabilities alone, which have no settings, result or history either."""
    source: str
    settings: Settings
    result: dict[str, Any]
    history: list[dict[str, Any]]
    shape: tuple[int, ...]
    """Of a sample: (features,), or (channels, height, width) of a picture."""
    noise: FoundNoise
    suspects: list[Suspect]
    """Every label, most suspicious first; of probabilities alone the first of them, and some others."""
    posterior: RowPosterior | None
    """What the model says of rows that it was not trained on; None where that was not kept."""
    crowd: CrowdPart | None = None
    """The annotators, if the run learnt from several labels a row."""
    audit: Audited | None = None
    """What an audit told, if there was one."""
    all_likely: int | None = None
    """The number of likely suspects, where `suspects` does not hold all of them."""
    columns: frozenset[str] | None = None
    """The columns of a table that were learnt from: others only name a row, or tell its label."""

    @property
    def likely(self) -> int:
        """The number of labels that are probably wrong."""
        return (
            sum(suspect.likely for suspect in self.suspects) if self.all_likely is None else self.all_likely
        )


def read_run(folder: Path | RunFolder) -> RunRecord:
    """Read everything that the page shows. An error about a missing file names the command that writes it."""
    run = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    return RunRecord(
        folder=run.path,
        source=run.source,
        settings=run.settings,
        result=run.result,
        history=run.history,
        shape=run.card.shape,
        noise=run.noise,
        suspects=_suspects(run),
        posterior=posterior_of(run),
        crowd=crowd_part(run) if run.has_annotators else None,
        audit=read_audited(run.path),
        columns=None if run.columns is None else frozenset(column.name for column in run.columns),
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


def with_other_labels(run: RunRecord, listed: list[Suspect]) -> list[Suspect]:
    """The suspects, none with a suggestion that is the label it has, and with what the model says of both.

    Where the number of wrong labels cannot be told T is not relied on, so that the model's own probabilities
    are shown. A row whose given label is the likeliest gets the likeliest other one.
    """
    rests_on_model = run.noise.count is not None and not run.noise.count.told
    same = any(one.suggested == one.given for one in listed)
    if run.posterior is None or not listed or not (rests_on_model or same):
        return listed
    code_of = {name: code for code, name in enumerate(run.noise.classes)}
    shown = []
    for one, probs in zip(listed, run.posterior.of([one.row for one in listed]), strict=True):
        given, suggested = code_of[one.given], code_of[one.suggested]
        if given == suggested:
            others = probs.copy()
            others[given] = -1.0
            suggested = int(others.argmax())
        elif not rests_on_model:
            shown.append(one)
            continue
        p_given, p_suggested = float(probs[given]), float(probs[suggested])
        shown.append(
            replace(one, suggested=run.noise.classes[suggested], p_given=p_given, p_suggested=p_suggested)
        )
    return shown
