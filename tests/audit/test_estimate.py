"""What an audit tells, against a truth that was planted."""

from __future__ import annotations

import numpy as np
import pytest

from trevision.audit import audit_estimate, audit_plan
from trevision.audit.transition import joined_counts
from trevision.noise import corrupt

FLIPS = np.array([[0.8, 0.2, 0.0], [0.0, 0.95, 0.05], [0.1, 0.0, 0.9]])


def planted(rows: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=rows)
    given = corrupt(clean, FLIPS, random_state=1)
    scores = np.clip(0.1 + 0.5 * (given != clean) + rng.normal(scale=0.2, size=rows), 0.001, 0.999)
    return clean, given, scores


def test_estimates_are_right_on_average():
    """Horvitz and Thompson: the mean over audits of every count is the count."""
    clean, given, scores = planted()
    wrong, order = clean != given, np.argsort(-scores)
    truth = [wrong.sum(), (wrong & (given == 1)).sum(), wrong[order[:500]].sum(), wrong[order[500:]].sum()]
    told = []
    for seed in range(30):
        plan = audit_plan(scores, given, 60, seed)
        said = audit_estimate(plan, clean[plan.rows], order=order, suspects=500)
        told.append([said.wrong.estimate, said.by_class[1].wrong.estimate, said.listed.within.estimate,
                     said.listed.beyond.estimate])  # fmt: skip
    off = np.abs(np.mean(told, axis=0) - truth) / (np.std(told, axis=0) / np.sqrt(30))
    assert off.max() < 3.5


def test_rows_that_cannot_be_told_widen_both_ends():
    clean, given, scores = planted()
    plan = audit_plan(scores, given, 100)
    answers = clean[plan.rows].copy()
    answers[10:30] = -1
    unsure = audit_estimate(plan, answers)
    as_right, as_wrong = answers.copy(), answers.copy()
    as_right[10:30] = given[plan.rows[10:30]]
    as_wrong[10:30] = (given[plan.rows[10:30]] + 1) % 3
    assert unsure.cannot_tell == 20
    assert unsure.wrong.low == audit_estimate(plan, as_right).wrong.low
    assert unsure.wrong.high == audit_estimate(plan, as_wrong).wrong.high
    assert unsure.untold.low <= 0.2 * 4000 <= unsure.untold.high


def test_all_rows_audited_is_a_count():
    clean, given, scores = planted(300)
    plan = audit_plan(scores, given, 300)
    told = audit_estimate(plan, clean[plan.rows], order=np.argsort(-scores), suspects=40)
    assert told.wrong.low == told.wrong.high == (clean != given).sum()
    for one in told.pairs:
        assert one.wrong.high == ((clean == one.clean) & (given == one.given)).sum()
    assert told.width_then == 0


def test_a_class_that_was_hardly_looked_at_is_said_to_be_unknown():
    clean, given, scores = planted()
    given, clean = given.copy(), clean.copy()
    given[:8], clean[:8] = 3, 3
    plan = audit_plan(scores, given, 40)
    told = audit_estimate(plan, clean[plan.rows])
    assert not told.by_class[3].told
    assert told.by_class[3].wrong.high <= 8
    assert told.by_class[0].rows == (given == 0).sum()


def test_more_rows_promise_and_give_a_narrower_interval():
    clean, given, scores = planted()
    widths, promised = [], []
    for seed in range(8):
        plan = audit_plan(scores, given, 60, seed)
        told = audit_estimate(plan, clean[plan.rows])
        longer = plan.of(60 + told.more_rows)
        promised.append(told.width_then)
        widths.append(audit_estimate(longer, clean[longer.rows]).wrong.width)
        assert told.width_then < told.wrong.width
    assert np.mean(promised) == pytest.approx(np.mean(widths), rel=0.15)
    assert told.rows_until(0.5) == 0
    assert told.rows_until(0.001) > 60


def test_a_model_that_foretold_the_answers_is_believed_and_one_that_did_not_is_not():
    rng = np.random.default_rng(2)
    clean = rng.integers(3, size=300)
    given = corrupt(clean, FLIPS, random_state=1)
    truth = FLIPS * 1000
    rows = truth.sum(axis=0).round().astype(int)
    fair, strength = joined_counts(clean, given, np.ones(300), rows, truth)
    false, weak = joined_counts(clean, given, np.ones(300), rows, truth[[1, 2, 0]])
    alone, none = joined_counts(clean, given, np.ones(300), rows, None)
    assert none is None
    assert strength > 50 > weak
    assert np.abs(fair - truth).sum() < np.abs(alone - truth).sum()
    assert np.abs(false - truth).sum() < 0.5 * np.abs(truth[[1, 2, 0]] - truth).sum()
    for joint in (fair, false, alone):
        assert np.allclose(joint.sum(axis=0), rows)


@pytest.mark.parametrize(
    ("answers", "says"), [([0] * 5, "10 codes"), ([0.5] * 10, "codes"), ([-2] * 10, "cannot tell")]
)
def test_answers_that_do_not_fit_are_refused(answers, says):
    plan = audit_plan(np.linspace(0, 1, 100), np.zeros(100, dtype=int), 10)
    with pytest.raises(ValueError, match=says):
        audit_estimate(plan, answers)
