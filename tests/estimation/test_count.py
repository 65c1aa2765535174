"""The count of wrong labels: both readings, its verdict, and its interval."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from trevision import noise
from trevision.estimation import (
    AS_RANGE,
    NOT_TOLD,
    TOLD,
    ProbabilityRows,
    count_wrong,
    diagnose,
    estimate,
    find_estimator,
)
from trevision.estimation import count as count_module
from trevision.estimation.count import tells_pattern, unevenness
from trevision.issues import find_label_issues

TRUE = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.0, 0.3, 0.7]])


def planted(
    seed: int = 0, hardest: float = 0.1, power: float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P(noisy | x), given labels and true ones of 3,000 rows; mistakes depend on the class alone.

    Rows differ: the surest surely belong to their class, the `hardest` belong to another with this
    probability. Where no row is sure, T is not identified. With a `power` the probabilities are those of a
    model that knows the classes and is too soft, as models are that learnt from noisy labels.
    """
    rng = np.random.default_rng(seed)
    likeliest = rng.integers(3, size=3000)
    doubt = hardest * rng.random(3000) ** 2
    posterior = np.repeat(doubt[:, None] / 2, 3, axis=1)
    posterior[np.arange(3000), likeliest] = 1 - doubt
    true = (posterior.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    given = noise.corrupt(true, TRUE, random_state=rng)
    if power is None:
        return posterior @ TRUE, given, true
    soft = posterior**power
    return soft / soft.sum(axis=1, keepdims=True), given, true


def overlapping(rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that overlap: labels drawn from P(x), so that nothing in them is class-conditional."""
    rng = np.random.default_rng(1)
    first = 1 / (1 + np.exp(-rng.normal(scale=3, size=rows)))
    return np.stack([first, 1 - first], axis=1), (rng.random(rows) > first).astype(int)


def test_class_conditional_mistakes_are_told_and_the_interval_holds_the_truth_nine_times_in_ten() -> None:
    held = 0
    for seed in range(20):
        probs, given, true = planted(seed)
        count = count_wrong(probs, given, estimate(probs, given, bootstrap=40))
        assert count.verdict == TOLD, count.reason
        held += count.low <= (given != true).sum() <= count.high
    assert held >= 16  # 90% of 20 are 18; fewer than 16 have a probability of 4%


def test_where_many_rows_stay_open_the_count_is_a_range_that_holds_the_truth() -> None:
    for seed in range(6):
        probs, given, true = planted(seed, hardest=0.75, power=0.5)
        found = estimate(probs, given, bootstrap=20)
        count = count_wrong(probs, given, found)
        assert count.verdict == AS_RANGE
        assert count.low <= (given != true).sum() <= count.high
        # The labels that the model disagrees with may all be wrong.
        assert count.low < count.by_class < count.by_model < count.high
        assert count.headline().startswith(f"between about {count.low:,.0f} and {count.high:,.0f} of 3,000")
        finding = next(each for each in diagnose(probs, given, found, count=count) if each.check == "count")
        assert finding.verdict == "caution"


def test_no_range_is_told_without_intervals_or_where_its_ends_are_far_apart() -> None:
    probs, given, _ = planted(hardest=0.75, power=0.5)
    assert count_wrong(probs, given, estimate(probs, given, bootstrap=0)).verdict == NOT_TOLD
    # Half of the rows are as likely of one class as of the other, so nearly any number may be wrong.
    some = np.arange(3000) % 2 == 0
    probs[some] = np.array([0.5, 0.5, 0.0])
    given[some] = np.random.default_rng(0).integers(2, size=some.sum())
    open_half = count_wrong(probs, given, estimate(probs, given, bootstrap=20))
    assert open_half.verdict == NOT_TOLD
    assert open_half.low is not None


def test_exact_probabilities_do_not_tell_noise_from_doubt_where_many_rows_stay_open() -> None:
    # Labels are as likely through T as through none at all, with the probabilities as they are.
    probs, given, _ = planted(hardest=0.65)
    assert count_wrong(probs, given, estimate(probs, given, bootstrap=20)).verdict == NOT_TOLD


def test_no_range_is_told_where_more_than_a_quarter_of_the_rows_stay_open() -> None:
    probs, given, _ = planted(hardest=1.0)
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=20))
    assert count.open_rows > count.rows / 4
    assert count.verdict == NOT_TOLD


def test_a_model_that_hardly_tells_two_classes_apart_does_not_tell_their_mistakes() -> None:
    # Probabilities between 0.4 and 0.6 are also what a sure g would give whose labels are wrong by 40%.
    rng = np.random.default_rng(0)
    first = 0.5 + 0.1 * np.sin(rng.uniform(-np.pi, np.pi, size=3000))
    probs, given = np.stack([first, 1 - first], axis=1), (rng.random(3000) > first).astype(int)
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=20))
    assert count.verdict == NOT_TOLD


def test_a_pattern_is_told_where_mistakes_are_uneven_and_class_conditional() -> None:
    def tells(probs: np.ndarray, given: np.ndarray) -> bool:
        rows = ProbabilityRows(probs, given)
        return tells_pattern(rows, find_estimator("latent").solve(rows))

    probs, given, _ = planted(hardest=0.03)
    assert tells(probs, given)
    even = noise.symmetric(3, 0.3)
    posterior = probs @ np.linalg.inv(TRUE)
    assert not tells(posterior @ even, noise.corrupt(posterior.argmax(axis=1), even, random_state=0))
    assert not tells(*overlapping())


@pytest.mark.parametrize(("name", "share"), [("sym-30", 0.0), ("pair-30", 0.75), ("pair-10", 0.75)])
def test_unevenness_is_the_share_of_mistakes_that_would_move(name: str, share: float) -> None:
    assert unevenness(noise.parse(name, 5)) == pytest.approx(share)


def test_the_count_has_both_readings_and_prints_its_interval() -> None:
    probs, given, _ = planted()
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=40))
    assert count.by_model == sum(int(row.argmax()) != label for row, label in zip(probs, given, strict=True))
    assert f"{count.low:,.0f} to {count.high:,.0f}" in count.headline()


def test_the_interval_holds_that_of_sampling_and_grows_little_where_classes_are_clear() -> None:
    probs, given, _ = planted(hardest=0.03)
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=40))
    assert count.low <= count.by_class_low <= count.by_class_high <= count.high
    assert count.high - count.low < 1.5 * (count.by_class_high - count.by_class_low)


def test_labels_that_follow_the_rows_cannot_be_told() -> None:
    probs, given = overlapping()
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=20))
    assert count.verdict == NOT_TOLD
    assert count.low <= count.by_class
    assert count.by_model <= count.high
    assert "cannot be told" in count.headline()
    assert "At least about" in count.readings()


def test_labels_that_are_predicted_surely_are_never_told_to_be_right() -> None:
    given = np.repeat([0, 1], 400)
    probs = np.eye(2)[given] * 0.98 + 0.01
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=20))
    assert not count.told
    assert count.by_model == 0


def test_a_model_of_another_kind_that_predicts_the_mistakes_refutes_the_count() -> None:
    probs, given, _ = planted()
    noisy = estimate(probs, given, bootstrap=20)
    assert count_wrong(probs, given, noisy, other_disagreements=900).told
    refuted = count_wrong(probs, given, noisy, other_disagreements=100)
    assert not refuted.told
    assert "another kind" in refuted.reason


def test_no_sentence_about_a_count_has_a_letter_for_a_matrix() -> None:
    """The sentences are read by people who have never heard of T."""
    source = Path(count_module.__file__).read_text(encoding="utf-8")
    told = [
        "".join(part.value for part in ast.walk(each) if isinstance(part, ast.Constant))
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.JoinedStr)
    ]
    assert len(told) > 10
    assert not [sentence for sentence in told if re.search(r"\bT\b", sentence)]


def test_no_wrong_label_is_not_at_least_about_none() -> None:
    probs, given = np.repeat([[0.98, 0.02], [0.02, 0.98]], 500, axis=0), np.repeat([0, 1], 500)
    count = count_wrong(probs, given, estimate(probs, given, bootstrap=20))
    assert count.by_class < 0.5
    assert count.readings().startswith("Next to none (")


@pytest.mark.parametrize("make", [lambda: planted()[:2], overlapping])
def test_the_order_does_not_depend_on_the_bootstrap(make) -> None:
    probs, given = make()
    without, with_ends = (find_label_issues(probs, given, bootstrap=number) for number in (0, 20))
    assert (without.order == with_ends.order).all()
    assert without.count.low is None
    assert with_ends.count.low is not None


def test_the_top_can_be_asked_for_and_no_suspect_is_suggested_the_label_it_has() -> None:
    probs, given = overlapping()
    issues = find_label_issues(probs, given, bootstrap=0, top=1500)
    assert issues.suspect.sum() == 1500
    assert issues.suspect[issues.order[:1500]].all()
    assert (issues.suggested != issues.given)[issues.suspect].all()
    with pytest.raises(ValueError, match="top must be a number of labels to list, 0 or more, got -1"):
        find_label_issues(probs, given, bootstrap=0, top=-1)
