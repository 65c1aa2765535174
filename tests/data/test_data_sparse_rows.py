"""Rows of a sparse table are those of the dense one, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from trevision.data import sparse_rows
from trevision.data.files.arrays import feature_array
from trevision.data.rows import augmented_batches, batches_of, joined_rows, select_rows
from trevision.data.sparse_rows import SparseRows, sparse_features
from trevision.files import DataError
from trevision.networks.standardise import Standardise
from trevision.training.inputs import standardise_for


@pytest.fixture
def table() -> scipy.sparse.csr_array:
    """Positive and negative values, an empty column, a full column, and a column of one value."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(60, 9)) * (rng.random((60, 9)) < 0.2)
    dense[:, 3], dense[:, 5], dense[:, 7] = 0, rng.normal(5, 0.1, size=60), 2.5
    return scipy.sparse.csr_array(dense)


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array", "lil_matrix"])
def test_every_format_gives_the_rows_of_the_dense_table(table, kind):
    rows = sparse_features(getattr(scipy.sparse, kind)(table))
    dense = torch.from_numpy(feature_array(table.toarray()))
    assert rows.shape == tuple(dense.shape)
    some = torch.tensor([7, 0, 7, 59])
    assert torch.equal(rows[some], dense[some])
    assert torch.equal(select_rows(rows, some)[torch.arange(4)], dense[some])
    assert torch.equal(torch.cat(list(batches_of(rows, 7))), dense)
    parts = [torch.tensor([1, 2]), torch.tensor([50])]
    given = list(augmented_batches(rows, parts, "none", torch.Generator()))
    assert [torch.equal(batch, dense[part]) for batch, part in zip(given, parts, strict=True)] == [True, True]


def test_entries_given_twice_are_added_and_the_users_matrix_stays_as_it_was():
    twice = scipy.sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0, 2, 3])))
    rows = sparse_features(twice)
    assert rows[torch.arange(2)].tolist() == [[3, 0], [0, 4]]
    np.testing.assert_allclose(rows.statistics()[3], [3, 4])
    assert twice.nnz == 3


def test_no_batch_is_larger_than_the_limit(table, monkeypatch):
    monkeypatch.setattr(sparse_rows, "DENSE_NUMBERS", 40)
    assert [len(batch) for batch in batches_of(sparse_features(table), 1000)] == [4] * 15


def test_statistics_are_those_of_the_dense_table(table):
    sparse = standardise_for(sparse_features(table))
    dense = Standardise.from_data(torch.from_numpy(feature_array(table.toarray())))
    torch.testing.assert_close(sparse.mean, dense.mean, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(sparse.scale, dense.scale, rtol=1e-6, atol=0)
    assert sparse.scale[3] == sparse.scale[7] == 1
    assert sparse.mean[7] == 2.5


def test_a_column_that_varies_too_little_keeps_double_precision():
    stamps = np.zeros((5, 2))
    stamps[:, 1] = 1.7e9 + np.arange(5)
    rows = sparse_features(scipy.sparse.csr_array(stamps))
    assert rows[torch.arange(5)].dtype == torch.float64
    assert len(np.unique(rows[torch.arange(5)][:, 1])) == 5
    assert sparse_features(scipy.sparse.csr_array(np.eye(5)))[torch.arange(5)].dtype == torch.float32


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[0, 1], [0, np.nan]]), "X must be finite numbers within float32, got nan in row 1"),
        (np.array([[0, 1e300], [0, 0]]), r"got 1e\+300 in row 0"),
        (np.zeros((0, 3)), "must not be empty"),
        (np.eye(2) * 1j, "must be numbers, got dtype complex"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(values, message):
    with pytest.raises(DataError, match=message):
        sparse_features(scipy.sparse.csr_array(values), "X")


def test_rows_behind_others_stay_sparse(table):
    rows, taken = sparse_features(table), torch.tensor([2, 0])
    both = joined_rows(rows, rows.select(taken))
    assert isinstance(both, SparseRows)
    assert len(both) == len(rows) + 2
    assert torch.equal(both[torch.arange(len(rows), len(both))], rows[taken])


def test_rows_may_be_made_double():
    rows = SparseRows(scipy.sparse.csr_array(np.eye(3, dtype=np.float32)))
    assert rows.double()[torch.arange(3)].dtype == torch.float64
