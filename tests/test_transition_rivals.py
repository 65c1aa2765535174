"""The transition matrices of rival methods: where they start, where they may go, and how they learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trevision.losses import forward_nll
from trevision.transition import DirichletTransition, DominantTransition

# As in test_transition.py, but with every diagonal the largest of its row.
DOMINANT = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)


def assert_transition_matrix(matrix: Tensor, tolerance: float) -> None:
    assert matrix.isfinite().all()
    assert matrix.min() >= 0
    sums = matrix.sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=tolerance)


# ---- a diagonal that dominates


def test_dominant_starts_where_it_is_told() -> None:
    module = DominantTransition(DOMINANT)
    torch.testing.assert_close(module.matrix.detach(), DOMINANT, rtol=0, atol=1e-12)
    assert module.delta.abs().max() < 1e-12
    with_zeros = DominantTransition(torch.eye(4))  # a zero is lifted, so that it can be learnt
    torch.testing.assert_close(with_zeros.matrix.detach(), torch.eye(4), rtol=0, atol=1e-5)
    assert with_zeros.matrix.min() > 0


def test_dominant_is_its_equation() -> None:
    module = DominantTransition(DOMINANT)
    step = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        module.free.copy_(step)
    matrix = module.matrix
    for i in range(4):
        scaled = []
        for j in range(4):
            ratio = DOMINANT[i, j].item() / DOMINANT[i, i].item()
            if i == j:
                scaled.append(1.0)
            else:
                weight = math.log(ratio / (1 - ratio)) + step[i, j].item()
                scaled.append(1 / (1 + math.exp(-weight)))
        for j in range(4):
            assert matrix[i, j].item() == pytest.approx(scaled[j] / sum(scaled), abs=1e-12)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 100.0, 1e4]))
def test_large_random_moves_keep_a_dominant_transition_matrix(seed: int, scale: float) -> None:
    module = DominantTransition(DOMINANT.float())
    with torch.no_grad():
        module.free.copy_(scale * torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)))
    matrix = module.matrix.detach()
    assert_transition_matrix(matrix, tolerance=1e-5)
    assert (matrix <= matrix.diagonal()[:, None]).all()


def test_dominant_is_learnt_by_the_forward_loss() -> None:
    """From sure predictions the likeliest T is counted; it dominates, so it can be reached."""
    clean = torch.arange(4).repeat_interleave(100)
    labels = torch.cat([torch.arange(4).repeat_interleave((100 * row).round().long()) for row in DOMINANT])
    logits = 30.0 * torch.nn.functional.one_hot(clean, 4).double()
    module = DominantTransition(torch.full((4, 4), 0.1, dtype=torch.float64).fill_diagonal_(0.7))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        forward_nll(logits, labels, module.matrix).backward()
        optimizer.step()
    torch.testing.assert_close(module.matrix.detach(), DOMINANT, rtol=0, atol=1e-3)


def test_a_start_whose_diagonal_does_not_dominate_is_refused() -> None:
    for other in (DOMINANT[[1, 0, 2, 3]], torch.full((4, 4), 0.25)):
        with pytest.raises(ValueError, match="largest entry of each row on the diagonal"):
            DominantTransition(other)


# ---- rows that count


COUNTS = torch.tensor([[5.0, 3.0, 1.0], [0.0, 4.0, 2.0], [2.0, 0.0, 7.0]])


def test_counting_equals_a_loop_written_from_its_equation() -> None:
    module = DirichletTransition(torch.eye(3), strength=10.0)
    expected = [[10.0 * (i == j) for j in range(3)] for i in range(3)]
    for turn in range(1, 4):
        module.observe(turn * COUNTS)
        for i in range(3):
            for j in range(3):
                expected[i][j] = 0.999 * expected[i][j] + 0.01 * turn * COUNTS[i, j].item()
    torch.testing.assert_close(module.concentration, torch.tensor(expected))
    for i in range(3):
        for j in range(3):
            assert module.matrix[i, j].item() == pytest.approx(expected[i][j] / sum(expected[i]), rel=1e-5)
    assert module.updates.item() == 3


def test_counting_starts_at_the_initial_matrix_and_arrives_at_the_counted_one() -> None:
    module = DirichletTransition(DOMINANT.float(), keep=0.99)
    torch.testing.assert_close(module.matrix, DOMINANT.float())
    assert module.delta.abs().max() < 1e-6
    counts = torch.tensor([[8.0, 2, 0, 0], [0, 5, 5, 0], [1, 0, 9, 0], [0, 3, 0, 7]])
    for _ in range(900):
        module.observe(counts)
    torch.testing.assert_close(module.matrix, counts / 10, rtol=0, atol=1e-3)


def test_a_row_without_counts_returns_to_its_start_instead_of_to_nothing() -> None:
    module = DirichletTransition(DOMINANT.float(), keep=0.5)
    module.observe(1e4 * torch.eye(4).roll(1, 0))
    counts = COUNTS.new_zeros(4, 4)
    counts[0] = torch.tensor([6.0, 2.0, 1.0, 1.0])
    for _ in range(400):  # 0.5^400 is no number in single precision
        module.observe(counts)
    assert_transition_matrix(module.matrix, tolerance=1e-6)
    torch.testing.assert_close(module.matrix[1:], DOMINANT.float()[1:], rtol=0, atol=1e-5)
    torch.testing.assert_close(module.matrix[0], counts[0] / 10, rtol=0, atol=1e-3)
    assert_transition_matrix(module.sample(np.random.default_rng(0)), tolerance=1e-5)


def test_samples_have_the_mean_and_spread_of_a_dirichlet_distribution() -> None:
    module = DirichletTransition(DOMINANT, strength=5.0)
    rng = np.random.default_rng(0)
    drawn = torch.stack([module.sample(rng) for _ in range(2000)])
    for sample in drawn[:10]:
        assert_transition_matrix(sample, tolerance=1e-12)
    torch.testing.assert_close(drawn.mean(dim=0), DOMINANT, rtol=0, atol=0.02)
    variance = DOMINANT * (1 - DOMINANT) / (5.0 + 1)
    torch.testing.assert_close(drawn.var(dim=0), variance, rtol=0.2, atol=1e-3)


def test_samples_of_an_impossible_entry_are_zero_and_of_tiny_ones_finite() -> None:
    module = DirichletTransition(torch.eye(3))
    assert torch.equal(module.sample(np.random.default_rng(0)), torch.eye(3))
    tiny = DirichletTransition(DOMINANT, strength=1e-8)
    drawn = tiny.sample(np.random.default_rng(0))
    assert_transition_matrix(drawn, tolerance=1e-12)
    assert drawn.max(dim=1).values.min() > 0.99  # a Dirichlet far below 1 puts all on one entry


def test_a_sample_depends_on_its_generator_alone() -> None:
    module = DirichletTransition(DOMINANT)
    first, again, other = (module.sample(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_state_of_counting_survives_saving_and_loading() -> None:
    module = DirichletTransition(torch.eye(3))
    module.observe(COUNTS)
    other = DirichletTransition(torch.full((3, 3), 1 / 3), strength=2.0)
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.matrix, module.matrix)
    assert torch.equal(other.updates, module.updates)
    assert not list(module.parameters())
    assert module.free is None


def test_a_strength_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="strength must be positive, got 0"):
        DirichletTransition(torch.eye(3), strength=0.0)
