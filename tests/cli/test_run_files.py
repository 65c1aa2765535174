"""What becomes of a finished run's files: a changed source, another folder, damage, a strange --out."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trevision.cli import main

ROWS = 60


def run(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(*names: str) -> pd.DataFrame:
    """Two classes of these names that one column tells apart."""
    label = np.arange(ROWS) % 2
    size = np.random.default_rng(0).normal(4 * label, 1).round(3)
    return pd.DataFrame({"size": size, "label": np.array(names)[label]})


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder with data.csv and the run that was fitted to it, and its issues; to be copied."""
    folder = tmp_path_factory.mktemp("finished")
    table("cat", "dog").to_csv(folder / "data.csv", index=False)
    with contextlib.chdir(folder):
        run("fit", "data.csv", "--method", "standard", "--out", "run")
        run("issues", "run", "--bootstrap", 10)
    return folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_labels_of_other_classes_get_no_accuracy_but_a_note(copied, tmp_path, capsys):
    table("chat", "chien").to_csv(tmp_path / "french.csv", index=False)
    run("predict", tmp_path / "run", tmp_path / "french.csv", "--out", tmp_path / "p.csv")
    written = capsys.readouterr()
    assert "accuracy on the labels" not in written.out
    assert "is a class of the run (the first is 'chat')" in written.err


def test_a_source_that_has_changed_is_no_longer_the_run_s(copied, monkeypatch, capsys):
    monkeypatch.chdir(copied)
    again = ["fit", "data.csv", "--method", "standard", "--out"]
    run(*again, "run")
    assert "finished before; nothing was trained" in capsys.readouterr().err
    table("cat", "dog").iloc[::-1].to_csv("data.csv", index=False)
    for command in (again, ["issues"], ["report"]):
        with pytest.raises(SystemExit) as stopped:
            run(*command, "run")
        assert stopped.value.code == 2
        assert "data.csv has changed since the run was begun" in capsys.readouterr().err
    # New rows may come from any file, also from the one that was.
    run("predict", "run", "data.csv", "--out", "p.csv")
    assert len(rows_of(copied / "p.csv")) == ROWS


def test_a_run_finds_its_source_from_another_folder(finished, copied, monkeypatch):
    (copied / "run" / "issues.csv").unlink()
    (copied / "data.csv").unlink()
    monkeypatch.chdir(copied)
    run("issues", "run", "--bootstrap", 10)
    assert rows_of(copied / "run" / "issues.csv") == rows_of(finished / "run" / "issues.csv")


def test_an_out_path_may_be_a_link_or_a_pipe_but_no_folder(copied, tmp_path, capsys):
    source = copied / "data.csv"
    target = tmp_path / "target.csv"
    target.write_text("old")
    (tmp_path / "link.csv").symlink_to(target)
    with pytest.raises(SystemExit):
        run("predict", tmp_path / "run", source, "--out", tmp_path / "link.csv")
    assert "link.csv exists" in capsys.readouterr().err
    run("predict", tmp_path / "run", source, "--force", "--out", tmp_path / "link.csv")
    assert not (tmp_path / "link.csv").is_symlink()
    assert len(rows_of(tmp_path / "link.csv")) == ROWS
    assert target.read_text() == "old"  # what the link named is nobody's business
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    run("predict", tmp_path / "run", source, "--out", pipe)
    reader.join(timeout=60)
    assert got == [(tmp_path / "link.csv").read_text()]
    assert pipe.is_fifo()
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run("predict", tmp_path / "run", source, "--out", tmp_path)
    assert stopped.value.code == 2
    assert "must be a file to write, but is a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("report", "run", "--out"), "result.json"),
        (("audit", "run", "--rows", "10", "--out"), "noise.json"),
        (("issues", "run", "--bootstrap", "0", "--export"), "issues.csv"),
        (("predict", "run", "data.csv", "--force", "--out"), "model.safetensors"),
        (("apply", "run", "corrections.csv", "--out"), "issues.csv"),
        (("estimate", "run/probabilities.npz", "--report"), "config.json"),
        (("report", "run", "--out"), "../data.csv"),
        (("apply", "run", "corrections.csv", "--out"), "../corrections.csv"),
    ],
)
def test_no_command_writes_over_a_file_of_a_run_or_over_what_it_reads(
    copied, words, name, monkeypatch, capsys
):
    monkeypatch.chdir(copied)
    (copied / "corrections.csv").write_text("row,name,given,corrected,decision\n0,0,cat,dog,change\n")
    before = {path: path.read_bytes() for path in (*(copied / "run").iterdir(), *copied.glob("*.csv"))}
    with pytest.raises(SystemExit) as stopped:
        run(*words, f"run/{name}")
    assert stopped.value.code == 2
    assert "out must not be" in capsys.readouterr().err
    changed = [path.name for path, content in before.items() if path.read_bytes() != content]
    assert set(changed) <= {"issues.csv", "issues.parquet", "noise.json"}  # which issues and report make anew
    assert (copied / "run" / name).read_bytes() == before[(copied / "run" / name).resolve()]


