"""Rows drawn anew by importance weights: loops from the equations, means over draws, extremes, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from trevision.losses import importance_weights, resampled_counts, resampled_nll, reweight_nll
from trevision.noise import corrupt, pair_flip

ASYMMETRIC = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)


def a_batch(n: int = 24, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n,), generator=generator)


# ---- slow answers, from the equations


def slow_posterior(logits: list[float]) -> list[float]:
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def slow_weights(logits: Tensor, labels: Tensor, t: list[list[float]]) -> list[float]:
    weights = []
    for row, y in zip(logits.tolist(), labels.tolist(), strict=True):
        g = slow_posterior(row)
        weights.append(g[y] / sum(t[i][y] * g[i] for i in range(len(g))))
    return weights


def test_weights_equal_a_loop_written_from_their_equation() -> None:
    logits, labels = a_batch()
    expected = slow_weights(logits, labels, ASYMMETRIC.tolist())
    assert importance_weights(logits, labels, ASYMMETRIC).tolist() == pytest.approx(expected)
    assert importance_weights(logits, labels, ASYMMETRIC.tolist()).tolist() == pytest.approx(expected)
    turned = slow_weights(logits, labels, ASYMMETRIC.t().tolist())
    assert max(abs(a - b) for a, b in zip(expected, turned, strict=True)) > 0.1


def test_the_loss_is_the_mean_over_the_rows_drawn() -> None:
    logits, labels = a_batch()
    drawn = [3, 3, 0, 7, 3, 23, 7, *range(17)]
    counts = torch.bincount(torch.tensor(drawn), minlength=24).double()
    expected = sum(-math.log(slow_posterior(logits[n].tolist())[labels[n]]) for n in drawn) / len(drawn)
    assert resampled_nll(logits, labels, counts).item() == pytest.approx(expected)
    assert resampled_nll(logits, labels, counts, reduction="sum").item() == pytest.approx(24 * expected)
    each = resampled_nll(logits, labels, counts, reduction="none")
    assert each[3].item() == pytest.approx(4 * -math.log(slow_posterior(logits[3].tolist())[labels[3]]))
    assert each[20].item() == 0


# ---- special cases


def test_weights_times_cross_entropy_are_the_reweight_loss() -> None:
    logits, labels = a_batch()
    weighted = importance_weights(logits, labels, ASYMMETRIC) * F.cross_entropy(
        logits, labels, reduction="none"
    )
    torch.testing.assert_close(weighted, reweight_nll(logits, labels, ASYMMETRIC, reduction="none"))


def test_through_the_identity_all_rows_are_as_likely_to_be_drawn() -> None:
    logits, labels = a_batch()
    torch.testing.assert_close(
        importance_weights(logits, labels, torch.eye(4).double()), torch.ones(24).double()
    )


def test_every_row_drawn_once_is_cross_entropy() -> None:
    logits, labels = a_batch()
    torch.testing.assert_close(resampled_nll(logits, labels, torch.ones(24)), F.cross_entropy(logits, labels))


def test_rows_are_drawn_as_often_as_their_weights_say_and_as_many_as_there_are() -> None:
    weights = torch.tensor([0.0, 2.0, 0.5, 1.5])
    rng = np.random.default_rng(0)
    draws = torch.stack([resampled_counts(weights, rng) for _ in range(4000)])
    assert (draws.sum(dim=1) == 4).all()
    assert (draws[:, 0] == 0).all()
    # A count is binomial: four draws with p = w / 4, so its standard error is below 1 / sqrt(4000).
    assert draws.mean(dim=0).tolist() == pytest.approx([0.0, 2.0, 0.5, 1.5], abs=4 / math.sqrt(4000))
    assert draws[:, 1].var().item() == pytest.approx(4 * 0.5 * 0.5, rel=0.1)


def test_on_average_over_draws_the_loss_is_reweight_by_weights_with_mean_one() -> None:
    logits, labels = a_batch()
    weights = importance_weights(logits, labels, ASYMMETRIC)
    rng = np.random.default_rng(0)
    drawn = [resampled_nll(logits, labels, resampled_counts(weights, rng)).item() for _ in range(4000)]
    expected = (reweight_nll(logits, labels, ASYMMETRIC) / weights.mean()).item()
    error = np.std(drawn) / math.sqrt(len(drawn))
    assert np.mean(drawn) == pytest.approx(expected, abs=4 * error)
    assert abs(F.cross_entropy(logits, labels).item() - expected) > 20 * error


def test_the_counts_are_the_limit_of_dirichlet_weights_of_small_concentration() -> None:
    """The mean of n draws of Dirichlet weights varies as counts / n do, if the concentration is small."""
    weights, n, draws = np.array([2.0, 1.0, 0.5, 0.5]), 4, 20_000
    rng = np.random.default_rng(0)
    mean = weights / weights.sum()
    sampled = rng.dirichlet(1e-3 * mean, size=(draws, n)).mean(axis=1)
    counts = np.stack([resampled_counts(torch.tensor(weights), rng).numpy() for _ in range(draws)])
    np.testing.assert_allclose(sampled.mean(axis=0), counts.mean(axis=0) / n, atol=0.01)
    np.testing.assert_allclose(sampled.var(axis=0), counts.var(axis=0) / n**2, rtol=0.06)


def test_right_labels_are_drawn_more_often_than_wrong_ones() -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(4, size=2000)
    noisy = corrupt(clean, pair_flip(4, 0.4), rng)
    logits = 4 * torch.eye(4)[clean]  # a network that knows
    counts = resampled_counts(importance_weights(logits, torch.tensor(noisy), pair_flip(4, 0.4)), rng)
    right = torch.tensor(noisy == clean)
    assert 0.58 < right.float().mean() < 0.62
    assert counts[right].sum() / counts.sum() > 0.9


# ---- extreme logits


@pytest.mark.parametrize("matrix", [ASYMMETRIC, torch.eye(4), torch.tensor(pair_flip(4, 0.45))])
def test_extreme_logits_give_finite_weights_losses_and_gradients(matrix: Tensor) -> None:
    rows = [[1e4, 0.0, 0.0, -1e4], [0.0, 0.0, 1e4, 1e4], [-1e4, 0.0, -1e4, 0.0]]
    logits = torch.tensor([row for row in rows for _ in range(4)], requires_grad=True)
    labels = torch.arange(4).repeat(3)
    weights = importance_weights(logits, labels, matrix.float())
    assert weights.isfinite().all()
    counts = resampled_counts(weights, np.random.default_rng(0))
    loss = resampled_nll(logits, labels, counts)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_a_class_that_is_masked_out_is_never_drawn_and_costs_nothing() -> None:
    logits = torch.tensor([[0.3, -torch.inf, 1.0, -2.0]] * 2, requires_grad=True)
    labels = torch.tensor([1, 2])
    counts = resampled_counts(
        importance_weights(logits, labels, ASYMMETRIC.float()), np.random.default_rng(0)
    )
    assert counts.tolist() == [0, 2]
    each = resampled_nll(logits, labels, counts, reduction="none")
    each.sum().backward()
    assert each[0].item() == 0
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_a_batch_of_labels_that_t_rules_out_teaches_nothing() -> None:
    logits = torch.zeros(3, 2, requires_grad=True)
    labels = torch.tensor([1, 1, 1])
    weights = importance_weights(logits, labels, [[1.0, 0.0], [1.0, 0.0]])
    counts = resampled_counts(weights, np.random.default_rng(0))
    loss = resampled_nll(logits, labels, counts)
    loss.backward()
    assert counts.tolist() == [0, 0, 0]
    assert loss.item() == 0
    assert logits.grad is not None
    assert logits.grad.abs().max() == 0


def test_a_loss_that_is_nan_stays_nan() -> None:
    logits = torch.full((3, 2), torch.nan)
    labels = torch.tensor([0, 1, 1])
    counts = resampled_counts(importance_weights(logits, labels, torch.eye(2)), np.random.default_rng(0))
    assert resampled_nll(logits, labels, counts).isnan()


# ---- gradients


def test_gradients_match_finite_differences_and_pass_the_weights_by() -> None:
    logits, labels = a_batch(n=6)
    logits.requires_grad_()
    weights = importance_weights(logits, labels, ASYMMETRIC.clone().requires_grad_())
    assert not weights.requires_grad
    counts = resampled_counts(weights, np.random.default_rng(0))
    assert gradcheck(lambda z: resampled_nll(z, labels, counts, reduction="none"), (logits,))


# ---- refusals


def test_weights_and_counts_that_mean_nothing_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(
        ValueError, match=r"weights must be .* not negative, got shape \(2,\) and values from -1"
    ):
        resampled_counts(torch.tensor([1.0, -1.0]), rng)
    with pytest.raises(ValueError, match="weights must be"):
        resampled_counts(torch.tensor([1.0, torch.nan]), rng)
    logits, labels = a_batch()
    with pytest.raises(ValueError, match=r"counts must be \(n,\), one a row, got \(3,\) for 24 rows"):
        resampled_nll(logits, labels, torch.ones(3))
