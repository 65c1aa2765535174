"""Transition matrices and label corruption.

One convention holds in all of trevision, and this is where it is stated:

    T[i, j] = P(noisy = j | clean = i)

so rows sum to 1, and the noisy posterior is `clean_probs @ T`. Matrices written the other way
round (cleanlab's `noise_matrix` has columns that sum to 1) are turned at the door by `from_cleanlab`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NOISE_KINDS = ("sym", "pair")
FLOAT32_TOLERANCE = 1e-4


def symmetric(num_classes: int, rate: float) -> FloatArray:
    """The matrix that keeps a label with probability 1 - rate and else moves it to any other class.

        T[i, i] = 1 - rate,    T[i, j] = rate / (C - 1)          (Xia et al. 2019, Appendix D)

    Parameters
    ----------
    num_classes : int
        C, at least 2.
    rate : float
        The share of labels that move, from 0 to 1.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Xia et al., "Are Anchor Points Really Indispensable in Label-Noise Learning?", 2019, Appendix D.

    Examples
    --------
    >>> symmetric(3, 0.5)
    array([[0.5 , 0.25, 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]])
    """
    _check_classes_and_rate(num_classes, rate)
    transition = np.full((num_classes, num_classes), rate / (num_classes - 1))
    np.fill_diagonal(transition, 1.0 - rate)
    return transition


def pair_flip(num_classes: int, rate: float) -> FloatArray:
    """The matrix that moves a label to the next class, cyclically, with probability `rate`.

        T[i, i] = 1 - rate,    T[i, (i + 1) mod C] = rate        (Han et al. 2018)

    Parameters
    ----------
    num_classes : int
        C, at least 2.
    rate : float
        The share of labels that move, from 0 to 1.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels", 2018.

    Examples
    --------
    >>> pair_flip(3, 0.25)
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.75, 0.25],
           [0.25, 0.  , 0.75]])
    """
    _check_classes_and_rate(num_classes, rate)
    identity = np.eye(num_classes)
    return (1.0 - rate) * identity + rate * np.roll(identity, 1, axis=1)


def parse(name: str, num_classes: int) -> FloatArray:
    """The matrix that the name of a noise stands for.

    Parameters
    ----------
    name : str
        A kind, sym or pair, and a percentage: `sym-50`, `pair-45`.
    num_classes : int
        C, at least 2.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If the name is none.

    Examples
    --------
    >>> parse("pair-45", 2)
    array([[0.55, 0.45],
           [0.45, 0.55]])
    """
    kind, percent = _kind_and_percent(name)
    build = symmetric if kind == "sym" else pair_flip
    return build(num_classes, percent / 100)


def canonical_name(name: str) -> str:
    """The one name of a noise that may be written in several ways.

    Parameters
    ----------
    name : str
        A name that `parse` takes.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the name is none.

    Examples
    --------
    >>> canonical_name("SYM-20.0%")
    'sym-20'
    """
    kind, percent = _kind_and_percent(name)
    return f"{kind}-{percent:g}"


def _kind_and_percent(name: str) -> tuple[str, float]:
    match = re.fullmatch(r"([a-z]+)-(\d+(?:\.\d+)?)%?", name.strip().lower())
    if match is None or match[1] not in NOISE_KINDS:
        raise ValueError(
            f"noise must be a name such as sym-50 or pair-45 (a kind of {', '.join(NOISE_KINDS)} and a "
            f"percentage), got {name!r}"
        )
    percent = float(match[2])
    if percent > 100:
        raise ValueError(f"noise must be a percentage in [0, 100], got {name!r}; half is written sym-50")
    return match[1], percent


def validate(transition: ArrayLike, num_classes: int | None = None, tolerance: float = 1e-6) -> FloatArray:
    """Check that a matrix is a transition matrix.

    Parameters
    ----------
    transition : array-like or Tensor of shape (C, C)
        T.
    num_classes : int or None
        The number of classes that it must have.
    tolerance : float
        By how much sums of rows may miss 1. A matrix in float32 needs `FLOAT32_TOLERANCE`.

    Returns
    -------
    ndarray of shape (C, C)
        A copy in float64.

    Raises
    ------
    ValueError
        If it is none. The message says in which row, and if it seems to be transposed.

    Examples
    --------
    >>> validate([[1, 0], [0.25, 0.75]])
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    matrix = np.array(detached(transition), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"transition must be a square matrix, got shape {matrix.shape}")
    if num_classes is not None and len(matrix) != num_classes:
        raise ValueError(
            f"transition must have one row for each of the {num_classes} classes, got shape {matrix.shape}"
        )
    if len(matrix) < 2:
        raise ValueError(f"transition must have at least 2 classes, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("transition must hold finite numbers, got NaN or infinity")
    if matrix.min() < 0:
        row, column = np.unravel_index(matrix.argmin(), matrix.shape)
        raise ValueError(
            f"transition must hold probabilities, got {matrix.min():.4g} in row {row}, column {column}"
        )
    sums = matrix.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > tolerance:
        hint = (
            "; its columns do: T[i, j] is P(noisy = j | clean = i), so transpose it (noise.from_cleanlab)"
            if np.allclose(matrix.sum(axis=0), 1, atol=1e-6)
            else ""
        )
        raise ValueError(
            f"transition must have rows that sum to 1, got {sums[worst]:.6g} in row {worst}{hint}"
        )
    return matrix


def refuse_masked(values: Any, name: str) -> None:
    """Raise a ValueError for an array with masked values, which would be taken for what lies under the mask.

    Parameters
    ----------
    values : Any
        What was given.
    name : str
        Its name in the error.

    Raises
    ------
    ValueError
        If a value is masked.

    Examples
    --------
    >>> refuse_masked(np.ma.masked_equal([1, 2], 0), "y")
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(
            f"{name} must have a value in every row, got a masked one in row {row}; drop such rows, or write "
            f"{name}.filled()"
        )


def detached(values: Any) -> Any:
    """A tensor as numpy can read it, though it is being learnt or lies elsewhere; anything else as it is.

    Parameters
    ----------
    values : Tensor or anything
        What numpy is to read.

    Returns
    -------
    Tensor or anything

    Examples
    --------
    >>> detached([0.5, 0.5])
    [0.5, 0.5]
    """
    return values.detach().cpu() if hasattr(values, "detach") else values


def corrupt(
    labels: ArrayLike,
    transition: ArrayLike,
    random_state: int | np.random.Generator | None = None,
) -> IntArray:
    """Noisy labels: each label i replaced by j with probability T[i, j], independently.

    Memory stays linear in the number of labels: for each label one uniform number is drawn and looked up in
    the cumulated row of its class.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Integers from 0 to C - 1.
    transition : array-like of shape (C, C)
        T.
    random_state : int, Generator or None
        What the labels are drawn with.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If `transition` is no transition matrix, or a label is out of range.

    Examples
    --------
    >>> corrupt([0, 0, 1, 1], [[0, 1], [1, 0]])
    array([1, 1, 0, 0])
    """
    matrix = validate(transition)
    clean = check_labels(labels, len(matrix))
    uniform = np.random.default_rng(random_state).random(len(clean))
    cumulated = np.cumsum(matrix, axis=1)
    cumulated /= cumulated[:, -1:]  # the last entry is then exactly 1, above every uniform number

    noisy = np.empty_like(clean)
    by_class = np.argsort(clean, kind="stable")
    ends = np.cumsum(np.bincount(clean, minlength=len(matrix)))
    for row, rows in enumerate(np.split(by_class, ends[:-1])):
        # "right" steps over entries of probability zero, which repeat their neighbour's total.
        noisy[rows] = np.searchsorted(cumulated[row], uniform[rows], side="right")
    return noisy


def check_labels(labels: ArrayLike, num_classes: int, name: str = "labels") -> IntArray:
    """Check that labels are integers from 0 to C - 1.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The labels.
    num_classes : int
        C.
    name : str
        What the labels are called in the message of an error.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    ValueError
        If they are not.

    Examples
    --------
    >>> check_labels([2, 0], num_classes=3)
    array([2, 0])
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers from 0 to {num_classes - 1}, got dtype {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= num_classes):
        raise ValueError(
            f"{name} must lie in 0..{num_classes - 1} for {num_classes} classes, "
            f"got {array.min()}..{array.max()}"
        )
    return array.astype(np.int64, copy=False)


def from_cleanlab(noise_matrix: ArrayLike) -> FloatArray:
    """T from cleanlab's `noise_matrix[j, i] = P(given = j | true = i)`, whose columns sum to 1.

    Parameters
    ----------
    noise_matrix : array-like of shape (C, C)
        As cleanlab gives it.

    Returns
    -------
    ndarray of shape (C, C)
        T, whose rows sum to 1.

    Raises
    ------
    ValueError
        If the columns do not sum to 1.

    Examples
    --------
    >>> from_cleanlab([[0.9, 0.2], [0.1, 0.8]])
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """
    matrix = np.asarray(noise_matrix, dtype=np.float64)
    if matrix.ndim == 2 and not np.allclose(matrix.sum(axis=0), 1, atol=1e-6):
        already = "; its rows do, so it is T already" if np.allclose(matrix.sum(axis=1), 1, atol=1e-6) else ""
        raise ValueError(f"noise_matrix must have columns that sum to 1{already}")
    return validate(matrix.T)


def to_cleanlab(transition: ArrayLike) -> FloatArray:
    """cleanlab's `noise_matrix`, whose columns sum to 1, from T.

    Parameters
    ----------
    transition : array-like of shape (C, C)
        T.

    Returns
    -------
    ndarray of shape (C, C)

    Raises
    ------
    ValueError
        If `transition` is no transition matrix.

    Examples
    --------
    >>> to_cleanlab([[0.9, 0.1], [0.2, 0.8]])
    array([[0.9, 0.2],
           [0.1, 0.8]])
    """
    return np.ascontiguousarray(validate(transition).T)


def _check_classes_and_rate(num_classes: int, rate: float) -> None:
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes}")
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must lie in [0, 1], got {rate}; a percentage such as 20 is written 0.20")
