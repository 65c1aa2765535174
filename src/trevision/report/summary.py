"""A summary of a run in plain words and a few numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.estimation.count import unevenness
from trevision.report.run_files import RunRecord, Suspect
from trevision.runs.issue_files import FoundNoise

EVEN = 0.2
"""The `unevenness` of T below which mistakes are said to have no pattern."""
FEWEST_ROWS = 0.5
"""Minimum expected rows for a pair of classes to be listed."""


@dataclass(frozen=True)
class ClassPair:
    """Rows of the true class `clean` that are labelled `given`: their number, and their share of `clean`.

    `low` and `high` are the ends of the share's interval, if there is one.
    """

    clean: str
    given: str
    rows: float
    share: float
    low: float | None
    high: float | None
    listed: int
    """Suspects on the page that would be corrected this way."""


def class_pairs(noise: FoundNoise, suspects: list[Suspect]) -> list[ClassPair]:
    """The pairs of different classes by the number of wrong labels, largest first."""
    listed = Counter((suspect.suggested, suspect.given) for suspect in suspects)
    wrong = noise.joint * (1 - np.eye(len(noise.classes)))
    order = np.argsort(-wrong, axis=None, kind="stable")
    order = order[: int((wrong >= FEWEST_ROWS).sum())]
    return [
        ClassPair(
            clean=noise.classes[i],
            given=noise.classes[j],
            rows=float(noise.joint[i, j]),
            share=float(noise.transition[i, j]),
            low=None if noise.low is None else float(noise.low[i, j]),
            high=None if noise.high is None else float(noise.high[i, j]),
            listed=listed[noise.classes[i], noise.classes[j]],
        )
        for i, j in (divmod(int(cell), len(noise.classes)) for cell in order)
    ]


def title(run: RunRecord) -> str:
    """The headline: how many labels are wrong, as the audit or else the count tells it."""
    noise = run.noise
    if run.audit is not None:
        told = run.audit
        return (
            f"About {count(told.wrong.estimate)} of {count(told.rows)} labels are wrong, by an audit of "
            f"{count(told.audited)} rows"
        )
    if noise.count is not None:
        return capital(noise.count.headline)
    estimate, low, high = noise.wrong
    interval = (
        "" if low is None or high is None else f"; {noise.level:.0%} interval {count(low)} to {count(high)}"
    )
    return (
        f"About {count(estimate)} of {count(noise.rows)} labels are probably wrong "
        f"({percent(estimate / noise.rows)}{interval})"
    )


def lead(run: RunRecord) -> list[str]:
    """What is said below the headline: how sure it is, and what it rests on."""
    noise = run.noise
    meaning = [f"{noise.interval_meaning}."] if noise.interval_meaning else []
    if run.audit is not None:
        return [run.audit.headline, run.audit.assumes]
    if noise.count is None:
        return ["A row's label is the vote of its annotators; their answers tell how many votes are wrong."]
    if not noise.count.told:
        return [f"{capital(noise.count.reason)}.", noise.count.readings]
    if "depend on the class alone" in noise.count.headline:
        return [f"{capital(noise.count.reason)}.", *meaning]
    return [
        f"This supposes that mistakes depend on the class alone. {capital(noise.count.reason)}.",
        *meaning,
    ]


def learnt_from(run: RunRecord) -> str:
    """What the run learnt from, and with what result."""
    noise, crowd = run.noise, run.crowd
    classes = f"{count(len(noise.classes))} classes"
    if run.folder is None:
        return f"{count(noise.rows)} labels and their probabilities in {source_name(run.source)}, {classes}."
    if crowd is None:
        learnt = f"{count(noise.rows)} labelled rows of {source_name(run.source)} in {classes}."
    else:
        learnt = (
            f"{count(crowd.answers)} answers of {count(crowd.all_people)} annotators to {count(noise.rows)} "
            f"rows in {classes} ({source_name(run.source)}). A row's label is the vote of its annotators."
        )
    return f"This run learnt from {learnt} {_accuracy(run)}"


def mix_ups(noise: FoundNoise, pairs: list[ClassPair]) -> str:
    """Which classes are mixed up, in words; where mistakes have no pattern, that."""
    if not pairs:
        return "No pattern: no two classes are mixed up often enough to name them."
    worst = pairs[0]
    said = (
        f"The most frequent mix-up: {worst.clean} labelled as {worst.given}, in about {count(worst.rows)} "
        f"rows ({percent(worst.share)} of all that are truly {worst.clean})."
    )
    if noise.count is not None and not noise.count.told:
        return (
            f"{said} This supposes that mistakes depend on the class alone, which the count could not tell."
        )
    if len(noise.classes) > 2 and unevenness(noise.transition) < EVEN:
        return f"No pattern: mistakes go to all classes about evenly. {said}"
    return said


def _accuracy(run: RunRecord) -> str:
    known = run.result.get("test_accuracy")
    if known is not None:
        return f"The classifier is right on {percent(known)} of the clean test rows."
    agrees = percent(run.result["noisy_validation_accuracy"])
    if run.crowd is not None:
        return (
            f"On held-out rows the classifier is right in about {agrees}, judged by what their annotators "
            "say they probably are."
        )
    return (
        "How often the classifier is right is not known, for want of clean test rows; it agrees with "
        f"{agrees} of the held-out labels, some of which are wrong themselves."
    )


def trust(noise: FoundNoise) -> str:
    """How reliable T is, by the verdicts of its checks."""
    verdicts = Counter(finding.verdict for finding in noise.findings)
    total = len(noise.findings)
    if not total:
        return "How far the noise matrix can be trusted was not checked."
    if verdicts["bad"]:
        return (
            f"The noise matrix should not be relied on: {verdicts['bad']} of its {total} checks failed; "
            "each says why."
        )
    if cautions := verdicts["caution"]:
        call = "calls" if cautions == 1 else "call"
        return f"The noise matrix can be used with care: {cautions} of its {total} checks {call} for caution."
    return f"The noise matrix can be relied on: all of its {total} checks are good."


def capital(sentence: str) -> str:
    """The sentence with a capital letter first."""
    return sentence[:1].upper() + sentence[1:]


def source_name(source: str) -> str:
    """The last part of a path: a page that is passed on should not show the folders of this machine."""
    return Path(source).name


def count(value: float) -> str:
    """A number of rows."""
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """A share in percent, with a decimal if it is close to 0 or 1."""
    return f"{100 * share:.1f}%"
