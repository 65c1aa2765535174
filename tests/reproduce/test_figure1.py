"""The paper's Figure 1: how a slightly wrong transition matrix turns a right decision into a wrong one.

The caption gives three posteriors but the two matrices are pictures that the text does not spell out.
They follow from the numbers. The clean posterior has two decimals and the noisy one three, so T can have
entries in tenths. ||T - T~||_1 / ||T||_1 = 0.02, ||T||_1 = 5 and "two entries in the second row" differ, so
T~ has 0.05 moved from one entry of that row to another. One pair of matrices meets all of it, as the
search below shows by going through every candidate.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from trevision.estimation import transition_error
from trevision.noise import validate

NOISY = np.array([0.141, 0.189, 0.239, 0.281, 0.150])
CLEAN = np.array([0.15, 0.28, 0.25, 0.30, 0.02])
MISTAKEN_CLEAN = np.array([0.1587, 0.2697, 0.2796, 0.2593, 0.0325])

TRANSITION = np.array(
    [
        [0.5, 0.3, 0.2, 0.0, 0.0],
        [0.0, 0.5, 0.3, 0.2, 0.0],
        [0.0, 0.0, 0.5, 0.3, 0.2],
        [0.2, 0.0, 0.0, 0.5, 0.3],
        [0.3, 0.2, 0.0, 0.0, 0.5],
    ]
)
MISTAKEN = TRANSITION.copy()
MISTAKEN[1, 2] -= 0.05
MISTAKEN[1, 3] += 0.05


def test_noisy_posterior_of_figure_1_is_the_clean_one_through_the_transition() -> None:
    validate(TRANSITION)
    for j in range(5):
        assert abs(sum(TRANSITION[i, j] * CLEAN[i] for i in range(5)) - NOISY[j]) < 1e-12


def test_true_transition_infers_the_fourth_class() -> None:
    inferred = np.linalg.solve(TRANSITION.T, NOISY)
    np.testing.assert_allclose(inferred, CLEAN, atol=1e-12)
    assert inferred.argmax() + 1 == 4


def test_mistaken_transition_infers_the_third_class() -> None:
    validate(MISTAKEN)
    inferred = np.linalg.solve(MISTAKEN.T, NOISY)
    np.testing.assert_allclose(inferred, MISTAKEN_CLEAN, atol=5e-5)
    assert inferred.argmax() + 1 == 3


def test_mistaken_transition_is_two_percent_off() -> None:
    assert abs(transition_error(MISTAKEN, TRANSITION) - 0.02) < 1e-12
    assert (MISTAKEN != TRANSITION).sum() == 2


def columns_in_tenths(j: int) -> list[tuple[NDArray[np.int64], int]]:
    """Every column j (in tenths) that fits the caption, with the sign of what T~ adds to its second entry.

    A column t of T must carry the clean posterior to NOISY[j] exactly, in integers; and carry the mistaken
    one to NOISY[j] minus 0, +0.05 or -0.05 times its second entry, up to the caption's rounding.
    """
    grid = np.array(list(itertools.product(range(11), repeat=5)))
    exact = grid[grid @ np.array([15, 28, 25, 30, 2]) == round(1000 * NOISY[j])]
    found = []
    for sign in (-1, 0, 1):
        column = exact / 10
        column[:, 1] += 0.05 * sign
        rounding = 5e-5 * column.sum(axis=1) + 1e-9
        fits = np.abs(column @ MISTAKEN_CLEAN - NOISY[j]) <= rounding
        found += [(tenths, sign) for tenths in exact[fits]]
    return found


def test_no_other_pair_of_matrices_fits_the_caption() -> None:
    partial: list[tuple[list[NDArray[np.int64]], list[int]]] = [([], [])]
    for j in range(5):
        candidates = columns_in_tenths(j)
        assert candidates
        partial = [
            ([*columns, tenths], [*signs, sign])
            for columns, signs in partial
            for tenths, sign in candidates
            if (sum(columns) + tenths <= 10).all() and (sign == 0 or sign not in signs)
        ]
    fitting = []
    for columns, signs in partial:
        transition = np.array(columns).T / 10
        if not np.allclose(transition.sum(axis=1), 1) or sorted(signs) != [-1, 0, 0, 0, 1]:
            continue
        mistaken = transition.copy()
        mistaken[1] += 0.05 * np.array(signs)
        if min(abs(np.linalg.det(transition)), abs(np.linalg.det(mistaken))) < 1e-9:
            continue
        if np.abs(np.linalg.solve(mistaken.T, NOISY) - MISTAKEN_CLEAN).max() <= 5e-5 + 1e-9:
            fitting.append((transition, mistaken))
    assert len(fitting) == 1
    np.testing.assert_allclose(fitting[0][0], TRANSITION, atol=1e-12)
    np.testing.assert_allclose(fitting[0][1], MISTAKEN, atol=1e-12)
