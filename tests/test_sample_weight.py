"""Weights of rows in `TRevisionClassifier`: in losses, in selection and in T; and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import short_schedule
import torch

from trevision import TRevisionClassifier, losses
from trevision.data.noisy import split
from trevision.methods.registry import METHODS
from trevision.training.evaluate import Evaluation
from trevision.training.loop import Batch

FAST = replace(short_schedule.FAST, folds=2)
# For losses whose gradients are small at the start.
LONGER = replace(FAST, classifier=replace(FAST.classifier, epochs=12))


@pytest.fixture(scope="module")
def misled(blobs):
    """Rows of which all but a third have the label of the next class, and weights that say so."""
    rng = np.random.default_rng(1)
    right = rng.random(len(blobs.clean)) < 1 / 3
    labels = np.where(right, blobs.clean, (blobs.clean + 1) % 4)
    return blobs.x, labels, np.where(right, 1.0, 0.01)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_from_the_rows_that_count(method, blobs, misled):
    x, labels, weights = misled
    schedule = LONGER if method in ("gce", "sce", "tv", "volminnet") else FAST
    # Two thirds of the rows have wrong labels. They do not count, but would in a rate estimated by rows.
    rate = {"noise_rate": 0.05} if method in ("mentornet", "co-teaching") else {}
    model = TRevisionClassifier(method, schedule=schedule, random_state=0, **rate)
    weighted = model.fit(x, labels, weights).score(blobs.test_x, blobs.test_y)
    if method in ("mentornet", "co-teaching", "decoupling"):
        # They choose samples by agreement, whatever their weight: they only have to be led the right way.
        assert weighted > 0.6
    else:
        assert weighted > 0.9
    plain = TRevisionClassifier("standard", schedule=FAST, random_state=0).fit(x, labels)
    assert plain.score(blobs.test_x, blobs.test_y) < 0.3


def test_a_row_of_weight_zero_takes_no_part_to_the_bit(blobs):
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, size=len(blobs.noisy)).astype(float)
    kept = weights > 0
    schedule = replace(FAST, estimator="latent")
    whole = TRevisionClassifier(schedule=schedule, random_state=0).fit(blobs.x, blobs.noisy, weights)
    part = TRevisionClassifier(schedule=schedule, random_state=0)
    part.fit(blobs.x[kept], blobs.noisy[kept], weights[kept])
    assert np.array_equal(whole.predict_proba(blobs.test_x), part.predict_proba(blobs.test_x))
    assert np.array_equal(whole.transition_matrix_, part.transition_matrix_)
    table = whole.find_label_issues(bootstrap=0).to_frame()
    assert set(table["row"]) == set(np.flatnonzero(kept))
    assert (table["given"].to_numpy() == blobs.noisy[table["row"]]).all()


def test_only_ratios_of_weights_matter(blobs):
    weights = np.random.default_rng(0).random(len(blobs.noisy)) + 0.1

    def probs(factor: float) -> np.ndarray:
        model = TRevisionClassifier(schedule=FAST, random_state=0)
        return model.fit(blobs.x, blobs.noisy, factor * weights).predict_proba(blobs.test_x)

    np.testing.assert_allclose(probs(1.0), probs(1024.0), atol=1e-5)


def test_t_is_that_of_the_rows_that_count(blobs):
    """Half of the rows go wrong by one T, the others by its transpose: the heavy half decides."""
    rng = np.random.default_rng(0)
    heavy = rng.random(len(blobs.clean)) < 0.5
    flipped = rng.random(len(blobs.clean)) < 0.35
    labels = np.where(flipped, (blobs.clean + np.where(heavy, 1, -1)) % 4, blobs.clean)
    model = TRevisionClassifier("forward", random_state=0)
    model.fit(blobs.x, labels, np.where(heavy, 1.0, 0.02))
    planted = 0.65 * np.eye(4) + 0.35 * np.eye(4)[:, [3, 0, 1, 2]]
    assert planted[0, 1] == 0.35
    assert np.abs(model.transition_matrix_ - planted).max() < 0.12


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_of_a_batch_and_of_the_validation_rows_are_weighted_sums(weighted):
    rng = np.random.default_rng(0)
    logits, labels = torch.tensor(rng.normal(size=(6, 3))), torch.tensor([0, 2, 1, 1, 0, 2])
    weights = torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0, 0.1]) if weighted else None
    batch = Batch(logits, labels, torch.arange(6), 0, weights)
    probs = torch.softmax(logits, dim=1)
    expected = sum(
        (1.0 if weights is None else float(weights[n])) * -float(probs[n, labels[n]].log()) for n in range(6)
    )
    assert float(batch.mean(losses.cross_entropy, logits, labels)) == pytest.approx(expected / 6)

    x = torch.tensor(rng.normal(size=(40, 3)), dtype=torch.float32)
    codes = rng.integers(3, size=40)
    given = rng.random(40) + 0.01 if weighted else None
    data = split(x, codes, 0.4, num_classes=3, random_state=0, weights=given)

    class Logits(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x), None

    model = Logits(3, 3)
    metrics = Evaluation(data).measure(model, None)
    predicted = torch.softmax(model(data.valid_x)[0], dim=1).detach().numpy()
    own = np.ones(16) if given is None else given[data.valid_rows]
    wrong = [predicted[n].argmax() != codes[row] for n, row in enumerate(data.valid_rows)]
    loss = [-np.log(predicted[n, codes[row]]) for n, row in enumerate(data.valid_rows)]
    assert metrics["noisy_validation_error"] == pytest.approx(own @ wrong / own.sum(), rel=1e-5)
    assert metrics["noisy_validation_loss"] == pytest.approx(own @ loss / own.sum(), rel=1e-5)


def test_soft_cross_entropy_is_the_loss_of_weighted_copies():
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    clean = torch.tensor(rng.dirichlet(np.ones(3), size=5))
    copies = losses.cross_entropy(
        logits.repeat_interleave(3, dim=0), torch.arange(3).repeat(5), reduction="none"
    )
    expected = (copies.reshape(5, 3) * clean).sum(dim=1)
    torch.testing.assert_close(losses.soft_cross_entropy(logits, clean, reduction="none"), expected)
    torch.testing.assert_close(losses.soft_cross_entropy(logits, clean), expected.mean())
    sure = torch.eye(3, dtype=torch.float64)[[0, 2, 1, 1, 0]]
    torch.testing.assert_close(
        losses.soft_cross_entropy(logits, sure), losses.cross_entropy(logits, torch.tensor([0, 2, 1, 1, 0]))
    )
    assert losses.soft_cross_entropy(1e4 * logits, clean).isfinite()
    assert torch.autograd.gradcheck(lambda z: losses.soft_cross_entropy(z, clean), logits)
    with pytest.raises(ValueError, match=r"must be \(n, C\), got \(5, 3\) and \(4, 3\)"):
        losses.soft_cross_entropy(logits, clean[:4])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1, -2, 1, 1, 1], "sample_weight must not be negative, got -2 in row 2; a weight of 0 leaves"),
        ([1, np.nan, 1, 1, 1, 1], "sample_weight must be finite, got NaN or infinity"),
        ([1, 1], r"sample_weight must be one number a row, \(6,\), got shape \(2,\)"),
        (np.ones((6, 1)), r"sample_weight must be one number a row, \(6,\), got shape \(6, 1\)"),
        ([0] * 6, "at least one non-zero weight, got only zeros"),
        ([1, 0, 1, 0, 1, 0], "at least two classes"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        TRevisionClassifier().fit(np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1], weights)
