"""The page of a file of probabilities, without a run: its suspects are known by the numbers of their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trevision.data.files.probabilities import Probabilities
from trevision.estimation import AS_RANGE
from trevision.estimation.rows import ProbabilityRows
from trevision.issues import LabelIssues, rank_labels
from trevision.report.evidence import POOL, gather
from trevision.report.page import MOST_SUSPECTS, Written, list_suspects, render, write_page
from trevision.report.posterior import RowPosterior
from trevision.report.run_files import RunRecord, Suspect
from trevision.runs.issue_files import CheckOfT, FoundCount, FoundNoise
from trevision.runs.noise_estimate import NoiseEstimate
from trevision.runs.settings import Settings

SCORED_BY = (
    "Rows were judged by the probabilities in the file, which are taken to be of a model that was not "
    "trained on them. Probabilities of a model's own training rows hide wrong labels."
)


def write_probability_page(noise: NoiseEstimate, opened: Probabilities, source: Path, out: Path) -> Written:
    """Write the page of an estimate, with its suspect labels to review.

    Parameters
    ----------
    noise
        The estimate.
    opened
        The probabilities and labels that it was made from.
    source
        The file that they came from.
    out
        The page to write.
    """
    issues = rank_labels(opened.probs, opened.labels, noise.estimate, noise.count)
    names = opened.class_names
    rows = _rows_to_show(issues)
    run = RunRecord(
        folder=None,
        source=str(source),
        settings=Settings(),
        result={},
        history=[],
        shape=(),
        noise=_found(noise),
        suspects=[
            Suspect(
                row=int(row),
                name=str(row),
                given=names[issues.given[row]],
                suggested=names[issues.suggested[row]],
                p_given=float(issues.p_given[row]),
                p_suggested=float(issues.p_suggested[row]),
                likely=bool(issues.suspect[row]),
                score=float(issues.score[row]),
            )
            for row in rows
        ],
        posterior=_posterior(opened, np.sort(rows)),
        all_likely=int(issues.suspect.sum()),
    )
    listed = list_suspects(run)
    return write_page(run, out, render(run, listed, gather(run, listed)), len(listed))


def _rows_to_show(issues: LabelIssues) -> np.ndarray:
    """The suspects that a page can list, and others to compare them with."""
    likely = int(issues.suspect.sum())
    others = issues.order[likely:]
    if len(others) > POOL:
        others = np.random.default_rng(0).choice(others, POOL, replace=False)
    return np.concatenate([issues.order[: min(likely, MOST_SUSPECTS)], others])


def _posterior(opened: Probabilities, rows: np.ndarray) -> RowPosterior:
    """The probabilities of these rows, which are in order."""
    found = np.empty((len(rows), len(opened.class_names)))
    for probs, _, where in ProbabilityRows(opened.probs, opened.labels).chunks():
        first, last = np.searchsorted(rows, [where.start, where.start + len(probs)])
        found[first:last] = probs[rows[first:last] - where.start]
    return RowPosterior(rows, found)


def _found(noise: NoiseEstimate) -> FoundNoise:
    """The estimate as a run's folder would have it."""
    estimate, count = noise.estimate, noise.count
    return FoundNoise(
        classes=noise.class_names,
        rows=estimate.rows,
        level=estimate.level,
        wrong=(count.by_class, count.low, count.high),
        transition=estimate.transition,
        low=estimate.transition_low,
        high=estimate.transition_high,
        joint=estimate.joint,
        findings=tuple(CheckOfT(one.check, one.verdict, one.sentence) for one in noise.findings),
        scored_by=SCORED_BY,
        count=FoundCount(
            count.told, count.verdict == AS_RANGE, count.headline(), count.reason, count.readings()
        ),
    )
