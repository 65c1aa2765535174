"""Removing anchor points, against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trevision.data.dataset import Dataset
from trevision.files import DataError
from trevision.methods.schedules import colour
from trevision.runs.anchor_removal import CPU_NETWORK, _recipe, clean_log_odds, drop_highest


def slowly(posterior, labels, share):
    gone = set()
    for label in sorted(set(labels.tolist())):
        members = [row for row in range(len(labels)) if labels[row] == label]
        members.sort(key=lambda row: (-posterior[row, label], row))
        gone |= set(members[: min(round(share * len(members)), len(members) - 1)])
    return [row for row in range(len(labels)) if row not in gone]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.77, 0.99])
def test_the_rows_that_stay_are_those_of_a_loop(share):
    rng = np.random.default_rng(0)
    labels = rng.choice(4, size=301, p=(0.1, 0.2, 0.3, 0.4))
    posterior = rng.dirichlet(np.ones(4), size=301).round(2)  # with ties
    assert drop_highest(posterior, labels, share).tolist() == slowly(posterior, labels, share)


def test_each_class_loses_its_share_and_never_its_last_row():
    labels = np.array([0] * 50 + [1] * 10 + [2])
    posterior = np.random.default_rng(1).random((61, 3))
    kept = np.bincount(labels[drop_highest(posterior, labels, 0.4)], minlength=3)
    assert kept.tolist() == [30, 6, 1]
    assert np.bincount(labels[drop_highest(posterior, labels, 0.9)], minlength=3).tolist() == [5, 1, 1]


def test_it_is_the_posterior_of_the_own_class_that_counts():
    posterior = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7]])
    assert drop_highest(posterior, np.array([0, 0, 1, 1]), 0.5).tolist() == [1, 2]


def test_colour_images_on_a_cpu_are_judged_by_a_network_that_it_can_train():
    assert _recipe("cifar10", 50_000, CPU_NETWORK) == colour("cifar10", 50_000).noisy_posterior
    assert _recipe("mnist", 60_000, "lenet").epochs == 5


def test_the_posterior_of_colour_images_knows_typical_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("trevision.runs.anchor_removal.cache_folder", lambda: tmp_path)
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    images = rng.integers(0, 60, size=(120, 3, 24, 24))
    images[labels == 1] += 100
    images[:6] = rng.integers(0, 160, size=images[:6].shape)  # rows of no clear class
    dataset = Dataset(
        name="bright",
        train_x=torch.from_numpy(images.astype(np.uint8)),
        train_y=torch.from_numpy(labels),
        test_x=None,
        test_y=None,
        class_names=("dark", "bright"),
    )
    own = clean_log_odds(dataset)[np.arange(120), labels]
    assert (own[6:] > 0).all()


def test_a_percentage_and_misfit_shapes_are_refused():
    with pytest.raises(ValueError, match=r"written 0\.40"):
        drop_highest(np.ones((4, 2)), np.zeros(4, int), 40)
    with pytest.raises(DataError, match="shapes"):
        drop_highest(np.ones((4, 2)), np.zeros(3, int), 0.4)
