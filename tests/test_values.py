"""Strange values in a user's arrays and tables: masked rows, zero bytes, year 1, thousands of digits."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from trevision import NoisyLabelClassifier
from trevision.data.files.arrays import encode_labels
from trevision.data.files.reading import Reading
from trevision.data.files.table_dataset import read_table
from trevision.data.files.tables import open_table
from trevision.estimation import estimate
from trevision.files import DataError

HALF = np.arange(30) % 2
X = np.random.default_rng(0).normal(HALF[:, None], 1, (30, 2))
MASKED = "must have a value in every row, got a masked one in row"


def classifiers() -> list:
    found = [NoisyLabelClassifier(LogisticRegression())]
    try:
        from trevision import TRevisionClassifier
    except ImportError:  # without torch
        return found
    return [*found, TRevisionClassifier()]


@pytest.mark.parametrize("model", classifiers(), ids=lambda model: type(model).__name__)
def test_masked_rows_and_labels_are_refused_and_not_read_under_the_mask(model):
    with pytest.raises(ValueError, match=f"y {MASKED} 1"):
        model.fit(X, np.ma.masked_equal(HALF, 1))
    with pytest.raises(ValueError, match=f"X {MASKED} 0"):
        model.fit(np.ma.masked_array(X, mask=np.ones_like(X)), HALF)


def test_a_mask_that_hides_nothing_is_let_through():
    fitted = NoisyLabelClassifier(LogisticRegression()).fit(X, np.ma.masked_array(HALF))
    assert fitted.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=f"X {MASKED} 2"):
        fitted.predict_proba(np.ma.masked_array(X, mask=(np.arange(30) == 2)[:, None] * [[True, False]]))


def test_masked_probabilities_are_refused():
    probs = np.ma.masked_less(np.full((30, 2), 0.5), 1)
    with pytest.raises(ValueError, match=f"noisy_probs {MASKED} 0"):
        estimate(probs, HALF)


@pytest.mark.parametrize("kind", [list, lambda labels: np.array(labels, dtype=object)])
def test_labels_that_end_in_a_zero_byte_are_refused_and_never_joined(kind):
    labels = kind([("a", "a\0")[code] for code in HALF])
    for use in (encode_labels, lambda y: NoisyLabelClassifier(LogisticRegression()).fit(X, y)):
        with pytest.raises(ValueError, match=r"labels that end in a zero byte, got .* in row 1"):
            use(labels)


def table(tmp_path, **columns) -> object:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": X[:, 0], **columns}), path)
    return read_table(open_table(path), Reading())


def test_labels_of_a_table_that_hold_zero_bytes_are_refused(tmp_path):
    with pytest.raises(DataError, match="labels must not hold zero bytes"):
        table(tmp_path, label=["a\0", "a"] * 15)


def test_labels_may_be_dates_in_year_1_or_numbers_of_5000_digits(tmp_path):
    days = [datetime.date(1, 1, 1), datetime.date(2, 1, 1)] * 15
    assert table(tmp_path, label=days).class_names == ("0001-01-01", "0002-01-01")
    digits = ["8" * 5000, "9" * 5000]
    assert table(tmp_path, label=digits * 15).class_names == tuple(digits)
    assert encode_labels(digits * 15)[0].tolist() == digits
    with pytest.raises(ValueError, match="integers of at most 64 bits"):
        encode_labels([10**5000, 10**5000 + 1])


@pytest.mark.parametrize("years", [(1, 2), (1, 2024), (1600, 2400)])
def test_a_column_of_dates_may_begin_before_nanoseconds_do(tmp_path, years):
    days = [f"{years[row % 2]:04}-0{1 + row % 9}-11" for row in range(30)]
    lines = [f"{x},{day},{'ab'[row % 2]}" for row, (x, day) in enumerate(zip(X[:, 0], days, strict=True))]
    (tmp_path / "data.csv").write_text("\n".join(["x,day,label", *lines]))
    data = read_table(open_table(tmp_path / "data.csv"), Reading())
    assert data.class_names == ("a", "b")
    assert np.isfinite(np.asarray(data.train_x)).all()
