"""The files that `trevision issues` writes to a run folder: noise.json, issues.parquet and issues.csv."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.files import DamagedFile, read_json
from trevision.forms import NUMBER, check_form

if TYPE_CHECKING:
    import pyarrow as pa

ISSUES_CSV, ISSUES_PARQUET, NOISE_JSON = "issues.csv", "issues.parquet", "noise.json"

NOISE = {
    **{"classes": [str], "rows": int, "level": NUMBER, "transition": [[NUMBER]], "joint": [[NUMBER]]},
    **{"wrong": {"estimate": NUMBER, "low": NUMBER | None, "high": NUMBER | None}},
    **{"diagnosis": [{"check": str, "verdict": str, "sentence": str}], "scored_by": str},
    "count?": dict | None,
}
"""The types in a noise.json."""
VERDICTS = ("good", "caution", "bad")

ISSUE_COLUMNS = ("row", "name", "given", "suggested", "p_given", "p_suggested", "suspect", "score")


@dataclass(frozen=True)
class CheckOfT:
    """One check of T: its name, its verdict (one of `VERDICTS`) and a plain sentence."""

    check: str
    verdict: str
    sentence: str


@dataclass(frozen=True)
class FoundCount:
    """Whether the number of wrong labels can be told, why, and both readings of it in sentences.

    `as_range` says that it is told, but as a range of which T alone is not sure.
    """

    told: bool
    as_range: bool
    headline: str
    reason: str
    readings: str


@dataclass(frozen=True)
class FoundNoise:
    """noise.json: the label noise as estimated out of sample, with intervals of confidence `level`.

    `low` and `high` are None if there are no intervals.
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
    findings: tuple[CheckOfT, ...]
    scored_by: str
    count: FoundCount | None
    """None where annotators' answers tell the number."""

    @property
    def interval_meaning(self) -> str | None:
        """What the interval of the number of wrong labels means, in a sentence without its full stop.

        None where the headline has no interval.
        """
        if self.wrong[1] is None or (self.count is not None and not self.count.told):
            return None
        return interval_meaning(self.level)


def interval_meaning(level: float) -> str:
    """What an interval of that confidence is, in plain words."""
    return f"{level:.0%} interval: meant to hold the true number for about {100 * level:g} of 100 such files"


def read_noise(path: Path) -> FoundNoise:
    """Read noise.json. Every matrix must have a row and a column per class."""
    stored = read_json(path)
    check_form(stored, NOISE, path)
    try:
        classes = tuple(map(str, stored["classes"]))
        ends = () if stored["low"] is None and stored["high"] is None else ("low", "high")
        matrices = {name: np.array(stored[name], dtype=float) for name in ("transition", "joint", *ends)}
        for name, matrix in matrices.items():
            if matrix.shape != (len(classes), len(classes)) or not np.isfinite(matrix).all():
                raise ValueError(f"{name} is not a matrix of {len(classes)} x {len(classes)} numbers")
        wrong = stored["wrong"]
        return FoundNoise(
            classes=classes,
            rows=int(stored["rows"]),
            level=float(stored["level"]),
            wrong=(
                float(wrong["estimate"]),
                float(wrong["low"]) if ends else None,
                float(wrong["high"]) if ends else None,
            ),
            transition=matrices["transition"],
            low=matrices.get("low"),
            high=matrices.get("high"),
            joint=matrices["joint"],
            findings=tuple(_check_of_t(finding) for finding in stored["diagnosis"]),
            scored_by=str(stored["scored_by"]),
            # Files of older versions have no count.
            count=None if stored.get("count") is None else _found_count(stored["count"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DamagedFile(f"{path}: {what}; run `trevision issues {path.parent}` again") from None


def _found_count(stored: dict[str, Any]) -> FoundCount:
    sentences = (str(stored[name]) for name in ("headline", "reason", "readings"))
    from trevision.estimation.count import AS_RANGE, TOLD

    verdict = stored["verdict"]
    return FoundCount(verdict in (TOLD, AS_RANGE), verdict == AS_RANGE, *sentences)


def _check_of_t(finding: dict[str, Any]) -> CheckOfT:
    if finding["verdict"] not in VERDICTS:
        raise ValueError(f"a verdict must be one of {', '.join(VERDICTS)}, got {finding['verdict']!r}")
    return CheckOfT(str(finding["check"]), finding["verdict"], str(finding["sentence"]))


def read_issues(path: Path) -> pa.Table:
    """Read the columns `ISSUE_COLUMNS` of issues.parquet: one line per label, most suspicious first."""
    import pyarrow as pa
    import pyarrow.compute

    from trevision.data.files.parquet_files import read_columns

    again = f"run `trevision issues {path.parent}` again"
    text, number = pa.string(), pa.float64()
    types = {"row": pa.int64(), "name": text, "given": text, "suggested": text, "p_given": number}
    types |= {"p_suggested": number, "suspect": pa.bool_(), "score": number}
    # Files of older versions have no score: their order is by p_given.
    table = read_columns(path, types, again, optional=("score",))
    if "score" not in table.column_names:
        table = table.append_column("score", table.column("p_given"))
    for name in ("p_given", "p_suggested", "score"):
        if not pa.compute.all(pa.compute.is_finite(table.column(name))).as_py():
            raise DamagedFile(f"{path}: {name} must hold finite numbers; {again}", path=path)
    return table
