"""Tables as data sets: what columns become, which rows stay, and that reading again gives the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from trevision.data.files import survey as survey_module
from trevision.data.files import table_dataset
from trevision.data.files import tables as tables_module
from trevision.data.files.columns import booleans, date_parts, numbers, recognise
from trevision.data.files.reading import Reading
from trevision.data.files.tables import open_table
from trevision.data.load import load, load_rows
from trevision.data.rows import take_rows
from trevision.files import DataError


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", None, " 3e2 "], "number"),
        (["1"] * 99 + ["unknown"], "number"),
        (["1"] * 9 + ["unknown"] * 9, "category"),
        (["01067", "10115", "80331"] * 9, "category"),  # postal codes
        (["07", "12", "7"], "number"),
        ([f"{number:05d}" for number in range(30)], "ignored"),
        (["yes", "no", "Yes", None], "boolean"),
        (["True", "False"], "boolean"),
        (["2024-01-31", "2023-12-01"], "date"),
        (["2024-01-31T10:20:30Z", "2023-12-01T00:00:00Z"], "date"),
        (["31.01.2024", "01.12.2023"], "date"),
        (["31/01/2024", "01/12/2023"], "date"),
        (["red", "blue", "red"], "category"),
        ([None, None], "ignored"),
        ([f"id-{i}" for i in range(30)], "ignored"),
        ([1, 2, None], "number"),
        ([True, False], "boolean"),
        ([[1], [2]], "ignored"),
    ],
)
def test_a_column_is_what_its_values_say(values, kind):
    assert recognise("c", pa.array(values)).kind == kind


def test_typed_columns_are_recognised_by_their_type():
    words = pa.array(["a", "b", "a"])
    assert recognise("c", words.dictionary_encode()).kind == "category"
    assert recognise("c", words.cast(pa.large_string())).kind == "category"
    assert recognise("c", pa.array([0, 1], pa.date32())).kind == "date"
    assert recognise("c", pa.array([0, 1], pa.timestamp("ms", "Europe/Berlin"))).kind == "date"


def test_values_become_the_numbers_they_mean():
    assert numbers(pa.array(["1", " 2 ", None, "x", "inf"])).tolist()[:2] == [1, 2]
    assert np.isnan(numbers(pa.array(["1", " 2 ", None, "x", "inf"]))[2:]).all()
    np.testing.assert_array_equal(
        booleans(pa.array(["Yes", "no", "1", None, "x"])), [1, 0, 1, np.nan, np.nan]
    )
    parts = date_parts(pa.array(["1970-01-11 06:00", None]), "ISO8601")
    # The eleventh of January 1970 was a Sunday, ten and a quarter days after the beginning of the count.
    assert parts[0].tolist() == [10.25, 1, 6, 6]
    assert np.isnan(parts[1]).all()


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 200
    label = rng.integers(3, size=n)
    return pd.DataFrame(
        {
            "name": [f"row-{i}" for i in range(n)],
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(label, 1)),
            "b": rng.integers(5, size=n),
            "c": rng.choice(["x", "y", "z"], size=n),
            "d": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D"),
            "t": [" ".join(rng.choice(["good", "bad", "fine", "poor"], 6)) for _ in range(n)],
            "label": np.array(["ant", "bee", "cow"])[label],
        }
    )


READING = Reading(name_column="name", text_column=("t",))


def written(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    return path


def test_numbers_are_imputed_by_the_median_and_standardised_and_words_are_one_hot(table, tmp_path):
    dataset = load(written(table[["a", "c", "label"]], tmp_path / "t.csv"))
    a = table["a"].fillna(table["a"].median())
    expected = np.column_stack([(a - a.mean()) / a.std(ddof=0), *(table["c"] == v for v in "xyz")])
    np.testing.assert_allclose(dataset.train_x.numpy(), expected.astype(float), atol=1e-5)
    assert dataset.train_x.dtype == torch.float32
    assert [dataset.class_names[code] for code in dataset.train_y.tolist()] == table["label"].tolist()


def test_csv_and_parquet_of_the_same_table_are_the_same_data_set(table, tmp_path):
    one, two = (load(written(table, tmp_path / name), reading=READING) for name in ("t.csv", "t.parquet"))
    torch.testing.assert_close(one.train_x, two.train_x, atol=1e-5, rtol=1e-5)
    assert torch.equal(one.train_y, two.train_y)
    assert one.names.tolist() == two.names.tolist() == table["name"].tolist()


def test_text_is_told_apart_by_its_words(tmp_path):
    texts = ["the cat sat on the mat", "stocks fell on bad news"] * 20
    frame = pd.DataFrame({"t": texts, "label": [0, 1] * 20})
    dataset = load(written(frame, tmp_path / "t.csv"), reading=Reading(text_column=("t",)))
    x = dataset.train_x.numpy()
    assert np.allclose(x[::2], x[0], atol=1e-5)
    assert np.linalg.norm(x[0] - x[1]) > 0.5
    assert dataset.classes.tolist() == [0, 1]


def test_rows_keep_their_numbers_and_names_when_others_are_left_out(table, tmp_path):
    table.loc[[4, 8], "label"] = None
    dataset = load(written(table, tmp_path / "t.csv"), reading=READING)
    kept = [row for row in range(200) if row not in (4, 8)]
    assert dataset.row_numbers.tolist() == kept
    assert dataset.names.tolist() == [f"row-{row}" for row in kept]
    some = take_rows(dataset, 20, random_state=0)
    assert some.names.tolist() == [f"row-{row}" for row in some.row_numbers]
    labels = [dataset.class_names[code] for code in some.train_y.tolist()]
    assert labels == table["label"][some.row_numbers].tolist()


def test_reading_again_with_the_fitted_preprocessing_gives_the_same_rows(table, tmp_path):
    path = written(table, tmp_path / "t.csv")
    first = load(path, reading=READING)
    again = load(path, reading=READING, preprocessing=first.preprocessing)
    assert torch.equal(first.train_x, again.train_x)
    assert torch.equal(first.train_y, again.train_y)


def test_trusted_rows_come_from_a_column_or_from_a_second_file_alike(table, tmp_path):
    sure = np.arange(200) % 5 == 0
    whole = written(table.assign(sure=sure), tmp_path / "whole.csv")
    one = load(whole, reading=Reading(clean_column="sure", ignore_column=("t", "name")))
    assert len(one.train_y) == 160
    assert len(one.trusted_y) == 40
    assert one.row_numbers.tolist() == np.flatnonzero(~sure).tolist()
    noisy, clean = written(table[~sure], tmp_path / "n.csv"), written(table[sure], tmp_path / "c.csv")
    reading = Reading(clean_source=str(clean), ignore_column=("t", "name"))
    two = load(noisy, reading=reading, preprocessing=one.preprocessing)
    assert torch.equal(one.trusted_x, two.trusted_x)
    assert torch.equal(one.trusted_y, two.trusted_y)
    assert torch.equal(one.train_x, two.train_x)


def test_a_trusted_source_of_another_form_is_refused(table, tmp_path):
    np.savez(tmp_path / "c.npz", x=np.eye(3), y=[0, 1, 1])
    path = written(table, tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"clean_source must be a \.csv or \.parquet file, .* got '.*c\.npz'"):
        load(path, reading=Reading(clean_source=str(tmp_path / "c.npz")))
    lacking = written(table.drop(columns="a"), tmp_path / "lacking.csv")
    with pytest.raises(DataError, match=r"lacks 1 column of the training table: a$"):
        load(path, reading=Reading(clean_source=str(lacking), ignore_column=("d",)))


def test_a_second_file_of_arrays_is_trusted(tmp_path):
    x, y = np.arange(12.0).reshape(6, 2), np.array(["a", "b"] * 3)
    np.savez(tmp_path / "n.npz", x=x, y=y)
    np.savez(tmp_path / "c.npz", x=x[:1] + 1, y=["b"])
    dataset = load(tmp_path / "n.npz", reading=Reading(clean_source=str(tmp_path / "c.npz")))
    assert dataset.trusted_x.tolist() == [[1, 2]]
    assert dataset.trusted_y.tolist() == [1]
    assert len(dataset.train_y) == 6
    np.savez(tmp_path / "wide.npz", x=np.eye(3), y=["b", "a", "a"])
    with pytest.raises(DataError, match=r"wide\.npz: must have rows of shape \(2,\)"):
        load(tmp_path / "n.npz", reading=Reading(clean_source=str(tmp_path / "wide.npz")))


def test_trusted_rows_of_a_class_that_no_noisy_row_has_are_left_out(table, tmp_path):
    table["sure"] = table["label"] == "cow"
    table.loc[0, ["label", "sure"]] = ["ant", True]
    path = written(table, tmp_path / "t.csv")
    dataset = load(path, reading=Reading(clean_column="sure"))
    assert dataset.class_names == ("ant", "bee")
    assert dataset.trusted_y.tolist() == [0]
    assert any("trusted row" in note for note in dataset.notes)


def test_a_long_table_is_read_in_blocks_and_fitted_to_a_random_part(table, tmp_path, monkeypatch):
    path = written(table[["a", "b", "c", "label"]], tmp_path / "t.csv")
    whole = load(path)
    monkeypatch.setattr(tables_module, "BLOCK_BYTES", 700)
    blocks = list(open_table(path).blocks())
    assert len(blocks) > 4
    in_blocks = load(path)
    assert torch.equal(whole.train_x, in_blocks.train_x)
    assert torch.equal(whole.train_y, in_blocks.train_y)
    monkeypatch.setattr(table_dataset, "SAMPLE_ROWS", 50)
    seen: list[tuple[int, int]] = []
    sampled = load(path, progress=lambda done, total: seen.append((done, total)))
    assert any("by 50 of the 200 rows" in note for note in sampled.notes)
    # Another mean and scale, the same values: a straight line connects the two.
    assert np.corrcoef(whole.train_x[:, 1], sampled.train_x[:, 1])[0, 1] > 0.999
    assert len(seen) > 8
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == 2 * path.stat().st_size


def test_looking_at_the_first_block_costs_no_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(tables_module, "BLOCK_BYTES", 200)
    (tmp_path / "t.csv").write_text("a,label\n" + "".join(f"{row},NA\n" for row in range(200)))
    openings = []
    csv_blocks = tables_module.csv_blocks
    monkeypatch.setattr(
        tables_module, "csv_blocks", lambda *a, **k: openings.append(k["verbatim"]) or csv_blocks(*a, **k)
    )
    table = open_table(tmp_path / "t.csv")
    told = []
    first = table.first_block()
    assert table.first_block() is first
    values = [
        value for block in table.blocks(lambda *now: told.append(now)) for value in block[0].to_pylist()
    ]
    assert values == [str(row) for row in range(200)]
    assert openings == [False]
    # The progress is that of a reading from the start, and ends with the whole file.
    size = (tmp_path / "t.csv").stat().st_size
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == (size, size)
    # Rows are read again, and as they are written where that is asked for.
    assert next(table.blocks())[1][0].as_py() is None
    assert table.first_block(verbatim=True)[1][0].as_py() == "NA"
    assert len(list(table.blocks(verbatim=True))) == len(told)
    assert openings == [False, False, True]


def test_every_row_is_as_likely_in_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(tables_module, "BLOCK_BYTES", 2000)
    path = written(pd.DataFrame({"v": np.arange(4000), "label": "a"}), tmp_path / "t.csv")
    table = open_table(path)
    found, sample = survey_module.survey(table, survey_module.Roles(1), None, sample_rows=1000)
    drawn = numbers(sample.column("v"))
    assert len(drawn) == len(set(drawn.tolist())) == 1000
    # Of 1000 rows drawn from ten tenths, each has 100 give or take a few times 8.5.
    assert np.abs(np.bincount((drawn // 400).astype(int), minlength=10) - 100).max() < 40
    assert found.rows == 4000
    assert found.counting == {"v"}


def test_columns_that_only_count_are_not_learnt_from(tmp_path):
    frame = pd.DataFrame({"id": np.arange(7, 47), "v": np.arange(40) // 2, "label": np.arange(40) % 2})
    dataset = load(written(frame, tmp_path / "t.csv"))
    assert dataset.train_x.shape == (40, 1)
    assert dataset.notes == ("Column 'id' is not used: it only counts the rows.",)


def test_many_categories_are_grouped_and_unknown_ones_are_no_error(tmp_path):
    rare = [f"v{i}" for i in range(60)]
    frame = pd.DataFrame({"c": (["common"] * 8 + rare[:2]) * 30 + rare, "label": [0, 1] * 180})
    dataset = load(written(frame, tmp_path / "t.csv"))
    assert dataset.train_x.shape[1] == 4  # common, v0, v1 and all others together
    assert torch.equal(dataset.train_x[-1], dataset.train_x[-2])
    new = written(pd.DataFrame({"c": ["never seen", "common"]}), tmp_path / "new.csv")
    rows = load_rows(new, preprocessing=dataset.preprocessing)
    assert torch.equal(rows.x[0], dataset.train_x[-1])
    assert torch.equal(rows.x[1], dataset.train_x[0])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["1", "2", "10"], [1, 2, 10]),
        (["-1", "1"], [-1, 1]),
        (["01", "1"], ["01", "1"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["None", "some"], ["None", "some"]),
    ],
)
def test_whole_numbers_are_classes_in_their_order_and_all_else_is_text(labels, classes, tmp_path):
    frame = pd.DataFrame({"v": np.arange(len(labels) * 2.0) ** 2, "label": labels * 2})
    assert load(written(frame, tmp_path / "t.csv")).classes.tolist() == classes


def test_labels_of_a_parquet_file_may_have_any_plain_type(tmp_path):
    values = {
        "int": pa.array([1, 2, None] * 4),
        "float": pa.array([1.0, 2.0, np.nan] * 4),
        "words": pa.array(["1", "2", None] * 4).dictionary_encode(),
    }
    for kind, labels in values.items():
        pa.parquet.write_table(
            pa.table({"v": np.arange(12.0) ** 2, "y": labels}), tmp_path / f"{kind}.parquet"
        )
        dataset = load(tmp_path / f"{kind}.parquet")
        assert dataset.classes.tolist() == [1, 2]
        assert dataset.row_numbers.tolist() == [0, 1, 3, 4, 6, 7, 9, 10]


def test_label_or_y_is_the_label_column_unless_both_are_there(tmp_path):
    frame = pd.DataFrame({"v": [1, 2, 4, 8], "Y": [0, 1, 0, 1]})
    assert load(written(frame, tmp_path / "a.csv")).train_y.tolist() == [0, 1, 0, 1]
    with pytest.raises(DataError, match=r"has Y and label, so say which .* with --label-column"):
        load(written(frame.assign(label=[1, 1, 0, 0]), tmp_path / "b.csv"))


def test_a_row_of_the_wrong_length_is_named_by_its_number_whatever_stands_before_it(tmp_path, monkeypatch):
    rows = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f'\n\nv,label\n{rows}\n"1\n2",a\n\n5,a,b\n')
    for size in (16 << 20, 100):
        monkeypatch.setattr(tables_module, "BLOCK_BYTES", size)
        with pytest.raises(DataError, match="row 41 has too many fields, 3 instead of 2"):
            load(tmp_path / "t.csv")


def test_headers_of_odd_forms_are_read(tmp_path):
    (tmp_path / "t.csv").write_text('\n\t"two\nlines"\tlabel\n7\t3\ta\n9\t5\tb\n2\t5\ta\n0\t1\tb\n')
    dataset = load(tmp_path / "t.csv")
    assert [column.name for column in dataset.preprocessing.columns] == ["column 1", "two\nlines"]
    assert dataset.train_y.tolist() == [0, 1, 0, 1]
    (tmp_path / "bare.csv").write_text("v,label")
    with pytest.raises(DataError, match=r"bare\.csv: holds a header and no rows"):
        load(tmp_path / "bare.csv")


def test_blank_lines_and_utf_16_are_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"v,label\r\n1,a\r\n\r\n2,b\r\n5,a\r\n9,b\r\n\r\n")
    one = load(tmp_path / "a.csv")
    assert one.row_numbers.tolist() == [0, 1, 2, 3]
    (tmp_path / "b.csv").write_bytes("v,label\n1,ä\n2,b\n5,ä\n9,b\n".encode("utf-16"))
    two = load(tmp_path / "b.csv")
    assert two.class_names == ("b", "ä")
    assert torch.equal(one.train_x, two.train_x)
