"""Several labels a row at the level of the command: from answers to a run, its page and cleaned labels.

The run is that of the network here; `test_answers_models.py` has the other models.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trevision.cli import main
from trevision.data.files.reading import Reading
from trevision.data.load import load
from trevision.noise import corrupt
from trevision.runs.run import run as run_settings
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Settings

ROWS = 150
PEOPLE = {"ann": 0.95, "bob": 0.9, "cleo": 0.85, "<b>dan</b>": 0.5}
ANSWERS = ("--id-column", "id", "--annotator-column", "who")


def run(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, np.ndarray]:
    """answers.csv, rows.csv in another order with two rows that nobody answered, and the clean labels."""
    rng = np.random.default_rng(0)
    clean = rng.integers(2, size=ROWS)
    names = np.array(["cat", "dog"])
    rows = pd.DataFrame(
        {
            "id": [f"x{row}" for row in range(ROWS)],
            "size": rng.normal(3 * clean, 1).round(3),
            "remark": [f"<script>alert({row})</script>" for row in range(ROWS)],
            "label": "elephant",
        }
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    lines = []
    for who, right in PEOPLE.items():
        said = corrupt(clean, np.array([[right, 1 - right], [1 - right, right]]), rng)
        asked = np.flatnonzero((rng.random(ROWS) < 0.8) | (who == "ann"))
        lines += [(f"x{row}", who, names[said[row]]) for row in asked if row not in (7, 90)]
    table = pd.DataFrame(lines, columns=["id", "who", "label"])
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "answers.csv", index=False)
    return tmp_path / "answers.csv", tmp_path / "rows.csv", clean


def fit(files: tuple, out: Path, *more: object) -> dict:
    rows = ("--rows-source", files[1], "--ignore-column", "remark")
    run("fit", files[0], *ANSWERS, *rows, "--model", "network", *more, "--out", out)
    return json.loads((out / "result.json").read_text())


def test_answers_joined_by_id_give_a_run_that_every_command_takes(files, tmp_path, capsys):
    answers, rows, clean = files
    out = tmp_path / "run"
    result = fit(files, out)
    told = capsys.readouterr()
    given = pd.read_csv(answers)
    assert result["annotators"]["annotators"] == 4
    assert result["annotators"]["answers"] == len(given)
    assert result["annotators"]["rows"] == given.id.nunique()
    assert "4 annotators gave" in told.out
    assert "2 rows without a label left out (rows 7, 90)" in told.err
    stored = json.loads((out / "annotators.json").read_text())
    right = {each["name"]: each["right"] for each in stored["annotators"]}
    assert right == pytest.approx(PEOPLE, abs=0.1)
    folder = RunFolder(out)
    assert [column.name for column in folder.preprocessing.columns] == ["size"]
    assert folder.labels.class_names == ("cat", "dog")
    truth = clean[folder.labels.row_numbers]
    votes = (folder.labels.codes == truth).mean()
    inferred = folder.annotators.clean_posterior.argmax(axis=1) == clean[folder.clean_rows]
    assert inferred.mean() >= votes > 0.8

    run("issues", out, "--show", 2)
    assert f"of {len(truth)} labels are wrong" in capsys.readouterr().out
    listed = rows_of(out / "issues.csv")
    assert {line["name"] for line in listed} == set(given.id)
    run("predict", out, rows, "--out", tmp_path / "predictions.csv")
    predictions = rows_of(tmp_path / "predictions.csv")
    assert [line["name"] for line in predictions] == [f"x{row}" for row in range(ROWS)]
    assert (
        np.mean([line["label"] == ("cat", "dog")[c] for line, c in zip(predictions, clean, strict=True)])
        > 0.85
    )
    held_out = pd.read_csv(rows).assign(label=np.array(["cat", "dog"])[clean])
    held_out.to_csv(tmp_path / "held-out.csv", index=False)
    run("score", out, tmp_path / "held-out.csv")
    assert "accuracy" in capsys.readouterr().out


def test_the_page_lists_annotators_and_disputed_rows_and_escapes_them(files, tmp_path):
    out = tmp_path / "run"
    fit(files, out)
    run("report", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<b>dan</b>" not in page
    assert "<script>alert" not in page
    part = page[page.index('id="annotators"') : page.index('id="trust"')]
    people = [part.index(f">{name}</th>") for name in ("&lt;b&gt;dan&lt;/b&gt;", "cleo", "ann")]
    assert people == sorted(people)
    crowd = RunFolder(out).annotators
    worst = crowd.names.index("<b>dan</b>")
    assert f"{100 * crowd.right[worst]:.1f}%" in part
    assert f"{100 * crowd.right_low[worst]:.1f}% to {100 * crowd.right_high[worst]:.1f}%" in part
    for value in crowd.transitions[worst].ravel():
        assert f'<td class="number">{100 * value:.0f}%</td>' in part
    assert "The rows on which they disagree most" in part
    assert "&lt;script&gt;alert(" in part
    assert "bob: dog" in part


def test_reviewed_votes_are_written_one_a_row_and_can_be_learnt_from(files, tmp_path, capsys):
    answers, rows, _ = files
    out = tmp_path / "run"
    fit(files, out)
    run("issues", out)
    first = rows_of(out / "issues.csv")[0]
    other = {"cat": "dog", "dog": "cat"}[first["given"]]
    with (tmp_path / "corrections.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["row", "name", "given", "corrected", "decision"])
        lines.writerow([first["row"], first["name"], first["given"], other, "change"])
    run("apply", out, tmp_path / "corrections.csv", "--out", tmp_path / "cleaned.csv")
    cleaned = rows_of(tmp_path / "cleaned.csv")
    assert list(cleaned[0]) == ["id", "size", "remark", "label", "checked"]
    given = pd.read_csv(answers)
    for number, line in enumerate(cleaned):
        votes = given[given.id == line["id"]].label.value_counts()
        if number == int(first["row"]):
            assert line["label"] == other
        elif len(votes) == 0:
            assert line["label"] == ""
        else:
            assert votes[line["label"]] == votes.max()
    assert len(cleaned) == ROWS
    run("fit", tmp_path / "cleaned.csv", "--ignore-column", "remark", "--name-column", "id",
        "--out", tmp_path / "again")  # fmt: skip
    capsys.readouterr()
    with pytest.raises(SystemExit):
        run("apply", out, tmp_path / "corrections.csv", "--out", rows)
    assert "out must not be what is read" in capsys.readouterr().err


def test_rows_repeated_in_the_answers_are_the_same_run(files, tmp_path):
    """The first line of an id has its features; `rows.csv` is put into that order for the comparison."""
    answers, rows, _ = files
    given, features = pd.read_csv(answers), pd.read_csv(rows).drop(columns="label")
    merged = given.merge(features, on="id")
    merged.to_csv(tmp_path / "merged.csv", index=False)
    ordered = features.set_index("id").loc[merged.id.drop_duplicates()].reset_index()
    ordered.to_csv(tmp_path / "ordered.csv", index=False)
    run("fit", tmp_path / "merged.csv", *ANSWERS, "--ignore-column", "remark", "--model", "network",
        "--out", tmp_path / "one")  # fmt: skip
    fit((answers, tmp_path / "ordered.csv"), tmp_path / "two")
    one, two = (RunFolder(tmp_path / name) for name in ("one", "two"))
    assert [column.name for column in one.preprocessing.columns] == ["size"]
    assert (tmp_path / "one/model.safetensors").read_bytes() == (
        tmp_path / "two/model.safetensors"
    ).read_bytes()
    assert np.array_equal(one.annotators.clean_posterior, two.annotators.clean_posterior)


def test_parquet_files_and_numbers_as_ids_are_joined(files, tmp_path):
    answers, rows, _ = files
    given, features = pd.read_csv(answers), pd.read_csv(rows).drop(columns="label")
    for table in (given, features):
        table["id"] = table["id"].str[1:].astype(float if table is given else int)
    given.to_parquet(tmp_path / "answers.parquet")
    features.to_parquet(tmp_path / "rows.parquet")
    fit((tmp_path / "answers.parquet", tmp_path / "rows.parquet"), tmp_path / "run")
    run("issues", tmp_path / "run")
    (tmp_path / "corrections.csv").write_text("row,name,given,corrected,decision\n")
    run("apply", tmp_path / "run", tmp_path / "corrections.csv", "--out", tmp_path / "cleaned.parquet")
    cleaned = pd.read_parquet(tmp_path / "cleaned.parquet")
    assert cleaned.columns.tolist() == ["id", "size", "remark", "label"]
    assert cleaned.label.isna().sum() == 2


def test_images_named_by_the_answers_are_learnt_from(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for number in range(40):
        pixels = rng.integers(0, 60, size=(12, 12, 3), dtype=np.uint8)
        pixels[:6, :, 0] += np.uint8(120 * (number % 2))
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        lines += [(f"{number}.png", who, "red" if number % 2 else "dark") for who in "abc"]
    pd.DataFrame(lines, columns=["path", "who", "label"]).to_csv(tmp_path / "answers.csv", index=False)
    run("fit", tmp_path / "answers.csv", "--id-column", "path", "--annotator-column", "who",
        "--out", tmp_path / "run")  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    assert folder.card.shape == (3, 12, 12)
    assert len(folder.labels) == 40
    run("report", tmp_path / "run", "--suspects", 5)
    assert '"mime":"image/png"' in (tmp_path / "run/report.html").read_text()


def test_a_stopped_run_continues_to_the_same_bits(files, tmp_path, every_epoch_kept):
    reading = Reading(
        id_column="id", annotator_column="who", rows_source=str(files[1]), ignore_column=("remark",)
    )
    settings = Settings(reading=reading)
    run_settings(str(files[0]), settings, tmp_path / "whole")

    class Stops:
        epochs = 0

        def stage(self, *_):
            pass

        def batch(self):
            pass

        def epoch(self, _):
            self.epochs += 1
            if self.epochs in (9, 30):
                raise KeyboardInterrupt

    progress = Stops()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_settings(str(files[0]), settings, tmp_path / "parts", progress=progress)
        assert not (tmp_path / "parts/result.json").exists()
    run_settings(str(files[0]), settings, tmp_path / "parts", progress=progress)
    for name in ("model.safetensors", "annotators.json", "answers.parquet", "transition.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_fewer_rows_take_their_answers_with_them(files, tmp_path):
    result = fit(files, tmp_path / "run", "--train-size", 60)
    assert result["annotators"]["rows"] == 60
    folder = RunFolder(tmp_path / "run")
    given = pd.read_csv(files[0])
    asked = {f"x{row}" for row in folder.clean_rows}
    assert result["annotators"]["answers"] == given.id.isin(asked).sum()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--annotator-column", "who"], "annotator_column and id_column must be given together"),
        (["--id-column", "id"], "got id_column alone"),
        (["--rows-source", "rows.csv"], "rows_source must go with annotator_column and id_column"),
        (["--id-column", "id", "--annotator-column", "whom"], "has no column 'whom', the annotator_column"),
        ([*ANSWERS, "--rows-source", "rows.npz"], "rows_source must be a .csv or .parquet file"),
        ([*ANSWERS, "--rows-source", "nowhere.csv"], "nowhere.csv: there is no such file"),
        ([*ANSWERS, "--noise", "sym-20"], "noise must be left out with several labels a row"),
        ([*ANSWERS, "--method", "forward"], "method must be left out with several labels a row, got forward"),
        ([*ANSWERS, "--estimator", "hoc"], "estimator must be left out"),
        ([*ANSWERS, "--clean-column", "label"], "clean_column must be left out with annotator_column"),
        (["--id-column", "who", "--annotator-column", "who"], "id_column must differ from annotator_column"),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_a_line(
    files, tmp_path, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run("fit", "answers.csv", *arguments, "--out", "run")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert message in " ".join(told.split())
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answers, rows: (pd.concat([answers, answers.head(1).assign(label="bird")]), rows),
         "two different labels"),
        (lambda answers, rows: (answers, pd.concat([rows, rows.head(1)])),
         "must name each row once, and 'x0' is in rows 0 and 150"),
        (lambda answers, rows: (answers.assign(id="y"), rows), "no id is in"),
        (lambda answers, rows: (answers.assign(who=None), rows), "no line has an id, an annotator and a"),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_joined_are_refused(files, tmp_path, capsys, change, message):
    answers, rows = change(*(pd.read_csv(path) for path in files[:2]))
    answers.to_csv(files[0], index=False)
    rows.to_csv(files[1], index=False)
    with pytest.raises(SystemExit):
        fit(files, tmp_path / "run")
    assert message in " ".join(capsys.readouterr().err.split())


def test_lines_that_say_nothing_are_left_out_and_told(files, tmp_path):
    answers = pd.read_csv(files[0])
    count = len(answers)
    strange = pd.DataFrame(
        {
            "id": ["x1", None, "z9", "x2"],
            "who": ["eve", "ann", "ann", "eve"],
            "label": [None, "cat", "cat", "bird"],
        }
    )
    pd.concat([answers, answers.head(3), strange]).to_csv(files[0], index=False)
    reading = Reading(
        id_column="id", annotator_column="who", rows_source=str(files[1]), ignore_column=("remark",)
    )
    dataset = load(files[0], reading=reading)
    assert dataset.answers is not None
    assert len(dataset.answers.row) == count
    assert set(dataset.answers.names) == set(PEOPLE)
    told = " ".join(dataset.notes)
    assert "2 lines without an id, an annotator or a label left out." in told
    assert "1 answer left out, whose id is in no row of rows.csv (the first is 'z9')." in told
    assert "3 answers left out, given twice." in told
    assert "1 answer left out, whose label won too few votes to be a class." in told
