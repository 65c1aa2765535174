"""T-hat + Delta T as a module: where it starts, where it may go, and how it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trevision.losses import forward_nll, reweight_nll
from trevision.noise import pair_flip
from trevision.transition import PARAMETERISATIONS, Transition

LEARNT = ["slack", "projected", "simplex"]

ASYMMETRIC = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)


def a_batch(n: int = 32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n,), generator=generator)


def move(module: Transition, delta: Tensor) -> None:
    """Set the free parameter, which is Delta T itself where the parameterisation is additive."""
    (free,) = module.parameters()
    with torch.no_grad():
        free.copy_(delta)


def assert_transition_matrix(matrix: Tensor, tolerance: float) -> None:
    assert matrix.isfinite().all()
    assert matrix.min() >= 0
    torch.testing.assert_close(
        matrix.sum(dim=1), torch.ones(len(matrix), dtype=matrix.dtype), rtol=0, atol=tolerance
    )


# ---- the start


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_learning_starts_at_the_estimate(parameterisation: str) -> None:
    module = Transition(ASYMMETRIC, parameterisation)  # type: ignore[arg-type]
    torch.testing.assert_close(module.matrix, ASYMMETRIC, rtol=0, atol=1e-14)
    torch.testing.assert_close(module.delta, torch.zeros_like(ASYMMETRIC), rtol=0, atol=1e-14)


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_learning_starts_at_an_estimate_with_zeros(parameterisation: str) -> None:
    estimate = torch.tensor(pair_flip(10, 0.45), dtype=torch.float32)
    module = Transition(estimate, parameterisation)  # type: ignore[arg-type]
    # Only simplex must lift a zero, by a floor small against anything that can be estimated.
    tolerance = 1e-5 if parameterisation == "simplex" else 1e-7
    torch.testing.assert_close(module.matrix.detach(), estimate, rtol=0, atol=tolerance)


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_module_keeps_its_own_copy_of_the_estimate(parameterisation: str) -> None:
    estimate = ASYMMETRIC.clone()
    module = Transition(estimate, parameterisation)  # type: ignore[arg-type]
    estimate.fill_(0.25)
    torch.testing.assert_close(module.matrix, ASYMMETRIC, rtol=0, atol=1e-14)


def test_the_default_learns_nothing() -> None:
    assert not list(Transition(ASYMMETRIC).parameters())


# ---- delta


@pytest.mark.parametrize("parameterisation", LEARNT)
def test_delta_is_how_far_the_matrix_has_moved(parameterisation: str) -> None:
    module = Transition(ASYMMETRIC, parameterisation)  # type: ignore[arg-type]
    move(module, 0.1 * torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    assert module.delta.abs().max() > 0.01
    torch.testing.assert_close(module.delta, module.matrix - ASYMMETRIC, rtol=0, atol=1e-14)


def test_slack_is_the_plain_sum() -> None:
    module = Transition(ASYMMETRIC, "slack")
    slack = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    move(module, slack)
    torch.testing.assert_close(module.matrix, ASYMMETRIC + slack, rtol=0, atol=1e-14)


def test_projected_is_the_papers_footnote() -> None:
    # "first projecting their negative entries to be zero and then performing row normalization"
    module = Transition(ASYMMETRIC, "projected")
    slack = 0.3 * torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    move(module, slack)
    assert (ASYMMETRIC + slack).min() < 0
    for i in range(4):
        row = [max(ASYMMETRIC[i, j].item() + slack[i, j].item(), 0.0) for j in range(4)]
        for j in range(4):
            assert module.matrix[i, j].item() == pytest.approx(row[j] / sum(row), abs=1e-12)


def test_simplex_multiplies_the_odds() -> None:
    # softmax(log T + D): a step of d in one entry multiplies its odds against the rest of the row by e^d.
    module = Transition(ASYMMETRIC, "simplex")
    step = torch.zeros(4, 4, dtype=torch.float64)
    step[2, 1] = 0.7
    move(module, step)
    before, after = ASYMMETRIC[2, 1].item(), module.matrix[2, 1].item()
    assert after / (1 - after) == pytest.approx(np.exp(0.7) * before / (1 - before), rel=1e-12)
    torch.testing.assert_close(module.matrix[[0, 1, 3]], ASYMMETRIC[[0, 1, 3]], rtol=0, atol=1e-14)


# ---- where it may go


@pytest.mark.parametrize("loss", [forward_nll, reweight_nll])
def test_every_entry_of_a_slack_matrix_is_only_ever_pushed_up(loss) -> None:
    # Both losses fall as (T'g)_y grows, whatever the data say: why unconstrained rows run away from 1.
    module = Transition(ASYMMETRIC, "slack")
    logits, labels = a_batch()
    loss(logits, labels, module.matrix).backward()
    (free,) = module.parameters()
    assert free.grad is not None
    assert free.grad.max() < 0


def test_slack_leaves_the_simplex_in_one_step() -> None:
    module = Transition(ASYMMETRIC, "slack")
    logits, labels = a_batch()
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    reweight_nll(logits, labels, module.matrix).backward()
    optimiser.step()
    assert module.matrix.sum(dim=1).min() > 1.01


@pytest.mark.parametrize("parameterisation", ["projected", "simplex"])
def test_constrained_matrix_stays_a_transition_matrix_under_training(parameterisation: str) -> None:
    module = Transition(ASYMMETRIC, parameterisation)  # type: ignore[arg-type]
    logits, labels = a_batch()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(50):
        optimiser.zero_grad()
        reweight_nll(logits, labels, module.matrix).backward()
        optimiser.step()
        assert_transition_matrix(module.matrix.detach(), tolerance=1e-12)
    assert module.delta.abs().max() > 0.1


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 100.0, 1e4]))
@pytest.mark.parametrize("parameterisation", ["projected", "simplex"])
def test_large_random_moves_keep_a_transition_matrix(parameterisation: str, seed: int, scale: float) -> None:
    module = Transition(ASYMMETRIC.float(), parameterisation)  # type: ignore[arg-type]
    delta = scale * torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
    # Rows pushed below zero as a whole are a case of their own, right below.
    delta[torch.arange(4), torch.arange(4)] = delta.diagonal().abs()
    move(module, delta)
    assert_transition_matrix(module.matrix.detach(), tolerance=1e-5)


@pytest.mark.parametrize("parameterisation", ["projected", "simplex"])
def test_row_pushed_below_zero_as_a_whole_is_still_a_distribution(parameterisation: str) -> None:
    # One large step can do it, and leaves nothing to normalise.
    module = Transition(ASYMMETRIC.float(), parameterisation)  # type: ignore[arg-type]
    delta = torch.zeros(4, 4)
    delta[1] = -5.0
    move(module, delta)
    assert_transition_matrix(module.matrix.detach(), tolerance=1e-5)


@pytest.mark.parametrize("parameterisation", ["projected", "simplex"])
def test_entry_of_zero_can_be_learnt_back(parameterisation: str) -> None:
    module = Transition(torch.tensor(pair_flip(4, 0.45)), parameterisation)  # type: ignore[arg-type]
    logits, labels = a_batch()
    forward_nll(logits, labels, module.matrix).backward()
    (free,) = module.parameters()
    assert free.grad is not None
    assert free.grad[0, 2].abs() > 0


def test_a_projected_entry_below_zero_can_be_learnt_back() -> None:
    module = Transition(torch.tensor(pair_flip(4, 0.45)), "projected")
    (free,) = module.parameters()
    free.data[0, 2] = -1e-3
    assert module.matrix[0, 2] == 0
    logits, labels = a_batch()
    forward_nll(logits, labels, module.matrix).backward()
    assert free.grad is not None
    assert free.grad[0, 2].abs() > 0


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_a_matrix_in_half_precision_is_one_and_one_that_is_none_is_refused(precision: torch.dtype) -> None:
    matrix = torch.tensor(pair_flip(7, 0.3)).to(precision)
    assert torch.equal(Transition(matrix).matrix, matrix)
    with pytest.raises(ValueError, match="rows that sum to 1"):
        Transition(1.1 * matrix)


# ---- gradients


@pytest.mark.parametrize("loss", [forward_nll, reweight_nll])
@pytest.mark.parametrize("parameterisation", LEARNT)
def test_gradient_into_delta_matches_finite_differences(parameterisation: str, loss) -> None:
    logits, labels = a_batch()
    module = Transition(ASYMMETRIC, parameterisation)  # type: ignore[arg-type]
    start = 0.01 * torch.randn(4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    move(module, start)
    loss(logits, labels, module.matrix).backward()
    (free,) = module.parameters()
    assert free.grad is not None
    assert free.grad.abs().max() > 1e-3

    step = 1e-5
    for i in range(4):
        for j in range(4):
            values = []
            for sign in (1, -1):
                moved = start.clone()
                moved[i, j] += sign * step
                move(module, moved)
                values.append(loss(logits, labels, module.matrix).item())
            slope = (values[0] - values[1]) / (2 * step)
            assert free.grad[i, j].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_frozen_has_nothing_to_learn() -> None:
    module = Transition(ASYMMETRIC, "frozen")
    assert not list(module.parameters())
    assert not module.matrix.requires_grad
    assert module.delta.abs().max() == 0


# ---- as a layer


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_layer_turns_clean_probabilities_into_noisy_ones(parameterisation: str) -> None:
    module = Transition(ASYMMETRIC, parameterisation)  # type: ignore[arg-type]
    logits, _ = a_batch(n=5)
    clean = logits.softmax(dim=1)
    noisy = module(clean)
    assert noisy.shape == (5, 4)
    for n in range(5):
        for j in range(4):
            expected = sum(clean[n, i].item() * ASYMMETRIC[i, j].item() for i in range(4))
            assert noisy[n, j].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_state_survives_saving_and_loading(parameterisation: str) -> None:
    module = Transition(ASYMMETRIC, parameterisation)  # type: ignore[arg-type]
    if parameterisation != "frozen":
        move(module, torch.full((4, 4), 0.1, dtype=torch.float64).tril())
    other = Transition(torch.eye(4, dtype=torch.float64), parameterisation)  # type: ignore[arg-type]
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other.matrix, module.matrix, rtol=0, atol=0)


# ---- refusals


def test_unknown_parameterisation_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"slack, projected, simplex, frozen, got 'softmax'"):
        Transition(ASYMMETRIC, "softmax")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 2, 2)])
def test_estimate_that_is_not_square_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be a square matrix"):
        Transition(torch.full(shape, 0.25), "slack")


def test_a_zero_starts_at_a_millionth_on_the_simplex_from_where_it_can_move() -> None:
    started = Transition(torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]), "simplex")
    matrix = started.matrix
    assert matrix[0, 2].item() == pytest.approx(1e-6, rel=1e-3)
    assert matrix[1, 0].item() == pytest.approx(1e-6, rel=1e-3)
    (moved,) = torch.autograd.grad(matrix[0, 2], started.free)
    assert moved[0, 2] > 0
