"""Fields of rows for people, and copies of sources with some labels replaced."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from trevision.data.files.corrections import row_fields, write_labels
from trevision.data.files.reading import Reading
from trevision.data.load import load
from trevision.files import DataError

AWKWARD = '\ufefftext,kind,text\n"two\nlines","cat","say ""hi"""\n\nNA,dog, spaced \n"a,b",,07\né,dog,1.50\n'


@pytest.fixture
def awkward(tmp_path):
    (tmp_path / "a.csv").write_text(AWKWARD, encoding="utf-8")
    return tmp_path / "a.csv"


READING = Reading(label_column="kind")


def test_fields_are_the_text_of_the_file_in_the_order_asked_for(awkward):
    assert row_fields(awkward, READING, [3, 0, 3, 2]) == [
        {"text": "é", "kind": "dog", "text (2)": "1.50"},
        {"text": "two\nlines", "kind": "cat", "text (2)": 'say "hi"'},
        {"text": "é", "kind": "dog", "text (2)": "1.50"},
        {"text": "a,b", "kind": "", "text (2)": "07"},
    ]
    with pytest.raises(DataError, match="has 4 rows, counted from 0, but row 4 is asked for"):
        row_fields(awkward, READING, [4])


def test_fields_of_a_parquet_file_are_text_and_other_sources_have_none(tmp_path):
    pd.DataFrame({"v": [1.5, None], "y": ["a", "b"]}).to_parquet(tmp_path / "t.parquet")
    assert row_fields(tmp_path / "t.parquet", Reading(), np.array([1, 0])) == [
        {"v": "", "y": "b"},
        {"v": "1.5", "y": "a"},
    ]
    assert row_fields("digits", Reading(), [5, 6]) == [{}, {}]


def test_a_corrected_csv_differs_in_those_labels_alone(awkward, tmp_path):
    out = tmp_path / "sub" / "fixed.csv"
    write_labels(awkward, READING, {1: "cow, brown", 2: "cat"}, out)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["text", "kind", "text"],
        ["two\nlines", "cat", 'say "hi"'],
        ["NA", "cow, brown", " spaced "],
        ["a,b", "cat", "07"],
        ["é", "dog", "1.50"],
    ]
    assert awkward.read_text(encoding="utf-8") == AWKWARD


def test_a_corrected_table_of_the_reader_differs_in_those_labels_alone(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=30), "b": rng.choice(["x", "y"], 30), "label": [0, 1, 2] * 10})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    frame.to_parquet(tmp_path / "t.parquet")
    for suffix in ("csv", "parquet"):
        before = load(tmp_path / f"t.{suffix}")
        write_labels(tmp_path / f"t.{suffix}", Reading(), {4: "2", 20: "0"}, tmp_path / f"new.{suffix}")
        after = load(tmp_path / f"new.{suffix}")
        assert after.train_x.equal(before.train_x)
        expected = before.train_y.tolist()
        expected[4], expected[20] = 2, 0
        assert after.train_y.tolist() == expected


def test_a_corrected_parquet_file_keeps_its_types(tmp_path):
    labels = pa.array(["a", "b", "a", "b"]).dictionary_encode()
    table = pa.table({"y": labels, "v": pa.array([1, 2, 3, 4], pa.int8())})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    write_labels(tmp_path / "t.parquet", Reading(), {0: "new"}, tmp_path / "out.parquet")
    found = pa.parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.equals(table.schema)
    assert found["y"].to_pylist() == ["new", "b", "a", "b"]
    numbers = table.set_column(0, "y", pa.array([0, 1, 0, 1]))
    pa.parquet.write_table(numbers, tmp_path / "n.parquet")
    with pytest.raises(DataError, match="labels of type int64"):
        write_labels(tmp_path / "n.parquet", Reading(), {0: "new"}, tmp_path / "no.parquet")
    assert not (tmp_path / "no.parquet").exists()


