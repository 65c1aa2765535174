import gzip
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from trevision.data.load import load
from trevision.files import DataError

CIFAR10_NAMES = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
CIFAR100_NAMES = ["train", "test"]


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    monkeypatch.setenv("TREVISION_OFFLINE", "1")
    monkeypatch.delenv("TREVISION_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def planted(names: list[str], num_classes: int) -> dict[str, tuple[np.ndarray, list[int]]]:
    """Three random images (n, 3, 32, 32) and labels for each file, the extreme labels among them."""
    rng = np.random.default_rng(5)
    return {
        name: (
            rng.integers(0, 256, (3, 3, 32, 32), dtype=np.uint8),
            [0, num_classes - 1, int(rng.integers(num_classes))],
        )
        for name in names
    }


def write_binary(folder: Path, parts: dict, coarse: bool = False) -> None:
    folder.mkdir(parents=True)
    for name, (images, labels) in parts.items():
        with open(folder / f"{name}.bin", "wb") as file:
            for image, label in zip(images, labels, strict=True):
                if coarse:
                    file.write(bytes([19]))  # a superclass that must not be taken for the class
                file.write(bytes([label]))
                for plane in image:
                    for row in plane:
                        file.write(bytes(row.tolist()))


def python2_pickle(images: np.ndarray, entries: dict[str, list[int]]) -> bytes:
    """The bytes Python 2's cPickle wrote for such a batch (protocol 2), opcode by opcode."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def number(value: int) -> bytes:
        return b"K" + bytes([value])

    rows = images.reshape(len(images), -1)
    raw = rows.tobytes()
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    dtype += (
        b"(" + number(3) + text(b"|") + b"NNN" + b"J" + struct.pack("<i", -1) + b"J" + struct.pack("<i", -1)
    )
    dtype += number(0) + b"tb"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + number(0)
        + b"\x85"
        + text(b"b")
        + b"\x87R"
    )
    shape = number(len(rows)) + b"M" + struct.pack("<H", rows.shape[1]) + b"\x86"
    array += b"(" + number(1) + shape + dtype + b"\x89" + b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    content = b"\x80\x02}(" + text(b"data") + array
    for key, values in entries.items():
        content += text(key.encode()) + b"](" + b"".join(number(value) for value in values) + b"e"
    return content + b"u."


def assert_loaded(dataset, parts: dict, names: list[str]) -> None:
    *train, test = names
    assert dataset.train_x.dtype == torch.uint8
    assert dataset.train_y.dtype == torch.int64
    assert np.array_equal(dataset.train_x.numpy(), np.concatenate([parts[name][0] for name in train]))
    assert dataset.train_y.tolist() == [label for name in train for label in parts[name][1]]
    assert np.array_equal(dataset.test_x.numpy(), parts[test][0])
    assert dataset.test_y.tolist() == parts[test][1]
    assert dataset.augmentation == "crop-flip"


@pytest.mark.parametrize("folder", ["cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "."])
def test_cifar10_binary_files_are_read(tmp_path, folder):
    parts = planted(CIFAR10_NAMES, 10)
    write_binary(tmp_path / "data" / folder, parts)
    dataset = load("cifar10", tmp_path / "data")
    assert_loaded(dataset, parts, CIFAR10_NAMES)
    assert dataset.class_names[0] == "airplane"
    assert dataset.class_names[-1] == "truck"
    assert dataset.num_classes == 10


@pytest.mark.parametrize("folder", ["cifar-100-binary", "cifar100/cifar-100-binary", "."])
def test_cifar100_binary_files_give_fine_labels(tmp_path, folder):
    parts = planted(CIFAR100_NAMES, 100)
    write_binary(tmp_path / "data" / folder, parts, coarse=True)
    dataset = load("cifar100", tmp_path / "data")
    assert_loaded(dataset, parts, CIFAR100_NAMES)
    assert dataset.num_classes == 100


def test_cifar100_names_are_a_hundred_in_alphabetical_order(tmp_path):
    write_binary(tmp_path / "cifar-100-binary", planted(CIFAR100_NAMES, 100), coarse=True)
    names = load("cifar100", tmp_path).class_names
    assert len(set(names)) == 100
    assert list(names) == sorted(names)


def test_gzipped_binary_files_are_read(tmp_path):
    parts = planted(CIFAR100_NAMES, 100)
    write_binary(tmp_path / "data", parts, coarse=True)
    for path in list((tmp_path / "data").iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert_loaded(load("cifar100", tmp_path / "data"), parts, CIFAR100_NAMES)


def write_python(folder: Path, parts: dict, keys: tuple[str, ...], style: str) -> None:
    folder.mkdir(parents=True)
    for name, (images, labels) in parts.items():
        # The last key is the one to be read; the others are decoys of the same length.
        entries = {key: [1] * len(labels) for key in keys[:-1]} | {keys[-1]: labels}
        if style == "python 2":
            content = python2_pickle(images, entries)
        else:
            batch = {"data": images.reshape(len(images), -1), **entries}
            content = pickle.dumps(batch, protocol=int(style))
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("style", ["python 2", "2", "4"])
def test_cifar10_python_files_are_read(tmp_path, style):
    parts = planted(CIFAR10_NAMES, 10)
    write_python(tmp_path / "cifar-10-batches-py", parts, ("labels",), style)
    assert_loaded(load("cifar10", tmp_path), parts, CIFAR10_NAMES)


@pytest.mark.parametrize("folder", ["cifar-100-python", "cifar100/cifar-100-python", "."])
def test_cifar100_python_files_give_fine_labels(tmp_path, folder):
    parts = planted(CIFAR100_NAMES, 100)
    write_python(tmp_path / "data" / folder, parts, ("coarse_labels", "fine_labels"), "python 2")
    assert_loaded(load("cifar100", tmp_path / "data"), parts, CIFAR100_NAMES)


def test_the_hand_written_pickle_is_what_numpy_reads():
    """The opcodes of `python2_pickle` are checked against Python's own reader."""
    images, labels = planted(["x"], 10)["x"]
    batch = pickle.loads(python2_pickle(images, {"labels": labels}), encoding="bytes")  # noqa: S301
    assert np.array_equal(batch[b"data"], images.reshape(3, -1))
    assert batch[b"labels"] == labels


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_calls_anything_else_is_refused_and_not_run(tmp_path, protocol):
    write_python(tmp_path / "data", planted(CIFAR100_NAMES, 100), ("fine_labels",), "2")
    target = tmp_path / "executed"
    content = pickle.dumps({"data": Bomb(target), "fine_labels": [1]}, protocol=protocol)
    (tmp_path / "data" / "train").write_bytes(content)
    with pytest.raises(DataError, match=r"train: is not a CIFAR python file \(it asks for \w+\.mkdir"):
        load("cifar100", tmp_path / "data")
    assert not target.exists()
    pickle.loads(content)  # noqa: S301  (the same bytes do run where nobody refuses)
    assert target.exists()


def rows(count: int, width: int = 3072, dtype: type = np.uint8) -> np.ndarray:
    return np.zeros((count, width), dtype=dtype)


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        ({"data": rows(2, dtype=np.float32), "fine_labels": [1, 2]}, "dtype 'f4' instead of u1"),
        ({"data": np.array([None]), "fine_labels": [1]}, "dtype 'O8' instead of u1"),
        ({"data": np.asfortranarray(rows(2)), "fine_labels": [1, 2]}, "row-major"),
        ({"data": rows(2, 3071), "fine_labels": [1, 2]}, r"need \(2, 3072\)"),
        ({"data": rows(2), "fine_labels": [1, 2, 3]}, r"need \(3, 3072\)"),
        ({"data": rows(2), "fine_labels": [1, 100]}, r"lie in \[0, 99\]"),
        ({"data": rows(2), "fine_labels": [1, -1]}, "small whole numbers"),
        ({"data": rows(2), "fine_labels": [1, 2.0]}, "small whole numbers"),
        ({"data": rows(2), "fine_labels": [1, 2**80]}, "small whole numbers"),
        ({"data": rows(2), "labels": [1, 2]}, "lacks the array 'data' or the list 'fine_labels'"),
        ({"fine_labels": [1, 2]}, "lacks the array 'data'"),
        ({"data": [0] * 3072, "fine_labels": [1]}, "lacks the array 'data'"),
        ([1, 2], "holds a list"),
    ],
)
def test_an_unfit_python_file_is_named(tmp_path, batch, complaint):
    write_python(tmp_path / "data", planted(CIFAR100_NAMES, 100), ("fine_labels",), "2")
    (tmp_path / "data" / "test").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(DataError, match=complaint) as caught:
        load("cifar100", tmp_path / "data")
    assert str(caught.value).startswith(str(tmp_path / "data" / "test"))


def test_a_python_file_cut_anywhere_is_a_data_error(tmp_path):
    parts = planted(CIFAR100_NAMES, 100)
    write_python(tmp_path / "data", parts, ("fine_labels",), "2")
    path = tmp_path / "data" / "train"
    content = path.read_bytes()
    for length in [0, 1, 2, 3, 10, 40, 80, 120, 160, 500, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="train: is not a CIFAR python file"):
            load("cifar100", tmp_path / "data")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "0 bytes are not a whole number of 3073-byte records"),
        (bytes(3072), "3072 bytes are not a whole number"),
        (bytes(3074), "3074 bytes are not a whole number"),
        (bytes([10]) + bytes(3072), r"labels from 10 to 10, .* lie in \[0, 9\]"),
    ],
)
def test_an_unfit_binary_file_is_named(tmp_path, content, complaint):
    write_binary(tmp_path / "data", planted(CIFAR10_NAMES, 10))
    (tmp_path / "data" / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(DataError, match=complaint) as caught:
        load("cifar10", tmp_path / "data")
    assert str(caught.value).startswith(str(tmp_path / "data" / "data_batch_3.bin"))
