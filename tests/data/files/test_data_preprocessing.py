"""The saved preprocessing: the same numbers after a journey through a file, and no code from it."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trevision.data.files.preprocessing import Preprocessing, load_preprocessing
from trevision.data.files.reading import Reading
from trevision.data.load import load
from trevision.files import DataError


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[Path, Preprocessing]:
    """A preprocessing of every kind of column, and the file it was saved to."""
    rng = np.random.default_rng(0)
    n = 120
    folder = tmp_path_factory.mktemp("preprocessing")
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "category": rng.choice(["x", "y", None], size=n),
            "many": rng.choice([f"v{i}" for i in range(50)], size=n),
            "flag": rng.choice(["yes", "no"], size=n),
            "date": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D"),
            "text": [" ".join(rng.choice(["good", "bad", "fine", "poor"], 6)) for _ in range(n)],
            "label": rng.integers(2, size=n),
        }
    )
    frame.to_csv(folder / "data.csv", index=False)
    preprocessing = load(folder / "data.csv", reading=Reading(text_column=("text",))).preprocessing
    preprocessing.save(folder / "p.skops")
    return folder, preprocessing


def test_a_saved_preprocessing_gives_the_same_numbers(fitted):
    folder, preprocessing = fitted
    restored = load_preprocessing(folder / "p.skops")
    assert restored.columns == preprocessing.columns
    assert {column.kind for column in restored.columns} == {"number", "category", "boolean", "date", "text"}
    reading = Reading(text_column=("text",))
    rows = [
        load(folder / "data.csv", reading=reading, preprocessing=one).train_x.numpy()
        for one in (preprocessing, restored)
    ]
    np.testing.assert_array_equal(*rows)


def tampered(source: Path, target: Path, change) -> Path:
    """A copy of the file with another description of what to build."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                content = json.dumps(change(json.loads(content))).encode()
            new.writestr(name, content)
    return target


def function(module: str, name: str) -> dict:
    return {
        "__class__": name,
        "__module__": module,
        "__loader__": "FunctionNode",
        "content": {"module_path": module, "function": name},
    }


@pytest.mark.parametrize(
    "planted",
    [
        function("posix", "system"),
        {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode", "content": None},
        {
            "__class__": "str",
            "__module__": "builtins",
            "__loader__": "TypeNode",
            "content": function("os", "x"),
        },
        {"__class__": "FunctionTransformer", "__module__": "sklearn.preprocessing._function_transformer"},
        {"__class__": "str", "__module__": "builtins", "__loader__": "ReduceNode", "content": {}},
        {"__class__": "partial", "__module__": "functools", "__loader__": "PartialNode", "content": {}},
    ],
)
def test_a_file_that_names_other_code_is_refused(fitted, tmp_path, planted):
    def change(schema):
        schema["content"]["content"]["planted"] = planted
        return schema

    path = tampered(fitted[0] / "p.skops", tmp_path / "bad.skops", change)
    with pytest.raises(DataError, match=r"bad\.skops: .*not trusted"):
        load_preprocessing(path)


class Mark:
    """An object whose unpickling leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_in_the_file_or_in_its_place_is_not_executed(fitted, tmp_path):
    mark = tmp_path / "executed"
    bomb = pickle.dumps(Mark(mark))
    (tmp_path / "pickle.skops").write_bytes(bomb)
    header = b"\x93NUMPY\x01\x00" + b"F\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    array = header.ljust(79) + b"\n" + bomb
    with (
        zipfile.ZipFile(fitted[0] / "p.skops") as old,
        zipfile.ZipFile(tmp_path / "array.skops", "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name, array if name.endswith(".npy") else old.read(name))
    for name in ("pickle.skops", "array.skops"):
        with pytest.raises(DataError, match=f"{name}: cannot be read"):
            load_preprocessing(tmp_path / name)
    assert not mark.exists()
    pickle.loads(bomb)  # noqa: S301 - shows that the trap would have sprung
    assert mark.exists()


def test_something_else_than_a_transformer_is_refused(fitted, tmp_path):
    def change(schema):
        plain = {"__module__": "builtins", "content": []}
        keys = plain | {"__class__": "list", "__loader__": "ListNode", "__id__": 1}
        whole = {"__class__": "dict", "__loader__": "DictNode", "__id__": 2, "key_types": keys}
        return plain | whole | {"content": {}, "protocol": schema["protocol"]}

    path = tampered(fitted[0] / "p.skops", tmp_path / "other.skops", change)
    with pytest.raises(DataError, match=r"other\.skops: must hold a ColumnTransformer, got dict"):
        load_preprocessing(path)


def test_a_missing_or_torn_file_is_named(fitted, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_preprocessing(tmp_path / "none.skops")
    (tmp_path / "torn.skops").write_bytes((fitted[0] / "p.skops").read_bytes()[:500])
    with pytest.raises(DataError, match=r"torn\.skops: cannot be read"):
        load_preprocessing(tmp_path / "torn.skops")
