"""The error of an estimate of T, in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.estimation import transition_error
from trevision.noise import pair_flip, symmetric

ASYMMETRIC = np.array([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize("num_classes", [2, 10, 100])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("build", [symmetric, pair_flip])
def test_taking_noise_for_none_is_off_by_twice_the_rate(build, num_classes: int, rate: float) -> None:
    # Each row misses `rate` on the diagonal and as much off it; there are C rows and ||T||_1 = C.
    error = transition_error(np.eye(num_classes), build(num_classes, rate))
    assert error == pytest.approx(2 * rate, abs=1e-12)


def test_error_is_entrywise_over_all_rows() -> None:
    estimate = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
    assert transition_error(estimate, ASYMMETRIC) == pytest.approx((0.1 + 0.1 + 0.1 + 0.1) / 3)


def test_error_of_the_truth_is_zero() -> None:
    assert transition_error(ASYMMETRIC, ASYMMETRIC) == 0


def test_error_is_relative_to_the_truth_not_to_the_estimate() -> None:
    # An unconstrained estimate twice too large is 100% off; over its own norm it would look 50% off.
    assert transition_error(2 * ASYMMETRIC, ASYMMETRIC) == pytest.approx(1.0)
    assert transition_error(np.zeros((3, 3)), ASYMMETRIC) == pytest.approx(1.0)
    assert transition_error(-ASYMMETRIC, ASYMMETRIC) == pytest.approx(2.0)


def test_transposed_estimate_is_not_taken_for_the_truth() -> None:
    # |0.2 - 0| + |0.1 - 0.3| + |0.4 - 0.3|, twice, over 3
    assert transition_error(ASYMMETRIC.T, ASYMMETRIC) == pytest.approx(2 * (0.2 + 0.2 + 0.1) / 3)


def test_truth_must_be_a_transition_matrix() -> None:
    with pytest.raises(ValueError, match="rows that sum to 1"):
        transition_error(ASYMMETRIC, 2 * ASYMMETRIC)


def test_estimate_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape of truth, got \(2, 2\) and \(3, 3\)"):
        transition_error(np.eye(2), ASYMMETRIC)


def test_a_matrix_that_is_being_learnt_can_be_compared() -> None:
    torch = pytest.importorskip("torch")
    from trevision.transition import Transition

    truth = pair_flip(3, 0.2)
    learnt = Transition(torch.tensor(truth), "simplex")
    assert learnt.matrix.requires_grad
    assert transition_error(learnt.matrix, truth) == pytest.approx(0, abs=1e-5)
