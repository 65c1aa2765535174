"""Suspects for other tools, what comes back from them, and the page of probabilities alone."""

from __future__ import annotations

import csv
import json
import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trevision.cli import main
from trevision.data.files.reading import Reading
from trevision.report.exports import export_suspects
from trevision.report.page import write_report
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Settings

AWKWARD = ('a "quoted" & <b>', "=1+1", "'c'", "d")


def labels_in(path: Path, column: str = "label") -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [line[column] for line in csv.DictReader(file)]


def said_in_one_line(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def annotated(tasks: list[dict[str, Any]], choices: dict[int, list[str]]) -> list[dict[str, Any]]:
    """What Label Studio's JSON export makes of tasks: its own ids and fields, and the annotations."""
    chosen = {"id": "x", "from_name": "label", "to_name": "row_shown", "type": "choices", "origin": "manual"}
    return [
        {
            "id": 50 + place,
            "project": 3,
            "data": task["data"],
            "annotations": [
                {
                    "id": 900 + place,
                    "completed_by": 1,
                    "was_cancelled": choice == "",
                    "lead_time": 3.2,
                    "result": [chosen | {"value": {"choices": [choice]}}] if choice else [],
                }
                for choice in choices.get(place, [])
            ],
        }
        for place, task in enumerate(tasks)
    ]


def minimal(tasks: list[dict[str, Any]], choices: dict[int, str]) -> list[dict[str, Any]]:
    """The same as JSON_MIN: the data of a task beside the chosen class."""
    added = {"annotator": 1, "annotation_id": 9, "lead_time": 3.2}
    return [
        {**tasks[place]["data"], "id": 50 + place, "label": choice, **added}
        for place, choice in choices.items()
    ]


def test_label_studios_corrections_come_back_from_both_of_its_exports(table_run, tmp_path):
    folder, issues = table_run(AWKWARD)
    export_suspects(RunFolder(folder), tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert [task["data"]["row"] for task in tasks] == [one["row"] for one in issues if one["suspect"]]
    predicted = tasks[0]["predictions"][0]
    assert predicted["result"][0]["value"] == {"choices": [issues[0]["suggested"]]}
    interface = ElementTree.parse(tmp_path / "tasks.xml").getroot()
    choices = interface.find("Choices")
    assert choices is not None
    assert [one.get("value") for one in choices] == list(AWKWARD)
    assert predicted["result"][0]["from_name"] == choices.get("name")
    assert predicted["result"][0]["to_name"] == choices.get("toName") == interface[1].get("name")
    assert interface[1].get("value", "").removeprefix("$") in tasks[0]["data"]

    chosen = {0: issues[0]["suggested"], 1: issues[1]["given"]}
    exported = annotated(tasks, {place: [name] for place, name in chosen.items()} | {2: [""]})
    (tmp_path / "full.json").write_text(json.dumps(exported), encoding="utf-8")
    (tmp_path / "min.json").write_text(json.dumps(minimal(tasks, chosen)), encoding="utf-8")
    expected = labels_in(tmp_path / "table.csv")
    expected[issues[0]["row"]] = issues[0]["suggested"]
    for name in ("full", "min"):
        out = tmp_path / f"{name}.csv"
        main(["apply", str(folder), str(tmp_path / f"{name}.json"), "--out", str(out)])
        assert labels_in(out) == expected
        marked = {row for row, mark in enumerate(labels_in(out, "checked")) if mark == "yes"}
        assert marked == {issues[0]["row"], issues[1]["row"]}


def test_an_export_that_does_not_fit_ends_in_one_line_and_writes_nothing(table_run, tmp_path, capsys):
    folder, _ = table_run()
    export_suspects(RunFolder(folder), tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    path, out = tmp_path / "back.json", tmp_path / "cleaned.csv"
    cases: list[tuple[Any, str]] = [
        ({"tasks": []}, "must be a list of tasks"),
        (tasks, "must have annotations"),
        (annotated(tasks, {}), "at least one annotated task"),
        (annotated(tasks, {3: ["cat", "dog"]}), "task 4: row"),
        (annotated(tasks, {3: ["gnu"]}), "task 4: 'gnu' is not one of the 4 classes"),
        ([{"id": 1, "label": "cat"}], "task 1: must have the row"),
        ([{"row": 1, "given": "cat", "label": {"choices": ["cat", "dog"]}}], "one class chosen"),
        (["cat"], "task 1: must be a task"),
    ]
    for content, says in cases:
        path.write_text(json.dumps(content), encoding="utf-8")
        assert says in said_in_one_line(capsys, "apply", folder, path, "--out", out)
    path.write_text("{", encoding="utf-8")
    assert "must be JSON" in said_in_one_line(capsys, "apply", folder, path, "--out", out)
    assert not out.exists()


def test_a_table_filled_in_by_hand_comes_back_and_computes_nothing(table_run, tmp_path, capsys):
    folder, issues = table_run(AWKWARD, remark="=HYPERLINK(1)")
    table = tmp_path / "suspects.csv"
    export_suspects(RunFolder(folder), table)
    assert "corrected filled in" in said_in_one_line(
        capsys, "apply", folder, table, "--out", tmp_path / "c.csv"
    )
    with table.open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.reader(file))
    assert lines[0][:6] == ["row", "name", "given", "suggested", "how sure", "corrected"]
    assert lines[1][lines[0].index("remark")].startswith("'=HYPERLINK")
    lines[1][5], lines[3][5] = lines[1][3], lines[3][2]
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    main(["apply", str(folder), str(table), "--out", str(tmp_path / "cleaned.csv")])
    assert "1 label changed (2 reviewed)" in capsys.readouterr().out
    assert labels_in(tmp_path / "cleaned.csv")[issues[0]["row"]] == issues[0]["suggested"]


def test_images_are_exported_as_pictures(picture_run, tmp_path):
    folder, issues = picture_run()
    export_suspects(RunFolder(folder), tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert len(tasks) == sum(one["suspect"] for one in issues)
    assert all(task["data"]["image"].startswith("data:image/png;base64,") for task in tasks)
    assert "<Image" in (tmp_path / "tasks.xml").read_text(encoding="utf-8")


def test_an_export_names_the_kinds_it_can_write(table_run, tmp_path, capsys):
    folder, _ = table_run()
    assert ".json" in said_in_one_line(capsys, "issues", folder, "--export", tmp_path / "x.txt")
    assert "folder that exists" in said_in_one_line(
        capsys, "issues", folder, "--export", tmp_path / "no" / "x.csv"
    )


def commands_in(page: Path) -> dict[str, str]:
    from html import unescape

    text = page.read_text(encoding="utf-8")
    return {
        name: unescape(one)
        for name, one in re.findall(r'<code id="([a-z]+)-command"[^>]*>(.*?)</code>', text)
    }


def test_the_commands_on_the_page_are_those_that_apply_takes_and_prints(
    table_run, tmp_path, capsys, monkeypatch
):
    folder, issues = table_run(
        settings=Settings(method="standard", seed=3, reading=Reading(label_column="label", name_column="id"))
    )
    one = issues[0]
    page = commands_in(write_report(folder).path)
    monkeypatch.chdir(tmp_path)
    rows = [
        ["row", "name", "given", "corrected", "decision"],
        [one["row"], one["name"], one["given"], one["suggested"], "accept"],
    ]
    with (tmp_path / f"corrections-{folder.name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    main(shlex.split(page["apply"])[1:])
    printed = capsys.readouterr().out.split("next: ")[1].strip()
    assert printed == page["fit"]
    assert "--seed 3" in printed
    assert "--clean-column checked" in printed


@pytest.fixture
def probabilities(tmp_path) -> Path:
    """Three classes, each sixth label another one, by a model that is nearly sure."""
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=600)
    labels = np.where(rng.random(600) < 1 / 6, (clean + 1) % 3, clean)
    probs = np.where(np.eye(3)[clean] == 1, 0.8, 0.02) + 0.16 * np.eye(3)[(clean + 1) % 3]
    path = tmp_path / "probs.npz"
    np.savez(path, probs=probs, labels=labels, clean=clean, classes=np.array(["ant", "bee", "cow"]))
    return path


def test_probabilities_alone_give_a_page_to_review_rows_by_their_number(probabilities, tmp_path, capsys):
    page = tmp_path / "pages" / "review.html"
    main(["estimate", str(probabilities), "--report", str(page)])
    assert f"suspect labels to review: {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    with np.load(probabilities) as file:
        labels, clean = file["labels"], file["clean"]
    listed = np.array(data["suspects"]["row"])
    assert len(listed) > 60
    assert (labels[listed] == data["suspects"]["given"]).all()
    assert (clean[listed] == data["suspects"]["suggested"]).mean() > 0.9
    similar = data["alike"]
    assert not set(similar["row"]) & set(listed.tolist())
    assert (labels[similar["row"]] == similar["given"]).all()
    # What follows is Python that can be pasted.
    command = commands_in(page)["apply"]
    assert "pandas.read_csv('corrections-probs.csv')" in command
    compile(command, "page", "exec")


def test_a_page_that_is_a_folder_is_refused_before_anything_is_read(tmp_path, capsys):
    assert "got the folder" in said_in_one_line(capsys, "estimate", tmp_path / "no.npz", "--report", tmp_path)
