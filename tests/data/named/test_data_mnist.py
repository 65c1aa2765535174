import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from trevision.data.load import load
from trevision.data.named.locations import search_folders
from trevision.files import DataError

TRAIN_LABELS = bytes([3, 1, 4, 1, 5, 9])
TEST_LABELS = bytes([2, 7])
PIXELS = bytes((7 * i) % 256 for i in range(6 * 4 * 3))


def idx(content: bytes, *shape: int) -> bytes:
    """An idx file of bytes, packed by struct as the format's description has it."""
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + content


def write_mnist(folder: Path, packed: bool = False, **replaced: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "train-images-idx3-ubyte": idx(PIXELS, 6, 4, 3),
        "train-labels-idx1-ubyte": idx(TRAIN_LABELS, 6),
        "t10k-images-idx3-ubyte": idx(PIXELS[:24], 2, 4, 3),
        "t10k-labels-idx1-ubyte": idx(TEST_LABELS, 2),
    }
    for name, content in contents.items():
        content = replaced.get(name.split("-idx")[0].replace("-", "_"), content)
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    monkeypatch.setenv("TREVISION_OFFLINE", "1")
    monkeypatch.delenv("TREVISION_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_byte_by_byte(tmp_path, packed):
    write_mnist(tmp_path / "mnist", packed)
    dataset = load("mnist", tmp_path)
    assert dataset.train_x.dtype == torch.uint8
    assert dataset.train_x.shape == (6, 1, 4, 3)
    for n in range(6):
        for row in range(4):
            for column in range(3):
                assert dataset.train_x[n, 0, row, column] == PIXELS[n * 12 + row * 3 + column]
    assert dataset.train_y.dtype == torch.int64
    assert dataset.train_y.tolist() == list(TRAIN_LABELS)
    assert dataset.test_x.shape == (2, 1, 4, 3)
    assert dataset.test_y.tolist() == list(TEST_LABELS)
    assert dataset.class_names == ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
    assert dataset.augmentation == "none"


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("mnist", "."),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
        ("fashion-mnist", "."),
    ],
)
def test_every_layout_of_an_explicit_folder_is_found(tmp_path, source, folder):
    write_mnist(tmp_path / "data" / folder)
    dataset = load(source, tmp_path / "data")
    assert dataset.name == source
    assert dataset.num_classes == 10


def test_the_environment_and_the_cache_hold_subfolders_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TREVISION_DATA", str(tmp_path / "env"))
    write_mnist(tmp_path / "env")
    with pytest.raises(DataError, match="found in none of"):
        load("mnist")
    write_mnist(tmp_path / "env" / "MNIST" / "raw")
    assert len(load("mnist").train_y) == 6


def test_an_explicit_folder_goes_before_the_environment_and_that_before_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREVISION_DATA", str(tmp_path / "env"))
    explicit, environment, cache = (
        tmp_path / "mine",
        tmp_path / "env",
        tmp_path / "xdg" / "trevision",
    )
    assert search_folders(explicit) == [explicit, environment, cache]
    for label, folder in enumerate((cache, environment, explicit)):
        write_mnist(folder / "mnist", train_labels=idx(bytes([label] * 6), 6))
        assert load("mnist", explicit).train_y[0] == label


def test_the_cache_lies_in_the_home_folder_unless_said_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert search_folders(None) == [tmp_path / ".cache" / "trevision"]


def test_an_incomplete_folder_is_passed_over_and_its_gap_named(tmp_path):
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"^mnist: t10k-labels-idx1-ubyte\(.gz\) was found in none"):
        load("mnist", tmp_path)
    write_mnist(tmp_path / "MNIST" / "raw", train_labels=idx(bytes([8] * 6), 6))
    assert load("mnist", tmp_path).train_y.tolist() == [8] * 6


