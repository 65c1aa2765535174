import numpy as np
import pytest
import sklearn.datasets
import torch

from trevision.data.load import load, load_rows
from trevision.data.sources import SOURCES, available
from trevision.files import DataError


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    monkeypatch.setenv("TREVISION_OFFLINE", "1")
    monkeypatch.delenv("TREVISION_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def test_digits_are_all_of_scikit_learns_images_once():
    dataset = load("digits")
    assert dataset.train_x.dtype == torch.uint8
    assert dataset.train_x.shape[1:] == dataset.test_x.shape[1:] == (1, 8, 8)
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    together = np.concatenate([dataset.train_x.numpy(), dataset.test_x.numpy()]).reshape(-1, 64)
    codes = np.concatenate([dataset.train_y.numpy(), dataset.test_y.numpy()])
    mine = np.column_stack([together, codes])
    theirs = np.column_stack([images, labels]).astype(np.int64)
    assert np.array_equal(mine[np.lexsort(mine.T)], theirs[np.lexsort(theirs.T)])


def test_a_fifth_of_each_digit_is_for_testing_and_always_the_same():
    dataset = load("digits")
    train, test = torch.bincount(dataset.train_y), torch.bincount(dataset.test_y)
    assert len(dataset.test_y) == 360
    assert ((test - 0.2 * (train + test)).abs() < 1).all()
    assert torch.equal(dataset.test_x, load("digits").test_x)


def test_a_path_to_an_npz_file_is_a_source(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((2, 2)), y=np.array([0, 1]))
    assert load(str(tmp_path / "mine.npz")).name == "mine"
    assert load(tmp_path / "mine.npz").name == "mine"
    with pytest.raises(DataError, match=r"other\.npz: there is no such file"):
        load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("minst", "mnist"),
        ("MNIST", "mnist"),
        ("cifar-10", "cifar10"),
        ("CIFAR-100", "cifar100"),
        ("fashion_mnist", "fashion-mnist"),
        ("digit", "digits"),
    ],
)
def test_a_misspelt_source_gets_a_suggestion(typo, meant):
    with pytest.raises(DataError, match=f"did you mean {meant}\\?") as caught:
        load(typo)
    assert all(name in str(caught.value) for name in SOURCES)


def test_a_source_like_no_other_gets_the_list_only():
    with pytest.raises(
        DataError,
        match=r"digits, mnist, fashion-mnist, .*, cifar10n, clothing1m, or a \.csv, .* got '#'$",
    ):
        load("#")


def test_availability_says_where_each_set_lies_without_reading_it(tmp_path):
    folder = tmp_path / "data" / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(b"unreadable")
    states = {state.name: state for state in available(tmp_path / "data")}
    assert list(states) == list(SOURCES)
    assert states["cifar100"].found_at == folder
    assert states["cifar10"].found_at is None
    assert states["digits"].found_at.is_dir()
    assert states["mnist"].looked_in == (
        tmp_path / "data" / "mnist",
        tmp_path / "data" / "MNIST" / "raw",
        tmp_path / "data",
        tmp_path / "xdg" / "trevision" / "mnist",
        tmp_path / "xdg" / "trevision" / "MNIST" / "raw",
    )
    assert all(state.description for state in states.values())


def test_rows_to_predict_of_a_named_set_are_its_test_rows():
    dataset = load("digits")
    rows = load_rows("digits")
    assert torch.equal(rows.x, dataset.test_x)
    assert [int(label) for label in rows.labels] == dataset.test_y.tolist()


def test_rows_to_predict_of_a_file_are_its_test_rows_if_it_has_any(tmp_path):
    x, y = np.arange(6.0).reshape(3, 2), np.array(["b", "a", "b"])
    np.savez(tmp_path / "both.npz", x=x, y=y, x_test=x[1:] + 10, y_test=y[1:])
    rows = load_rows(tmp_path / "both.npz")
    assert rows.x.tolist() == (x[1:] + 10).tolist()
    assert rows.labels.tolist() == ["a", "b"]
    np.savez(tmp_path / "bare.npz", x=x)
    rows = load_rows(str(tmp_path / "bare.npz"))
    assert rows.x.tolist() == x.tolist()
    assert rows.labels is None


def test_rows_to_predict_may_all_be_of_one_class(tmp_path):
    np.savez(tmp_path / "one.npz", x=np.zeros((2, 2)), y=np.array([4, 4]))
    assert load_rows(tmp_path / "one.npz").labels.tolist() == [4, 4]


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"y": np.array([0, 1])}, "lacks the array x$"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(3, int)}, "x and y must have the same number of rows"),
        ({"x": np.full((2, 2), np.nan)}, "x must be finite"),
        ({"x": np.zeros((2, 2)), "x_test": np.zeros((0, 2))}, "x_test must not be empty"),
    ],
)
def test_unfit_rows_to_predict_name_the_file(tmp_path, arrays, complaint):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(DataError, match=complaint) as caught:
        load_rows(tmp_path / "set.npz")
    assert str(caught.value).startswith(f"{tmp_path / 'set.npz'}: ")
