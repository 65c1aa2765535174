import dataclasses

import numpy as np
import pytest
import torch

from trevision.data.dataset import Dataset
from trevision.data.rows import take_rows
from trevision.files import DataError


@pytest.fixture
def dataset() -> Dataset:
    # Row i holds the number i and the label i % 3, so a pair that was torn apart shows.
    rows = torch.arange(60)
    return Dataset("toy", rows.float()[:, None], rows % 3, rows[:5, None], rows[:5] % 3, ("a", "b", "c"))


def test_taken_rows_are_distinct_training_rows_with_their_own_labels(dataset):
    small = take_rows(dataset, 20, random_state=1)
    rows = small.train_x[:, 0].long()
    assert len(set(rows.tolist())) == 20
    assert torch.equal(small.train_y, rows % 3)
    assert small.test_x is dataset.test_x
    assert small.class_names == dataset.class_names
    assert len(dataset.train_y) == 60


def test_taking_all_rows_permutes_them(dataset):
    everything = take_rows(dataset, 60, random_state=0).train_x[:, 0]
    assert sorted(everything.tolist()) == list(range(60))
    assert everything.tolist() != list(range(60))


def test_equal_seeds_take_equal_rows_and_other_seeds_do_not(dataset):
    first = take_rows(dataset, 10, random_state=3).train_x
    assert torch.equal(first, take_rows(dataset, 10, np.random.default_rng(3)).train_x)
    assert not torch.equal(first, take_rows(dataset, 10, random_state=4).train_x)


def test_a_smaller_draw_is_the_start_of_a_larger_one(dataset):
    small, large = (take_rows(dataset, n, random_state=3).train_x for n in (10, 30))
    assert torch.equal(small, large[:10])


@pytest.mark.parametrize("n", [0, -1, 61])
def test_an_impossible_number_of_rows_is_refused(dataset, n):
    with pytest.raises(DataError, match=rf"train_size must lie in \[1, 60\].* got {n};"):
        take_rows(dataset, n, random_state=0)


def test_number_of_classes_counts_names_not_labels(dataset):
    assert take_rows(dataset, 1, random_state=0).num_classes == 3


def test_a_data_error_is_one_line():
    assert str(DataError("first\nsecond\r\nthird")) == "first second third"


def test_class_values_are_the_label_values_or_else_the_names(dataset):
    assert dataset.class_values.tolist() == ["a", "b", "c"]
    assert dataclasses.replace(dataset, classes=np.array([5, 6, 9])).class_values.tolist() == [5, 6, 9]
