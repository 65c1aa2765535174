import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trevision.data.files.array_dataset import features, from_arrays, read_npz
from trevision.data.files.arrays import codes_in, encode_labels
from trevision.files import DataError

LABELS = st.one_of(
    st.lists(st.integers(-5, 5), min_size=2, max_size=30),
    st.lists(st.text(alphabet="abé ", max_size=3), min_size=2, max_size=30),
    st.lists(st.booleans(), min_size=2, max_size=30),
)


@given(LABELS)
def test_codes_number_the_sorted_label_values(labels):
    values = sorted(set(labels))
    if len(values) < 2:
        with pytest.raises(DataError, match="at least two classes"):
            encode_labels(labels)
        return
    classes, codes = encode_labels(labels)
    assert classes.tolist() == values
    assert codes.dtype == np.int64
    assert codes.tolist() == [values.index(label) for label in labels]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 3], dtype=np.uint8),
        np.array([3.0, 1.0, 3.0]),
        np.array([3, 1, 3], dtype=">i2"),
        np.array(["3", "1", "3"]),
        np.array(["3", "1", "3"], dtype=object),
        np.array([b"3", b"1", b"3"]),
        np.array([3, 1, 3], dtype=object),
        np.array([True, False, True], dtype=object),
        torch.tensor([3, 1, 3]),
        pd.Series(["3", "1", "3"]),
        pd.Series(["3", "1", "3"], dtype="category"),
        (3, 1, 3),
        [3, np.int64(1), 3.0],
    ],
    ids=repr,
)
def test_every_form_of_labels_gives_the_same_codes(labels):
    classes, codes = encode_labels(labels)
    assert codes.tolist() == [1, 0, 1]
    assert len(classes) == 2
    assert classes.dtype.kind != "O"


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ([1.0, float("nan")], "got nan in row 1"),
        (np.array([1.0, np.nan]), "got nan in row 1"),
        (np.array([1.0, np.inf]), "got inf in row 1"),
        (["a", None], "got None in row 1"),
        (pd.Series(["a", None]), "in row 1"),
        (pd.Series([1, None], dtype="Int64"), "in row 1"),
        ([1, pd.NA], "got <NA> in row 1"),
        ([0.5, 1.0], "the fraction 0.5 in row 0"),
        ([1, "a"], "got int, str"),
        ([True, "a"], "got bool, str"),
        ([1j, 2j], "got complex"),
        (np.array([1j, 2j]), "got dtype complex128"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"), "got dtype datetime64"),
        ([], "at least one label"),
        (5, r"shape \(\)"),
        ([[1], [2]], r"got shape \(2, 1\); call its .ravel\(\)"),
        ([[1, 0], [0, 1]], r"got shape \(2, 2\)$"),
        ([[1], [2, 3]], "got list"),
        ([7, 7, 7], "only the class '7'"),
        (["x"], "only the class 'x'"),
        ([2**70, 1], "at most 64 bits"),
    ],
)
def test_labels_that_name_no_classes_are_refused(labels, complaint):
    with pytest.raises(DataError, match=complaint) as caught:
        encode_labels(labels, "truth")
    assert str(caught.value).startswith("truth must ")
    assert "\n" not in str(caught.value)


def test_other_labels_are_coded_by_the_training_classes():
    classes, _ = encode_labels(["cat", "ant", "dog"])
    assert codes_in(["dog", "dog", "ant"], classes).tolist() == [2, 2, 0]
    assert codes_in(np.array([False, True]), np.array([0, 1])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (["cat", "bee"], "holds 'bee' in row 1"),
        (["zebra"], "holds 'zebra' in row 0"),
        (["aa"], "holds 'aa' in row 0"),
        ([1, 2], "of the training kind"),
        ([b"cat"], "of the training kind"),
    ],
)
def test_a_label_never_seen_in_training_is_refused(labels, complaint):
    with pytest.raises(DataError, match=complaint):
        codes_in(labels, np.array(["ant", "cat", "dog"]))


