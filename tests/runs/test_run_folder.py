"""A run folder: each file is read once, on demand, and the source only where it has to be."""

from __future__ import annotations

import contextlib
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from PIL import Image
from safetensors.numpy import load_file

from trevision.cli import main
from trevision.data.files import tables
from trevision.files import DataError
from trevision.runs import named_files
from trevision.runs.label_issues import find_run_issues
from trevision.runs.run import run as run_experiment
from trevision.runs.run_folder import LABELS_FILE, RunFolder
from trevision.runs.settings import Settings

ROWS = 80


def command(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def table() -> pd.DataFrame:
    """Two classes that one column tells apart, a text, names, and two rows without a label."""
    label = np.arange(ROWS) % 2
    size = np.random.default_rng(0).normal(4 * label, 1).round(3)
    names = [f"customer {row}" for row in range(ROWS)]
    frame = pd.DataFrame({"id": names, "size": size, "label": np.array(["cat", "dog"])[label]})
    frame["remark"] = np.where(np.arange(ROWS) % 3, "came by bus", "came on foot")
    frame.loc[[3, 17], "label"] = None
    return frame


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder with data.csv, a run that was fitted to it and its issues; to be copied."""
    folder = tmp_path_factory.mktemp("finished")
    table().to_csv(folder / "data.csv", index=False)
    with contextlib.chdir(folder):
        command(
            *("fit", "data.csv", "--name-column", "id", "--text-column", "remark"),
            *("--method", "standard", "--out", "run"),
        )
        command("issues", "run", "--bootstrap", 10)
    return folder


@pytest.fixture
def copied(finished, tmp_path, monkeypatch) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def write_corrections(run: Path, path: Path) -> tuple[int, str]:
    """Corrections that change the label of one row; gives its number and its new label."""
    with (run / "issues.csv").open(newline="", encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    new = "dog" if first["given"] == "cat" else "cat"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["row", "name", "given", "corrected", "decision"])
        lines.writerow([first["row"], first["name"], first["given"], new, "change"])
    return int(first["row"]), new


def test_kept_labels_are_those_of_the_source_rows(copied):
    kept = pyarrow.parquet.read_table(copied / LABELS_FILE)
    source = pd.read_csv("data.csv")
    labelled = source[source["label"].notna()]
    assert kept.column("row").to_pylist() == labelled.index.tolist()
    assert kept.column("name").to_pylist() == labelled["id"].tolist()
    assert kept.column("label").to_pylist() == labelled["label"].tolist()
    labels = RunFolder(copied).labels
    assert labels.class_names == ("cat", "dog")
    assert [labels.class_names[code] for code in labels.codes] == labelled["label"].tolist()


def test_kept_labels_of_a_part_with_added_noise_are_the_noisy_ones(tmp_path):
    run = tmp_path / "run"
    options = ("--noise", "sym-40", "--train-size", 200, "--estimator", "latent", "--method", "standard")
    command("fit", "digits", *options, "--out", run)
    labels = RunFolder(run).labels
    assert labels.names is None
    assert len(labels) == 200
    with np.load(run / "probabilities.npz") as arrays:
        expected = dict(zip(arrays["rows"].tolist(), arrays["labels"].tolist(), strict=True))
    assert dict(zip(labels.row_numbers.tolist(), labels.codes.tolist(), strict=True)) == expected


def test_a_run_that_keeps_no_model_keeps_no_labels(tmp_path):
    run_experiment("digits", Settings(method="standard", train_size=60), tmp_path / "run", keep_model=False)
    assert not (tmp_path / "run" / LABELS_FILE).exists()


def test_issues_are_the_same_when_the_labels_come_from_the_source(copied):
    before = (copied / "issues.csv").read_bytes()
    (copied / LABELS_FILE).unlink()
    command("issues", "run", "--bootstrap", 10)
    assert (copied / "issues.csv").read_bytes() == before
    row, new = write_corrections(copied, Path("corrections.csv"))
    command("apply", "run", "corrections.csv", "--out", "cleaned.csv")
    assert pd.read_csv("cleaned.csv")["label"][row] == new


def test_damaged_labels_are_named_in_one_line(copied, capsys):
    (copied / LABELS_FILE).write_bytes(b"junk")
    with pytest.raises(SystemExit) as stopped:
        command("issues", "run", "--bootstrap", 10)
    assert stopped.value.code == 2
    written = capsys.readouterr().err
    assert len(written.strip().splitlines()) == 1
    assert "labels.parquet: is not a .parquet file, or a corrupt one" in written


def test_a_run_tells_what_its_files_hold(copied):
    run = RunFolder(copied)
    assert run.config == json.loads((copied / "config.json").read_text())
    assert (run.source, run.settings.method) == ("data.csv", "standard")
    assert run.reading == run.settings.reading
    assert run.result == json.loads((copied / "result.json").read_text())
    assert run.history == [json.loads(line) for line in (copied / "metrics.jsonl").read_text().splitlines()]
    assert run.card.class_names == ("cat", "dog")
    tensors = load_file(copied / "model.safetensors")
    for matrix, name in zip(run.transitions, ("initial", "matrix"), strict=True):
        assert np.array_equal(matrix, tensors[f"transition.{name}"])
    assert np.array_equal(run.model.transition, run.transitions[1])
    with np.load(copied / "probabilities.npz") as arrays:
        assert np.array_equal(run.probabilities.probs, arrays["probs"])
        assert run.probabilities.folds == arrays["folds"]
    assert run.has_issues
    assert run.issues.column("row").to_pylist() == pd.read_csv(copied / "issues.csv")["row"].tolist()
    assert run.noise.transition.tolist() == json.loads((copied / "noise.json").read_text())["transition"]
    assert {column.name for column in run.preprocessing.columns} == {"size", "remark"}


def test_a_file_is_read_once(copied):
    run = RunFolder(copied)
    before = run.config, run.result, run.labels, run.probabilities, run.noise
    for name in ("config.json", "result.json", LABELS_FILE, "probabilities.npz", "noise.json"):
        (copied / name).unlink()
    after = run.config, run.result, run.labels, run.probabilities, run.noise
    assert all(first is second for first, second in zip(before, after, strict=True))


def test_what_a_folder_lacks_is_said_when_it_is_asked_for(tmp_path, copied):
    with pytest.raises(ValueError, match=r"must be the folder of a run .* it has no config\.json"):
        _ = RunFolder(tmp_path / "nowhere").config
    (copied / "noise.json").unlink()
    run = RunFolder(copied)
    assert not run.has_issues
    with pytest.raises(ValueError, match=r"has no noise\.json; run `trevision issues .*` first"):
        _ = run.noise
    (copied / "result.json").unlink()
    with pytest.raises(
        ValueError, match=r"must be a finished run of `trevision fit`: it has no result\.json"
    ):
        _ = run.result
    (copied / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="holds no finished model"):
        _ = RunFolder(copied).transitions
    config = json.loads((copied / "config.json").read_text())
    del config["source"]
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="does not say what it was trained on"):
        _ = RunFolder(copied).source


def test_from_fit_to_apply_a_table_is_read_four_times(tmp_path, monkeypatch):
    readings = {"number": 0}
    csv_blocks = tables.csv_blocks

    def counted(*arguments, **options):
        readings["number"] += 1
        return csv_blocks(*arguments, **options)

    def readings_of(*arguments: object) -> int:
        before = readings["number"]
        command(*arguments)
        return readings["number"] - before

    monkeypatch.setattr(tables, "csv_blocks", counted)
    monkeypatch.chdir(tmp_path)
    table().to_csv("data.csv", index=False)
    fit = ("fit", "data.csv", "--name-column", "id", "--method", "standard", "--out", "run")
    # A look at the first block guesses what is not said. The first reading of `fit` finds labels and columns,
    # the second turns the columns into numbers.
    assert readings_of(*fit) == 3
    assert readings_of("issues", "run", "--bootstrap", 10) == 1  # to show the suspects
    assert readings_of("report", "run", "--suspects", 5) == 1
    row, new = write_corrections(Path("run"), Path("corrections.csv"))
    assert readings_of("apply", "run", "corrections.csv", "--out", "cleaned.csv") == 1
    expected = table()
    expected.loc[row, "label"] = new
    written = pd.read_csv("cleaned.csv")
    assert written.index[written.pop("checked") == "yes"].tolist() == [row]
    pd.testing.assert_frame_equal(written, expected, check_dtype=False)


def test_a_folder_of_images_is_looked_through_for_changes_once_a_command(tmp_path, monkeypatch):
    for number in range(24):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 100 * (number % 2) + number).save(path)
    command("fit", tmp_path / "images", "--method", "standard", "--out", tmp_path / "run")
    looked_at = []
    digest = named_files._digest
    monkeypatch.setattr(named_files, "_digest", lambda path: looked_at.append(path) or digest(path))
    command("report", tmp_path / "run")  # which first makes the issues
    assert looked_at == [tmp_path / "images"]


def test_issues_of_a_run_need_no_source_that_it_has_learnt_from(copied):
    before = (copied / "issues.csv").read_bytes()
    Path("data.csv").unlink()
    config = json.loads((copied / "config.json").read_text())
    config["files"]["data.csv"]["path"] = "/gone/data.csv"  # not the one that the copy was made from
    (copied / "config.json").write_text(json.dumps(config))
    find_run_issues(copied, bootstrap=10)
    assert (copied / "issues.csv").read_bytes() == before


def imports_of(program: str) -> set[str]:
    """Which of the slow packages a program imports."""
    slow = ("torch", "lightning_fabric", "ray", "matplotlib", "sklearn", "pandas", "pyarrow")
    tell = f"\nimport sys\nprint('imports', *(name for name in {slow!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program + tell], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def imports_of_command(*arguments: object) -> set[str]:
    words = [str(argument) for argument in arguments]
    return imports_of(f"from trevision.cli import main\nmain({words!r})")


HEAVY = {"torch", "lightning_fabric", "ray", "matplotlib", "sklearn"}


def test_the_list_of_data_sets_imports_nothing_slow():
    assert imports_of_command("data") == set()


def test_estimating_from_probabilities_imports_nothing_slow(tmp_path):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 300)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    np.savez(tmp_path / "probs.npz", probs=probs, labels=labels)
    assert imports_of_command("estimate", tmp_path / "probs.npz", "--bootstrap", 10) == set()


@pytest.mark.parametrize("kept", [True, False], ids=["labels kept", "labels in the source"])
def test_issues_report_and_apply_never_import_torch(copied, kept):
    if not kept:
        (copied / LABELS_FILE).unlink()
    assert not HEAVY & imports_of_command("issues", copied, "--bootstrap", 10)
    assert not HEAVY & imports_of_command("report", copied, "--suspects", 5)
    write_corrections(copied, Path("corrections.csv"))
    assert not HEAVY & imports_of_command("apply", copied, "corrections.csv", "--out", "cleaned.csv")


@pytest.mark.parametrize(
    "module",
    [
        "trevision.data.read_labels",
        "trevision.data.pictures",
        "trevision.data.files.corrections",
        "trevision.data.files.probabilities",
        "trevision.training.model_card",
        "trevision.runs.issue_files",
    ],
)
def test_the_side_of_labels_is_importable_without_torch(module):
    assert not HEAVY & imports_of(f"import {module}")


def test_a_folder_that_holds_only_what_a_kill_left_half_written_is_free(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".lock", ".config.json.x3k2", ".labels.parquet.9q"):
        (folder / name).write_text("half")
    assert RunFolder(folder).finished_result({}) is None
    (folder / "notes.txt").touch()
    with pytest.raises(ValueError, match="must be a new folder or that of an earlier run"):
        RunFolder(folder).finished_result({})
