"""Data sets of Hugging Face and torch give what the arrays in them give."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from trevision import NoisyLabelClassifier, Phase, Schedule, TRevisionClassifier, foreign
from trevision.foreign import read_labelled, read_rows

SHORT = Schedule(Phase(2), Phase(2), Phase(1), parameterisation="simplex", estimator="latent", folds=2)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(foreign, "ROWS_AT_ONCE", 64)


def classifier() -> TRevisionClassifier:
    return TRevisionClassifier(schedule=SHORT, random_state=0)


class Pairs:
    """A data set as torch's own are: a length, and samples by their numbers."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[np.ndarray, object]:
        return self.x[row], self.y[row]


class Rows(Pairs):
    """The same without labels."""

    def __getitem__(self, row: int) -> np.ndarray:
        return self.x[row]


@pytest.mark.parametrize("kind", ["pairs", "tensors", "loader", "shuffled loader"])
def test_a_torch_data_set_gives_the_model_of_its_arrays(blobs, kind):
    x, y = blobs.x[:300], blobs.noisy[:300]
    tensors = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    data = {
        "pairs": Pairs(x, y),
        "tensors": tensors,
        "loader": DataLoader(tensors, batch_size=7),
        "shuffled loader": DataLoader(Pairs(x, y), batch_size=7, shuffle=True, drop_last=True),
    }[kind]
    from_arrays, from_data = classifier().fit(x, y), classifier().fit(data)
    assert np.array_equal(from_data.predict_proba(data), from_arrays.predict_proba(x))
    # Rows keep their numbers, also where a loader shuffles them.
    assert np.array_equal(from_data.out_of_sample_[1], from_arrays.out_of_sample_[1])
    assert from_data.score(data) == from_arrays.score(x, y)


def test_labels_of_pairs_may_be_strings_and_rows_may_come_without_labels(blobs):
    names = np.array(["p", "q", "r", "s"])[blobs.noisy[:300]]
    model = classifier().fit(Pairs(blobs.x[:300], names))
    assert model.classes_.tolist() == ["p", "q", "r", "s"]
    given_apart = classifier().fit(Rows(blobs.x[:300], names), names)
    assert np.array_equal(model.predict(Rows(blobs.test_x, names)), given_apart.predict(blobs.test_x))


def test_images_of_a_data_set_stay_bytes():
    images = np.random.default_rng(0).integers(256, size=(100, 1, 24, 24), dtype=np.uint8)
    rows, labels, _ = read_labelled(Pairs(images, np.arange(100) % 2), None, numeric=True)
    assert rows.dtype == np.uint8
    assert np.array_equal(rows, images)
    assert np.array_equal(labels, np.arange(100) % 2)


def test_trusted_rows_may_be_a_data_set(blobs):
    trusted = Pairs(blobs.x[300:340], blobs.clean[300:340])
    model = classifier().fit(Pairs(blobs.x[:300], blobs.noisy[:300]), clean_X=trusted)
    assert "trusted_error" in model.history_[-1]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(np.zeros(2), 0)])


@pytest.mark.parametrize(
    ("data", "y", "message"),
    [
        (Pairs(np.zeros((4, 2)), np.arange(4)), [0, 1, 0, 1], "y must be left out"),
        (Rows(np.zeros((4, 2)), np.arange(4)), None, "got rows alone; pass y too"),
        (Stream(), None, "must have a length"),
        (DataLoader(Stream()), None, "must have a length|gives every row once"),
        (
            DataLoader(Pairs(np.zeros((4, 2)), np.arange(4)), sampler=WeightedRandomSampler([1.0] * 4, 4)),
            None,
            "gives every row once, got one with WeightedRandomSampler; pass its data set",
        ),
        (Pairs([{"x": 1.0}] * 3, [0, 1, 0]), None, "pairs of a row and its label, got dict as a row"),
        (Pairs([object()] * 3, [0, 1, 0]), None, "samples that torch can put into batches"),
        (Pairs([np.zeros(2), np.zeros(3)], [0, 1]), None, "samples that torch can put into batches"),
    ],
)
def test_a_data_set_that_cannot_be_read_is_refused_in_a_sentence(data, y, message):
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        classifier().fit(data, y)
    assert "\n" not in str(raised.value)


def test_columns_without_a_data_set_are_refused(blobs):
    with pytest.raises(ValueError, match="columns are those of a Hugging Face data set, got ndarray"):
        classifier().fit(blobs.x, blobs.noisy, columns="embedding")


@pytest.fixture
def hugging():
    return pytest.importorskip("datasets")


def test_a_column_of_arrays_gives_the_model_of_the_array(blobs, hugging):
    x, y = blobs.x[:300], blobs.noisy[:300]
    data = hugging.Dataset.from_dict({"embedding": x, "text": ["words"] * 300, "label": y})
    expected = classifier().fit(x, y)
    named = classifier().fit(data, y="label", columns="embedding")
    with pytest.warns(UserWarning, match="no numbers are left out: text"):
        found = classifier().fit(data, y="label")
    assert found.dataset_columns_ == "embedding"
    for model in (named, found):
        assert np.array_equal(model.predict_proba(data), expected.predict_proba(x))
    # The labels of rows to predict are not looked at, and need not be there.
    assert np.array_equal(named.predict(data.remove_columns("label")), expected.predict(x))
    assert named.score(data, "label") == expected.score(x, y)


