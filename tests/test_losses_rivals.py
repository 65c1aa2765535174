"""The losses of rival methods, against loops from their equations, closed forms and finite differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from trevision.losses import (
    forward_generalised_cross_entropy,
    forward_nll,
    forward_symmetric_cross_entropy,
    generalised_cross_entropy,
    generalised_of_log_prob,
    log_volume,
    symmetric_cross_entropy,
    symmetric_of_log_prob,
    total_variation,
    total_variation_nll,
    volume_nll,
)
from trevision.noise import pair_flip

Loss = Callable[..., Tensor]

ASYMMETRIC = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)
# Each diagonal is the largest of its row, and yet the determinant is negative.
DOMINANT_BUT_NEGATIVE = torch.tensor(
    [[1.0, 0.98, 0.01], [0.95, 1.0, 0.97], [0.02, 0.99, 1.0]], dtype=torch.float64
)
DOMINANT_BUT_NEGATIVE /= DOMINANT_BUT_NEGATIVE.sum(dim=1, keepdim=True)
SWAPPED = torch.tensor([[0.3, 0.7], [0.8, 0.2]], dtype=torch.float64)
SINGULAR = torch.full((3, 3), 1 / 3, dtype=torch.float64)
NOT_POSITIVE = {"dominant": DOMINANT_BUT_NEGATIVE, "swapped": SWAPPED, "singular": SINGULAR}
ROBUST = [generalised_cross_entropy, symmetric_cross_entropy]
THROUGH_T = [forward_generalised_cross_entropy, forward_symmetric_cross_entropy]


def a_batch(n: int = 24, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(classes, (n,), generator=generator)


def softmax_of(logits: Sequence[float]) -> list[float]:
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


# ---- slow answers, from the equations


def slow_generalised(g: Sequence[float], y: int) -> float:
    return (1 - g[y] ** 0.7) / 0.7


def slow_symmetric(g: Sequence[float], y: int) -> float:
    log_label = [0.0 if k == y else -4.0 for k in range(len(g))]
    return 0.1 * -math.log(g[y]) + 1.0 * -sum(g[k] * log_label[k] for k in range(len(g)))


def slow_determinant(t: Sequence[Sequence[float]]) -> float:
    """By permutations: the sum of products of one entry of each row and column, each with its sign."""
    total = 0.0
    for order in itertools.permutations(range(len(t))):
        swaps = sum(order[i] > order[j] for i in range(len(t)) for j in range(i + 1, len(t)))
        total += (-1) ** swaps * math.prod(t[i][j] for i, j in enumerate(order))
    return total


def slow_forward(logits: Tensor, labels: Tensor, t: Sequence[Sequence[float]]) -> float:
    rows = list(zip(map(softmax_of, logits.tolist()), labels.tolist(), strict=True))
    return sum(-math.log(sum(t[i][y] * g[i] for i in range(len(g)))) for g, y in rows) / len(rows)


def slow_total_variation(logits: Tensor) -> float:
    predictions = [softmax_of(row) for row in logits.tolist()]
    distances = [
        0.5 * sum(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in itertools.combinations(predictions, 2)
    ]
    return sum(distances) / len(distances)


@pytest.mark.parametrize(
    ("loss", "slow"),
    [(generalised_cross_entropy, slow_generalised), (symmetric_cross_entropy, slow_symmetric)],
)
def test_a_robust_loss_equals_a_loop_written_from_its_equation(loss: Loss, slow: Callable) -> None:
    logits, labels = a_batch()
    expected = [slow(softmax_of(row), y) for row, y in zip(logits.tolist(), labels.tolist(), strict=True)]
    actual = loss(logits, labels, reduction="none")
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    assert loss(logits, labels).item() == pytest.approx(sum(expected) / len(expected))
    assert loss(logits, labels, reduction="sum").item() == pytest.approx(sum(expected))


@pytest.mark.parametrize(
    ("loss", "slow"), list(zip(THROUGH_T, (slow_generalised, slow_symmetric), strict=True))
)
def test_a_robust_loss_through_t_equals_a_loop_written_from_its_equation(loss: Loss, slow: Callable) -> None:
    logits, labels = a_batch()
    t, expected = ASYMMETRIC.tolist(), []
    for row, y in zip(logits.tolist(), labels.tolist(), strict=True):
        g = softmax_of(row)
        expected.append(slow([sum(t[i][j] * g[i] for i in range(4)) for j in range(4)], y))
    actual = loss(logits, labels, ASYMMETRIC, reduction="none")
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    assert loss(logits, labels, t).item() == pytest.approx(sum(expected) / len(expected))
    assert loss(logits, labels, ASYMMETRIC, reduction="sum").item() == pytest.approx(sum(expected))
    turned = loss(logits, labels, ASYMMETRIC.t(), reduction="none")
    assert (turned - actual).abs().max() > 0.1


def test_the_volume_loss_equals_a_loop_written_from_its_equation() -> None:
    logits, labels = a_batch()
    t = ASYMMETRIC.tolist()
    expected = slow_forward(logits, labels, t) + 0.3 * math.log(slow_determinant(t))
    assert volume_nll(logits, labels, ASYMMETRIC, volume_weight=0.3).item() == pytest.approx(expected)
    turned = volume_nll(logits, labels, ASYMMETRIC.t(), volume_weight=0.3).item()
    assert abs(turned - expected) > 0.01


def test_the_total_variation_loss_equals_a_loop_written_from_its_equation() -> None:
    logits, labels = a_batch()
    expected = slow_forward(logits, labels, ASYMMETRIC.tolist()) - 0.3 * slow_total_variation(logits)
    assert total_variation_nll(logits, labels, ASYMMETRIC, gamma=0.3).item() == pytest.approx(expected)


def test_the_total_variation_of_given_pairs_is_the_mean_over_these_alone() -> None:
    logits, _ = a_batch()
    pairs = [(0, 2), (2, 0), (1, 1), (3, 0)]
    expected = [slow_total_variation(logits[list(pair)]) for pair in pairs]
    found = total_variation(logits, torch.tensor(pairs).t()).item()
    assert found == pytest.approx(sum(expected) / 4)
    assert expected[2] == 0


def test_both_regularised_losses_have_their_papers_weights_unless_told_otherwise() -> None:
    logits, labels = a_batch()
    t = ASYMMETRIC.tolist()
    forward = slow_forward(logits, labels, t)
    volume, variation = math.log(slow_determinant(t)), slow_total_variation(logits)
    assert volume_nll(logits, labels, ASYMMETRIC).item() - forward == pytest.approx(1e-4 * volume, rel=1e-6)
    assert total_variation_nll(logits, labels, ASYMMETRIC).item() - forward == pytest.approx(-0.1 * variation)


# ---- special cases


def test_generalised_cross_entropy_is_cross_entropy_as_q_vanishes() -> None:
    logits, labels = a_batch()
    actual = generalised_cross_entropy(logits, labels, q=1e-9, reduction="none")
    torch.testing.assert_close(
        actual, F.cross_entropy(logits, labels, reduction="none"), rtol=1e-6, atol=1e-9
    )


def test_generalised_cross_entropy_with_q_one_is_half_the_absolute_error() -> None:
    logits, labels = a_batch()
    absolute = (F.one_hot(labels, 4) - logits.softmax(dim=1)).abs().sum(dim=1)
    actual = generalised_cross_entropy(logits, labels, q=1.0, reduction="none")
    torch.testing.assert_close(actual, absolute / 2)


def test_symmetric_cross_entropy_without_its_reverse_is_cross_entropy() -> None:
    logits, labels = a_batch()
    actual = symmetric_cross_entropy(logits, labels, alpha=2.0, beta=0.0)
    torch.testing.assert_close(actual, 2 * F.cross_entropy(logits, labels))


@pytest.mark.parametrize(("loss", "plain"), list(zip(THROUGH_T, ROBUST, strict=True)))
def test_a_robust_loss_through_the_identity_is_the_loss_without_t(loss: Loss, plain: Loss) -> None:
    logits, labels = a_batch()
    torch.testing.assert_close(loss(logits, labels, np.eye(4)), plain(logits, labels))


def test_robust_losses_through_t_have_forward_as_their_limit() -> None:
    logits, labels = a_batch()
    forward = forward_nll(logits, labels, ASYMMETRIC, reduction="none")
    near = forward_generalised_cross_entropy(logits, labels, ASYMMETRIC, q=1e-6, reduction="none")
    torch.testing.assert_close(near, forward, rtol=1e-5, atol=1e-5)
    without = forward_symmetric_cross_entropy(
        logits, labels, ASYMMETRIC, alpha=2.0, beta=0.0, reduction="none"
    )
    torch.testing.assert_close(without, 2 * forward)


def test_a_robust_loss_may_take_a_flat_row_of_t_for_a_surer_one_and_forward_does_not() -> None:
    """These losses are not proper, so the true T does not make them consistent. All rows are of class 0."""
    transition = torch.tensor([[0.55, 0.45], [0.70, 0.30]], dtype=torch.float64)
    sure_of_each = torch.tensor([[50.0, 0.0], [0.0, 50.0]], dtype=torch.float64)

    def best_class(loss: Loss) -> int:
        of_label = [loss(sure_of_each, torch.full((2,), y), transition, reduction="none") for y in range(2)]
        return int((0.55 * of_label[0] + 0.45 * of_label[1]).argmin())

    assert best_class(forward_nll) == 0
    assert [best_class(loss) for loss in THROUGH_T] == [1, 1]


def test_the_reverse_term_has_one_sum_over_labels_whatever_is_predicted() -> None:
    """What makes a loss tolerant of symmetric noise: sum_y loss(g, y) is a constant, here -A (C - 1)."""
    logits, _ = a_batch()
    over_labels = sum(
        symmetric_cross_entropy(logits, torch.full((24,), y), alpha=0.0, log_zero=-3.0, reduction="none")
        for y in range(4)
    )
    torch.testing.assert_close(over_labels, torch.full((24,), 9.0, dtype=torch.float64))


def test_without_their_weights_both_regularised_losses_are_forward() -> None:
    logits, labels = a_batch()
    expected = forward_nll(logits, labels, ASYMMETRIC)
    torch.testing.assert_close(volume_nll(logits, labels, ASYMMETRIC, volume_weight=0.0), expected)
    torch.testing.assert_close(total_variation_nll(logits, labels, ASYMMETRIC, gamma=0.0), expected)


def test_a_losss_function_of_the_log_probability_is_the_loss() -> None:
    logits, labels = a_batch()
    log_prob = logits.log_softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
    for loss, of_log_prob in zip(ROBUST, (generalised_of_log_prob, symmetric_of_log_prob), strict=True):
        torch.testing.assert_close(of_log_prob(log_prob), loss(logits, labels, reduction="none"))


def test_total_variation_is_zero_of_equal_predictions_and_one_of_sure_different_ones() -> None:
    logits, _ = a_batch()
    assert total_variation(logits[:1].repeat(5, 1)).item() == 0
    assert total_variation(100 * torch.eye(4)).item() == pytest.approx(1)
    one_row = logits[:1].clone().requires_grad_()
    alone = total_variation(one_row)
    alone.backward()
    assert alone.item() == 0
    assert one_row.grad is not None
    assert one_row.grad.abs().max() == 0


# ---- the sign of the determinant


def test_log_volume_is_log_det_and_its_gradient_the_inverse_turned() -> None:
    transition = ASYMMETRIC.clone().requires_grad_()
    volume = log_volume(transition)
    volume.backward()
    assert volume.item() == pytest.approx(math.log(slow_determinant(ASYMMETRIC.tolist())))
    expected = np.linalg.inv(ASYMMETRIC.numpy()).T
    assert transition.grad is not None
    np.testing.assert_allclose(transition.grad.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("name", NOT_POSITIVE)
def test_a_determinant_that_is_not_positive_is_neither_rewarded_nor_nan(name: str) -> None:
    transition = NOT_POSITIVE[name].clone().requires_grad_()
    assert slow_determinant(transition.tolist()) < 1e-12
    logits, labels = a_batch(classes=len(transition))
    plain = forward_nll(logits, labels, transition)
    with_volume = volume_nll(logits, labels, transition, volume_weight=10.0)
    assert with_volume.item() == plain.item()  # no transition matrix has a larger volume term than this, 0
    gradients = [torch.autograd.grad(loss, transition)[0] for loss in (plain, with_volume)]
    assert gradients[1].isfinite().all()
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)


def test_no_transition_matrix_has_a_volume_term_above_zero() -> None:
    rng = np.random.default_rng(0)
    drawn = [log_volume(torch.from_numpy(rng.dirichlet(np.full(3, 0.3), size=3))).item() for _ in range(200)]
    assert max(drawn) == 0
    assert sum(value < 0 for value in drawn) > 50


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_where_torch_has_no_kernels(precision: torch.dtype) -> None:
    logits, _ = a_batch()
    assert log_volume(ASYMMETRIC.to(precision)).item() == pytest.approx(
        log_volume(ASYMMETRIC).item(), abs=0.05
    )
    assert total_variation(logits.to(precision)).item() == pytest.approx(
        total_variation(logits).item(), abs=0.01
    )


# ---- extreme logits

EXTREME_ROWS = [row for row in itertools.product([1e4, 0.0, -1e4], repeat=4) if len(set(row)) > 1]


def extreme_batch() -> tuple[Tensor, Tensor]:
    rows = [row for row in EXTREME_ROWS for _ in range(4)]
    labels = [y for _ in EXTREME_ROWS for y in range(4)]
    return torch.tensor(rows, dtype=torch.float32), torch.tensor(labels)


@pytest.mark.parametrize("loss", ROBUST)
def test_extreme_logits_give_finite_robust_losses_and_gradients(loss: Loss) -> None:
    logits, labels = extreme_batch()
    logits.requires_grad_()
    each = loss(logits, labels, reduction="none")
    (gradient,) = torch.autograd.grad(each.sum(), logits)
    assert each.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("matrix", [ASYMMETRIC, torch.eye(4), torch.tensor(pair_flip(4, 0.45))])
@pytest.mark.parametrize("loss", THROUGH_T)
def test_extreme_logits_give_finite_robust_losses_through_t(loss: Loss, matrix: Tensor) -> None:
    logits, labels = extreme_batch()
    logits.requires_grad_()
    transition = matrix.float().requires_grad_()
    each = loss(logits, labels, transition, reduction="none")
    assert each.isfinite().all()
    for gradient in torch.autograd.grad(each.sum(), (logits, transition)):
        assert gradient.isfinite().all()


def test_extreme_logits_give_the_right_robust_losses_through_t() -> None:
    logits = torch.tensor([[1e4, 0.0, 0.0, -1e4], [1e4, 0.0, 0.0, -1e4]])
    labels = torch.tensor([1, 3])  # class 0 is labelled 1 with 0.25 and 3 with 0.05
    p = torch.tensor([0.25, 0.05])
    matrix = ASYMMETRIC.float()
    torch.testing.assert_close(
        forward_generalised_cross_entropy(logits, labels, matrix, reduction="none"), (1 - p**0.7) / 0.7
    )
    torch.testing.assert_close(
        forward_symmetric_cross_entropy(logits, labels, matrix, reduction="none"),
        -0.1 * p.log() + 4 * (1 - p),
    )


@pytest.mark.parametrize("loss", [volume_nll, total_variation_nll])
def test_extreme_logits_give_finite_regularised_losses_and_gradients(loss: Loss) -> None:
    logits, labels = extreme_batch()
    logits.requires_grad_()
    transition = ASYMMETRIC.float().requires_grad_()
    value = loss(logits, labels, transition)
    assert value.isfinite()
    for gradient in torch.autograd.grad(value, (logits, transition)):
        assert gradient.isfinite().all()


def test_extreme_logits_give_the_right_robust_losses() -> None:
    logits = torch.tensor([[1e4, 0.0, 0.0, -1e4], [1e4, 0.0, 0.0, -1e4], [0.0, 0.0, -1e4, -1e4]])
    labels = torch.tensor([0, 3, 1])  # probabilities 1, e^-20000 and a half
    torch.testing.assert_close(
        generalised_cross_entropy(logits, labels, reduction="none"),
        torch.tensor([0.0, 1 / 0.7, (1 - 0.5**0.7) / 0.7]),
    )
    torch.testing.assert_close(
        symmetric_cross_entropy(logits, labels, reduction="none"),
        torch.tensor([0.0, 0.1 * 2e4 + 4, 0.1 * math.log(2) + 2]),
    )


# ---- gradients


@pytest.mark.parametrize(
    "loss", [*ROBUST, partial(generalised_cross_entropy, q=0.01), partial(symmetric_cross_entropy, alpha=6.0)]
)
def test_gradients_of_robust_losses_match_finite_differences(loss: Loss) -> None:
    logits, labels = a_batch(n=6)
    assert gradcheck(lambda z: loss(z, labels, reduction="none"), (logits.requires_grad_(),))


@pytest.mark.parametrize("loss", [*THROUGH_T, partial(forward_generalised_cross_entropy, q=0.01)])
def test_gradients_of_robust_losses_through_t_match_finite_differences(loss: Loss) -> None:
    logits, labels = a_batch(n=6)
    transition = ASYMMETRIC.clone().requires_grad_()
    assert gradcheck(lambda z, t: loss(z, labels, t, reduction="none"), (logits.requires_grad_(), transition))


@pytest.mark.parametrize(
    "loss", [partial(volume_nll, volume_weight=0.3), partial(total_variation_nll, gamma=0.3)]
)
def test_gradients_of_regularised_losses_match_finite_differences(loss: Loss) -> None:
    logits, labels = a_batch(n=6)
    transition = ASYMMETRIC.clone().requires_grad_()
    assert gradcheck(lambda z, t: loss(z, labels, t), (logits.requires_grad_(), transition))


def test_a_sure_wrong_prediction_pulls_less_than_under_cross_entropy() -> None:
    """The gradient of the generalised loss is that of cross-entropy times g_y^q."""
    logits, labels = a_batch()
    logits.requires_grad_()
    (plain,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), logits)
    (robust,) = torch.autograd.grad(generalised_cross_entropy(logits, labels, reduction="sum"), logits)
    given = logits.softmax(dim=1).gather(1, labels[:, None]).detach()
    torch.testing.assert_close(robust, plain * given**0.7)


def test_the_gradient_of_the_generalised_loss_through_t_is_forwards_times_a_weight() -> None:
    logits, labels = a_batch()
    logits.requires_grad_()
    (forward,) = torch.autograd.grad(forward_nll(logits, labels, ASYMMETRIC, reduction="sum"), logits)
    robust = forward_generalised_cross_entropy(logits, labels, ASYMMETRIC, reduction="sum")
    (gradient,) = torch.autograd.grad(robust, logits)
    noisy = (logits.softmax(dim=1) @ ASYMMETRIC).gather(1, labels[:, None]).detach()
    torch.testing.assert_close(gradient, forward * noisy**0.7)


# ---- refusals


@pytest.mark.parametrize("q", [0.0, -0.5, 1.5, 70])
def test_a_power_outside_its_range_is_refused(q: float) -> None:
    logits, labels = a_batch()
    with pytest.raises(ValueError, match=r"q must lie in \(0, 1\], got"):
        generalised_cross_entropy(logits, labels, q=q)


def test_a_log_of_zero_that_is_not_negative_is_refused() -> None:
    logits, labels = a_batch()
    with pytest.raises(ValueError, match="log_zero must be negative"):
        symmetric_cross_entropy(logits, labels, log_zero=4.0)
