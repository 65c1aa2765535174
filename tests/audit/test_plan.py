"""Audit plans: every row has the known chance, the plan grows from its beginning, bad scores cost little."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.audit import audit_plan
from trevision.audit.plan import PRICE, STRATA


def skewed(rows: int = 600, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.beta(0.3, 2, size=rows), rng.choice(classes, size=rows, p=[0.7, 0.25, 0.05])


def test_each_row_is_drawn_as_often_as_its_inclusion_probability_says():
    scores, given = skewed(60)
    counts, expected = np.zeros(60), np.zeros(60)
    draws = 2000
    for seed in range(draws):
        # The strata are the same for every seed: no two scores are equal.
        plan = audit_plan(scores, given, 25, seed)
        counts[plan.rows] += 1
        expected += (plan.drawn / plan.sizes)[plan.strata]
    # 4.5 standard deviations of a binomial count, over 60 rows.
    spread = np.sqrt(expected * (1 - expected / draws))
    assert (np.abs(counts - expected) <= 4.5 * spread + 1e-9).all()


def test_every_stratum_has_a_row_and_the_most_suspicious_have_the_best_chance():
    scores, given = skewed()
    plan = audit_plan(scores, given, 100)
    assert len(set(plan.rows.tolist())) == 100
    assert (plan.drawn == 10).all()
    chance = (plan.drawn / plan.sizes)[plan.strata]
    assert chance[np.argmax(scores)] > 2 * chance[np.argmin(scores)]
    assert np.allclose(plan.inclusion, chance[plan.rows])


@pytest.mark.parametrize("rows", [37, 250, 600])
def test_a_longer_plan_begins_with_the_shorter(rows):
    plan = audit_plan(*skewed(), 30, 7)
    assert plan.of(rows).rows[:30].tolist() == plan.rows.tolist()
    assert sorted(plan.of(600).rows.tolist()) == list(range(600))


@pytest.mark.parametrize("power", [0.2, 1, 5, 40])
def test_scores_that_know_nothing_raise_the_variance_by_no_more_than_the_price(power):
    scores = np.random.default_rng(0).random(5000) ** power
    plan = audit_plan(scores, np.zeros(5000, dtype=int), 100)
    # With the same rate p everywhere, V = p (1 - p) sum_h W_h^2 / n_h; a simple sample has p (1 - p) / n.
    weights = plan.sizes / 5000
    assert 100 * (weights**2 / plan.drawn).sum() <= PRICE + 1e-9


def test_equal_scores_give_a_sample_that_is_spread_over_the_classes():
    given = np.repeat([0, 1, 2, 3], [400, 300, 200, 100])
    counts = [np.bincount(given[audit_plan(np.full(1000, 0.1), given, 100, seed).rows]) for seed in range(40)]
    # A simple random sample has a standard deviation of 4.9, 4.6, 4 and 3.
    assert (np.std(counts, axis=0) < [4.9, 4.6, 4, 3]).all()
    assert np.abs(np.mean(counts, axis=0) - [40, 30, 20, 10]).max() < 2


@pytest.mark.parametrize(
    ("scores", "given", "rows", "says"),
    [
        ([0.1, np.nan], [0, 1], 2, "probabilities"),
        ([0.1, 1.2], [0, 1], 2, "probabilities"),
        ([0.1, 0.2], [0], 2, "given_labels"),
        ([0.1, 0.2], [0.0, 1.0], 2, "given_labels"),
        (np.linspace(0, 1, 50), np.zeros(50, int), 51, "rows must lie in"),
        (np.linspace(0, 1, 50), np.zeros(50, int), STRATA - 1, "rows must lie in"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(scores, given, rows, says):
    with pytest.raises(ValueError, match=says):
        audit_plan(scores, given, rows)