def test_cells_that_a_spreadsheet_would_compute_are_neutralised_and_apply_reads_them(tmp_path, capsys):
    frame = table("=1+1", "-2").assign(name=[f"@{row}" for row in range(ROWS)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    run("fit", tmp_path / "data.csv", "--model", "linear", "--name-column", "name", "--out", tmp_path / "run")
    run("issues", tmp_path / "run", "--bootstrap", "0")
    run("predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "p.csv")
    listed = rows_of(tmp_path / "run" / "issues.csv")
    assert {line["given"] for line in listed} == {"'=1+1", "-2"}  # a number stays one
    assert all(line["name"].startswith("'@") for line in listed)
    predicted = rows_of(tmp_path / "p.csv")
    assert {line["label"] for line in predicted} == {"'=1+1", "-2"}
    assert predicted[0]["name"] == "'@0"
    # The whole list, filled in for one row: what was escaped is read as it was.
    wrong = next(line for line in listed if line["given"] == "-2")
    with (tmp_path / "back.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, [*listed[0], "corrected"])
        lines.writeheader()
        lines.writerows(line | {"corrected": "'=1+1" if line is wrong else ""} for line in listed)
    run("apply", tmp_path / "run", tmp_path / "back.csv", "--out", tmp_path / "cleaned.csv")
    cleaned = rows_of(tmp_path / "cleaned.csv")
    assert cleaned[int(wrong["row"])]["label"] == "=1+1"
    assert sum(new["label"] != old for new, old in zip(cleaned, frame["label"], strict=True)) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "content", "command", "says"),
    [
        ("model.safetensors", b"junk", "predict", "model.safetensors is no model that a run wrote"),
        ("config.json", b"[]", "predict", "config.json must hold a JSON object"),
        ("config.json", b"{", "predict", "config.json must be a JSON file"),
        ("result.json", b"{}", "report", "result.json must be the result of a run, but lacks method"),
        ("metrics.jsonl", b"{", "report", "metrics.jsonl must be"),
        ("probabilities.npz", b"junk", "issues", "probabilities.npz: is not an .npz file"),
    ],
)
def test_a_damaged_file_of_a_run_is_named_in_one_line(name, content, command, says, copied, tmp_path, capsys):
    (tmp_path / "run" / name).write_bytes(content)
    more = (copied / "data.csv", "--out", tmp_path / "p.csv") if command == "predict" else ()
    with pytest.raises(SystemExit) as stopped:
        run(command, tmp_path / "run", *more)
    written = capsys.readouterr().err
    assert stopped.value.code == 2
    assert len(written.strip().splitlines()) == 1
    assert says in written


def test_a_folder_that_bears_the_name_of_a_data_set_is_no_part_of_a_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    run("fit", "digits", "--train-size", 60, "--method", "standard", "--out", "run")
    assert "files" not in json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "digits" / "new").touch()
    run("bound", "run")
    assert "bound" in capsys.readouterr().out
