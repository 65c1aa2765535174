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
    run("predict", tmp_path / "run", source, "--out", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(rows_of(target)) == ROWS
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    run("predict", tmp_path / "run", source, "--out", pipe)
    reader.join(timeout=60)
    assert got == [target.read_text()]
    assert pipe.is_fifo()
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run("predict", tmp_path / "run", source, "--out", tmp_path)
    assert stopped.value.code == 2
    assert "must be a file to write, but is a folder" in capsys.readouterr().err


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
