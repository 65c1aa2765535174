"""Files of probabilities: the same arrays from every form, labels matched to columns, mistakes told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trevision.data.files.probabilities import open_probabilities
from trevision.files import DataError

NAMES = ("ant", "bee", "cat")


@pytest.fixture
def probs() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(3), size=50).astype(np.float32)


@pytest.fixture
def codes() -> np.ndarray:
    return np.random.default_rng(1).permutation(np.arange(50) % 3)


def write_csv(path: Path, probs: np.ndarray, labels, names=NAMES, label: str = "label", **text: str) -> Path:
    lines = [",".join([label, *names])]
    lines += [
        ",".join([str(one), *map(repr, map(float, row))]) for one, row in zip(labels, probs, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", **({"encoding": "utf-8"} | text))
    return path


def check(path: Path, probs: np.ndarray, codes: np.ndarray, names=NAMES, **options) -> None:
    with open_probabilities(path, **options) as found:
        assert found.probs.shape == probs.shape
        np.testing.assert_array_equal(found.probs[0:50], probs)
        np.testing.assert_array_equal(found.probs[7:9], probs[7:9])
        np.testing.assert_array_equal(found.labels, codes)
        assert found.class_names == tuple(names)


# ---- .npz and .npy


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_gives_its_arrays_stored_or_compressed(tmp_path: Path, save, order: str, probs, codes) -> None:
    save(tmp_path / "p.npz", first=np.arange(5), probs=np.asarray(probs, order=order), labels=codes)
    check(tmp_path / "p.npz", probs, codes, "012")


def test_npz_understands_the_words_of_other_libraries(tmp_path: Path, probs, codes) -> None:
    np.savez(tmp_path / "p.npz", pred_probs=probs, given_labels=codes, class_names=np.array(NAMES))
    check(tmp_path / "p.npz", probs, codes)


def test_npy_takes_its_labels_from_a_second_file(tmp_path: Path, probs, codes) -> None:
    np.save(tmp_path / "p.npy", probs)
    np.save(tmp_path / "y.npy", codes)
    check(tmp_path / "p.npy", probs, codes, "012", labels=tmp_path / "y.npy")


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch, probs, codes) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    np.savez_compressed(tmp_path / "p.npz", probs=probs, labels=codes)
    with open_probabilities(tmp_path / "p.npz"):
        assert list((tmp_path / "scratch").iterdir())
    assert not list((tmp_path / "scratch").iterdir())


# ---- tables


def test_csv_names_classes_by_columns_and_labels_by_names(tmp_path: Path, probs, codes) -> None:
    check(write_csv(tmp_path / "p.csv", probs, np.array(NAMES)[codes]), probs, codes)


def test_csv_takes_numbers_of_columns_for_labels(tmp_path: Path, probs, codes) -> None:
    check(write_csv(tmp_path / "p.csv", probs, codes), probs, codes)


@pytest.mark.parametrize("form", ["P({})", "p_{}", "proba_{}"])
def test_csv_strips_what_the_columns_share_from_the_names(tmp_path: Path, form: str, probs, codes) -> None:
    path = write_csv(tmp_path / "p.csv", probs, np.array(NAMES)[codes], [form.format(name) for name in NAMES])
    check(path, probs, codes)


def test_csv_with_a_byte_order_mark_and_quoted_newlines(tmp_path: Path, probs, codes) -> None:
    names = ("ant", "b\nee", "cat")
    labels = ['"' + names[code] + '"' for code in codes]
    path = write_csv(
        tmp_path / "p.csv", probs, labels, [f'"{name}"' for name in names], encoding="utf-8-sig", newline=""
    )
    check(path, probs, codes, names)


def test_csv_longer_than_a_block_is_read_whole(tmp_path: Path, monkeypatch, probs, codes) -> None:
    monkeypatch.setattr("trevision.data.files.tables.BLOCK_BYTES", 256)
    check(write_csv(tmp_path / "p.csv", probs, np.array(NAMES)[codes]), probs, codes)


@pytest.mark.parametrize("dictionary", [False, True])
def test_parquet_in_batches_gives_what_csv_gives(
    tmp_path: Path, monkeypatch, dictionary: bool, probs, codes
) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr("trevision.data.files.probability_tables.NUMBERS_AT_ONCE", 21)  # seven rows
    labels = pa.array(np.array(NAMES)[codes].tolist())
    columns = {name: probs[:, place] for place, name in enumerate(NAMES)}
    table = pa.table({**columns, "given": labels.dictionary_encode() if dictionary else labels})
    parquet.write_table(table.append_column("id", pa.array(range(50))), tmp_path / "p.parquet")
    check(tmp_path / "p.parquet", probs, codes, ignore=("id",))


def test_progress_ends_with_the_whole_file(tmp_path: Path, probs, codes) -> None:
    path = write_csv(tmp_path / "p.csv", probs, codes)
    told: list[tuple[int, int | None]] = []
    with open_probabilities(path, progress=lambda *pair: told.append(pair)):
        assert told[-1] == (path.stat().st_size, path.stat().st_size)


# ---- labels


def test_string_labels_of_an_npz_stand_for_columns_in_their_order(tmp_path: Path, probs, codes) -> None:
    np.savez(tmp_path / "p.npz", probs=probs, labels=np.array(NAMES)[codes])
    check(tmp_path / "p.npz", probs, codes)


def test_labels_that_begin_with_one_are_taken_in_their_order(tmp_path: Path, probs, codes) -> None:
    np.savez(tmp_path / "p.npz", probs=probs, labels=codes + 1.0)
    check(tmp_path / "p.npz", probs, codes, "123")


def test_numbers_that_name_columns_go_by_name(tmp_path: Path, probs, codes) -> None:
    check(write_csv(tmp_path / "p.csv", probs, codes + 1, "123"), probs, codes, "123")


# ---- mistakes


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.eye(3)}, r"p\.npz: lacks an array probs \(or .*\); the arrays it holds: x"),
        ({"probs": np.eye(3)}, r"p\.npz: lacks an array labels"),
        ({"probs": np.eye(3), "labels": [0, 7, 7]}, r"p\.npz: the label '7' in row 1 must be one of the 3"),
        ({"probs": np.eye(3), "labels": ["a", "b", "b"]}, r"p\.npz: the label 'a' in row 0 must be one of"),
        ({"probs": np.ones(3), "labels": [0, 1, 2]}, r"p\.npz: probabilities must be \(n, C\)"),
        ({"probs": np.eye(3), "labels": [0, 1, 2], "classes": ["a"]}, r"names 1 classes, but .* 3 columns"),
        (
            {"probs": np.eye(3), "labels": [0, 1, 2], "classes": list("aab")},
            r"name each class once, got a, a, b",
        ),
        (
            {"probs": np.eye(3), "labels": [0, 1, 2], "classes": "abc"},
            r"arrays with rows, got a single value",
        ),
        ({"probs": np.eye(3), "labels": np.array([0, None, 1])}, "Python objects"),
    ],
)
def test_an_npz_with_a_mistake_is_refused(tmp_path: Path, arrays: dict, message: str) -> None:
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(DataError, match=message), open_probabilities(tmp_path / "p.npz"):
        pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"p\.csv: is empty"),
        ("label,a,b\n", r"p\.csv: has no rows|p\.csv: holds a header and no rows"),
        ("a,b\n1,0\n", r"p\.csv: name the column of labels with --label-column; its columns: a, b"),
        ("label,a\n0,1\n", "at least 2 classes"),
        ("label,a,a\n0,1,0\n", "two columns named 'a'"),
        ("label,a,b\na,0.5,0.5\nb,0.5,half\n", r"p\.csv: column 'b' must hold numbers, got 'half' in row 1"),
        ("label,a,b\na,0.5,0.5\n,0.5,0.5\n", r"p\.csv: must have a label in every row, got none in row 1"),
        ("label,a,b\na,0.5,0.5\nc,0.5,0.5\n", r"p\.csv: the label 'c' in row 1 must be one of the 2 classes"),
        ("label,a,b\na,0.5,0.5\nb,0.5\n", r"p\.csv: row 1 has too few fields, 2 instead of 3"),
        ("label,a,b\na,0.5,0.5\na,0.5,0.5\n", r"p\.csv: labels must hold two classes, got only 'a'"),
    ],
)
def test_a_csv_with_a_mistake_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught, open_probabilities(tmp_path / "p.csv"):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
@pytest.mark.parametrize(("separator", "point"), [(";", ","), (";", "."), ("\t", ",")])
def test_a_csv_may_be_written_as_spreadsheets_of_any_country_do(
    tmp_path: Path, encoding: str, separator: str, point: str, probs, codes
) -> None:
    names = ("ant", "bée", "cat")
    lines = [separator.join(["label", *names])]
    for code, row in zip(codes, probs, strict=True):
        numbers = [repr(float(value)).replace(".", point) for value in row]
        lines.append(separator.join([f" {names[code]}", *numbers]))
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n", encoding=encoding)
    check(tmp_path / "p.csv", probs, codes, names)


def test_a_text_column_of_a_parquet_file_is_named(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"label": [0, 1], "id": ["r", "s"], "a": [0.5, 0.5], "b": [0.5, 0.5]})
    parquet.write_table(table, tmp_path / "p.parquet")
    with (
        pytest.raises(DataError, match=r"column 'id' must hold probabilities.*--ignore"),
        open_probabilities(tmp_path / "p.parquet"),
    ):
        pass


@pytest.mark.parametrize("name", ["p.npz", "p.npy", "p.parquet"])
def test_files_that_are_something_else_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not what the name says")
    labels = tmp_path / name if name == "p.npy" else None
    with pytest.raises(DataError, match=name), open_probabilities(tmp_path / name, labels):
        pass


def test_a_truncated_npy_is_refused(tmp_path: Path, probs) -> None:
    np.save(tmp_path / "p.npy", probs)
    whole = (tmp_path / "p.npy").read_bytes()
    (tmp_path / "p.npy").write_bytes(whole[:-40])
    np.save(tmp_path / "y.npy", np.zeros(50, dtype=int))
    with (
        pytest.raises(DataError, match="ends before"),
        open_probabilities(tmp_path / "p.npy", tmp_path / "y.npy"),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("p.txt", {}, "must be an .npz, .npy, .csv or .parquet"),
        ("p.npy", {}, "goes with --labels"),
        ("p.npz", {"labels": Path("y.npy")}, "goes with --labels"),
        ("p.npz", {"label_column": "y"}, "--label-column"),
        ("p.csv", {"ignore": ("id",)}, "has no column 'id'"),
        ("missing.csv", {}, "there is no such file"),
    ],
)
def test_options_that_do_not_fit_the_file_are_refused(
    tmp_path: Path, name: str, options: dict, message: str
) -> None:
    if name != "missing.csv":
        (tmp_path / name).write_text("label,a,b\n0,1,0\n", encoding="utf-8")
    with pytest.raises(DataError, match=message), open_probabilities(tmp_path / name, **options):
        pass
