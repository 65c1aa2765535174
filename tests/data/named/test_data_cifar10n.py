"""CIFAR-10N: the official file is read without its code, in the order of the images, and T is counted."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from trevision.data.files.reading import Reading
from trevision.data.load import load
from trevision.data.named.cifar10n import LABEL_SETS, human_labels, read_cifar10n
from trevision.data.read_labels import read_labels
from trevision.files import DataError
from trevision.runs.prepare import prepare
from trevision.runs.settings import Settings

ROWS = 60
OFFICIAL = Path(os.environ.get("TREVISION_DATA", "data")) / "cifar-n" / "CIFAR-10_human.pt"


def write_labels(folder: Path, labels: dict, protocol: int = 2) -> Path:
    """A file as torch.save writes a dictionary of numpy arrays."""
    path = folder / "cifar-n" / "CIFAR-10_human.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(labels, protocol=protocol))
        archive.writestr("archive/version", "3\n")
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """CIFAR-10 with 12 rows in each of its five training files, and people's labels for them."""
    rng = np.random.default_rng(0)
    clean = np.arange(ROWS) % 10
    images = tmp_path / "cifar-10-batches-bin"
    images.mkdir()
    parts = [*np.split(clean, 5), np.arange(10)]
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for name, codes in zip(names, parts, strict=True):
        pixels = rng.integers(0, 256, (len(codes), 3072), dtype=np.uint8)
        (images / name).write_bytes(np.column_stack([codes.astype(np.uint8), pixels]).tobytes())
    labels = {name: np.where(rng.random(ROWS) < 0.3, (clean + 1) % 10, clean) for name in LABEL_SETS.values()}
    write_labels(tmp_path, {"clean_label": clean, **labels})
    return tmp_path


def stored(folder: Path) -> dict[str, np.ndarray]:
    return human_labels(folder / "cifar-n" / "CIFAR-10_human.pt")


@pytest.mark.parametrize("noise_set", [None, *LABEL_SETS])
def test_each_noise_set_is_its_labels_beside_the_clean_truth(folder, noise_set):
    reading = Reading(noise_set=noise_set)
    dataset = load("cifar10n", folder, reading=reading)
    expected = stored(folder)[LABEL_SETS[noise_set or "worse"]]
    assert dataset.train_y.tolist() == expected.tolist()
    assert dataset.true_y.tolist() == (np.arange(ROWS) % 10).tolist()
    assert dataset.labels_are_noisy
    assert read_labels("cifar10n", reading, folder).codes.tolist() == expected.tolist()


def test_the_truth_is_t_counted_by_a_loop_and_methods_do_not_see_it(folder):
    dataset = load("cifar10n", folder, reading=Reading(noise_set="aggre"))
    data, truth = prepare(dataset, Settings(seed=1))
    counts = np.zeros((10, 10))
    for true, given in zip(np.arange(ROWS) % 10, stored(folder)["aggre_label"], strict=True):
        counts[true, given] += 1
    np.testing.assert_allclose(truth.transition, counts / counts.sum(axis=1, keepdims=True))
    assert truth.true_train_y.tolist() == (data.train_rows % 10).tolist()
    assert truth.true_valid_y.tolist() == (data.valid_rows % 10).tolist()
    assert data.label_pairs is None
    # Of a part of the rows, T is still that of all rows.
    _, part = prepare(dataset, Settings(seed=1, train_size=30))
    np.testing.assert_allclose(part.transition, truth.transition)
    assert len(part.true_train_y) + len(part.true_valid_y) == 30


def test_noise_cannot_be_added_nor_anchors_removed(folder):
    dataset = load("cifar10n", folder)
    with pytest.raises(DataError, match="noise must be left out for cifar10n"):
        prepare(dataset, Settings(noise="sym-20"))
    with pytest.raises(DataError, match="remove_anchors must be left out for cifar10n"):
        prepare(dataset, Settings(remove_anchors=0.2))


def test_labels_in_another_order_than_the_images_are_refused(folder):
    labels = stored(folder)
    write_labels(folder, labels | {"clean_label": labels["clean_label"][::-1].copy()})
    with pytest.raises(DataError, match="row by row, but differ"):
        read_cifar10n(folder)


def test_a_file_cannot_run_code(folder, tmp_path):
    class Malicious:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'touched'}",)

    labels = stored(folder)
    path = write_labels(folder, labels | {"worse_label": Malicious()})
    with pytest.raises(DataError, match=r"asks for \w+\.system"):
        human_labels(path)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            lambda labels: {"clean_label": labels["clean_label"]},
            "must hold arrays named clean_label",
        ),
        (lambda labels: labels | {"worse_label": labels["worse_label"][:5]}, "worse_label must hold a label"),
        (lambda labels: labels | {"aggre_label": labels["aggre_label"] + 5}, "aggre_label must hold a label"),
        (lambda labels: labels | {"aggre_label": np.ones(ROWS)}, "dtype 'f8'"),
        (lambda labels: labels | {"aggre_label": np.zeros(ROWS, ">i8")}, "byte order '>'"),
    ],
)
def test_a_file_that_is_not_the_official_one_is_named(folder, spoil, says):
    path = write_labels(folder, spoil(stored(folder)))
    with pytest.raises(DataError, match=says):
        human_labels(path)
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="is not the label file of CIFAR-10N"):
        human_labels(path)


def test_a_noise_set_that_is_not_there_is_refused_with_those_that_are(folder):
    with pytest.raises(DataError, match="random2, random3 for cifar10n, got 'worst'"):
        load("cifar10n", folder, reading=Reading(noise_set="worst"))
    with pytest.raises(DataError, match="noise_set must be left out for cifar10, got 'worse'"):
        load("cifar10", folder, reading=Reading(noise_set="worse"))
    with pytest.raises(DataError, match="noise_set is a choice for a named data set"):
        Reading(noise_set="worse").check("table", "a.csv")


def test_newer_pickles_are_read_too(folder):
    labels = stored(folder)
    again = human_labels(write_labels(folder, labels, protocol=4))
    assert all(np.array_equal(again[name], labels[name]) for name in labels)


@pytest.mark.skipif(not OFFICIAL.is_file(), reason="needs the official file under $TREVISION_DATA")
def test_the_official_file_has_the_published_noise_rates():
    """Wei et al. 2022, Table 1: 9.03 % (aggre), 17.23, 18.12, 17.64 (random) and 40.21 % (worse)."""
    labels = human_labels(OFFICIAL)
    published = {"aggre": 9.03, "random1": 17.23, "random2": 18.12, "random3": 17.64, "worse": 40.21}
    for name, percent in published.items():
        wrong = 100 * np.mean(labels[LABEL_SETS[name]] != labels["clean_label"])
        assert wrong == pytest.approx(percent, abs=0.05), name


def test_the_file_is_read_the_same_as_torch_reads_it(folder):
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    labels = stored(folder)
    torch.save(labels, buffer)
    path = folder / "cifar-n" / "CIFAR-10_human.pt"
    path.write_bytes(buffer.getvalue())
    again = human_labels(path)
    assert all(np.array_equal(again[name], labels[name]) for name in labels)