def test_missing_files_are_explained_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("TREVISION_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        load("fashion-mnist", tmp_path / "typo")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("fashion-mnist: train-images-idx3-ubyte(.gz) was found in none of ")
    assert f"{tmp_path / 'typo'} (no such folder), {tmp_path}, {tmp_path / 'xdg' / 'trevision'} " in message
    assert "could not be downloaded ($TREVISION_OFFLINE is set)" in message
    assert message.endswith(f"put it into {tmp_path / 'typo' / 'fashion-mnist'}")


@pytest.mark.parametrize(
    ("part", "content", "complaint"),
    [
        ("train_images", idx(PIXELS[:-1], 6, 4, 3), "announces 6 x 4 x 3 bytes but holds 71"),
        ("train_images", idx(PIXELS + b"!", 6, 4, 3), "announces 6 x 4 x 3 bytes but holds 73"),
        ("train_images", idx(b"", 0, 4, 3), "announces 0 x 4 x 3"),
        ("train_images", idx(TRAIN_LABELS, 6) + bytes(16), "number 2049, but .* starts with 2051"),
        ("train_images", b"\x00\x00\x08\x03\x00", "ends within the idx header, after 5 bytes"),
        ("train_images", b"", "after 0 bytes"),
        ("train_labels", idx(PIXELS, 6, 4, 3), "number 2051, but .* starts with 2049"),
        ("train_labels", idx(TRAIN_LABELS[:5], 5), "holds 5 labels for 6 images"),
        ("train_labels", idx(bytes([0, 0, 10, 0, 0, 0]), 6), "holds the label 10"),
        ("t10k_images", idx(PIXELS[:24], 2, 3, 4), r"images of \(3, 4\) pixels"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_file_is_named(tmp_path, part, content, complaint, packed):
    write_mnist(tmp_path / "mnist", packed, **{part: content})
    with pytest.raises(DataError, match=complaint) as caught:
        load("mnist", tmp_path)
    assert str(tmp_path / "mnist" / part.replace("_", "-")) in str(caught.value)


@pytest.mark.parametrize(
    "damage", [lambda c: c[: len(c) // 2], lambda c: b"<html>" + c, lambda c: c[:-8] + bytes(8)]
)
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    write_mnist(tmp_path / "mnist", packed=True)
    path = tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz: is truncated or corrupt"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("source", "other", "first_labels"),
    [
        ("mnist", "fashion-mnist", [5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5, 3, 6, 1, 7]),
        ("fashion-mnist", "mnist", [9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9]),
    ],
)
def test_two_sets_with_the_same_file_names_are_not_mixed_up(tmp_path, source, other, first_labels):
    images = idx(bytes(16 * 12), 16, 4, 3)
    write_mnist(tmp_path, train_labels=idx(bytes(first_labels), 16), train_images=images)
    assert len(load(source, tmp_path).train_y) == 16
    with pytest.raises(DataError, match=f"is {source}, not {other}"):
        load(other, tmp_path)


REAL = os.environ.get("TREVISION_DATA", "")


@pytest.mark.skipif(
    not (Path(REAL) / "mnist" / "train-images-idx3-ubyte.gz").is_file() or not REAL,
    reason="needs the real MNIST in $TREVISION_DATA/mnist",
)
def test_the_real_mnist_has_its_published_counts_and_mean(monkeypatch):
    monkeypatch.setenv("TREVISION_DATA", REAL)
    dataset = load("mnist")
    assert dataset.train_x.shape == (60000, 1, 28, 28)
    assert dataset.test_x.shape == (10000, 1, 28, 28)
    # Class counts as published with the data set, and the mean and deviation that everyone normalises with.
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(dataset.train_y).tolist() == counts
    assert torch.bincount(dataset.test_y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    counts = np.bincount(dataset.train_x.numpy().reshape(-1), minlength=256) / dataset.train_x.numel()
    values = np.arange(256) / 255
    mean = counts @ values
    assert abs(mean - 0.1307) < 5e-5
    assert abs(np.sqrt(counts @ (values - mean) ** 2) - 0.3081) < 5e-5
