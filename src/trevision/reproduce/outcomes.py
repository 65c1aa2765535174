"""The state of each run of a plan: finished, failed or missing, and by which code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trevision.files import read_json
from trevision.reproduce.archive import find_run, run_folder
from trevision.reproduce.estimators import lacking
from trevision.reproduce.plans import Planned
from trevision.runs import provenance
from trevision.runs.named_files import check_unchanged
from trevision.runs.settings import canonical, run_config

ERROR_FILE = "error.json"


@dataclass(frozen=True)
class Outcome:
    """The state of a run: its result, or why there is none.

    A finished comparison of estimators may lack the row's estimator; `reason` then says why.
    """

    state: Literal["finished", "failed", "missing", "unavailable"]
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the run failed, or the row's estimator in a finished run."""
        return self.state == "failed" or (self.state == "finished" and bool(self.reason))

    @property
    def numerics(self) -> int:
        return provenance.numerics_of(self.result)

    @property
    def is_older(self) -> bool:
        """Whether it was made by older code, whose numbers may differ."""
        return self.state == "finished" and self.numerics < provenance.NUMERICS


def outcome(run: Planned, results: Path) -> Outcome:
    """The state of a run, from its folder and the files of tables.

    Raises a ValueError if another config is stored under the run's name, or if a file that the config names
    has changed since.
    """
    folder = run_folder(results, run.name)
    begun = _read_json(folder / "config.json")
    if begun is not None:
        _check(run, folder / "config.json", canonical(begun), begun.get("files", {}))
    recorded = find_run(run.name, results)
    if recorded is not None and recorded.home != folder:
        files = {name: {"path": name, "sha256": digest} for name, digest in recorded.files.items()}
        _check(run, recorded.home, recorded.config, files)
    result = None if recorded is None else recorded.result
    if result is not None and run.row.is_estimator:
        result = _part(result, run.row.name)
    if result is not None:
        return Outcome("finished", result, result.get("error", ""))
    if not run.is_available:
        return Outcome("unavailable", reason=run.row.lacking)
    if (error := _read_json(folder / ERROR_FILE)) is not None:
        return Outcome("failed", reason=f"{error.get('error', 'Error')}: {error.get('reason', '')}")
    return Outcome("missing")


def _check(run: Planned, home: Path, config: dict[str, Any], files: dict[str, Any]) -> None:
    if config != canonical(run_config(run.source, run.settings)):
        raise ValueError(f"{home} must hold the run {run.name} that its name stands for, but holds another's")
    try:
        check_unchanged(files)
    except ValueError as changed:
        raise ValueError(f"{home}: {changed}") from None


def unfinished(runs: Iterable[Planned], results: Path, refresh: bool = False) -> list[Planned]:
    """The runs to do, each once: those without a result whose method exists, and failed runs.

    Parameters
    ----------
    runs
        The runs of a plan.
    results
        The folder of results.
    refresh
        Also repeat runs made by older code.

    Returns
    -------
    list of Planned
    """
    to_do = {}
    for run in runs:
        how = outcome(run, results)
        anew = refresh and how.is_older and run.is_available
        if anew:
            _check_nothing_is_lost(run, how)
        if anew or how.state == "missing" or how.has_failed:
            to_do[run.name] = run
    return list(to_do.values())


def _check_nothing_is_lost(run: Planned, how: Outcome) -> None:
    """Raise a ValueError if a repeated comparison would lack an estimator of the recorded one."""
    for name in how.result.get("estimates", {}):
        if why := lacking(name):
            raise ValueError(
                f"refresh must not lose what is recorded of {name} in {run.label}, but {why}; "
                "install it, or leave the rows of estimators out with --methods"
            )


def _part(comparison: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The result of one estimator in a comparison of several; None if it is not part of it."""
    part = comparison["estimates"].get(name)
    if part is None:
        return None
    return comparison | part | {"seconds": comparison["seconds"] + part.get("seconds", 0.0)}


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None
