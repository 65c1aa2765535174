"""The annotators of a run for the page: how often each is right, how each goes wrong, where they disagree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from trevision.runs.run_folder import RunFolder

MOST_ANNOTATORS = 200
MOST_DISAGREEMENTS = 20
MOST_MISTAKES = 8
"""Maximum annotators, rows and mistakes of an annotator on the page, which says how many there are."""
WHOLE_MATRIX = 12
"""Maximum classes for an annotator's T to be shown whole; else its most frequent mistakes are."""
MOST_ANSWERS = 30
"""Maximum answers to a row that are told one by one."""


@dataclass(frozen=True)
class Person:
    """An annotator: answers, the share that is right with its interval, and T or its mistakes in percent."""

    name: str
    answers: int
    right: float
    low: float
    high: float
    matrix: list[list[str]] | None
    mistakes: list[str]


@dataclass(frozen=True)
class Disagreement:
    """A row: its number and name, how the votes fell, who said what, and what it probably is."""

    row: int
    name: str
    votes: str
    said: str
    likeliest: str
    probability: float


@dataclass(frozen=True)
class CrowdPart:
    """What the page tells of annotators, the least often right first, and of the rows they disagree on."""

    people: list[Person]
    all_people: int
    answers: int
    rows: int
    level: float
    strength: float
    counts_as: float
    disagreements: list[Disagreement]


def crowd_part(run: RunFolder) -> CrowdPart:
    """Read the annotators of a run that learnt from several labels a row."""
    crowd, classes = run.annotators, run.card.class_names
    # Those with the lowest upper end first: an annotator with one wrong answer is not the worst of all.
    order = np.argsort(crowd.right_high, kind="stable")
    people = [
        Person(
            crowd.names[who],
            int(crowd.answers[who]),
            float(crowd.right[who]),
            float(crowd.right_low[who]),
            float(crowd.right_high[who]),
            *_own_transition(crowd.transitions[who], classes),
        )
        for who in order[:MOST_ANNOTATORS]
    ]
    return CrowdPart(
        people,
        len(crowd.names),
        int(crowd.answers.sum()),
        len(crowd.clean_posterior),
        crowd.level,
        crowd.strength,
        crowd.counts_as,
        _disagreements(run),
    )


def _own_transition(
    transition: np.ndarray, classes: tuple[str, ...]
) -> tuple[list[list[str]] | None, list[str]]:
    """T in percent if it is small, and the most frequent mistakes in words if it is not."""
    if len(classes) <= WHOLE_MATRIX:
        return [[f"{100 * value:.0f}" for value in row] for row in transition], []
    wrong = transition * (1 - np.eye(len(classes)))
    cells = np.argsort(-wrong, axis=None, kind="stable")[:MOST_MISTAKES]
    pairs = [divmod(int(cell), len(classes)) for cell in cells]
    return None, [f"{classes[i]} called {classes[j]}: {100 * wrong[i, j]:.0f}%" for i, j in pairs]


def _disagreements(run: RunFolder) -> list[Disagreement]:
    """The rows whose P(clean) is least sure, where two annotators disagree."""
    crowd, rows, classes, labels = run.annotators, run.clean_rows, run.card.class_names, run.labels
    answered: dict[int, list[tuple[str, str]]] = {}
    table = run.answers
    order = np.argsort(-crowd.disagreement, kind="stable")
    wanted = set(rows[order[: 5 * MOST_DISAGREEMENTS]].tolist())
    given = (table.column(name).to_pylist() for name in ("row", "annotator", "label"))
    for row, annotator, label in zip(*given, strict=True):
        if row in wanted:
            answered.setdefault(row, []).append((annotator, label))
    found = []
    for place in order[: 5 * MOST_DISAGREEMENTS]:
        row = int(rows[place])
        said = answered.get(row, [])
        votes = Counter(label for _, label in said)
        if len(votes) < 2:
            continue
        position = int(labels.positions([row])[0])
        known = labels.names is not None and position >= 0
        told = ", ".join(f"{annotator}: {label}" for annotator, label in said[:MOST_ANSWERS])
        best = int(crowd.clean_posterior[place].argmax())
        found.append(
            Disagreement(
                row,
                str(labels.names[position]) if known and labels.names is not None else str(row),
                ", ".join(f"{label} ({count})" for label, count in votes.most_common()),
                told + (", …" if len(said) > MOST_ANSWERS else ""),
                classes[best],
                float(crowd.clean_posterior[place, best]),
            )
        )
    return found[:MOST_DISAGREEMENTS]
