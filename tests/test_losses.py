"""The losses, against loops written from the paper's equations, closed forms and finite differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from trevision.losses import (
    BackwardLoss,
    ForwardLoss,
    ReweightLoss,
    backward_nll,
    cross_entropy,
    forward_nll,
    generalised_cross_entropy,
    invert,
    log_noisy_prob,
    log_volume,
    released_revision_nll,
    reweight_nll,
    symmetric_cross_entropy,
    total_variation_nll,
    volume_nll,
)
from trevision.noise import corrupt, pair_flip

Loss = Callable[..., Tensor]

ASYMMETRIC = torch.tensor(
    [[0.60, 0.25, 0.10, 0.05], [0.02, 0.70, 0.20, 0.08], [0.30, 0.10, 0.50, 0.10], [0.15, 0.05, 0.20, 0.60]],
    dtype=torch.float64,
)
WITH_ZEROS = torch.tensor(pair_flip(4, 0.45))
# What an unconstrained T-hat + Delta T may become: rows that do not sum to 1, entries below zero.
OFF_SIMPLEX = ASYMMETRIC * 1.3 - 0.04
TRANSITIONS = {"asymmetric": ASYMMETRIC, "with_zeros": WITH_ZEROS, "off_simplex": OFF_SIMPLEX}


def reweight_live(logits: Tensor, noisy_labels: Tensor, transition: Tensor, **options: str) -> Tensor:
    return reweight_nll(logits, noisy_labels, transition, live_weight=True, **options)  # type: ignore[arg-type]


def reweight_detached(logits: Tensor, noisy_labels: Tensor, transition: Tensor, **options: str) -> Tensor:
    return reweight_nll(logits, noisy_labels, transition, live_weight=False, **options)  # type: ignore[arg-type]


CORRECTED = [forward_nll, backward_nll, reweight_live, reweight_detached]


def a_batch(n: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n,), generator=generator)


# ---- slow answers, one sample at a time, from the equations


def softmax_of(logits: Sequence[float]) -> list[float]:
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def slow_noisy_prob(g: Sequence[float], y: int, t: Sequence[Sequence[float]]) -> float:
    return sum(t[i][y] * g[i] for i in range(len(g)))


def slow_forward(g: Sequence[float], y: int, t: Sequence[Sequence[float]]) -> float:
    return -math.log(slow_noisy_prob(g, y, t))


def slow_reweight(g: Sequence[float], y: int, t: Sequence[Sequence[float]]) -> float:
    return g[y] / slow_noisy_prob(g, y, t) * -math.log(g[y])


def slow_backward(g: Sequence[float], y: int, t: Sequence[Sequence[float]]) -> float:
    inverse = np.linalg.solve(np.array(t), np.eye(len(g)))
    return sum(inverse[y, j] * -math.log(g[j]) for j in range(len(g)))


SLOW = [
    (forward_nll, slow_forward),
    (backward_nll, slow_backward),
    (reweight_live, slow_reweight),
    (reweight_detached, slow_reweight),
]


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize(("loss", "slow"), SLOW)
def test_loss_equals_a_loop_written_from_its_equation(loss: Loss, slow: Callable, name: str) -> None:
    transition = TRANSITIONS[name]
    logits, labels = a_batch()
    if name == "off_simplex":  # keep to samples whose noisy probability is positive: others have no logarithm
        positive = (logits.softmax(dim=1) @ transition).gather(1, labels[:, None]).squeeze(1) > 1e-3
        logits, labels = logits[positive], labels[positive]
        assert len(labels) > 40
    expected = [
        slow(softmax_of(row), y, transition.tolist())
        for row, y in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    actual = loss(logits, labels, transition, reduction="none")
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    assert loss(logits, labels, transition).item() == pytest.approx(sum(expected) / len(expected), abs=1e-6)


@pytest.mark.parametrize("name", ["asymmetric", "with_zeros"])
def test_log_noisy_prob_is_the_logarithm_of_the_matrix_product(name: str) -> None:
    transition = TRANSITIONS[name]
    logits, labels = a_batch()
    product = logits.softmax(dim=1) @ transition
    expected = torch.stack([product[n, labels[n]].log() for n in range(len(labels))])
    actual = log_noisy_prob(logits.log_softmax(dim=1), labels, transition)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    turned = log_noisy_prob(logits.log_softmax(dim=1), labels, transition.t())
    assert (turned - expected).abs().max() > 0.1


def test_cross_entropy_is_minus_the_log_probability_of_the_label() -> None:
    logits, labels = a_batch()
    expected = [
        -math.log(softmax_of(row)[y]) for row, y in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    assert cross_entropy(logits, labels).item() == pytest.approx(sum(expected) / len(expected), abs=1e-9)
    torch.testing.assert_close(
        cross_entropy(logits, labels, reduction="none"), torch.tensor(expected, dtype=torch.float64)
    )


# ---- special cases


@pytest.mark.parametrize("loss", CORRECTED)
def test_identity_transition_recovers_cross_entropy_and_its_gradient(loss: Loss) -> None:
    logits, labels = a_batch()
    identity = torch.eye(4, dtype=torch.float64)
    corrected_logits, plain_logits = (logits.clone().requires_grad_(), logits.clone().requires_grad_())
    corrected, plain = (loss(corrected_logits, labels, identity), F.cross_entropy(plain_logits, labels))
    torch.testing.assert_close(corrected, plain, rtol=1e-12, atol=1e-12)
    corrected.backward()
    plain.backward()
    torch.testing.assert_close(corrected_logits.grad, plain_logits.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", CORRECTED)
def test_loss_of_a_sample_does_not_depend_on_its_batch(loss: Loss) -> None:
    logits, labels = a_batch()
    together = loss(logits, labels, ASYMMETRIC, reduction="none")
    alone = torch.cat(
        [loss(logits[n : n + 1], labels[n : n + 1], ASYMMETRIC, reduction="none") for n in range(len(labels))]
    )
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


def test_detached_weight_is_a_constant_to_the_logits() -> None:
    logits, labels = a_batch()
    logits.requires_grad_()
    (actual,) = torch.autograd.grad(
        reweight_nll(logits, labels, ASYMMETRIC, live_weight=False, reduction="sum"), logits
    )
    expected = torch.zeros_like(logits)
    for n, (row, y) in enumerate(zip(logits.tolist(), labels.tolist(), strict=True)):
        g = softmax_of(row)
        weight = g[y] / slow_noisy_prob(g, y, ASYMMETRIC.tolist())
        for j in range(4):
            expected[n, j] = weight * (g[j] - (j == y))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)

    (live,) = torch.autograd.grad(
        reweight_nll(logits, labels, ASYMMETRIC, live_weight=True, reduction="sum"), logits
    )
    assert (live - expected).abs().max() > 0.1


def test_weight_is_detached_unless_asked_for() -> None:
    logits, labels = a_batch()
    logits.requires_grad_()
    default, detached = (
        torch.autograd.grad(loss(logits, labels, ASYMMETRIC), logits)[0]
        for loss in (reweight_nll, reweight_detached)
    )
    torch.testing.assert_close(default, detached, rtol=0, atol=0)


def test_live_weight_has_a_degenerate_optimum_that_the_detached_one_lacks() -> None:
    # The given label is already improbable: live descent makes it more so, detached descent less.
    logits = torch.tensor([[4.0, 0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    label = torch.tensor([2])
    (live,) = torch.autograd.grad(reweight_live(logits, label, ASYMMETRIC), logits)
    (detached,) = torch.autograd.grad(reweight_detached(logits, label, ASYMMETRIC), logits)
    assert live[0, 2] > 0 > detached[0, 2]


# ---- consistency: what the corrections are for


def test_backward_loss_is_unbiased_for_the_clean_loss() -> None:
    logits, _ = a_batch()
    log_clean = logits.log_softmax(dim=1)
    n = len(logits)

    def mean_over_noisy_labels(transition_of_loss: Tensor, clean: int) -> Tensor:
        mean = torch.zeros(n, dtype=torch.float64)
        for y in range(4):
            labels = torch.full((n,), y)
            mean += ASYMMETRIC[clean, y] * backward_nll(logits, labels, transition_of_loss, reduction="none")
        return mean

    for clean in range(4):
        torch.testing.assert_close(
            mean_over_noisy_labels(ASYMMETRIC, clean), -log_clean[:, clean], rtol=1e-9, atol=1e-9
        )
        # Appendix B prints (T')^-1, which is what a transposed T gives: it is biased.
        biased = mean_over_noisy_labels(ASYMMETRIC.t(), clean)
        assert (biased + log_clean[:, clean]).abs().mean() > 0.05


def test_forward_loss_is_least_at_the_clean_posterior() -> None:
    clean_posterior = torch.tensor([[0.5, 0.2, 0.2, 0.1], [0.05, 0.15, 0.2, 0.6]], dtype=torch.float64)
    noisy_posterior = torch.zeros_like(clean_posterior)
    for i, j in itertools.product(range(4), range(4)):
        noisy_posterior[:, j] += clean_posterior[:, i] * ASYMMETRIC[i, j]

    def gradient_of_expected_loss(transition: Tensor) -> Tensor:
        logits = clean_posterior.log().requires_grad_()
        expected = torch.zeros((), dtype=torch.float64)
        for y in range(4):
            losses = forward_nll(logits, torch.full((2,), y), transition, reduction="none")
            expected = expected + (noisy_posterior[:, y] * losses).sum()
        return torch.autograd.grad(expected, logits)[0]

    assert gradient_of_expected_loss(ASYMMETRIC).abs().max() < 1e-12
    assert gradient_of_expected_loss(ASYMMETRIC.t()).abs().max() > 0.01


def test_mean_reweighted_loss_on_noisy_labels_is_the_clean_risk() -> None:
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(4), size=200)
    clean_risk = float(-(posterior * np.log(posterior)).sum(axis=1).mean())

    n = 400_000
    x = rng.integers(200, size=n)
    clean = (rng.random((n, 1)) > posterior.cumsum(axis=1)[x]).sum(axis=1).clip(max=3)
    noisy = torch.from_numpy(corrupt(clean, ASYMMETRIC.numpy(), rng))
    logits = torch.from_numpy(np.log(posterior))[torch.from_numpy(x)]

    def standard_errors_from_clean_risk(losses: Tensor) -> float:
        return abs(losses.mean().item() - clean_risk) / (losses.std().item() / math.sqrt(n))

    right = reweight_nll(logits, noisy, ASYMMETRIC, reduction="none")
    assert standard_errors_from_clean_risk(right) < 4
    assert right.std().item() / math.sqrt(n) < 0.01 * clean_risk  # the standard error is itself small

    # The sample tells apart what is wrong: a transposed T, and no correction at all.
    turned = ASYMMETRIC.t() / ASYMMETRIC.t().sum(dim=1, keepdim=True)
    for wrong_transition in (ASYMMETRIC.t(), turned):
        wrong = reweight_nll(logits, noisy, wrong_transition, reduction="none")
        assert standard_errors_from_clean_risk(wrong) > 8
    assert standard_errors_from_clean_risk(cross_entropy(logits, noisy, reduction="none")) > 8


# ---- gradients


@pytest.mark.parametrize("name", ["asymmetric", "with_zeros"])
@pytest.mark.parametrize("loss", [forward_nll, backward_nll, reweight_live])
def test_gradients_match_finite_differences(loss: Loss, name: str) -> None:
    logits, labels = a_batch(n=6)
    logits.requires_grad_()
    transition = TRANSITIONS[name].clone().requires_grad_()
    assert gradcheck(lambda z, t: loss(z, labels, t, reduction="none"), (logits, transition))


@pytest.mark.parametrize("name", ["asymmetric", "with_zeros"])
def test_gradient_of_the_detached_loss_reaches_the_transition(name: str) -> None:
    logits, labels = a_batch(n=6)
    transition = TRANSITIONS[name].clone().requires_grad_()
    assert gradcheck(lambda t: reweight_detached(logits, labels, t, reduction="none"), (transition,))
    (gradient,) = torch.autograd.grad(reweight_detached(logits, labels, transition), transition)
    assert gradient.abs().max() > 1e-3  # a Delta T that gets none is never revised


# ---- refusals


@pytest.mark.parametrize(
    "singular",
    [
        torch.full((4, 4), 0.25),
        torch.tensor([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        # Invertible on paper, and past what single precision can tell from singular.
        torch.tensor([[0.5, 0.5, 0, 0], [0.5 + 2e-7, 0.5 - 2e-7, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
    ],
)
def test_singular_transition_is_refused_by_backward_with_the_repair(singular: Tensor) -> None:
    logits, labels = a_batch()
    with pytest.raises(ValueError, match=r"transition must be invertible.*forward and reweight"):
        backward_nll(logits.float(), labels, singular)
    with pytest.raises(ValueError, match="transition must be invertible"):
        BackwardLoss(singular)


@pytest.mark.parametrize("loss", CORRECTED)
def test_transition_of_another_number_of_classes_is_refused(loss: Loss) -> None:
    logits, labels = a_batch()
    with pytest.raises(ValueError, match=r"transition must be \(C, C\).*\(3, 3\) for \(64, 4\)"):
        loss(logits, labels, torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("loss", CORRECTED)
def test_labels_of_another_shape_are_refused(loss: Loss) -> None:
    logits, labels = a_batch()
    for wrong_logits, wrong_labels in [
        (logits, labels[:-1]),
        (logits, labels[:, None]),
        (logits[0], labels[:1]),
    ]:
        with pytest.raises(ValueError, match=r"logits must be \(n, C\) and noisy_labels \(n,\)"):
            loss(wrong_logits, wrong_labels, ASYMMETRIC)


@pytest.mark.parametrize("loss", CORRECTED)
@pytest.mark.parametrize("label", [-1, 4])
def test_label_that_is_no_class_is_refused_not_wrapped_around(loss: Loss, label: int) -> None:
    # -1 marks "no label" in many data sets; indexing would quietly read it as the last class.
    logits, labels = a_batch()
    labels[3] = label
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        loss(logits, labels, ASYMMETRIC)


@pytest.mark.parametrize("loss", CORRECTED)
def test_unknown_reduction_is_refused(loss: Loss) -> None:
    logits, labels = a_batch()
    with pytest.raises(ValueError, match="reduction must be mean, sum or none, got 'median'"):
        loss(logits, labels, ASYMMETRIC, reduction="median")


WITHOUT_T = [cross_entropy, generalised_cross_entropy, symmetric_cross_entropy]


@pytest.mark.parametrize("loss", [*CORRECTED, *WITHOUT_T])
def test_every_loss_takes_the_same_labels_and_refuses_the_same(loss: Loss) -> None:
    logits, labels = a_batch()
    more = () if loss in WITHOUT_T else (ASYMMETRIC,)
    expected = loss(logits, labels, *more)
    for kind in (torch.uint8, torch.int16, torch.int32):
        assert loss(logits, labels.to(kind), *more) == expected
    # torch's own cross-entropy passes over -100, and takes a distribution over classes for a label.
    ignored = labels.clone()
    ignored[3] = -100
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        loss(logits, ignored, *more)
    with pytest.raises(ValueError, match=r"noisy_labels \(n,\)"):
        loss(logits, torch.softmax(logits, dim=1), *more)


# ---- reductions and modules


@pytest.mark.parametrize("loss", CORRECTED)
def test_reductions_agree(loss: Loss) -> None:
    logits, labels = a_batch()
    each = loss(logits, labels, ASYMMETRIC, reduction="none")
    assert each.shape == (64,)
    assert loss(logits, labels, ASYMMETRIC, reduction="sum").item() == pytest.approx(sum(each.tolist()))
    assert loss(logits, labels, ASYMMETRIC, reduction="mean").item() == pytest.approx(sum(each.tolist()) / 64)
    assert loss(logits, labels, ASYMMETRIC).item() == pytest.approx(sum(each.tolist()) / 64)


@pytest.mark.parametrize(
    ("module", "loss"),
    [
        (ForwardLoss(ASYMMETRIC), forward_nll),
        (BackwardLoss(ASYMMETRIC), backward_nll),
        (ReweightLoss(ASYMMETRIC), reweight_detached),
        (ReweightLoss(ASYMMETRIC, live_weight=True), reweight_live),
    ],
)
def test_module_equals_its_function_and_its_gradient(module: torch.nn.Module, loss: Loss) -> None:
    logits, labels = a_batch()
    logits.requires_grad_()
    from_module, from_function = (module(logits, labels), loss(logits, labels, ASYMMETRIC))
    torch.testing.assert_close(from_module, from_function, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(from_module, logits)[0],
        torch.autograd.grad(from_function, logits)[0],
        rtol=1e-10,
        atol=1e-12,
    )
    assert not list(module.parameters())  # the matrix is fixed
    assert list(module.state_dict())  # and moves, and is saved, with the module


def test_module_keeps_its_own_copy_of_the_transition() -> None:
    logits, labels = a_batch()
    transition = ASYMMETRIC.clone()
    modules = [ForwardLoss(transition), BackwardLoss(transition), ReweightLoss(transition)]
    before = [module(logits, labels).item() for module in modules]
    transition.fill_(0.25)
    assert [module(logits, labels).item() for module in modules] == before


@pytest.mark.parametrize("loss", [forward_nll, backward_nll, reweight_nll, volume_nll, total_variation_nll])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_array_or_a_list_counts_as_the_tensor_of_the_logits_type(loss, dtype):
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    labels, matrix = torch.tensor([0, 1]), [[0.8, 0.2], [0.3, 0.7]]
    expected = loss(logits, labels, torch.tensor(matrix, dtype=dtype))
    for given in (matrix, np.array(matrix), np.array(matrix, dtype=np.float32)):
        found = loss(logits, labels, given)
        assert found.dtype == dtype
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("module", [ForwardLoss, BackwardLoss, ReweightLoss])
def test_modules_take_an_array(module):
    logits, labels, matrix = torch.tensor([[2.0, 0.0]]), torch.tensor([0]), [[0.8, 0.2], [0.3, 0.7]]
    torch.testing.assert_close(
        module(np.array(matrix))(logits, labels), module(torch.tensor(matrix))(logits, labels)
    )


@pytest.mark.filterwarnings("error")
def test_a_frame_that_must_not_be_written_to_is_copied_without_a_word():
    logits, labels = a_batch()
    frame = pd.DataFrame(ASYMMETRIC.numpy())
    given = frame.to_numpy()
    given.flags.writeable = False
    expected = forward_nll(logits, labels, ASYMMETRIC)
    for matrix in (frame, given):
        torch.testing.assert_close(forward_nll(logits, labels, matrix), expected)


def test_what_is_not_a_loss_takes_arrays_of_t_too():
    logits, labels = a_batch()
    delta = 0.01 * (torch.eye(4, dtype=torch.float64) - 0.25)
    matrix, moved = ASYMMETRIC.numpy(), delta.numpy()
    torch.testing.assert_close(
        released_revision_nll(logits, labels, matrix, moved),
        released_revision_nll(logits, labels, ASYMMETRIC, delta),
    )
    assert log_volume(matrix) == log_volume(ASYMMETRIC)
    np.testing.assert_allclose(invert(matrix).numpy(), np.linalg.inv(matrix))
