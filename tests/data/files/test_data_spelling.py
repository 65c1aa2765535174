"""Labels as people write them: one class in several spellings, and targets that are none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trevision.data.files.corrections import row_fields, write_labels
from trevision.data.files.reading import Reading
from trevision.data.files.shown import shown
from trevision.data.files.spelling import codes_by_spelling, key, merge, nearly_alike
from trevision.data.load import load
from trevision.data.load_arrays import load_arrays
from trevision.data.read_labels import read_labels
from trevision.files import DataError

AS_WRITTEN = Reading(labels_as_written=True)
SPELT = ["cat"] * 30 + ["Cat"] * 4 + ["CAT "] * 3 + ["dog"] * 20 + ["ﬁsh"] * 2 + ["fish"] * 9


def table_of(labels: list, folder: Path, name: str = "t.csv", **columns: object) -> Path:
    features = np.random.default_rng(0).normal(size=len(labels)).round(3)
    frame = pd.DataFrame({"size": features, **columns, "label": labels})
    (frame.to_parquet if name.endswith(".parquet") else frame.to_csv)(folder / name, index=False)
    return folder / name


@pytest.mark.parametrize(
    "spellings",
    [("cat", "Cat", "CAT "), ("New York", "new  york", " NEW\tYORK"), ("ﬁsh", "fish"), ("Straße", "STRASSE")],
)
def test_case_spaces_and_compatible_forms_make_no_other_class(spellings):
    assert len({key(spelling) for spelling in spellings}) == 1


def test_a_class_is_called_by_its_commonest_spelling_and_of_equals_by_the_first():
    codes, names, merged = merge(["B", "a", "A", "b", "c"], [2, 5, 1, 2, 9])
    assert [names[code] for code in codes] == ["B", "a", "a", "B", "c"]
    assert [each.told() for each in merged] == ["'b' (2) is read as 'B' (2)", "'A' (1) is read as 'a' (5)"]


def test_the_class_of_a_spelling_is_found_unless_classes_were_kept_apart():
    assert codes_by_spelling(["CAT", "dog", "cow"], ["cat", "dog"]).tolist() == [0, 1, -1]
    assert codes_by_spelling(["CAT", "cat"], ["cat", "Cat"]).tolist() == [-1, 0]
    assert codes_by_spelling(["CAT"], ["cat"], as_written=True).tolist() == [-1]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "arrays.npz", "folder"])
def test_spellings_are_one_class_in_every_kind_of_source(name, tmp_path):
    source = tmp_path / name
    if name == "arrays.npz":
        np.savez(
            source, x=np.arange(float(len(SPELT)))[:, None], y=np.array([each.strip() for each in SPELT])
        )
    elif name == "folder":
        for row, label in enumerate(SPELT):
            (source / label.strip()).mkdir(parents=True, exist_ok=True)
            Image.new("L", (4, 4), row).save(source / label.strip() / f"{row}.png")
    else:
        table_of(SPELT, tmp_path, name)
    merged, apart = load(source), load(source, reading=AS_WRITTEN)
    assert merged.class_names == ("cat", "dog", "fish")
    assert np.bincount(merged.train_y).tolist() == [37, 20, 11]
    (note,) = [note for note in merged.notes if note.startswith("One class in several spellings")]
    assert "'Cat' (4) and 'CAT' (3) are read as 'cat' (30)" in note
    assert "--labels-as-written keeps them apart" in note
    assert sorted(apart.class_names) == ["CAT", "Cat", "cat", "dog", "fish", "ﬁsh"]
    assert not any("spellings" in note for note in apart.notes)
    assert read_labels(source).class_names == merged.class_names
    assert read_labels(source, AS_WRITTEN).class_names == apart.class_names


def test_answers_are_merged_before_they_are_counted(tmp_path):
    """An annotator who writes Cat and cat has not given two different labels."""
    lines = [(f"r{row}", who, label) for row in range(20) for who, label in (("a", "cat"), ("b", "Cat"))]
    lines += [(f"r{row}", who, "dog") for row in range(20, 40) for who in "ab"] + [("r3", "a", "CAT")]
    answers = pd.DataFrame(lines, columns=["id", "who", "label"])
    answers["size"] = answers.id.str[1:].astype(int) % 7
    answers.to_csv(tmp_path / "a.csv", index=False)
    reading = Reading(annotator_column="who", id_column="id")
    dataset = load_arrays(str(tmp_path / "a.csv"), reading)
    assert dataset.class_names == ("cat", "dog")
    assert len(dataset.answers.label) == 80
    assert any("'Cat' (20) and 'CAT' (1) are read as 'cat' (20)" in note for note in dataset.notes)


def test_names_that_differ_by_a_typing_error_are_told_and_stay_apart(tmp_path):
    dataset = load_arrays(str(table_of(["cat"] * 40 + ["catt"] * 2 + ["bat"] * 20, tmp_path)), Reading())
    assert dataset.class_names == ("bat", "cat", "catt")
    assert [note for note in dataset.notes if "nearly alike" in note] == [
        "Labels that are nearly alike are kept apart: 'catt' (2) and 'cat' (40); if one is a typing error, "
        "write it like the other in the source."
    ]


def test_typing_errors_are_those_of_a_search_through_all_pairs():
    rng = np.random.default_rng(1)
    names = sorted({"".join(rng.choice(list("abc1"), rng.integers(2, 11))) for _ in range(250)})
    counts = rng.choice([1, 3, 60, 200], len(names)).tolist()

    def distance(a: str, b: str) -> int:
        """Edits from one name to another, from the definition, with swaps of neighbours."""
        if not a or not b:
            return len(a) + len(b)
        found = [distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0])]
        if len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1]:
            found.append(distance(a[2:], b[2:]) + 1)
        return min(found)

    short = [number for number, name in enumerate(names) if len(name) <= 5]
    names, counts = [names[number] for number in short], [counts[number] for number in short]
    expected = {
        (rare, common)
        for rare, few in zip(names, counts, strict=True)
        for common, many in zip(names, counts, strict=True)
        if few <= max(1, 0.1 * many) and few < many and max(len(rare), len(common)) >= 4
        if rare.count("1") == common.count("1") and distance(rare, common) <= 1
    }
    assert expected
    assert set(nearly_alike(names, counts)) == expected


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (list(range(1, 101)) * 3, "100 different numbers from 1 to 100"),
        ([*range(101), *range(40, 90)] * 3, "101 different numbers from 0 to 100"),
        ([value / 7 for value in range(40)] * 3, "40 different numbers from 0 to 5.57143"),
        ([value / 4 for value in range(31)] * 2, "31 different numbers from 0 to 7.5"),
        (["a;c;f", "a;c", "c;f", "f", "a"] * 9, "lists of labels, such as 'a;c;f', in 27 rows"),
        (["['x', 'y']", "['x']", "['y', 'z']", "['z', 'x']"] * 9, "lists of labels"),
        (["red|green", "green|blue", "red|blue"] * 9, "lists of labels, such as 'red|green'"),
    ],
)
def test_scores_and_lists_are_refused_with_what_to_do(labels, says, tmp_path):
    source = str(table_of(labels, tmp_path))
    with pytest.raises(DataError, match="column 'label'") as refused:
        load_arrays(source, Reading())
    assert says in str(refused.value)
    assert "--labels-as-written" in str(refused.value)
    kept = load_arrays(source, AS_WRITTEN)
    assert len(kept.class_names) == len(set(labels))


@pytest.mark.parametrize(
    "labels",
    [
        list(range(10)) * 5,
        list(range(1, 21)) * 5,
        list(range(100)) * 3,  # 0, 1, 2, ... without a gap are codes of classes
        list(range(101)) * 3,  # also 0 to 100, if each is as frequent as the others
        [value / 2 for value in range(2, 11)] * 4,
        [f"{number:05d}" for number in range(50)] * 2,
        ["Cat, domestic", "Dog, domestic", "Dog, wild", "none"] * 9,
        ["Cause(e1,e2)", "Cause(e2,e1)", "Part(e1,e2)", "Part(e2,e1)", "Other"] * 9,
    ],
)
def test_classes_that_look_a_little_like_scores_or_lists_are_classes(labels, tmp_path):
    assert len(load_arrays(str(table_of(labels, tmp_path)), Reading()).class_names) == len(set(labels))


def test_a_column_called_like_a_score_holds_no_codes(tmp_path):
    frame = pd.DataFrame({"x": np.arange(200.0), "credit_score": np.arange(200) % 40})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="'credit_score' holds 40 different numbers from 0 to 39"):
        load_arrays(str(tmp_path / "t.csv"), Reading(label_column="credit_score"))


def test_arrays_of_scores_are_refused_and_codes_of_many_classes_are_not(tmp_path):
    np.savez(tmp_path / "scores.npz", x=np.zeros((300, 2)), y=np.arange(300) % 100 + 1)
    with pytest.raises(DataError, match=r"scores.npz: the array y holds 100 different numbers from 1 to 100"):
        load(tmp_path / "scores.npz")
    np.savez(tmp_path / "codes.npz", x=np.zeros((300, 2)), y=np.arange(300) % 100)
    assert load(tmp_path / "codes.npz").num_classes == 100


def leaky(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    code = rng.integers(3, size=300)
    label = np.array(["cat", "dog", "fox"])[code].astype(object)
    label[:2] = "Cat"
    frame = pd.DataFrame(
        {
            "customer_id": rng.permutation(300) + 1000,
            "weight": rng.normal(code).round(2),
            "status": label,
            "copy": np.array(["CAT", "dog", "fox"])[code],
            "code": np.array([7, 1, 3])[
                np.array(["cat", "dog", "fox"]).searchsorted(np.char.lower(label.astype(str)))
            ],
            **{
                f"label_{name}": [int(each.lower() == name) for each in label]
                for name in ("cat", "dog", "fox")
            },
            "heavy": (rng.normal(code) > 1).astype(int),
        }
    )
    frame.loc[0:1, "copy"] = "cat"
    frame.to_csv(folder / "leaky.csv", index=False)
    return folder / "leaky.csv"


def test_columns_made_from_the_label_are_left_out_and_told(tmp_path):
    dataset = load_arrays(str(leaky(tmp_path)), Reading(label_column="status"))
    assert [column.name for column in dataset.preprocessing.columns] == ["weight", "heavy"]
    told = " ".join(dataset.notes)
    assert "Column 'copy' is not used: it is a copy of the label, or a code for it." in told
    assert "Column 'code' is not used: it is a copy of the label" in told
    assert "Columns 'label_cat', 'label_dog', 'label_fox' are not used: they tell the label" in told
    assert "Column 'customer_id' is not used: it is different in every row and names it." in told


def test_a_column_that_differs_in_one_row_is_no_copy(tmp_path):
    frame = pd.read_csv(leaky(tmp_path))
    frame.loc[50, ["copy", "code"]] = ["dog" if frame.status[50] != "dog" else "fox", 99]
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = load_arrays(str(tmp_path / "t.csv"), Reading(label_column="status")).preprocessing.columns
    assert {"copy", "code"} <= {column.name for column in columns}


def test_columns_called_like_the_label_may_differ_in_a_few_rows_that_were_corrected_since(tmp_path):
    """One-hot codes made before some labels were corrected, or misspelt, tell all the other labels still."""
    frame = pd.read_csv(leaky(tmp_path)).drop(columns=["copy", "code"])
    frame["status_old"] = frame.status
    frame.loc[100:102, "status"] = "fxo"
    frame.loc[103:104, "status"] = np.where(frame.status[103:105] == "dog", "fox", "dog")
    frame["first"] = 1 - frame.label_cat  # not called like a class
    frame.loc[107, "first"] = frame.label_cat[107]
    frame.to_csv(tmp_path / "t.csv", index=False)
    dataset = load_arrays(str(tmp_path / "t.csv"), Reading(label_column="status"))
    assert [column.name for column in dataset.preprocessing.columns] == ["weight", "heavy", "first"]
    told = " ".join(dataset.notes)
    assert "Columns 'label_cat', 'label_dog', 'label_fox' are not used: they tell the label" in told
    assert "Column 'status_old' is not used: it is in 99.3% of the rows a copy of the label" in told


def test_columns_made_from_the_label_are_found_again_after_a_review(tmp_path):
    """A third of the labels was corrected, and says so; the one-hot codes are as before."""
    frame = pd.read_csv(leaky(tmp_path)).drop(columns=["copy", "code"])
    frame["checked"] = np.where(frame.index % 3 == 0, "yes", "no")
    frame.loc[frame.checked == "yes", "status"] = frame.status.map({"cat": "dog", "dog": "fox", "fox": "cat"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    dataset = load_arrays(str(tmp_path / "t.csv"), Reading(label_column="status", clean_column="checked"))
    assert [column.name for column in dataset.preprocessing.columns] == ["weight", "heavy"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "a.npz", "folder"])
def test_a_corrected_copy_keeps_every_other_spelling(name, tmp_path):
    """The corrected row gets the name of its class; no other label is touched."""
    source, labels = tmp_path / name, [label.strip() for label in SPELT]
    if name == "a.npz":
        np.savez(source, x=np.arange(float(len(labels)))[:, None], y=np.array(labels))
    elif name == "folder":
        for row, label in enumerate(labels):
            (source / label).mkdir(parents=True, exist_ok=True)
            Image.new("L", (4, 4), row).save(source / label / f"{row:02d}.png")
    else:
        table_of(labels, tmp_path, name)
    out = tmp_path / f"out{'.csv' if name == 'folder' else Path(name).suffix}"
    write_labels(source, Reading(), {0: "dog"}, out)
    if name == "a.npz":
        written = np.load(out)["y"].tolist()
    else:
        written = (pd.read_parquet if name == "t.parquet" else pd.read_csv)(out)["label"].tolist()
    first = sorted(labels)[0] if name == "folder" else labels[0]
    assert Counter(written) == Counter(labels) - Counter([first]) + Counter(["dog"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1 + 0.2, "0.3"), ("0.30000000000000004", "0.3"), (2.0, "2"), (1234567.891, "1234568"),
        (1e-7, "1e-07"), (float("nan"), ""), (None, ""), ("007", "007"), ("1.50", "1.50"), (-0.25, "-0.25"),
        (pd.Timestamp("2024-01-31"), "2024-01-31"), ("2024-01-31T00:00:00Z", "2024-01-31"),
        (pd.Timestamp("2024-01-31 10:20:30"), "2024-01-31 10:20:30"), ("12345678", "12345678"),
    ],
)  # fmt: skip
def test_values_are_shown_as_a_person_writes_them(value, text):
    assert shown(value) == text


def test_fields_of_a_table_are_shown_as_a_person_writes_them(tmp_path):
    frame = pd.DataFrame(
        {"d": pd.to_datetime(["2024-02-03", "2024-02-04"]), "v": [0.1 + 0.2, 7.0], "y": ["a", "b"]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    assert row_fields(tmp_path / "t.parquet", Reading(), [0]) == [{"d": "2024-02-03", "v": "0.3", "y": "a"}]
