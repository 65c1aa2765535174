"""A user's own files at the level of the command: awkward ones are handled and told, or refused in a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trevision.cli import main
from trevision.data.files import image_lists
from trevision.data.load import load
from trevision.noise import corrupt, pair_flip

ROWS = 60


def run(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def fit(source: Path, *arguments: object) -> dict:
    out = source.parent / "run"
    run("fit", source, "--method", "standard", *arguments, "--out", out)
    return json.loads((out / "result.json").read_text())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def frame(rows: int = ROWS) -> pd.DataFrame:
    """Two classes that one column tells apart."""
    rng = np.random.default_rng(0)
    label = np.arange(rows) % 2
    return pd.DataFrame(
        {
            "size": rng.normal(4 * label, 1).round(3),
            # Now and then another colour: a column that always agrees with the label would be left out.
            "colour": np.array(["red", "blue"])[label ^ (np.arange(rows) % 20 == 3)],
            "label": np.array(["cat", "dog"])[label],
        }
    )


def plain_csv(folder: Path) -> Path:
    frame().to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_missing_labels(folder: Path) -> Path:
    table = frame()
    table.loc[[3, 17], "label"] = None
    table.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_a_label_that_occurs_once(folder: Path) -> Path:
    table = frame()
    table.loc[5, "label"] = "dgo"
    table.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_an_empty_column(folder: Path) -> Path:
    frame().assign(weight=None).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_a_byte_order_mark(folder: Path) -> Path:
    # The label stands first, so that a mark left in place would spoil its name.
    frame()[["label", "size", "colour"]].to_csv(folder / "data.csv", index=False, encoding="utf-8-sig")
    return folder / "data.csv"


def with_quoted_newlines(folder: Path) -> Path:
    table = frame()
    table["colour"] = table["colour"] + "\nlike, wine"
    table.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_other_bytes(folder: Path) -> Path:
    table = frame()
    table["colour"] = table["colour"].replace("red", "café")
    table.to_csv(folder / "data.csv", index=False, encoding="cp1252")
    return folder / "data.csv"


def with_a_repeated_column(folder: Path) -> Path:
    text = plain_csv(folder).read_text().replace("size,colour,label", "size,size,label")
    (folder / "data.csv").write_text(text)
    return folder / "data.csv"


def with_a_number_that_is_none(folder: Path) -> Path:
    table = frame().astype({"size": object})
    table.loc[9, "size"] = "unknown"
    table.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_spaces_and_semicolons(folder: Path) -> Path:
    table = frame()
    table.loc[2, "label"] += " "
    table.to_csv(folder / "data.csv", index=False, sep=";")
    return folder / "data.csv"


def with_decimal_commas(folder: Path) -> Path:
    frame().drop(columns="colour").to_csv(folder / "data.csv", index=False, sep=";", decimal=",")
    return folder / "data.csv"


def with_a_number_too_large(folder: Path) -> Path:
    table = frame()
    table.loc[9, "size"] = 1e300
    table.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_a_date_and_a_column_named_like_its_part(folder: Path) -> Path:
    dates = pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d")
    table = frame().assign(sold=dates)
    table["sold (days)"] = np.where(np.arange(ROWS) % 3, "few", "many")
    table.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def with_tabs(folder: Path) -> Path:
    frame().to_csv(folder / "data.tsv", index=False, sep="\t")
    return folder / "data.tsv"


HANDLED: dict[str, tuple[Callable[[Path], Path], list[str], int]] = {
    "plain": (plain_csv, [], 60),
    "missing labels": (with_missing_labels, ["2 rows without a label left out (rows 3, 17)"], 58),
    "single label": (with_a_label_that_occurs_once, ["Row 5 left out", "'dgo'"], 59),
    "empty column": (with_an_empty_column, ["Column 'weight' is not used: it has no values"], 60),
    "byte order mark": (with_a_byte_order_mark, [], 60),
    "quoted newlines": (with_quoted_newlines, [], 60),
    "other bytes": (with_other_bytes, ["data.csv is not in UTF-8", "line 2 is the first"], 60),
    "repeated column": (with_a_repeated_column, ["Column 2 is named 'size' like another"], 60),
    "odd number": (with_a_number_that_is_none, ["Column 'size': 1 value taken as missing", "row 9"], 60),
    "decimal commas": (with_decimal_commas, ["comma in column 'size' is read as a decimal point"], 60),
    "large number": (with_a_number_too_large, ["Column 'size': 1 value taken", "too large", "row 9"], 60),
    "date's part": (with_a_date_and_a_column_named_like_its_part, [], 60),
    "tabs": (with_tabs, [], 60),
    "spaces": (with_spaces_and_semicolons, ["Spaces around 1 label"], 60),
}


@pytest.mark.parametrize("case", HANDLED)
def test_an_awkward_table_is_fitted_and_what_was_done_is_told(case, tmp_path, capsys):
    make, says, rows = HANDLED[case]
    source = make(tmp_path)
    assert len(load(source).train_y) == rows
    notes = fit(source)["data_notes"]
    printed = capsys.readouterr().err
    assert len(notes) == (1 if says else 0), notes
    for part in says:
        assert part in notes[0]
        assert part in printed
    run("predict", tmp_path / "run", source, "--out", tmp_path / "p.csv")
    predicted = rows_of(tmp_path / "p.csv")
    assert [int(row["row"]) for row in predicted] == list(range(ROWS))
    truth = np.array(["cat", "dog"])[np.arange(ROWS) % 2]
    assert np.mean([row["label"] for row in predicted] == truth) > 0.95
    # Accuracy is printed over the rows that have a label.
    assert "accuracy on the labels" in capsys.readouterr().out


def ragged(folder: Path) -> Path:
    lines = plain_csv(folder).read_text().splitlines()
    lines[8] += ",extra"
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    return folder / "data.csv"


def short_row(folder: Path) -> Path:
    lines = plain_csv(folder).read_text().splitlines()
    lines[8] = "1.5"
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    return folder / "data.csv"


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def corrupt_parquet(folder: Path) -> Path:
    frame().to_parquet(folder / "data.parquet")
    content = (folder / "data.parquet").read_bytes()
    (folder / "data.parquet").write_bytes(content[: len(content) // 2])
    return folder / "data.parquet"


def damaged_parquet(folder: Path) -> Path:
    """The end, which describes the table, is whole; the values are not."""
    pd.concat([frame()] * 50).to_parquet(folder / "data.parquet", compression="gzip")
    content = bytearray((folder / "data.parquet").read_bytes())
    content[40:200] = bytes(160)
    (folder / "data.parquet").write_bytes(content)
    return folder / "data.parquet"


def folder_without_images(folder: Path) -> Path:
    (folder / "data" / "cat").mkdir(parents=True)
    (folder / "data" / "cat" / "notes.txt").write_text("no image")
    return folder / "data"


def images_without_classes(folder: Path) -> Path:
    (folder / "data").mkdir()
    Image.new("L", (8, 8)).save(folder / "data" / "a.png")
    return folder / "data"


def one_class(folder: Path) -> Path:
    frame().assign(label="cat").to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def measurements(folder: Path) -> Path:
    frame().assign(label=np.linspace(0, 1, ROWS)).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def open_quote(folder: Path) -> Path:
    text = plain_csv(folder).read_text().splitlines()
    text[30] = text[30].replace("dog", '"dog').replace("cat", '"cat')
    (folder / "data.csv").write_text("\n".join(text) + "\n")
    return folder / "data.csv"


def doubtful_truths(folder: Path) -> Path:
    frame().assign(sure=["yes"] * 9 + ["perhaps"] * (ROWS - 9)).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def list_labels(folder: Path) -> Path:
    frame().assign(label=[[row % 2] for row in range(ROWS)]).to_parquet(folder / "data.parquet")
    return folder / "data.parquet"


REFUSED: dict[str, tuple[Callable[[Path], Path], list[str], list[str]]] = {
    "too many fields": (ragged, [], ["data.csv: row 7 has too many fields, 4 instead of 3"]),
    "too few fields": (short_row, [], ["data.csv: row 7 has too few fields, 1 instead of 3"]),
    "empty file": (written("data.csv", b""), [], ["data.csv: is empty"]),
    "blank file": (written("data.csv", b"\n\n"), [], ["data.csv: is empty"]),
    "header only": (written("data.csv", b"size,label\n"), [], ["data.csv: holds a header and no rows"]),
    "binary": (written("data.csv", b"a,label\n\0\1,2\n"), [], ["data.csv: holds zero bytes"]),
    "corrupt parquet": (corrupt_parquet, [], ["data.parquet: is not a .parquet file, or a corrupt one"]),
    "damaged parquet": (damaged_parquet, [], ["data.parquet: is not a .parquet file, or a corrupt one"]),
    "no images": (folder_without_images, [], ["data: has no folder with images in it"]),
    "no classes": (images_without_classes, [], ["images go into a folder for each class"]),
    "no label column": (plain_csv, ["--label-column", "lable"], ["'lable'", "did you mean 'label'?"]),
    "far from any": (plain_csv, ["--label-column", "zzz"], ["its columns: size, colour, label"]),
    "no name column": (plain_csv, ["--name-column", "id"], ["has no column 'id', the name_column"]),
    "one class": (one_class, [], ["two classes", "cat"]),
    "measurements": (
        measurements,
        [],
        ["60 different numbers from 0 to 1", "put it into a few classes first"],
    ),
    "open quote": (open_quote, [], ["data.csv: a quotation mark that opens in row 29 is never closed"]),
    "no truth": (doubtful_truths, ["--clean-column", "sure"], ["'perhaps' in row 9"]),
    "column twice": (plain_csv, ["--text-column", "label", "--label-column", "label"], ["different columns"]),
    "image size": (plain_csv, ["--image-size", "32"], ["image_size is a choice for images"]),
    "list labels": (list_labels, [], ["data.parquet: labels must be words, whole numbers or truths"]),
    "no file": (lambda folder: folder / "none.csv", [], ["none.csv: there is no such file"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_gets_one_line_and_status_2_and_nothing_is_written(case, tmp_path, capsys):
    make, arguments, says = REFUSED[case]
    source = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as stopped:
        run("fit", source, *arguments, "--out", tmp_path / "run")
    written = capsys.readouterr()
    assert stopped.value.code == 2
    assert len(written.err.strip().splitlines()) == 1, written.err
    assert written.out == ""
    for part in says:
        assert part in written.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("source", ["digits", "data.npz"])
def test_a_choice_that_would_be_ignored_is_refused(source, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", x=np.eye(6), y=np.arange(6) % 2)
    place = source if source == "digits" else tmp_path / source
    with pytest.raises(SystemExit) as stopped:
        run("fit", place, "--label-column", "a", "--out", tmp_path / "run")
    assert stopped.value.code == 2
    assert "label_column is a choice for a .csv or .parquet file" in capsys.readouterr().err


def images(folder: Path, rows: int = 40, size: tuple[int, int] = (10, 8)) -> Path:
    """Grey images whose class is which half is bright: cat left, dog right."""
    rng = np.random.default_rng(1)
    for row in range(rows):
        pixels = rng.integers(0, 90, size=size[::-1], dtype=np.uint8)
        half = slice(0, size[0] // 2) if row % 2 == 0 else slice(size[0] // 2, None)
        pixels[:, half] += 120
        target = folder / ("cat" if row % 2 == 0 else "dog")
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(target / f"{row:03d}.png")
    return folder


def test_a_folder_with_damaged_and_strange_files_is_fitted_and_they_are_told(tmp_path, capsys):
    folder = images(tmp_path / "pets")
    Image.effect_noise((10, 8), 50).save(folder / "dog" / "torn.jpg", quality=95)
    torn = (folder / "dog" / "torn.jpg").read_bytes()
    (folder / "dog" / "torn.jpg").write_bytes(torn[: len(torn) * 2 // 3])
    (folder / "cat" / "readme.txt").write_text("a text")
    (folder / "fish").mkdir()
    notes = fit(folder)["data_notes"]
    printed = capsys.readouterr().err
    assert len(notes) == 3
    for part in (
        "The folder 'fish' holds no image",
        "1 file passed over, no image by name: cat/readme.txt",
        "1 image left out that cannot be decoded: dog/torn.jpg (row 40)",
    ):
        assert sum(part in note for note in notes) == 1
        assert part in printed
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["shape"] == [1, 8, 10]
    assert config["model"]["classes"] == ["cat", "dog"]
    run("predict", tmp_path / "run", folder, "--out", tmp_path / "p.csv")
    predicted = rows_of(tmp_path / "p.csv")
    assert [row["name"] for row in predicted[:2]] == ["cat/000.png", "cat/002.png"]
    assert [int(row["row"]) for row in predicted] == list(range(40))
    assert np.mean([row["name"].startswith(row["label"]) for row in predicted]) > 0.9
    assert "accuracy" in capsys.readouterr().out


def test_images_too_many_for_memory_are_learnt_from_their_files(tmp_path, monkeypatch, capsys):
    folder = images(tmp_path / "pets")
    monkeypatch.setattr(image_lists, "MOST_BYTES", 100)
    fit(folder)
    run("predict", tmp_path / "run", folder, "--out", tmp_path / "p.csv")
    predicted = rows_of(tmp_path / "p.csv")
    assert np.mean([row["name"].startswith(row["label"]) for row in predicted]) > 0.9


def test_images_without_classes_are_predicted_by_a_model_of_images(tmp_path, capsys):
    folder = images(tmp_path / "pets")
    fit(folder)
    new = tmp_path / "new"
    new.mkdir()
    for name in ("cat/000.png", "dog/001.png"):
        Image.open(folder / name).resize((30, 24)).save(new / name.replace("/", "-"))
    run("predict", tmp_path / "run", new, "--out", tmp_path / "p.csv")
    predicted = {row["name"]: row["label"] for row in rows_of(tmp_path / "p.csv")}
    assert predicted == {"cat-000.png": "cat", "dog-001.png": "dog"}
    assert "accuracy" not in capsys.readouterr().out.splitlines()[-1]


def test_a_table_of_paths_and_labels_is_a_source_of_images(tmp_path, capsys):
    folder = images(tmp_path / "pets")
    names = sorted(path.relative_to(tmp_path).as_posix() for path in folder.rglob("*.png"))
    # The labels of the table count, not those of the folders.
    table = pd.DataFrame({"file": names, "what": ["c" if "cat" in n else "d" for n in names]})
    table.loc[len(table)] = ["pets/cat/missing.png", "c"]
    table.to_csv(tmp_path / "list.csv", index=False)
    result = fit(tmp_path / "list.csv", "--label-column", "what", "--image-size", 12)
    assert "1 image left out that cannot be decoded: pets/cat/missing.png (row 40)" in result["data_notes"][0]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["shape"] == [1, 12, 12]
    assert config["model"]["classes"] == ["c", "d"]
    run("predict", tmp_path / "run", tmp_path / "list.csv", "--out", tmp_path / "p.csv")
    predicted = rows_of(tmp_path / "p.csv")
    assert [row["name"] for row in predicted] == names
    assert np.mean([row["label"] == ("c" if "cat" in row["name"] else "d") for row in predicted]) > 0.9


def test_prediction_uses_what_was_fitted_to_the_training_table(tmp_path, capsys):
    """The same rows in another order of columns, alone or among others, get the same probabilities."""
    table = frame().assign(when=pd.date_range("2024-01-01", periods=ROWS), good=np.arange(ROWS) % 3 == 0)
    table.to_parquet(tmp_path / "data.parquet")
    fit(tmp_path / "data.parquet")
    run("predict", tmp_path / "run", tmp_path / "data.parquet", "--out", tmp_path / "all.csv")
    new = table.iloc[10:13].drop(columns="label").iloc[:, ::-1].assign(more="x")
    new.to_csv(tmp_path / "new.csv", index=False)
    run("predict", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "new-out.csv")
    expected, got = rows_of(tmp_path / "all.csv")[10:13], rows_of(tmp_path / "new-out.csv")
    for old, fresh in zip(expected, got, strict=True):
        assert float(fresh["P(cat)"]) == pytest.approx(float(old["P(cat)"]), abs=1e-6)
    capsys.readouterr()
    new.drop(columns=["size", "when"]).to_csv(tmp_path / "lacking.csv", index=False)
    with pytest.raises(SystemExit) as stopped:
        run("predict", tmp_path / "run", tmp_path / "lacking.csv", "--out", tmp_path / "x.csv")
    assert stopped.value.code == 2
    assert "lacking.csv: lacks 2 columns of the training table: size, when" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


def test_trusted_rows_are_measured_and_are_no_noisy_rows(tmp_path):
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=600)
    noisy = corrupt(clean, pair_flip(3, 0.4), rng)
    sure = np.arange(600) % 4 == 0
    table = pd.DataFrame(rng.normal(size=(600, 2)) + 4 * np.eye(3)[clean][:, :2], columns=["a", "b"])
    table = table.assign(label=np.where(sure, clean, noisy), sure=np.where(sure, "yes", "no"))
    table.to_csv(tmp_path / "data.csv", index=False)
    words = ["--clean-column", "sure", "--model", "network"]
    run("fit", tmp_path / "data.csv", *words, "--out", tmp_path / "run")
    learnt = np.loadtxt(tmp_path / "run" / "transition.csv", delimiter=",")
    assert np.abs(learnt - pair_flip(3, 0.4)).max() < 0.2
    records = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all("trusted_error" in json.loads(line) for line in records)


def test_a_run_recorded_before_there_was_a_reading_is_taken_up_again(tmp_path, capsys):
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(40, 2)), y=np.arange(40) % 2)
    first = fit(tmp_path / "data.npz")
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    del config["reading"]
    path.write_text(json.dumps(config))
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    assert fit(tmp_path / "data.npz") == first
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before
    run("predict", tmp_path / "run", tmp_path / "data.npz", "--out", tmp_path / "p.csv")
    assert "40 predictions" in capsys.readouterr().out


def test_the_reading_is_stored_and_another_one_is_another_run(tmp_path, capsys):
    source = plain_csv(tmp_path)
    fit(source, "--ignore-column", "colour")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["reading"]["ignore_column"] == ["colour"]
    with pytest.raises(SystemExit):
        fit(source)
    assert "another reading" in capsys.readouterr().err


def test_the_second_of_two_columns_is_known_by_the_name_it_is_told_under(tmp_path, capsys):
    source = with_a_repeated_column(tmp_path)
    fit(source, "--ignore-column", "size (2)")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["shape"][0] < load(source).train_x.shape[1]


def numbered(folder: Path, name: str, write: Callable[[np.ndarray], np.ndarray]) -> Path:
    """Three classes, 0 to 2, as `write` spells them, in an .npz or a .csv file."""
    label = np.arange(ROWS) % 3
    x = np.random.default_rng(0).normal(size=(ROWS, 2)) + 5 * np.eye(3)[label][:, :2]
    if name.endswith(".npz"):
        np.savez(folder / name, x=x, y=write(label))
    else:
        pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": write(label)}).to_csv(folder / name, index=False)
    return folder / name


SPELLINGS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "1 in a .csv": ("a.csv", lambda y: y),
    "1.0 in a .csv": ("b.csv", lambda y: y.astype(float)),
    "1 and 1.0 in a .csv": (
        "c.csv",
        lambda y: np.where(np.arange(ROWS) % 2, y.astype(str), np.char.add(y.astype(str), ".0")),
    ),
    "int in an .npz": ("d.npz", lambda y: y),
    "float in an .npz": ("e.npz", lambda y: y.astype(float)),
    "bytes in an .npz": ("f.npz", lambda y: y.astype("S")),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_whole_number_is_one_class_however_it_is_spelt(spelling, tmp_path):
    found = load(numbered(tmp_path, *SPELLINGS[spelling]))
    assert found.class_names == ("0", "1", "2")
    assert found.train_y.tolist() == (np.arange(ROWS) % 3).tolist()


@pytest.mark.parametrize("trained", ["1.0 in a .csv", "bytes in an .npz"])
def test_predictions_know_a_label_that_is_spelt_otherwise(trained, tmp_path, capsys):
    source = numbered(tmp_path, *SPELLINGS[trained])
    fit(source)
    same_kind = [one for one in SPELLINGS.values() if one[0][-4:] == source.suffix]
    for other in same_kind:
        capsys.readouterr()
        new = numbered(tmp_path, "new-" + other[0], other[1])
        run("predict", tmp_path / "run", new, "--out", tmp_path / "p.csv", "--force")
        accuracy = float(capsys.readouterr().out.split(":")[-1].strip().rstrip("%"))
        assert accuracy > 90
    assert set(rows_of(tmp_path / "p.csv")[0]) == {"row", "label", "P(0)", "P(1)", "P(2)"}
