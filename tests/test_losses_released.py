"""The released code's revision loss, against the loop it stands for."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from trevision.losses import released_revision_nll, reweight_nll

INITIAL = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)


def a_batch(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    delta = 0.002 * torch.randn(4, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n,), generator=generator), delta


def loop(logits: Tensor, labels: Tensor, initial: Tensor, delta: Tensor) -> Tensor:
    """One sample after the other, with a matrix that is never reset within the batch."""
    matrix, total = initial, torch.zeros((), dtype=logits.dtype)
    for z, y in zip(logits, labels, strict=True):
        matrix = matrix + delta
        g = torch.exp(z) / torch.exp(z).sum()
        noisy = sum(matrix[i, y] * g[i] for i in range(len(g)))
        total = total + g[y] / noisy * -torch.log(g[y])
    return total / len(labels)


def test_the_vectorised_loss_and_its_gradients_are_those_of_the_loop():
    logits, labels, delta = a_batch(23)
    logits.requires_grad_()
    delta.requires_grad_()
    ours, slow = released_revision_nll(logits, labels, INITIAL, delta), loop(logits, labels, INITIAL, delta)
    assert ours.item() == pytest.approx(slow.item(), rel=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad(ours, (logits, delta)), torch.autograd.grad(slow, (logits, delta)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_without_delta_it_is_equation_three_and_a_batch_of_one_sees_delta_once():
    logits, labels, delta = a_batch(9)
    none = released_revision_nll(logits, labels, INITIAL, torch.zeros_like(delta))
    assert none.item() == pytest.approx(reweight_nll(logits, labels, INITIAL).item(), rel=1e-12)
    one = released_revision_nll(logits[:1], labels[:1], INITIAL, delta)
    assert one.item() == pytest.approx(
        reweight_nll(logits[:1], labels[:1], INITIAL + delta).item(), rel=1e-12
    )


def test_it_depends_on_the_order_in_the_batch_where_equation_three_does_not():
    logits, labels, delta = a_batch(16)
    forwards = released_revision_nll(logits, labels, INITIAL, delta)
    backwards = released_revision_nll(logits.flip(0), labels.flip(0), INITIAL, delta)
    assert abs(forwards.item() - backwards.item()) > 1e-4
    eq3 = [
        reweight_nll(z, y, INITIAL + delta).item()
        for z, y in ((logits, labels), (logits.flip(0), labels.flip(0)))
    ]
    assert eq3[0] == pytest.approx(eq3[1], rel=1e-12)


def test_the_gradient_for_delta_grows_with_the_batch():
    """At Delta T = 0 the n-th sample's gradient is n times that of Eq. 3: (N + 1) / 2 times on average."""
    logits, labels, _ = a_batch(1)
    delta = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    repeated, same = logits.expand(63, 4), labels.expand(63)
    (many,) = torch.autograd.grad(released_revision_nll(repeated, same, INITIAL, delta), delta)
    (eq3,) = torch.autograd.grad(reweight_nll(repeated, same, INITIAL + delta, live_weight=True), delta)
    torch.testing.assert_close(many, 32 * eq3, rtol=1e-10, atol=1e-12)


def test_gradients_match_finite_differences():
    logits, labels, delta = a_batch(6)
    inputs = (logits.requires_grad_(), INITIAL.clone().requires_grad_(), delta.requires_grad_())
    assert gradcheck(lambda z, t, d: released_revision_nll(z, labels, t, d, reduction="none"), inputs)


def test_extreme_logits_and_a_delta_that_empties_a_column_stay_finite():
    logits = torch.tensor([[800.0, -800.0, 0.0, 0.0], [-800.0, 800.0, 0.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    delta = torch.zeros(4, 4, dtype=torch.float64)
    delta[:, 1] = -0.5  # twice that makes (T'g)_1 negative for the second sample
    logits.requires_grad_()
    delta.requires_grad_()
    each = released_revision_nll(logits, labels, INITIAL, delta, reduction="none")
    assert each[1].item() == 0
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(each.sum(), (logits, delta)))
    assert math.isfinite(each.sum().item())


def test_a_delta_of_another_shape_is_refused():
    logits, labels, _ = a_batch(3)
    with pytest.raises(ValueError, match=r"delta must have the shape of initial, got \(3, 3\)"):
        released_revision_nll(logits, labels, INITIAL, torch.zeros(3, 3, dtype=torch.float64))
