"""Suspect labels as tasks for Label Studio, and its export read back.

A task carries what is needed to find its row again (`row`, `given`) in its data, which Label Studio keeps.
Both of its JSON exports are read: JSON, with all annotations of a task, and JSON_MIN, with one record for
each annotation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from trevision.files import DataError
from trevision.report.run_files import Suspect

CHOICE, SHOWN = "label", "row_shown"
"""Names of the two tags of the labelling interface: the choice of a class, and what it is chosen for."""


@dataclass(frozen=True)
class Task:
    """A decided task: its number in the file, from 1, and the labels of its row."""

    number: int
    row: int
    given: str
    corrected: str


def tasks_of(
    listed: list[Suspect], texts: list[str] | None = None, images: list[str] | None = None
) -> list[dict[str, Any]]:
    """A task for each suspect, with the suggested label as its prediction.

    Parameters
    ----------
    listed
        The suspects.
    texts, images
        What to show of each; images as addresses. One of them.
    """
    tasks = []
    for place, one in enumerate(listed):
        data: dict[str, Any] = {"row": one.row, "name": one.name, "given": one.given}
        if images is not None:
            data["image"] = images[place]
        else:
            data["text"] = f"row {one.name}" if texts is None else texts[place]
        choice = {
            "id": f"suggested-{one.row}",
            "from_name": CHOICE,
            "to_name": SHOWN,
            "type": "choices",
            "value": {"choices": [one.suggested]},
        }
        score = round(one.p_suggested, 4)
        prediction = {"model_version": "trevision", "score": score, "result": [choice]}
        tasks.append({"data": data, "predictions": [prediction]})
    return tasks


def labelling_interface(classes: tuple[str, ...], images: bool) -> str:
    """The code of the labelling interface that shows these tasks."""
    shown = "Image" if images else "Text"
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    return (
        "<View>\n"
        '  <Header value="Labelled: $given"/>\n'
        f'  <{shown} name="{SHOWN}" value="${shown.lower()}"/>\n'
        f'  <Choices name="{CHOICE}" toName="{SHOWN}" choice="single" showInline="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        "</View>\n"
    )


def read_tasks(path: Path) -> list[Task]:
    """The decided tasks of an export; tasks that were skipped, or not looked at, are left out."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; export the project from Label Studio as JSON or JSON_MIN")
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also of text that is not UTF-8
        raise DataError(f"{path} must be JSON as Label Studio exports it ({error})") from None
    if not isinstance(tasks, list):
        raise DataError(f"{path} must be a list of tasks, as Label Studio's JSON and JSON_MIN exports are")
    decided: dict[int, Task] = {}
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {number}"
        if not isinstance(task, dict):
            raise DataError(f"{where}: must be a task, got {json.dumps(task)[:60]}")
        data = task.get("data", task)
        row, given = (data.get(name) if isinstance(data, dict) else None for name in ("row", "given"))
        if isinstance(row, bool) or not isinstance(row, int) or not isinstance(given, str):
            raise DataError(
                f"{where}: must have the row and the given label that `trevision issues --export` wrote, "
                f"got row {row!r} and given {given!r}"
            )
        for chosen in _chosen(task, where):
            held = decided.setdefault(row, Task(number, row, given, chosen))
            if held.corrected != chosen:
                raise DataError(
                    f"{where}: row {row} was labelled {chosen!r}, but {held.corrected!r} in task "
                    f"{held.number}; settle it in Label Studio and export again"
                )
    if not decided:
        raise DataError(f"{path} must hold at least one annotated task, got none of {len(tasks)}")
    return list(decided.values())


def _chosen(task: dict[str, Any], where: str) -> list[str]:
    """The classes that the annotations of a task chose."""
    if "data" not in task:  # JSON_MIN
        held = [task[CHOICE]] if CHOICE in task else []
    else:
        annotations = task.get("annotations")
        if not isinstance(annotations, list):
            raise DataError(f"{where}: must have annotations; export as JSON or JSON_MIN")
        held = [
            one.get("value", {}).get("choices")
            for annotation in annotations
            if isinstance(annotation, dict) and not annotation.get("was_cancelled")
            for one in annotation.get("result", ())
            if isinstance(one, dict) and one.get("from_name") == CHOICE
        ]
    found = []
    for chosen in held:
        names = chosen if isinstance(chosen, list) else [chosen]
        if len(names) != 1 or not isinstance(names[0], str):
            raise DataError(f"{where}: must have one class chosen, got {json.dumps(chosen)[:60]}")
        found.append(names[0])
    return found