def test_columns_of_numbers_are_a_frame_with_their_names(blobs, hugging, tmp_path):
    frame = pd.DataFrame(blobs.x[:300], columns=list("abcdefgh"))
    names = np.array(["p", "q", "r", "s"])[blobs.noisy[:300]]
    data = hugging.Dataset.from_pandas(frame.assign(answer=names))
    model = classifier().fit(data, y="answer")
    assert model.feature_names_in_.tolist() == list("abcdefgh")
    assert np.array_equal(model.predict(data), classifier().fit(frame, names).predict(frame))
    # Another order of columns changes nothing, and a model read back knows its columns.
    model.save(tmp_path)
    turned = data.select_columns(["answer", *reversed("abcdefgh")])
    assert np.array_equal(TRevisionClassifier.load(tmp_path).predict(turned), model.predict(frame))


def test_numbers_and_rows_of_numbers_stand_side_by_side(hugging):
    data = hugging.Dataset.from_dict({"v": [[1.0, 2.0], [3.0, 4.0]], "n": [5, 6], "label": [0, 1]})
    rows, labels, columns = read_labelled(data, "label", ["n", "v"], numeric=True)
    assert rows.tolist() == [[5, 1, 2], [6, 3, 4]]
    assert labels.tolist() == [0, 1]
    assert read_rows(data, columns, numeric=True).tolist() == rows.tolist()


def test_double_precision_is_kept(hugging):
    """The library itself gives 32 bits, in which these seconds are one number."""
    stamps = 1.7e9 + np.arange(200.0)
    data = hugging.Dataset.from_dict({"seconds": stamps, "label": np.arange(200) % 2})
    rows, _, _ = read_labelled(data, "label", numeric=True)
    assert np.array_equal(rows["seconds"], stamps)


def test_pictures_of_a_data_set_are_decoded(hugging):
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(256, size=(70, 6, 5, 3), dtype=np.uint8)
    data = hugging.Dataset.from_dict(
        {"image": [pillow.fromarray(each) for each in pixels], "label": [0, 1] * 35}
    )
    rows, _, _ = read_labelled(data, "label", numeric=True)
    assert np.array_equal(rows, pixels)


def test_texts_of_a_data_set_go_through_a_pipeline(hugging):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    texts = [" ".join(rng.choice([f"w{label}", "common", f"v{label}"], size=5)) for label in labels]
    data = hugging.Dataset.from_dict({"text": texts, "label": labels})
    model = NoisyLabelClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), random_state=0)
    for fitted in (model.fit(data, y="label"), model.fit(data, y="label", columns="text")):
        assert fitted.dataset_columns_ == "text"
        assert np.array_equal(fitted.predict(data), fitted.predict(texts))
        assert fitted.score(data, "label") == fitted.score(texts, labels) > 0.9
    assert len(model.find_label_issues(bootstrap=0).to_frame()) == 300


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda data: (data, None, None), "y must name the column of the labels, as in y='label'"),
        (lambda data: (data, "lable", None), "y must have the column 'lable', got the columns a, t, label"),
        (lambda data: (data, "label", "t"), "convert|numeric|numbers|float"),
        (lambda data: (data, "label", ["a", "label"]), "columns must not hold that of the labels"),
        (lambda data: (data.select_columns(["t", "label"]), "label", None), "must have a column of numbers"),
        (lambda data: (data.to_iterable_dataset(), "label", None), "got a streamed data set"),
    ],
)
def test_a_choice_of_columns_that_cannot_be_is_refused(hugging, choose, message):
    data = hugging.Dataset.from_dict({"a": np.arange(80.0), "t": ["word"] * 80, "label": [0, 1] * 40})
    x, y, columns = choose(data)
    with pytest.raises((ValueError, TypeError), match=message):
        classifier().fit(x, y, columns=columns)


def test_splits_of_a_data_set_must_be_chosen(hugging):
    data = hugging.DatasetDict({"train": hugging.Dataset.from_dict({"a": [1.0], "label": [0]})})
    with pytest.raises(TypeError, match=r"X must be one data set, got 1 \(train\); write data\['train'\]"):
        classifier().fit(data, "label")


def test_rows_of_several_lengths_are_refused(hugging):
    data = hugging.Dataset.from_dict({"v": [[1.0], [1.0, 2.0]], "label": [0, 1]})
    with pytest.raises(ValueError, match="X must have rows of one shape, got several in the column 'v'"):
        read_labelled(data, "label", "v", numeric=True)


def test_a_model_of_arrays_asks_for_arrays(blobs, hugging):
    data = hugging.Dataset.from_dict({"v": blobs.x[:300], "label": blobs.noisy[:300]})
    model = classifier().fit(blobs.x[:300], blobs.noisy[:300])
    with pytest.raises(ValueError, match=r"X has columns \(v, label\), but fit was given none"):
        model.predict(data)


def test_neither_library_is_imported_to_look_for_its_data_sets():
    code = """
import sys
import numpy as np
from sklearn.linear_model import LogisticRegression
from trevision import NoisyLabelClassifier
NoisyLabelClassifier(LogisticRegression(), correction="none").fit(np.arange(40.0)[:, None], [0, 1] * 20)
assert not {"torch", "datasets"} & set(sys.modules), "imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
