"""Intervals against closed forms, brute force and simulated audits."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import beta, binom

from trevision.audit import audit_plan, count_interval
from trevision.audit.intervals import _distribution


def test_one_large_stratum_is_the_interval_of_clopper_and_pearson():
    size = 10**7
    for found in (0, 1, 5, 29, 30):
        told = count_interval(np.array([found]), np.array([30]), np.array([size]))
        low = 0 if found == 0 else beta.ppf(0.05, found, 31 - found)
        high = 1 if found == 30 else beta.ppf(0.95, found + 1, 30 - found)
        assert [told.low / size, told.high / size] == pytest.approx([low, high], rel=0.003)


def test_with_nothing_found_the_upper_end_is_the_worst_division_of_all():
    drawn, sizes = np.array([4, 3, 5]), np.array([40, 12, 20])

    def missed(counts: tuple[int, ...]) -> float:
        """The chance to find none of these, by counting the draws without them."""
        ways = [comb(int(n - k), int(m)) / comb(int(n), int(m)) for n, k, m in zip(sizes, counts, drawn)]  # noqa: B905
        return float(np.prod(ways))

    limits = sizes - drawn
    possible = product(*(range(limit + 1) for limit in limits))
    largest = max(sum(counts) for counts in possible if missed(counts) > 0.05)
    told = count_interval(np.zeros(3), drawn, sizes)
    assert told.low == told.estimate == 0
    assert largest <= told.high <= largest + 1


def test_the_distribution_is_that_of_all_draws():
    units, counts, drawn, sizes = np.array([3, 2]), np.array([2.0, 3.0]), np.array([2, 3]), np.array([5, 6])
    law = np.zeros(int(units @ drawn) + 1)
    for one, two in product(range(3), range(4)):
        ways = comb(2, one) * comb(3, 2 - one) * comb(3, two) * comb(3, 3 - two)
        law[3 * one + 2 * two] += ways / comb(5, 2) / comb(6, 3)
    assert np.allclose(_distribution(units, counts, drawn, sizes), law)


def test_a_census_leaves_no_doubt():
    sizes = np.array([5, 7])
    told = count_interval(np.array([2, 1]), sizes, sizes)
    assert (told.estimate, told.low, told.high) == (3, 3, 3)


def test_no_interval_leaves_what_was_seen_and_what_is_possible():
    found, drawn, sizes = np.array([0, 2]), np.array([5, 5]), np.array([100, 20])
    told = count_interval(found, drawn, sizes, most=np.array([3, 9]))
    assert 2 <= told.low <= told.estimate <= told.high <= 12


@pytest.mark.parametrize(("rate", "auc"), [(0.02, 0.9), (0.14, 0.5), (0.14, 0.95), (0.4, 0.3)])
def test_intervals_hold_the_truth_as_often_as_they_say(rate, auc):
    """120 audits of 80 rows; a coverage of 90% is missed by chance below 83% once in a hundred times."""
    rng = np.random.default_rng(5)
    wrong = rng.random(3000) < rate
    # Uniform numbers, those of wrong labels raised to a power: the AUC is 1 / (1 + power).
    scores = rng.random(3000) ** np.where(wrong, 1 / auc - 1, 1)
    held = 0
    for seed in range(120):
        plan = audit_plan(scores * 0.9, np.zeros(3000, dtype=int), 80, seed)
        found = np.bincount(plan.strata[plan.rows[wrong[plan.rows]]], minlength=len(plan.sizes))
        told = count_interval(found, plan.drawn, plan.sizes)
        held += told.low <= wrong.sum() <= told.high
    assert held >= binom.ppf(0.01, 120, 0.9)


def test_good_scores_narrow_the_interval_and_useless_ones_hardly_widen_it():
    """Mean widths over 40 audits of 100 rows at 14% wrong labels, beside Wilson's interval."""
    from benchmarks.audit import binormal, trials

    def ratio(auc: float, looks: float | None = None) -> float:
        return trials("", lambda seed: binormal(np.random.default_rng(seed), auc, looks), 40)["ratio"]

    assert ratio(0.95) < 0.66
    assert ratio(0.85) < 0.88
    assert ratio(0.5, 0.95) < 1.13


def test_finding_a_wrong_label_never_lowers_the_upper_end():
    drawn, sizes = np.full(4, 4), np.array([900, 500, 200, 20])
    nothing = count_interval(np.zeros(4), drawn, sizes).high
    for stratum in range(4):
        assert count_interval(np.eye(4)[stratum], drawn, sizes).high >= nothing - 1e-6
