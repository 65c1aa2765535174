"""Rows of a sparse table: each batch is made dense when it is needed, the whole table never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix, vstack
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from trevision.data.files.arrays import HARMLESS_ROUNDING
from trevision.files import DataError

if TYPE_CHECKING:
    from torch import Tensor

# Numbers of a dense batch while rows are predicted: 16 MB in single precision.
DENSE_NUMBERS = 2**22


class SparseRows:
    """Rows of a sparse table, used much like a tensor of shape (n, columns).

    Indexing with a tensor of row numbers gives these rows as a dense tensor.
    """

    def __init__(self, table: csr_array) -> None:
        self.table = table

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.table.shape)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def at_once(self) -> int:
        """The number of rows to make dense at once."""
        return max(1, DENSE_NUMBERS // self.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        import torch

        return torch.from_numpy(self.table[_plain(rows)].toarray())

    def select(self, rows: Tensor | np.ndarray) -> SparseRows:
        """Some of the rows, still sparse."""
        return SparseRows(self.table[_plain(rows)])

    def followed_by(self, others: Any) -> SparseRows:
        """These rows and behind them others with the same columns."""
        return SparseRows(csr_array(vstack([self.table, others.table]), dtype=self.table.dtype))

    def double(self) -> SparseRows:
        """The same rows in double precision."""
        return SparseRows(self.table.astype(np.float64))

    def statistics(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance, least and greatest value of each column, in double precision."""
        return statistics(self.table)


def _plain(rows: Any) -> Any:
    return rows if isinstance(rows, slice) else np.asarray(rows)


def statistics(table: csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    # scikit-learn's functions know matrices only. In double precision, as the sums of dense tables are.
    exact = csr_matrix((table.data.astype(np.float64), table.indices, table.indptr), shape=table.shape)
    return (*mean_variance_axis(exact, axis=0), *min_max_axis(exact, axis=0))


def sparse_features(x: Any, name: str = "x") -> SparseRows:
    """A sparse table copied into `SparseRows`, in float32 unless a column varies too little for it.

    Parameters
    ----------
    x
        A sparse matrix or array of scipy, of any format.
    name
        Its name in errors.

    Raises
    ------
    DataError
        If a value is no finite number within float32, or there are no rows or columns.
    """
    table = csr_array(x)
    if 0 in table.shape:
        raise DataError(f"{name} must not be empty, got shape {table.shape}")
    if table.dtype.kind not in "biuf":
        raise DataError(f"{name} must be numbers, got dtype {table.dtype}")
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    with np.errstate(over="ignore"):  # reported below, with the row
        numbers = table.astype(np.float32)
    broken = np.flatnonzero(~np.isfinite(numbers.data))
    if len(broken):
        row = int(np.searchsorted(table.indptr, broken[0], side="right")) - 1
        raise DataError(
            f"{name} must be finite numbers within float32, got {table.data[broken[0]]} in row {row}; "
            "fill in, rescale or drop such rows"
        )
    return SparseRows(table.astype(np.float64) if _varies_too_little(table) else numbers)


def _varies_too_little(table: csr_array) -> bool:
    """Whether rounding to single precision would blur a column; see `feature_array`."""
    if table.dtype.itemsize < 8:
        return False
    _, variance, lowest, highest = statistics(table)
    spread = np.sqrt(variance)
    rounding = np.maximum(np.abs(lowest), np.abs(highest)) * np.finfo(np.float32).eps / 2
    return bool((rounding > HARMLESS_ROUNDING * spread)[highest > lowest].any())
