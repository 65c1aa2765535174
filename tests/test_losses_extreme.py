"""The losses at logits of 1e4, where probabilities underflow, and at matrices that leave the simplex."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from trevision.losses import backward_nll, forward_nll, reweight_nll
from trevision.noise import pair_flip

Loss = Callable[..., Tensor]

ASYMMETRIC = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)
WITH_ZEROS = torch.tensor(pair_flip(4, 0.45))
reweight_live = partial(reweight_nll, live_weight=True)
reweight_detached = partial(reweight_nll, live_weight=False)
CORRECTED = [forward_nll, backward_nll, reweight_live, reweight_detached]


def log_of(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def log_sum(terms: Sequence[float]) -> float:
    largest = max(terms)
    return largest + math.log(sum(math.exp(term - largest) for term in terms))


def slow_logs(row: Sequence[float], y: int, t: Sequence[Sequence[float]]) -> tuple[list[float], float]:
    """log g and log (T'g)_y in log space, so that 1e4 and e^-20000 are both within reach."""
    normaliser = log_sum(row)
    log_g = [z - normaliser for z in row]
    return log_g, log_sum([log_g[i] + log_of(t[i][y]) for i in range(len(row))])


EXTREME_ROWS = [
    row
    for row in itertools.product([1e4, 0.0, -1e4], repeat=4)
    if len(set(row)) > 1  # equal logits are not extreme
]
EXTREME_TRANSITIONS = {
    "asymmetric": ASYMMETRIC,
    "with_zeros": WITH_ZEROS,
    "identity": torch.eye(4, dtype=torch.float64),
}


def extreme_batch() -> tuple[Tensor, Tensor]:
    """Every row with every label: the label's logit is the highest, the lowest, and between."""
    rows = [row for row in EXTREME_ROWS for _ in range(4)]
    labels = [y for _ in EXTREME_ROWS for y in range(4)]
    return torch.tensor(rows, dtype=torch.float32), torch.tensor(labels)


@pytest.mark.parametrize("name", EXTREME_TRANSITIONS)
@pytest.mark.parametrize("loss", CORRECTED)
def test_extreme_logits_give_finite_losses_and_gradients(loss: Loss, name: str) -> None:
    logits, labels = extreme_batch()
    transition = EXTREME_TRANSITIONS[name].float()
    logits.requires_grad_()
    transition.requires_grad_()
    for reduction in ("none", "mean"):
        losses = loss(logits, labels, transition, reduction=reduction)
        assert losses.isfinite().all()
        for gradient in torch.autograd.grad(losses.sum(), (logits, transition)):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("name", EXTREME_TRANSITIONS)
def test_extreme_logits_give_the_right_forward_loss(name: str) -> None:
    logits, labels = extreme_batch()
    transition = EXTREME_TRANSITIONS[name]
    expected = [
        -slow_logs(row, y, transition.tolist())[1]
        for row, y in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    assert max(expected) > (1e4 if name != "asymmetric" else 2)  # some samples are all but impossible
    actual = forward_nll(logits, labels, transition.float(), reduction="none")
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", [reweight_live, reweight_detached])
@pytest.mark.parametrize("name", EXTREME_TRANSITIONS)
def test_extreme_logits_give_the_right_reweighted_loss(name: str, loss: Loss) -> None:
    logits, labels = extreme_batch()
    transition = EXTREME_TRANSITIONS[name]
    expected = []
    for row, y in zip(logits.tolist(), labels.tolist(), strict=True):
        log_g, log_noisy = slow_logs(row, y, transition.tolist())
        expected.append(math.exp(log_g[y] - log_noisy) * -log_g[y])
    actual = loss(logits, labels, transition.float(), reduction="none")
    # Single precision knows a logarithm of -2e4 to 1e-3, hence the weight to a thousandth.
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", EXTREME_TRANSITIONS)
def test_extreme_logits_give_the_right_backward_loss(name: str) -> None:
    logits, labels = extreme_batch()
    transition = EXTREME_TRANSITIONS[name]
    inverse = np.linalg.inv(transition.numpy())
    expected = []
    for row, y in zip(logits.tolist(), labels.tolist(), strict=True):
        log_g, _ = slow_logs(row, y, transition.tolist())
        expected.append(float(sum(inverse[y, j] * -log_g[j] for j in range(4))))
    actual = backward_nll(logits, labels, transition.float(), reduction="none")
    # Terms of 2e4 with either sign cancel: single precision leaves 2e4 * 4 * 1e-7.
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-5, atol=0.05)


def test_confident_wrong_prediction_still_pulls_the_logits_under_forward() -> None:
    # Under pair flipping class 0 cannot become 2, so (T'g)_2 underflows: the gradient must survive it.
    logits = torch.tensor([[200.0, 0.0, 0.0, 0.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(forward_nll(logits, torch.tensor([2]), WITH_ZEROS.float()), logits)
    # d/dz of -log(.45 g_1 + .55 g_2): minus the share of each way to the label, plus g.
    torch.testing.assert_close(gradient, torch.tensor([[1.0, -0.45, -0.55, 0.0]]))


def test_slightly_negative_entry_of_a_slack_transition_does_not_blow_up_the_weight() -> None:
    # A T-hat + Delta T off the simplex (a regulariser, a user's own step) may hold -0.001, and a sure
    # prediction then makes (T'g)_y negative. In Eq. 3 the weight is 2e-9 / -0.001: as good as nothing. At the
    # least it may not exceed 1 / T[y, y], the most that a transition matrix with this diagonal gives.
    transition = WITH_ZEROS.float()
    transition[0, 2] = -0.001
    logits = torch.tensor([[0.0, -15.0, -20.0, -20.0]], requires_grad=True)
    label = torch.tensor([2])
    bound = 20.1 / 0.55
    for loss in (reweight_detached, reweight_live):
        value = loss(logits, label, transition)
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.abs().item() < bound
        assert gradient.abs().max().item() < bound


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", [forward_nll, reweight_live, reweight_detached, backward_nll])
def test_half_precision_gives_what_single_gives_also_where_t_has_zeros(loss: Loss, precision) -> None:
    labels = torch.tensor([2, 0, 1])
    halves = torch.tensor([[12.0, 0, 0, 0], [-20.0, 5, 0, 1], [0.5, 30, -8, 2]], dtype=precision)
    rounded = halves.float()
    matrix = WITH_ZEROS.float()
    found, expected = halves.requires_grad_(), rounded.requires_grad_()
    loss(found, labels, matrix).backward()
    loss(expected, labels, matrix).backward()
    assert loss(found, labels, matrix).item() == pytest.approx(
        loss(expected, labels, matrix).item(), rel=1e-5
    )
    assert found.grad is not None
    assert expected.grad is not None
    assert torch.allclose(found.grad.float(), expected.grad, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("loss", [reweight_live, reweight_detached])
def test_a_class_that_is_masked_out_has_no_weight_and_no_gradient_that_is_nan(loss: Loss) -> None:
    logits = torch.tensor([[0.3, -torch.inf, 1.0, -2.0]], requires_grad=True)
    value = loss(logits, torch.tensor([1]), ASYMMETRIC.float())
    value.backward()
    assert value.item() == 0
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", [reweight_live, reweight_detached])
def test_a_label_that_t_rules_out_counts_for_nothing_beside_one_that_it_allows(loss: Loss) -> None:
    matrix = torch.tensor([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.5, 0.5, 0.0]])
    logits = torch.tensor([[2.0, 0.0, 1.0], [2.0, 0.0, 1.0]], requires_grad=True)
    both = loss(logits, torch.tensor([0, 2]), matrix)
    both.backward()
    g = torch.softmax(torch.tensor([2.0, 0.0, 1.0]).double(), dim=0)
    weight = g[0] / (0.8 * g[0] + 0.3 * g[1] + 0.5 * g[2])
    assert both.item() == pytest.approx(float(-weight * g[0].log()) / 2, rel=1e-5)
    assert logits.grad is not None
    assert logits.grad[1].tolist() == [0, 0, 0]
    assert logits.grad[0].abs().min() > 0


def test_a_weight_above_the_cap_counts_as_the_cap() -> None:
    # g_y / (T'g)_y = 1 / T[y, y] where g is sure of y: with a diagonal of 1e-6 that is a million.
    matrix = torch.tensor([[1e-6, 1 - 1e-6], [0.5, 0.5]], dtype=torch.float64)
    logits = torch.tensor([[50.0, 0.0]], dtype=torch.float64)
    found = reweight_nll(logits, torch.tensor([0]), matrix)
    log_g = -math.log1p(math.exp(-50))
    assert found.item() == pytest.approx(1e4 * -log_g, rel=1e-6)
