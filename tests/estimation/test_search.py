"""A search that says whether it arrived, on bowls whose bottom is known."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.estimation.latent_curvature import FullAxes
from trevision.estimation.search import descend, settle_along

STEEPNESS = np.array([1.0, 1000.0, 30.0, 7.0, 300.0, 90.0, 2.0, 550.0])
BOTTOM = np.arange(8.0)


def bowl(point: np.ndarray) -> tuple[float, np.ndarray]:
    away = point - BOTTOM
    return float((STEEPNESS * away**4).sum()), 4 * STEEPNESS * away**3


def searched(most_iterations: int):
    return descend(bowl, np.full(8, -5.0), most_iterations, ftol=1e-14, gtol=1e-9)


def test_a_search_with_time_enough_finishes_at_the_bottom() -> None:
    minimum = searched(1000)
    assert minimum.finished
    assert minimum.arrived(0.0)
    assert minimum.loss == bowl(minimum.point)[0] == pytest.approx(0, abs=1e-6)


def test_a_search_that_is_stopped_has_arrived_only_if_its_last_tenth_gained_next_to_nothing() -> None:
    losses = [searched(most).loss for most in range(1, 31)]
    stopped = searched(30)
    assert not stopped.finished
    # The last tenth of thirty iterations are the last three.
    assert stopped.last_gain == pytest.approx(losses[26] - losses[29])
    assert stopped.last_gain > 0
    assert stopped.arrived(1.01 * stopped.last_gain)
    assert not stopped.arrived(0.99 * stopped.last_gain)


def test_a_search_that_starts_at_the_bottom_has_arrived() -> None:
    minimum = descend(bowl, BOTTOM, 10, ftol=1e-14, gtol=1e-9)
    assert minimum.arrived(0.0)
    np.testing.assert_array_equal(minimum.point, BOTTOM)


def valley(curvature: np.ndarray, asked: list[np.ndarray]):
    """A quadratic loss with its bottom at BOTTOM; `asked` lists the points where it was evaluated."""

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        asked.append(point)
        away = point - BOTTOM
        return float(away @ curvature @ away / 2), curvature @ away

    return loss


@pytest.fixture
def curvature() -> np.ndarray:
    turned, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))
    return turned @ np.diag(STEEPNESS) @ turned.T


def test_along_axes_of_curvature_one_the_first_step_settles(curvature) -> None:
    values, vectors = np.linalg.eigh(curvature)
    asked: list[np.ndarray] = []
    minimum = settle_along(
        FullAxes(vectors / np.sqrt(values)), valley(curvature, asked), np.zeros(8), 30, 1e-9
    )
    assert len(asked) == 2
    assert minimum.finished
    np.testing.assert_allclose(minimum.point, BOTTOM, atol=1e-6)


def test_along_axes_that_are_only_about_right_the_loss_is_lowered_to_what_is_negligible(curvature) -> None:
    values, vectors = np.linalg.eigh(curvature)
    wrong = values * np.random.default_rng(1).uniform(0.5, 2, size=8)
    asked: list[np.ndarray] = []
    minimum = settle_along(
        FullAxes(vectors / np.sqrt(wrong)), valley(curvature, asked), np.zeros(8), 30, 1e-3
    )
    assert minimum.finished
    # Where the curvature is off by a factor of two, so is the promise.
    assert 0 < minimum.loss < 2e-3
    assert minimum.loss == valley(curvature, [])(minimum.point)[0]


def test_a_search_that_has_no_time_to_settle_says_so(curvature) -> None:
    minimum = settle_along(FullAxes(np.eye(8)), valley(curvature, []), np.zeros(8), 2, 1e-12)
    assert not minimum.finished