def numbered(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_images_end_up_channels_first(dtype):
    last = numbered(4, 5, 6, 3, dtype=dtype)
    converted = features(last)
    assert converted.shape == (4, 3, 5, 6)
    assert converted.is_contiguous()
    assert converted.dtype == (torch.uint8 if dtype is np.uint8 else torch.float32)
    for n, channel, row, column in np.ndindex(4, 3, 5, 6):
        assert converted[n, channel, row, column] == last[n, row, column, channel]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 5, 6), (4, 1, 5, 6)),
        ((4, 5, 6, 1), (4, 1, 5, 6)),
        ((4, 1, 5, 6), (4, 1, 5, 6)),
        ((4, 3, 5, 6), (4, 3, 5, 6)),
        ((4, 3, 5, 3), (4, 3, 5, 3)),
        ((4, 2, 5, 6), (4, 2, 5, 6)),
        ((4, 1, 1, 1), (4, 1, 1, 1)),
    ],
)
def test_unambiguous_channels_are_moved_and_others_left(shape, expected):
    array = numbered(*shape)
    converted = features(array)
    assert converted.shape == expected
    assert converted.dtype == torch.uint8
    assert converted.flatten().tolist() == array.flatten().tolist()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float64, ">f8"])
def test_tables_become_float32(dtype):
    table = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    converted = features(table)
    assert converted.dtype == torch.float32
    assert converted.tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("x", [np.ones((2, 3), np.float32), np.ones((2, 4, 4), np.uint8)])
def test_features_do_not_share_memory_with_what_was_given(x):
    converted = features(x)
    x[:] = 0
    assert (converted == 1).all()
    frozen = np.ones((2, 3), np.float32)
    frozen.flags.writeable = False
    features(frozen)[0, 0] = 5
    assert frozen[0, 0] == 1


def test_frames_and_tensors_are_tables():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert features(frame).tolist() == [[1.0, 0.5], [2.0, 1.5]]
    assert features(torch.ones(2, 3, requires_grad=True)).tolist() == [[1.0] * 3] * 2


class Sparse:
    def toarray(self) -> None: ...


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        ([[1.0, np.nan]], "got nan in row 0"),
        ([[1.0, 2.0], [np.inf, 1.0]], "got inf in row 1"),
        ([[1.0], [1e300]], r"within float32, got 1e\+300 in row 1"),
        (np.full((2, 3, 4, 4), np.nan), "got nan in row 0"),
        (np.array([["a", 1]], dtype=object), "got dtype object; turn text"),
        ([["a", "b"]], "got dtype <U1; turn text"),
        ([[1j]], "got dtype complex128$"),
        (pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), "got dtype object"),
        ([1.0, 2.0], r"got shape \(2,\); a single feature"),
        (3.0, r"got shape \(\)"),
        (np.zeros((1, 1, 1, 1, 1)), r"got shape \(1, 1, 1, 1, 1\)"),
        (np.zeros((0, 3)), r"not be empty, got shape \(0, 3\)"),
        (np.zeros((3, 0)), r"not be empty, got shape \(3, 0\)"),
        ([[1.0], [1.0, 2.0]], "rows of one length"),
        (Sparse(), "sparse matrix"),
    ],
)
def test_unfit_features_are_refused(x, complaint):
    with pytest.raises(DataError, match=complaint) as caught:
        features(x, "table")
    assert str(caught.value).startswith("table must ")
    assert "\n" not in str(caught.value)


