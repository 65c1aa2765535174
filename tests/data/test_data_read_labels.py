"""Labels without features are those of the whole data set."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trevision.data.files.reading import Reading
from trevision.data.load import load
from trevision.data.read_labels import read_labels
from trevision.data.row_labels import RowLabels
from trevision.files import DataError

Case = tuple[str, Reading]


def frame() -> pd.DataFrame:
    """Twelve rows with a missing label, a label that occurs once, a trusted row and a row without a name."""
    labels = ["b", "a", "b", None, "a", "b ", "once", "a", "a", "b", "b", "a"]
    names = [f"row {number}" for number in range(12)]
    names[4] = ""
    return pd.DataFrame(
        {
            "size": np.arange(12) ** 2,
            "text": ["red wine", "red cork", "old wine", "old", "wine"] * 2 + ["cork", "red"],
            "id": names,
            "sure": [number == 1 for number in range(12)],
            "label": labels,
        }
    )


def a_csv(folder: Path) -> Case:
    frame().to_csv(folder / "data.csv", index=False)
    return str(folder / "data.csv"), Reading(name_column="id", clean_column="sure", text_column=("text",))


def a_parquet_of_numbers(folder: Path) -> Case:
    pd.DataFrame({"x": np.arange(8.0), "y": [3.0, 1.0, None, 3.0, 1.0, 10.0, 10.0, 3.0]}).to_parquet(
        folder / "data.parquet"
    )
    return str(folder / "data.parquet"), Reading()


def write_images(folder: Path) -> list[str]:
    paths = [f"{label}/{number}.png" for label in ("cat", "dog") for number in range(3)]
    for number, path in enumerate(paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 30 * number).save(folder / path)
    return paths


def an_image_folder(folder: Path) -> Case:
    write_images(folder / "images")
    return str(folder / "images"), Reading()


def a_table_of_paths(folder: Path) -> Case:
    paths = write_images(folder)
    pd.DataFrame({"file": paths, "label": ["x", "y"] * 3}).to_csv(folder / "list.csv", index=False)
    return str(folder / "list.csv"), Reading()


def an_npz_of_bytes(folder: Path) -> Case:
    np.savez(folder / "data.npz", x=np.zeros((4, 2)), y=np.array([b"two", b"one", b"two", b"one"]))
    return str(folder / "data.npz"), Reading()


def an_npz_of_floats(folder: Path) -> Case:
    np.savez(folder / "data.npz", x=np.zeros((4, 2)), y=np.array([2.0, 1.0, 10.0, 2.0]))
    return str(folder / "data.npz"), Reading()


def a_named_set(folder: Path) -> Case:
    return "digits", Reading()


CASES: list[Callable[[Path], Case]] = [
    a_csv, a_parquet_of_numbers, an_image_folder, a_table_of_paths, an_npz_of_bytes, an_npz_of_floats,
    a_named_set,
]  # fmt: skip


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_labels_are_those_of_the_whole_data_set(make, tmp_path):
    source, reading = make(tmp_path)
    whole, alone = load(source, reading=reading).labels, read_labels(source, reading)
    assert alone.class_names == whole.class_names
    assert np.array_equal(alone.row_numbers, whole.row_numbers)
    assert np.array_equal(alone.codes, whole.codes)
    assert (alone.names is None) == (whole.names is None)
    assert whole.names is None or alone.names.tolist() == whole.names.tolist()


def test_labels_and_names_of_a_table_are_what_its_cells_say(tmp_path):
    labels = read_labels(*a_csv(tmp_path))
    assert labels.class_names == ("a", "b")
    assert labels.row_numbers.tolist() == [0, 2, 4, 5, 7, 8, 9, 10, 11]
    assert [labels.class_names[code] for code in labels.codes] == list("bbabaabba")
    assert labels.names.tolist()[:3] == ["row 0", "row 2", "4"]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_labels_are_read_without_torch(make, tmp_path):
    source, reading = make(tmp_path)
    program = (
        "import sys\n"
        "from trevision.data.files.reading import Reading\n"
        "from trevision.data.read_labels import read_labels\n"
        f"assert len(read_labels({source!r}, {reading!r})) > 3\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_no_image_is_decoded_for_its_label(tmp_path):
    source, reading = an_image_folder(tmp_path)
    for path in Path(source).rglob("*.png"):
        path.write_bytes(b"damaged")
    assert read_labels(source, reading).codes.tolist() == [0, 0, 0, 1, 1, 1]


def test_an_unknown_source_and_a_choice_that_does_not_fit_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"did you mean mnist\?"):
        read_labels("minst")
    source, _ = an_npz_of_bytes(tmp_path)
    with pytest.raises(DataError, match=r"label_column is a choice for a \.csv or \.parquet file"):
        read_labels(source, Reading(label_column="y"))


def test_taken_rows_keep_their_numbers_and_names():
    labels = RowLabels(np.array([4, 7, 9]), np.array([1, 0, 1]), ("a", "b"), np.array(["p", "q", "r"]))
    taken = labels.take(np.array([2, 0]))
    assert taken.row_numbers.tolist() == [9, 4]
    assert taken.codes.tolist() == [1, 1]
    assert taken.names.tolist() == ["r", "p"]
    assert taken.positions([4, 5, 9]).tolist() == [1, -1, 0]
