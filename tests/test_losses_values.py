"""Values that are no labels, no T or no numbers: a clear error, or NaN, never a number that looks right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from trevision.losses import (
    BackwardLoss,
    backward_nll,
    cross_entropy,
    forward_nll,
    generalised_cross_entropy,
    reweight_nll,
    symmetric_cross_entropy,
)
from trevision.losses import corrected as module

Loss = Callable[..., Tensor]

MATRIX = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.25, 0.15, 0.6]], dtype=torch.float64)
CORRECTED = [forward_nll, backward_nll, reweight_nll, partial(reweight_nll, live_weight=True)]
LOSSES = [partial(loss, transition=MATRIX) for loss in CORRECTED]
LOSSES += [cross_entropy, generalised_cross_entropy, symmetric_cross_entropy]
LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], dtype=torch.float64)
LABELS = torch.tensor([0, 2])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0, 2**40]])
def test_labels_that_are_no_classes_are_refused_with_their_range(loss: Loss, labels: list[int]) -> None:
    with pytest.raises(ValueError, match="noisy_labels must lie in 0 to 2, the classes, got"):
        loss(LOGITS, torch.tensor(labels))


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_no_tensor_of_whole_numbers_is_refused_with_the_repair(loss: Loss) -> None:
    with pytest.raises(
        ValueError, match=r"noisy_labels must be a tensor, got ndarray; write torch.as_tensor"
    ):
        loss(LOGITS, LABELS.numpy())
    with pytest.raises(ValueError, match="logits must be a tensor, got list"):
        loss(LOGITS.tolist(), LABELS)
    with pytest.raises(ValueError, match="noisy_labels must be whole numbers, got"):
        loss(LOGITS, torch.tensor([0.0, 1.5]))


@pytest.mark.parametrize("loss", LOSSES)
def test_logits_that_are_nan_give_a_loss_that_is_nan(loss: Loss) -> None:
    assert loss(LOGITS * torch.nan, LABELS).isnan()
    half = LOGITS.clone()
    half[1, 0] = torch.nan
    each = loss(half, LABELS, reduction="none")
    assert each.isnan().tolist() == [False, True]


@pytest.mark.parametrize("loss", CORRECTED)
def test_a_transition_with_nan_is_refused_or_gives_nan_and_never_zero(loss: Loss) -> None:
    broken = MATRIX.clone()
    broken[:, 0] = torch.nan
    if loss is backward_nll:
        with pytest.raises(ValueError, match="transition must hold finite numbers"):
            loss(LOGITS, LABELS, broken)
    else:
        assert loss(LOGITS, LABELS, broken).isnan()


@pytest.mark.parametrize("loss", CORRECTED)
def test_a_transition_may_be_an_array(loss: Loss) -> None:
    torch.testing.assert_close(loss(LOGITS, LABELS, MATRIX.numpy()), loss(LOGITS, LABELS, MATRIX))


@pytest.mark.parametrize("loss", CORRECTED)
def test_losses_can_be_mapped_over_rows(loss: Loss) -> None:
    each = torch.func.vmap(lambda row, label: loss(row[None], label[None], MATRIX))(LOGITS, LABELS)
    torch.testing.assert_close(each, loss(LOGITS, LABELS, MATRIX, reduction="none"))


@pytest.mark.filterwarnings("ignore")  # of torch's own, and Backward's condition number breaks its graph
@pytest.mark.parametrize("loss", CORRECTED)
def test_losses_can_be_compiled(loss: Loss) -> None:
    compiled = torch.compile(loss, backend="eager")
    torch.testing.assert_close(compiled(LOGITS, LABELS, MATRIX), loss(LOGITS, LABELS, MATRIX))


def of_many_classes(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """A T of few classes that is treated as one of many."""
    monkeypatch.setattr(module, "MOST_INVERTED", 2)
    rng = np.random.default_rng(0)
    return torch.from_numpy(0.7 * np.eye(20) + 0.3 * rng.dirichlet(np.ones(20), 20))


def test_many_classes_give_the_same_backward_loss_and_gradients(monkeypatch) -> None:
    matrix = of_many_classes(monkeypatch)
    logits, labels = torch.randn(7, 20, dtype=torch.float64), torch.tensor([3, 3, 0, 19, 7, 3, 1])
    expected = -(torch.linalg.inv(matrix)[labels] * logits.log_softmax(1)).sum(1)
    torch.testing.assert_close(backward_nll(logits, labels, matrix, reduction="none"), expected)
    torch.testing.assert_close(BackwardLoss(matrix)(logits, labels, reduction="none"), expected)
    arguments = logits[:, :].requires_grad_(), matrix.requires_grad_()
    assert torch.autograd.gradcheck(lambda z, t: backward_nll(z, labels, t), arguments)


def test_the_estimated_condition_number_is_near_the_true_one(monkeypatch) -> None:
    matrix = of_many_classes(monkeypatch)
    for each in (matrix, torch.linalg.inv(matrix)):
        estimated = module._norm(each.mv, each.t().mv, each)
        torch.testing.assert_close(estimated, torch.linalg.matrix_norm(each, 2).item(), rtol=0.02, atol=0)


@pytest.mark.parametrize("by", [0.0, 1e-9])
def test_a_singular_transition_of_many_classes_is_refused_too(monkeypatch, by: float) -> None:
    matrix = of_many_classes(monkeypatch)
    matrix[1] = matrix[0] + by * matrix[2]
    for use in (BackwardLoss, lambda t: backward_nll(torch.zeros(1, 20), torch.tensor([0]), t)):
        with pytest.raises(ValueError, match=r"transition must be invertible|rows that sum to 1"):
            use(matrix)