def test_a_data_set_keeps_the_label_values_and_their_names():
    x = [[0.0], [1.0], [2.0]]
    dataset = from_arrays(x, [20, 10, 20], test_x=[[3.0]], test_y=[20], name="mine")
    assert dataset.name == "mine"
    assert dataset.class_names == ("10", "20")
    assert dataset.classes.tolist() == [10, 20]
    assert dataset.train_y.tolist() == [1, 0, 1]
    assert dataset.train_y.dtype == np.int64
    assert dataset.test_x.tolist() == [[3.0]]
    assert dataset.test_y.tolist() == [1]
    assert from_arrays(x, [b"no", b"yes", b"no"]).class_names == ("no", "yes")
    assert from_arrays(x, [True, False, True]).class_names == ("False", "True")
    assert from_arrays(x, [1, 2, 1]).test_x is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"y": [0, 1]}, "x and y must have the same number of rows, got 3 and 2"),
        ({"test_x": np.zeros((2, 2))}, "go together, got only test_x"),
        ({"test_y": [0]}, "go together, got only test_y"),
        ({"test_x": np.zeros((2, 2)), "test_y": [0]}, "test_x and test_y must have the same number"),
        ({"test_x": np.zeros((1, 3)), "test_y": [0]}, r"rows like those of x, \(2,\) .* got \(3,\)"),
        ({"test_x": np.zeros((1, 2)), "test_y": [5]}, "test_y holds '5'"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(arguments, complaint):
    with pytest.raises(DataError, match=complaint):
        from_arrays(**({"x": np.zeros((3, 2)), "y": [0, 1, 1]} | arguments))


def test_a_test_part_of_another_dtype_is_refused():
    images = np.zeros((2, 4, 4), np.uint8)
    with pytest.raises(DataError, match=r"of uint8, got \(1, 4, 4\) of float32"):
        from_arrays(images, [0, 1], images / 255.0, [0, 1])


def test_an_npz_file_is_read(tmp_path):
    x, y = numbered(4, 5, 5), np.array(["b", "a", "b", "a"])
    np.savez_compressed(tmp_path / "set.npz", x=x, y=y, x_test=x[:1], y_test=y[:1], more=np.zeros(3))
    dataset = read_npz(tmp_path / "set.npz")
    assert dataset.name == "set"
    assert np.array_equal(dataset.train_x[:, 0], x)
    assert dataset.train_y.tolist() == [1, 0, 1, 0]
    assert dataset.test_y.tolist() == [1]
    np.savez(tmp_path / "bare.npz", x=x, y=y)
    assert read_npz(str(tmp_path / "bare.npz")).test_x is None


def write(path, kind):
    x, y = np.zeros((2, 2)), np.array([0, 1])
    if kind == "npy":
        with open(path, "wb") as file:
            np.save(file, x)
    elif kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("x,y\n1,2\n")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x", "not an array")
            archive.writestr("y", "not an array")
    elif kind == "truncated":
        np.savez(path, x=x, y=y)
        path.write_bytes(path.read_bytes()[:-40])
    elif kind == "flipped":
        np.savez(path, x=np.ones((64, 64)), y=np.arange(64))
        content = bytearray(path.read_bytes())
        content[5000] ^= 255
        path.write_bytes(bytes(content))
    elif kind == "no x":
        np.savez(path, X=x, y=y)
    elif kind == "no y":
        np.savez(path, x=x)
    elif kind == "objects":
        np.savez(path, x=x, y=np.array(["a", "b"], dtype=object))
    elif kind == "half a test":
        np.savez(path, x=x, y=y, x_test=x)
    elif kind == "foreign test label":
        np.savez(path, x=x, y=y, x_test=x, y_test=np.array([0, 9]))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("nothing", "there is no such file"),
        ("folder", "cannot be read"),
        ("npy", "is one array, not an .npz"),
        ("text", "is not an .npz file"),
        ("empty", "is not an .npz file"),
        ("zip", "the array x is no array"),
        ("truncated", "is not an .npz file, or a corrupt one"),
        ("flipped", "is not an .npz file, or a corrupt one"),
        ("no x", "lacks the array x; the arrays it holds: X, y"),
        ("no y", "lacks the array y; the arrays it holds: x"),
        ("objects", r"the array y holds Python objects, .* labels as y.astype\(str\)"),
        ("half a test", "x_test and y_test go together, got only x_test"),
        ("foreign test label", "y_test holds '9' in row 1"),
    ],
)
def test_an_unfit_npz_file_is_explained_in_one_line(tmp_path, kind, complaint):
    path = tmp_path / "set.npz"
    write(path, kind)
    with pytest.raises(DataError, match=complaint) as caught:
        read_npz(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
