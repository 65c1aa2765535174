import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trevision.data.noisy import NoisyData, Truth, split, split_rows
from trevision.files import DataError


@settings(max_examples=200, deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=2, max_size=60),
    validation_share=st.floats(0.01, 0.99),
    seed=st.integers(0, 1000),
)
def test_a_split_is_a_partition_of_the_promised_sizes(labels, validation_share, seed):
    train, valid = split_rows(np.array(labels), validation_share, random_state=seed)
    assert sorted([*train, *valid]) == list(range(len(labels)))
    assert len(valid) == min(max(round(validation_share * len(labels)), 1), len(labels) - 1)
    assert list(train) == sorted(train)
    assert list(valid) == sorted(valid)
    classes = set(labels)
    # Possible exactly if training can hold a row of each class.
    if len(train) >= len(classes):
        assert {labels[row] for row in train} == classes


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(4, 40), min_size=2, max_size=6),
    validation_share=st.floats(0.05, 0.5),
    seed=st.integers(0, 1000),
)
def test_each_class_gives_its_share_rounded_down_or_up(counts, validation_share, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    _, valid = split_rows(labels, validation_share, random_state=seed)
    for label, count in enumerate(counts):
        share = len(valid) * count / len(labels)
        assert abs((labels[valid] == label).sum() - share) < 1


def test_a_class_with_a_single_row_keeps_it_in_training():
    labels = np.array([0] * 10 + [1])
    for seed in range(30):
        train, _ = split_rows(labels, 0.5, random_state=seed)
        assert 10 in train


def test_every_row_is_as_likely_to_be_chosen_as_its_classmates():
    labels = np.array([0] * 10 + [1] * 20)
    rng = np.random.default_rng(0)
    chosen = np.zeros(30)
    for _ in range(3000):
        chosen[split_rows(labels, 0.2, random_state=rng)[1]] += 1
    # 6 of 30 rows, shares 2 and 4: each row 600 times, standard deviation 22.
    assert chosen.sum() == 18000
    assert (np.abs(chosen - 600) < 5 * 22).all()


def test_odd_places_are_drawn_by_lot_among_equal_classes():
    labels = np.repeat(np.arange(4), 5)
    favoured = {int(labels[split_rows(labels, 0.05, random_state=seed)[1][0]]) for seed in range(60)}
    assert favoured == {0, 1, 2, 3}


def test_two_rows_are_split_in_two_at_random():
    seen = {tuple(map(int, np.concatenate(split_rows([0, 1], 0.9, random_state=seed)))) for seed in range(30)}
    assert seen == {(0, 1), (1, 0)}


def test_equal_seeds_give_equal_splits_and_other_seeds_do_not():
    labels = np.arange(100) % 3
    first = split_rows(labels, random_state=1)[1]
    assert len(first) == 10
    assert np.array_equal(first, split_rows(labels, random_state=np.random.default_rng(1))[1])
    assert not np.array_equal(first, split_rows(labels, random_state=2)[1])


@pytest.mark.parametrize("as_numpy", [False, True])
def test_rows_keep_their_labels(as_numpy):
    rows = torch.arange(50)
    labels = (rows % 4).numpy().astype(np.int32) if as_numpy else rows % 4
    data = split(rows[:, None].float(), labels, 0.3, num_classes=7, random_state=0, augmentation="crop-flip")
    assert len(data.train_y) == 35
    assert len(data.valid_y) == 15
    assert data.train_y.dtype == data.valid_y.dtype == torch.int64
    assert torch.equal(data.train_x[:, 0].long() % 4, data.train_y)
    assert torch.equal(data.valid_x[:, 0].long() % 4, data.valid_y)
    assert data.num_classes == 7
    assert data.augmentation == "crop-flip"


def test_trusted_rows_that_are_learnt_from_come_behind_the_training_rows():
    x, labels = torch.arange(40.0)[:, None], torch.arange(40) % 2
    data = split(x, labels, num_classes=2, random_state=0, weights=np.ones(40))
    trusted = {"trusted_x": torch.tensor([[100.0], [101.0]]), "trusted_y": torch.tensor([1, 0])}
    selecting = replace(data, **trusted)
    assert selecting.with_trusted_rows() is selecting
    learnt = replace(data, trusted_is_learnt=True, **trusted).with_trusted_rows()
    assert learnt.train_x[-2:].flatten().tolist() == [100, 101]
    assert learnt.train_y.tolist() == [*data.train_y.tolist(), 1, 0]
    assert learnt.train_known.tolist() == [False] * len(data.train_y) + [True, True]
    assert len(learnt.train_weights) == len(learnt.train_rows) == len(learnt.train_y)
    assert data.train_known is None


def test_what_a_method_sees_has_no_room_for_the_truth():
    seen = {field.name for field in dataclasses.fields(NoisyData)}
    assert seen.isdisjoint(field.name for field in dataclasses.fields(Truth))
    data = split(torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]), num_classes=2, random_state=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.train_y = data.valid_y


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"validation_share": 0.0}, ValueError, "strictly between 0 and 1, got 0.0"),
        ({"validation_share": 10}, ValueError, "got 10; a percentage such as 10 is written 0.10"),
        ({"validation_share": float("nan")}, ValueError, "got nan"),
        ({"x": torch.zeros(3, 1)}, DataError, "got 3 and 4"),
        ({"x": torch.zeros(1, 1), "noisy_labels": torch.tensor([0])}, DataError, "at least 2 rows, .* got 1"),
        ({"noisy_labels": torch.tensor([0, 1, 2, 0])}, DataError, r"lie in \[0, 1\], got 0 to 2"),
        ({"noisy_labels": torch.tensor([0, 1, -1, 0])}, DataError, "got -1 to 1"),
        ({"noisy_labels": torch.tensor([0.0, 1.0, 0.0, 1.0])}, DataError, "integer codes .* got float32"),
        ({"noisy_labels": torch.zeros(4, 2, dtype=torch.long)}, DataError, r"shape \(4, 2\)"),
    ],
)
def test_wrong_arguments_of_a_split_are_named(changes, error, complaint):
    arguments = {"x": torch.zeros(4, 1), "noisy_labels": torch.tensor([0, 1, 0, 1])}
    with pytest.raises(error, match=complaint):
        split(**(arguments | changes), num_classes=2, random_state=0)
