"""From a file to reviewed labels: what a new user types, and what is told on the way."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trevision.cli import COMMANDS, JOURNEY, LABORATORY, main, overview
from trevision.data.files.guessing import guess_columns
from trevision.data.files.reading import Reading
from trevision.files import DataError
from trevision.noise import corrupt
from trevision.runs.run_folder import RunFolder

WRONG = np.array([[0.9, 0.1, 0.0], [0.0, 0.75, 0.25], [0.1, 0.0, 0.9]])
KINDS = np.array(["basic", "plus", "pro"])


def command(*words: object) -> None:
    main([str(word) for word in words])


def customers(rows: int, seed: int, noisy: bool = True) -> tuple[pd.DataFrame, np.ndarray]:
    """Customers whose plan two numbers and a remark tell; and their true plans."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(3, size=rows)
    given = KINDS[corrupt(clean, WRONG, rng) if noisy else clean].astype(object)
    given[::29] = [label.upper() for label in given[::29]]
    said = np.where(rng.random(rows) < 0.6, clean, rng.integers(3, size=rows))
    word = np.array(["modest", "ample", "lavish"])[said]
    # Single letters make remarks differ without being words to learn from.
    letters = rng.choice(list("abcdefghijklmnopqrstuvwxyz"), (rows, 4))
    remarks = [f"{' '.join(letters[row])} was {word[row]} as ever" for row in range(rows)]
    frame = pd.DataFrame(
        {
            "customer_id": rng.permutation(rows) + 500,
            "spent": rng.normal(1.8 * clean, 1).round(3),
            "visits": rng.poisson(2 + 3 * (clean == 1)),
            "remark": remarks,
            "status": given,
        }
    )
    return frame, KINDS[clean]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[Path, np.ndarray]:
    """A folder with customers.csv, held-out.csv, and runs/customers by the shortest command; the truth."""
    folder = tmp_path_factory.mktemp("front")
    frame, clean = customers(700, 0)
    frame.to_csv(folder / "customers.csv", index=False)
    customers(1500, 1, noisy=False)[0].to_csv(folder / "held-out.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        command("fit", "customers.csv", "--model", "linear")
    return folder, clean


@pytest.fixture
def front(fitted, tmp_path, monkeypatch) -> Path:
    """A copy of that folder, as the working directory."""
    shutil.copytree(fitted[0], tmp_path / "front")
    monkeypatch.chdir(tmp_path / "front")
    return tmp_path / "front"


def test_the_shortest_command_finds_folder_labels_and_text_and_says_so(front, capsys):
    command("fit", "customers.csv", "--model", "linear")
    told = capsys.readouterr()
    assert "labels: column 'status' (guessed; --label-column NAME to change)\n" in told.err
    assert "text: column 'remark' (the only text; --text-column NAME to change)\n" in told.err
    assert "note: runs/customers was finished before; nothing was trained" in told.err
    run = RunFolder("runs/customers")
    assert (run.reading.label_column, run.reading.text_column) == ("status", ("remark",))
    assert run.card.class_names == tuple(KINDS)
    assert [column.name for column in run.preprocessing.columns] == ["spent", "visits", "remark"]
    assert "'BASIC'" in " ".join(run.result["data_notes"])


def test_the_end_says_how_many_are_wrong_what_the_classifier_is_worth_and_what_is_next(front, fitted, capsys):
    command("fit", "customers.csv", "--model", "linear")
    out = capsys.readouterr().out
    truly_wrong = int((pd.read_csv("customers.csv").status.str.lower() != fitted[1]).sum())
    count = int(re.search(r"^About ([\d,]+) of 700 labels are wrong.* \(.*interval", out, re.MULTILINE)[1])
    assert abs(count - truly_wrong) < 0.3 * truly_wrong
    held_out = json.loads(Path("runs/customers/result.json").read_text())["held_out"]
    predicted = np.load("runs/customers/probabilities.npz")
    assert held_out["plain"] == pytest.approx((predicted["probs"].argmax(1) == predicted["labels"]).mean())
    assert f"agrees with {held_out['classifier']:.1%} of labels that it had not seen" in out
    assert f"plain training with {held_out['plain']:.1%}" in out
    following = re.search(r"^Next: trevision (report runs/customers)", out, re.MULTILINE)
    command(*following[1].split())
    assert Path("runs/customers/report.html").is_file()


def test_another_run_gets_a_number_and_the_same_one_is_found_again(front, capsys):
    fit = ("fit", "customers.csv", "--model", "linear", "--correction", "none")
    command(*fit)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["customers", "customers-2"]
    # A stopped run has a config and no result.
    Path("runs/customers-2/result.json").unlink()
    command(*fit)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["customers", "customers-2"]
    assert Path("runs/customers-2/result.json").is_file()
    # The same file with other contents is another source.
    with Path("customers.csv").open("a") as file:
        file.write("9999,1.5,2,new case was modest as ever,basic\n")
    command(*fit)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["customers", "customers-2", "customers-3"]


def test_check_goes_from_a_file_to_the_page_and_opens_it(front, monkeypatch, capsys):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("trevision.cli.check.has_browser", lambda: True)
    before = Path("runs/customers/result.json").stat().st_mtime_ns
    command("check", "customers.csv", "--model", "linear", "--no-open")
    assert opened == []
    command("check", "customers.csv", "--model", "linear")
    assert opened == [(front / "runs/customers/report.html").resolve().as_uri()]
    assert Path("runs/customers/result.json").stat().st_mtime_ns == before
    out = capsys.readouterr().out
    assert "of 700 labels are wrong" in out
    assert "most suspicious labels: runs/customers/report.html" in out
    assert "Then: trevision apply runs/customers corrections-customers.csv --out cleaned.csv " in out


def test_reviewed_rows_do_not_return_and_the_second_model_is_better(front, fitted, capsys):
    """The circle: fit, report, review, apply, and the fit whose command apply prints."""
    clean = fitted[1]
    first, second = Path("runs/circle"), Path("runs/circle-cleaned")
    command("fit", "customers.csv", "--model", "linear", "--correction", "none", "--out", first)
    found = pd.read_csv(first / "issues.csv")
    reviewed = found[found.suspect]
    assert len(reviewed) > 50
    corrections = reviewed[["row", "name", "given"]].assign(corrected=clean[reviewed.row])
    corrections["decision"] = np.where(corrections.given == corrections.corrected, "keep", "accept")
    corrections.to_csv("corrections.csv", index=False)
    command("report", first)
    capsys.readouterr()
    command("apply", first, "corrections.csv", "--out", "cleaned.csv")
    told = capsys.readouterr().out
    assert f"{len(reviewed)} rows marked as known to be right" in told
    command(*shlex.split(told.split("next: trevision ")[1]))
    assert not set(pd.read_csv(second / "issues.csv").row) & set(reviewed.row)
    accuracies = []
    for run in (first, second):
        capsys.readouterr()
        command("predict", run, "held-out.csv", "--force")
        accuracies.append(float(capsys.readouterr().out.split("held-out.csv: ")[1].rstrip("%\n")))
    assert accuracies[1] > accuracies[0]
    before, after = pd.read_csv("customers.csv").status, pd.read_csv("cleaned.csv").status
    untouched = np.setdiff1d(np.arange(700), corrections.row[corrections.given != corrections.corrected])
    assert after[untouched].tolist() == before[untouched].tolist()
    assert (after.str.lower() == clean).mean() > (before.str.lower() == clean).mean() + 0.05

    command("apply", first, "corrections.csv", "--no-trust", "--out", "untrusted.csv")
    assert list(pd.read_csv("untrusted.csv").columns) == list(pd.read_csv("customers.csv").columns)


def photos(folder: Path, rows: int, seed: int, noisy: bool = True) -> dict[str, str]:
    """Pictures in a folder for each given kind, and their true kinds: the third that is brighter."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(3, size=rows)
    given = corrupt(clean, WRONG, rng) if noisy else clean
    for row in range(rows):
        pixels = rng.normal(100, 30, (9, 9))
        pixels[:, 3 * clean[row] : 3 * clean[row] + 3] += 22
        path = folder / KINDS[given[row]] / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return {f"{row:03d}.png": KINDS[kind] for row, kind in enumerate(clean)}


def test_reviewed_images_do_not_return_and_the_second_model_is_better(tmp_path, monkeypatch, capsys):
    """The circle of an image folder, whose corrected copy is a table of paths."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    clean = photos(tmp_path / "photos", 450, 0)
    photos(tmp_path / "new", 900, 1, noisy=False)
    command("fit", "photos", "--method", "standard", "--out", "runs/photos")
    found = pd.read_csv("runs/photos/issues.csv")
    assert {Path(name).name for name in found.name} == set(clean)
    reviewed = found[found.suspect]
    assert len(reviewed) > 30
    right = [clean[Path(name).name] for name in reviewed.name]
    corrections = reviewed[["row", "name", "given"]].assign(corrected=right)
    corrections["decision"] = np.where(corrections.given == corrections.corrected, "keep", "accept")
    corrections.to_csv("corrections.csv", index=False)
    command("report", "runs/photos")
    capsys.readouterr()
    command("apply", "runs/photos", "corrections.csv", "--out", "cleaned.csv")
    command(*shlex.split(capsys.readouterr().out.split("next: trevision ")[1]))
    returned = pd.read_csv("runs/photos-cleaned/issues.csv").name
    assert not set(returned) & set(reviewed.name)
    assert len(returned) == 450 - len(reviewed)
    accuracies = []
    for run in ("runs/photos", "runs/photos-cleaned"):
        capsys.readouterr()
        command("predict", run, "new", "--force")
        accuracies.append(float(re.search(r"labels of new: ([\d.]+)%", capsys.readouterr().out)[1]))
    assert accuracies[1] > accuracies[0]


def test_predictions_are_compared_with_labels_however_they_are_spelt(front, capsys):
    accuracies = []
    for spelt in (str.lower, str.upper):
        frame = pd.read_csv("held-out.csv")
        frame.assign(status=frame.status.map(spelt)).to_csv("spelt.csv", index=False)
        command("predict", "runs/customers", "spelt.csv", "--force")
        accuracies.append(capsys.readouterr().out.split("spelt.csv: ")[1])
    assert accuracies[0] == accuracies[1]


def frame_of(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    known = {
        "number": rng.normal(size=60), "few": rng.integers(3, size=60), "words": rng.choice(["a", "b"], 60),
        "id": rng.permutation(60), "text": [f"some words about {rng.integers(10**9)}" for _ in range(60)],
    }  # fmt: skip
    return pd.DataFrame({name: known[kind] for name, kind in columns.items()})


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        ({"x": "number", "Target": "words", "plan": "words"}, "Target"),
        ({"status": "words", "class": "words", "x": "number"}, "class"),
        ({"true_label": "words", "Noisy Label": "words", "x": "number"}, "Noisy Label"),
        ({"label": "few", "y": "number", "x": "number"}, "label"),
        ({"id": "id", "x": "number", "anything": "few"}, "anything"),
        ({"kept": "words", "x": "number", "size": "number"}, "kept"),
        ({"category": "number", "status": "words"}, "category"),
    ],
)
def test_the_label_column_is_guessed_by_name_then_by_values(columns, label, tmp_path):
    frame_of(**columns).to_csv(tmp_path / "t.csv", index=False)
    assert guess_columns(str(tmp_path / "t.csv"), Reading()).reading.label_column == label


