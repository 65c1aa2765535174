"""T from counts, each class learning from the others as far as they are alike.

    T[i, i] = k_i                      k_i ~ Beta with mean m and weight s
    T[i, j] = (1 - k_i) r_ij, j != i   r_i ~ Dirichlet with equal means 1/(C - 1) and weight s'

Counted alone, each of the C^2 entries has the sampling error of its own few rows. Often classes are alike: as
many labels of each are wrong, or the wrong ones go everywhere alike. How much alike is itself in the counts,
which are the more scattered the less classes are; so s and s', the number of rows that the common mean is
worth beside a class's own, are learnt. Where classes differ by more than chance, s is small and every class
keeps its own counts: pooling costs next to nothing there (docs/latent.md has the figures).

The posterior mean of T is taken, over s and s' too, because few classes leave a wide choice of them: with a
uniform prior on 1/sqrt(1 + s), which is about the spread of k (Gelman 2006, "Prior distributions for variance
parameters in hierarchical models").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from trevision.noise import FloatArray

WEIGHTS: FloatArray = np.geomspace(1e-2, 1e6, 49)
"""The weights s of the common mean, in rows, that are summed over."""

LOG_PRIOR: FloatArray = np.log(WEIGHTS) - 1.5 * np.log1p(WEIGHTS)
"""Of s on a logarithmic scale, for a uniform prior on 1/sqrt(1 + s)."""


def pooled_transition(counts: FloatArray) -> FloatArray:
    """T from counts, each class learning from the others as far as they are alike.

        T[i, i] = k_i,    T[i, j] = (1 - k_i) r_ij

    with k_i and r_i drawn towards their common means, by as much as the counts say that classes are alike.

    Parameters
    ----------
    counts : ndarray of shape (C, C)
        The number of rows with clean label i and given label j. It need not be whole.

    Returns
    -------
    ndarray of shape (C, C)

    References
    ----------
    Gelman, "Prior distributions for variance parameters in hierarchical models", 2006.

    Examples
    --------
    >>> pooled_transition(np.array([[80.0, 20.0], [20.0, 80.0]])).round(2)
    array([[0.8, 0.2],
           [0.2, 0.8]])
    """
    size = len(counts)
    rows, kept = counts.sum(axis=1), counts.diagonal()
    right = _shrunk(np.stack([kept, rows - kept], axis=1), _mean(kept.sum(), rows.sum()))[:, 0]
    elsewhere = ~np.eye(size, dtype=bool)
    wrong = counts[elsewhere].reshape(size, size - 1)
    shares = _shrunk(wrong, np.full(size - 1, 1 / (size - 1)))
    transition = np.diag(right)
    transition[elsewhere] = ((1 - right)[:, None] * shares).ravel()
    return transition


def with_mean_rows(transition: FloatArray, unknown: NDArray[np.bool_]) -> FloatArray:
    """T with the rows of some classes replaced by the mean diagonal of the others, mistakes spread evenly.

    Parameters
    ----------
    transition : ndarray of shape (C, C)
        T.
    unknown : ndarray of shape (C,)
        The classes whose rows tell nothing; not all of them.

    Returns
    -------
    ndarray of shape (C, C)

    Examples
    --------
    >>> matrix = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.1, 0.7, 0.2]])
    >>> with_mean_rows(matrix, np.array([False, False, True])).round(2)
    array([[0.8 , 0.1 , 0.1 ],
           [0.3 , 0.6 , 0.1 ],
           [0.15, 0.15, 0.7 ]])
    """
    size = len(transition)
    right = float(transition.diagonal()[~unknown].mean())
    even = np.full((size, size), (1 - right) / (size - 1))
    np.fill_diagonal(even, right)
    return np.where(unknown[:, None], even, transition)


def _mean(part: float, whole: float) -> FloatArray:
    """The common share of right labels and of wrong ones, neither of them quite impossible."""
    share = (part + 0.5) / (whole + 1)
    return np.array([share, 1 - share])


def _shrunk(counts: FloatArray, mean: FloatArray) -> FloatArray:
    """The shares behind counts (n, K), drawn towards their common mean by what s turns out to be.

    log P(counts | s) = sum_i [log G(s) - log G(s + n_i) + sum_k log G(c_ik + s m_k) - log G(s m_k)]

    up to what does not depend on s (Dirichlet-multinomial; G is the gamma function), and given s the shares
    are (c_ik + s m_k) / (n_i + s).
    """
    weights = WEIGHTS[:, None]
    totals, pseudo = counts.sum(axis=1), weights * mean  # (n,), (S, K)
    evidence = LOG_PRIOR + (gammaln(weights) - gammaln(weights + totals)).sum(axis=1)
    evidence += (gammaln(counts + pseudo[:, None]) - gammaln(pseudo)[:, None]).sum(axis=(1, 2))
    plausible = np.exp(evidence - evidence.max())
    plausible /= plausible.sum()
    given_weight = (counts + pseudo[:, None]) / (totals[:, None] + weights[..., None])  # (S, n, K)
    shares: FloatArray = np.tensordot(plausible, given_weight, axes=1)
    return shares