@pytest.mark.parametrize(
    ("labels", "corrections", "expected"),
    [
        (np.array([0, 1, 2], np.uint8), {0: "2", 2: "7"}, [2, 1, 7]),
        (np.array(["a", "b", "a"]), {1: "longer"}, ["a", "longer", "a"]),
        (np.array([True, False, True]), {0: "False"}, [False, False, True]),
        (np.array([1.0, 2.0, 1.0]), {0: "2.0"}, [2.0, 2.0, 1.0]),
    ],
)
def test_corrected_arrays_keep_their_type_and_the_other_arrays(labels, corrections, expected, tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "t.npz", x=x, y=labels, x_test=x + 1, more=x * 2)
    write_labels(tmp_path / "t.npz", Reading(), corrections, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert found["y"].tolist() == expected
        assert found["y"].dtype.kind == labels.dtype.kind
        assert np.array_equal(found["more"], x * 2)
        assert np.array_equal(found["x_test"], x + 1)


def test_a_folder_becomes_a_table_of_paths_that_reads_as_the_same_images(tmp_path):
    for row in range(6):
        path = tmp_path / "set" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), 40 * row).save(path)
    before = load(tmp_path / "set")
    (tmp_path / "elsewhere").mkdir()
    for out in (tmp_path / "beside.csv", tmp_path / "elsewhere" / "far.csv"):
        reading = write_labels(tmp_path / "set", Reading(), {0: "b"}, out)
        assert reading == Reading(paths_anywhere=out.parent.name == "elsewhere")
        after = load(out, reading=reading)
        assert after.train_x.equal(before.train_x)
        assert after.train_y.tolist() == [1, 0, 0, 1, 1, 1]
    assert "set/a/0.png,b" in (tmp_path / "beside.csv").read_text()
    # A table of paths that is corrected into another folder still finds its images.
    again = tmp_path / "elsewhere" / "again.csv"
    reading = write_labels(tmp_path / "beside.csv", Reading(), {3: "a"}, again)
    assert reading == Reading(paths_anywhere=True)
    assert load(again, reading=reading).train_y.tolist() == [1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("corrections", "name", "complaint"),
    [
        ({9: "a"}, "out.csv", "row 9 is asked for"),
        ({0: " "}, "out.csv", "got none for row 0"),
        ({0: "a"}, "out.parquet", "out must end in .csv"),
        ({0: "a"}, "a.csv", "must not be the source itself"),
    ],
)
def test_corrections_that_cannot_be_are_refused_and_nothing_is_written(
    awkward, tmp_path, corrections, name, complaint
):
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(DataError, match=complaint):
        write_labels(awkward, READING, corrections, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_labels_of_a_named_set_cannot_be_replaced(tmp_path):
    with pytest.raises(DataError, match="file or folder whose labels can be replaced, got 'digits'"):
        write_labels("digits", Reading(), {0: "1"}, tmp_path / "out.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("column", [None, "sure"])
def test_checked_rows_are_trusted_where_the_copy_is_read(tmp_path, suffix, column):
    """In a new column, or in the one that the run has; the rows it trusted before stay trusted."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=30), "label": ["cat", "dog"] * 15, "checked": "abc"})
    frame["sure"] = np.arange(30) == 4
    source, out = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    if suffix == ".csv":
        frame.to_csv(source, index=False)
    else:
        frame.to_parquet(source, index=False)
    reading = write_labels(source, Reading(clean_column=column), {7: "cat"}, out, checked=[2, 7])
    assert reading.clean_column == (column or "checked_2")
    trusted = [2, 7] if column is None else [2, 4, 7]
    data = load(str(out), reading=reading)
    assert sorted(set(range(30)) - set(data.row_numbers.tolist())) == trusted
    assert [data.class_names[code] for code in data.trusted_y] == ["cat"] * len(trusted)


def test_checked_images_of_a_folder_are_trusted(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("L", (8, 8), 20 * number).save(tmp_path / "images" / name / f"{number}.png")
    reading = write_labels(tmp_path / "images", Reading(), {1: "dog"}, tmp_path / "b.csv", checked=[1, 6])
    data = load(str(tmp_path / "b.csv"), reading=reading)
    assert data.row_numbers.tolist() == [0, 2, 3, 4, 5, 7]
    assert [data.class_names[code] for code in data.trusted_y] == ["dog", "dog"]


def test_a_run_that_has_a_file_of_right_labels_is_told_to_add_to_it(awkward, tmp_path):
    reading = Reading(label_column="kind", clean_source="right.csv")
    with pytest.raises(DataError, match=r"right\.csv"):
        write_labels(awkward, reading, {0: "dog"}, tmp_path / "out.csv", checked=[0])
    assert not (tmp_path / "out.csv").exists()