def test_a_label_column_that_is_named_is_no_guess(tmp_path):
    frame_of(label="words", x="number", t="text").to_csv(tmp_path / "t.csv", index=False)
    guess = guess_columns(str(tmp_path / "t.csv"), Reading())
    assert guess.reading == Reading(text_column=("t",))
    frame_of(label="words", x="number", t="text", u="text").to_csv(tmp_path / "t.csv", index=False)
    assert guess_columns(str(tmp_path / "t.csv"), Reading()).reading == Reading()


def test_where_it_cannot_be_guessed_all_candidates_are_listed(tmp_path, monkeypatch, capsys):
    columns = {f"c{number}": "words" for number in range(12)} | {"id": "id", "note": "text", "size": "number"}
    frame_of(**columns, last="words").drop(columns="last").assign(price=np.arange(60) * 1.5).to_csv(
        tmp_path / "t.csv", index=False
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        command("fit", "t.csv")
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "--label-column and one of: " + ", ".join(f"c{number}" for number in range(12)) in told
    assert not Path("runs").exists()
    frame_of(target="words", category="words", x="number", last="words").to_csv("u.csv", index=False)
    with pytest.raises(DataError, match="one of: target, category, last"):
        guess_columns("u.csv", Reading())


def test_the_first_screen_of_help_has_the_journey_first_and_fits_a_terminal():
    lines = overview().splitlines()
    assert len(lines) < 24  # and the prompt
    assert max(map(len, lines)) <= 80
    places = {name: place for place, line in enumerate(lines) for name in line.split()[:1]}
    assert [*sorted(COMMANDS, key=places.__getitem__)] == list(COMMANDS)
    assert list(JOURNEY) == ["check", "fit", "issues", "report", "apply"] == list(COMMANDS)[:5]
    assert list(COMMANDS)[-len(LABORATORY) :] == list(LABORATORY)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_leaks_a_type(name, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        command(name, "--help")
    text = capsys.readouterr().out
    told = " ".join(re.sub(r"[│╭╰─╮╯]", " ", text).split())
    assert "For example:" in told
    assert "{None}" not in told
    assert "default: None" not in told
    assert "NoneType" not in told
    assert "Annotated" not in told


def test_a_flag_without_a_default_may_still_be_said_to_be_none(front, capsys):
    command("fit", "customers.csv", "--model", "linear", "--threads", "None", "--train-size", "None")
    assert "finished before" in capsys.readouterr().err  # what is not part of the result is another matter


def test_the_completion_knows_every_command_and_flag(tmp_path, capsys):
    pytest.importorskip("torch")
    command("--print-completion", "bash")
    script = capsys.readouterr().out
    for word in (*COMMANDS, "--label-column", "--no-open", "--bootstrap"):
        assert word in script, word
    (tmp_path / "completion").write_text(script)
    assert subprocess.run(["bash", "-n", tmp_path / "completion"], check=False).returncode == 0
    with pytest.raises(SystemExit):
        command("--print-completion", "fish")
    assert "must be one of bash, zsh, tcsh, got 'fish'" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys):
    command("--version")
    assert capsys.readouterr().out == f"trevision {version('trevision')}\n"
