"""What is known of T: projections against closed forms, and T learnt under true and false knowledge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from trevision import noise
from trevision.admissible import Admissible, entropy_of_mistakes, penalty
from trevision.estimation import transition_error
from trevision.losses import forward_nll, reweight_nll
from trevision.prior import Prior, parse
from trevision.transition import Transition

MASK = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 1]], dtype=bool)
EVEN_MASK = MASK | MASK.T
ROW = np.array([0.1, 0.7, 0.2, 0.0])
MASK_WITH_ROW = np.where(np.arange(4)[:, None] == 1, ROW > 0, MASK)
SURE = np.eye(4)[1]

PRIORS = {
    "nothing": Prior(),
    "support": Prior(support=MASK),
    "known": Prior(known_rows={1: ROW}),
    "symmetric": Prior(symmetric=True),
    "dominant": Prior(dominant=True),
    "support, known, dominant": Prior(support=MASK_WITH_ROW, known_rows={1: ROW}, dominant=True),
    "support, symmetric": Prior(support=EVEN_MASK, symmetric=True),
    "known, symmetric": Prior(known_rows={1: ROW}, symmetric=True),
    "all": Prior(support=EVEN_MASK, known_rows={1: SURE}, symmetric=True, dominant=True),
}


def some_matrix(seed: int, concentration: float = 1.0, size: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(size, concentration), size=size)


def assert_admitted(matrix: np.ndarray, prior: Prior, tolerance: float = 1e-12) -> None:
    """The definition of each set, entry by entry."""
    size = len(matrix)
    assert matrix.min() >= 0
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=tolerance)
    for i in range(size):
        for j in range(size):
            if prior.support is not None and not np.asarray(prior.support)[i, j]:
                assert matrix[i, j] == 0
            if prior.symmetric:
                assert matrix[i, j] == pytest.approx(matrix[j, i], abs=tolerance)
            if prior.dominant:
                assert matrix[i, i] >= matrix[i, j] - tolerance
    for i, row in (prior.known_rows or {}).items():
        np.testing.assert_allclose(matrix[i], row, rtol=0, atol=1e-7)


# ---- the projection of an estimate


@pytest.mark.parametrize("name", PRIORS)
@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), concentration=st.sampled_from([0.05, 0.3, 1.0, 10.0]))
def test_projections_are_admitted_and_then_stay_where_they_are(name, seed, concentration) -> None:
    prior = PRIORS[name]
    projected = prior.project(some_matrix(seed, concentration))
    assert_admitted(projected, prior)
    np.testing.assert_allclose(prior.project(projected), projected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("matrix", "prior"),
    [
        (noise.pair_flip(4, 0.4), Prior(support=noise.pair_flip(4, 0.4) > 0, dominant=True)),
        (noise.symmetric(4, 0.7), Prior(symmetric=True, dominant=True)),
        (np.array([[0.5, 0.5, 0.0], [0.5, 0.2, 0.3], [0.0, 0.3, 0.7]]), Prior(symmetric=True)),
        (np.array([[0.2, 0.8], [0.8, 0.2]]), Prior(symmetric=True)),
    ],
)
def test_admitted_matrices_are_left_as_they_are_with_their_zeros(matrix: np.ndarray, prior: Prior) -> None:
    np.testing.assert_allclose(prior.project(matrix), matrix, rtol=0, atol=1e-12)
    assert np.array_equal(prior.project(matrix) == 0, matrix == 0)


def test_a_support_conditions_each_row_on_what_is_possible() -> None:
    matrix = some_matrix(0)
    projected = Prior(support=MASK).project(matrix)
    for i in range(4):
        possible = sum(matrix[i, j] for j in range(4) if MASK[i, j])
        for j in range(4):
            assert projected[i, j] == pytest.approx(matrix[i, j] / possible if MASK[i, j] else 0)


def test_a_row_that_is_impossible_as_a_whole_is_taken_for_right() -> None:
    projected = Prior(support=np.eye(3)).project([[0.0, 0.5, 0.5], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    assert np.array_equal(projected, np.eye(3))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.2, 0.5, 0.3], [0.35, 0.35, 0.3]),  # pooled with one
        ([0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3]),  # with both
        ([0.0, 0.9, 0.1], [0.45, 0.45, 0.1]),
        ([0.4, 0.3, 0.3], [0.4, 0.3, 0.3]),  # largest, though below 1/2
    ],
)
def test_a_diagonal_that_is_too_small_is_pooled_with_what_is_above_it(row, expected) -> None:
    matrix = np.array([row, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(Prior(dominant=True).project(matrix)[0], expected, atol=1e-12)


def test_rows_made_dominant_are_the_likeliest_dominant_rows() -> None:
    matrix = some_matrix(3, 0.5, size=5)
    projected = Prior(dominant=True).project(matrix)
    assert (matrix.max(axis=1) > matrix.diagonal()).sum() >= 3
    for i in range(5):
        others = [j for j in range(5) if j != i]
        constraints = [{"type": "ineq", "fun": lambda q, i=i, j=j: q[i] - q[j]} for j in others]
        constraints.append({"type": "eq", "fun": lambda q: q.sum() - 1})
        found = minimize(
            lambda q, i=i: -(matrix[i] * np.log(q)).sum(),
            np.full(5, 0.2),
            bounds=[(1e-9, 1)] * 5,
            constraints=constraints,
            options={"ftol": 1e-12},
        )
        np.testing.assert_allclose(projected[i], found.x, atol=1e-3)


def test_symmetry_of_two_classes_has_a_closed_form() -> None:
    # D A D with A the mean of T and T': its off-diagonal x has (1 - x)^2 / x^2 = a00 a11 / a01^2.
    matrix = np.array([[0.9, 0.1], [0.4, 0.6]])
    x = 1 / (1 + np.sqrt(0.9 * 0.6) / 0.25)
    np.testing.assert_allclose(Prior(symmetric=True).project(matrix), [[1 - x, x], [x, 1 - x]], atol=1e-12)


@pytest.mark.parametrize("size", [3, 10])
def test_symmetry_scales_the_mean_of_t_and_its_transpose(size: int) -> None:
    matrix = 0.5 * some_matrix(1, size=size) + 0.5 * np.eye(size)
    projected = Prior(symmetric=True).project(matrix)
    ratio = projected / ((matrix + matrix.T) / 2)
    scale = np.sqrt(ratio.diagonal())
    np.testing.assert_allclose(ratio, np.outer(scale, scale), rtol=1e-9)
    np.testing.assert_allclose(projected.sum(axis=0), 1, atol=1e-12)


def test_symmetry_averages_a_matrix_whose_columns_sum_to_1() -> None:
    pair = noise.pair_flip(5, 0.4)
    np.testing.assert_allclose(Prior(symmetric=True).project(pair), (pair + pair.T) / 2, atol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), concentration=st.sampled_from([0.05, 0.3, 1.0, 10.0]))
def test_the_projection_is_the_one_that_learning_starts_from(name, seed, concentration) -> None:
    # One is numpy, on shares; the other torch, on their logarithms.
    prior, matrix = PRIORS[name], some_matrix(seed, concentration)
    mean = (matrix + matrix.T) / 2 if prior.symmetric else matrix
    learnt = Admissible(prior, 4).nearest(torch.from_numpy(mean)).numpy()
    np.testing.assert_allclose(prior.project(matrix), learnt, rtol=0, atol=1e-12)


# ---- sparsity


def test_the_entropy_of_mistakes_is_that_of_each_row_without_its_diagonal() -> None:
    matrix = some_matrix(2)
    total = 0.0
    for i in range(4):
        for j in range(4):
            if j != i:
                share = matrix[i, j] / (1 - matrix[i, i])
                total -= share * np.log(share) / 4
    assert entropy_of_mistakes(torch.from_numpy(matrix)).item() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.7])
def test_sparsity_tells_one_kind_of_mistake_from_many_and_not_few_from_frequent(rate: float) -> None:
    pair, even = (torch.from_numpy(make(6, rate)) for make in (noise.pair_flip, noise.symmetric))
    assert entropy_of_mistakes(pair).item() == pytest.approx(0, abs=1e-12)
    assert entropy_of_mistakes(even).item() == pytest.approx(np.log(5))
    module = Transition(torch.from_numpy(some_matrix(2)), "simplex")
    entropy_of_mistakes(module.matrix).backward()
    assert module.free is not None
    assert module.free.grad is not None
    assert module.free.grad.diagonal().abs().max() < 1e-12
    assert module.free.grad.abs().max() > 1e-2


def test_classes_without_mistakes_have_no_entropy_of_them() -> None:
    assert entropy_of_mistakes(torch.eye(3)).item() == 0


def test_the_penalty_has_finite_slopes_at_exact_zeros() -> None:
    module = Transition(torch.from_numpy(some_matrix(8)), "simplex", Prior(support=MASK))
    penalty(Prior(sparsity=2.0), module.matrix).backward()
    assert module.free is not None
    assert module.free.grad is not None
    assert module.free.grad.isfinite().all()
    assert (module.free.grad[2].abs() > 1e-3).any()
    assert (module.free.grad[~torch.from_numpy(MASK)] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_penalty_leaves_a_class_that_cannot_be_mislabelled_alone(dtype: torch.dtype) -> None:
    support = MASK.copy()
    support[1] = [False, True, False, False]
    start = torch.from_numpy(some_matrix(8)).to(dtype)
    module = Transition(start, "simplex", Prior(support=support))
    assert module.free is not None
    before = entropy_of_mistakes(module.matrix).item()
    optimizer = torch.optim.Adam([module.free], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        penalty(Prior(sparsity=5.0), module.matrix).backward()
        optimizer.step()
    matrix = module.matrix
    assert matrix[1].tolist() == [0, 1, 0, 0]
    assert matrix.isfinite().all()
    assert entropy_of_mistakes(matrix).item() < 0.9 * before


# ---- the layer that learns


@pytest.mark.parametrize("name", PRIORS)
def test_learning_starts_at_the_projected_estimate(name: str) -> None:
    matrix = some_matrix(4)
    for parameterisation in ("simplex", "frozen"):
        module = Transition(torch.from_numpy(matrix), parameterisation, PRIORS[name])  # type: ignore[arg-type]
        assert module.delta.abs().max() < 1e-5
        np.testing.assert_allclose(module.initial.numpy(), PRIORS[name].project(matrix), atol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.1, 1.0, 5.0, 100.0, 1e4]))
def test_no_move_leaves_what_the_prior_admits(name: str, seed: int, scale: float) -> None:
    module = Transition(torch.from_numpy(some_matrix(seed)), "simplex", PRIORS[name])
    assert module.free is not None
    with torch.no_grad():
        module.free.copy_(scale * torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)))
    matrix = module.matrix
    assert_admitted(matrix.detach().numpy(), PRIORS[name], tolerance=1e-9)
    matrix.square().sum().backward()
    assert module.free.grad is not None
    assert module.free.grad.isfinite().all()


@pytest.mark.parametrize("name", PRIORS)
def test_slopes_are_finite_differences(name: str) -> None:
    logits = torch.log(torch.from_numpy(some_matrix(5))).requires_grad_()
    assert torch.autograd.gradcheck(Admissible(PRIORS[name], 4), logits)


@pytest.mark.parametrize("loss", [forward_nll, reweight_nll])
def test_the_losses_move_what_is_unknown_and_nothing_else(loss) -> None:
    prior = PRIORS["support, known, dominant"]
    module = Transition(torch.from_numpy(some_matrix(6)), "simplex", prior)
    logits = torch.randn(64, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss(logits, torch.arange(64) % 4, module.matrix).backward()
    assert module.free is not None
    assert module.free.grad is not None
    moved = module.free.grad.abs() > 1e-9
    assert np.array_equal(moved.numpy(), MASK & (np.arange(4) != 1)[:, None])


def test_entries_that_met_at_the_edge_of_dominance_can_part_again() -> None:
    module = Transition(
        torch.tensor([[0.55, 0.45], [0.0, 1.0]], dtype=torch.float64), "simplex", Prior(dominant=True)
    )
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05)

    def learn(wanted: float) -> float:
        for _ in range(80):
            optimiser.zero_grad()
            (module.matrix[0, 0] - wanted).square().backward()
            optimiser.step()
        return module.matrix[0, 0].item()

    assert learn(0.3) == pytest.approx(0.5, abs=0.01)
    assert learn(0.8) == pytest.approx(0.8, abs=0.01)


def test_a_symmetric_t_learns_a_symmetric_target_exactly() -> None:
    target = torch.tensor([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7]], dtype=torch.float64)
    module = Transition(torch.from_numpy(some_matrix(7, size=3)), "simplex", Prior(symmetric=True))
    optimiser = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(120):
        optimiser.zero_grad()
        (module.matrix - target).square().sum().backward()
        optimiser.step()
    torch.testing.assert_close(module.matrix, target, rtol=0, atol=1e-3)


@pytest.mark.parametrize("parameterisation", ["slack", "projected"])
def test_parameterisations_that_would_leave_it_are_refused(parameterisation) -> None:
    with pytest.raises(ValueError, match=f"simplex or frozen, .* got {parameterisation}"):
        Transition(torch.eye(3), parameterisation, Prior(symmetric=True))


def test_a_prior_adds_nothing_to_what_is_saved() -> None:
    plain = Transition(torch.eye(4), "simplex")
    informed = Transition(torch.eye(4), "simplex", PRIORS["all"])
    assert plain.state_dict().keys() == informed.state_dict().keys()


# ---- true and false knowledge, on generated data


def labelled_rows(transition: np.ndarray, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Logits of the exact clean posterior of Gaussian classes 3 from the origin, and noisy labels."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(len(transition), size=n)
    x = 3 * np.eye(len(transition))[clean] + rng.normal(size=(n, len(transition)))
    return torch.from_numpy(3 * x), torch.from_numpy(noise.corrupt(clean, transition, rng))


def error_of_learnt(transition: np.ndarray, prior: Prior | None, seed: int) -> float:
    """The error of a T learnt by the Forward loss from 300 rows, with the clean posterior known."""
    logits, labels = labelled_rows(transition, 300, seed)
    start = torch.from_numpy(0.8 * transition + 0.2 / len(transition))
    module = Transition(start, "simplex", prior)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(100):
        optimiser.zero_grad()
        loss = forward_nll(logits, labels, module.matrix)
        if prior is not None:
            loss = loss + penalty(prior, module.matrix)
        loss.backward()
        optimiser.step()
    return transition_error(module.matrix.detach().numpy(), transition)


PAIR, EVEN = noise.pair_flip(5, 0.45), noise.symmetric(5, 0.4)
WITHOUT_A_FLIP = np.where(np.arange(25).reshape(5, 5) == 1, 0, PAIR > 0)


@pytest.mark.parametrize(
    ("transition", "prior", "margin"),
    [
        (PAIR, Prior(support=PAIR > 0), 0.005),
        (PAIR, Prior(known_rows={1: PAIR[1], 3: PAIR[3]}), 0.01),
        (PAIR, Prior(dominant=True), 0.03),  # near 1/2, samples of 60 rows a class often say otherwise
        (PAIR, Prior(sparsity=0.3), 0.003),
        (EVEN, Prior(symmetric=True), 0.04),
    ],
    ids=["support", "known rows", "dominance", "sparsity", "symmetry"],
)
def test_a_true_prior_lowers_the_error_of_t(transition: np.ndarray, prior: Prior, margin: float) -> None:
    assert error_of_learnt(transition, prior, 0) < error_of_learnt(transition, None, 0) - margin


@pytest.mark.parametrize(
    ("transition", "prior", "margin"),
    [
        (PAIR, Prior(symmetric=True), 0.3),
        (PAIR, Prior(support=WITHOUT_A_FLIP), 0.15),
        (PAIR, Prior(known_rows={1: np.eye(5)[1]}), 0.15),
        (noise.pair_flip(5, 0.7), Prior(dominant=True), 0.2),
        (EVEN, Prior(sparsity=0.3), 0.1),
    ],
    ids=["symmetry", "support", "known rows", "dominance", "sparsity"],
)
def test_a_false_prior_raises_the_error_of_t(transition: np.ndarray, prior: Prior, margin: float) -> None:
    assert error_of_learnt(transition, prior, 0) > error_of_learnt(transition, None, 0) + margin


# ---- refusals


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (Prior(support=np.ones((3, 4))), r"support must be \(C, C\) for 4 classes, got shape \(3, 4\)"),
        (Prior(support=np.full((4, 4), 0.5)), "true or false, 1 or 0, got 0.5"),
        (Prior(support=1 - np.eye(4)), "its own label, got 0 in row 0, column 0"),
        (
            Prior(support=MASK, symmetric=True),
            r"support must be symmetric .* 1 for \(0, 1\) and 0 for \(1, 0\)",
        ),
        (Prior(known_rows={4: ROW}), "known_rows must be of classes 0 to 3, got 4"),
        (Prior(known_rows={1: ROW[:3]}), "known_rows must hold 4 probabilities"),
        (Prior(known_rows={1: ROW + 0.1}), "that sum to 1, got .* for class 1"),
        (Prior(known_rows={1: [np.nan, 1, 0, 0]}), "known_rows must hold 4 probabilities"),
        (Prior(known_rows={1: ROW}, support=MASK), r"lie in the support, got 0.1 for \(1, 0\)"),
        (Prior(known_rows={0: ROW}, dominant=True), "got 0.1 for the right label of class 0 and 0.7"),
        (Prior(known_rows={0: ROW, 1: ROW}, symmetric=True), "agree with each other"),
        (
            Prior(known_rows={0: [0.5, 0, 0, 0.5], 1: [0, 0.4, 0, 0.6]}, symmetric=True),
            "leave the other rows",
        ),
        (Prior(known_rows={1: ROW}, symmetric=True, dominant=True), "leave one of the three out"),
        (Prior(sparsity=-1.0), "sparsity must be a finite weight of at least 0, got -1.0"),
    ],
)
def test_knowledge_that_does_not_fit_is_named(prior: Prior, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prior.project(np.eye(4))


def test_a_prior_is_said_in_words() -> None:
    assert parse("symmetric + sparse=0.01+support=masks/m.csv") == {
        "symmetric": "", "sparse": "0.01", "support": "masks/m.csv",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "sym", "symmetric=1", "support", "sparse=", "dominant+dominant", "sparse=0", "sparse=much"]
)
def test_words_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="prior must"):
        parse(text)
