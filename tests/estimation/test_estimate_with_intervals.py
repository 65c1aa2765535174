"""T with error bars from probabilities: intervals that hold a planted T as often as they say."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest

from trevision.estimation import (
    LATENT,
    bootstrap,
    estimate,
    likeliest_class_prior,
    noise_rate,
    solve_class_prior,
)
from trevision.noise import corrupt

TRUE = np.array([[0.7, 0.2, 0.1], [0.05, 0.8, 0.15], [0.2, 0.1, 0.7]])
PRIOR = np.array([0.5, 0.3, 0.2])


def certain_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a known class each, so that their noisy posterior is known exactly, with noisy labels."""
    clean = rng.choice(3, size=n, p=PRIOR)
    return TRUE[clean], corrupt(clean, TRUE, rng)


# A new estimator that is consistent where classes are certain belongs in this list.
@pytest.mark.parametrize("estimator", ["confident-joint"])
@pytest.mark.parametrize("resampling", ["rows", "counts"])
def test_intervals_hold_the_planted_truth_in_about_their_nominal_share(
    estimator: str, resampling: str, monkeypatch
) -> None:
    if resampling == "counts":
        monkeypatch.setattr(bootstrap, "MOST_REESTIMATED", 0)
    rng = np.random.default_rng(0)
    entries, rates, priors = [], [], []
    for draw in range(120):
        probs, labels = certain_rows(600, rng)
        found = estimate(probs, labels, estimator, bootstrap=80, level=0.9, random_state=draw)
        assert found.resampling == resampling
        entries.append((found.transition_low <= TRUE) & (found.transition_high >= TRUE))
        rates.append(found.noise_rate_low <= 1 - PRIOR @ TRUE.diagonal() <= found.noise_rate_high)
        priors.append((found.class_prior_low <= PRIOR) & (found.class_prior_high >= PRIOR))
    # 120 draws tell a share of 0.9 to within 0.03 (one standard error); entries of one matrix hang together.
    assert np.mean(entries) == pytest.approx(0.9, abs=0.05)
    assert np.mean(rates) == pytest.approx(0.9, abs=0.08)
    assert np.mean(priors) == pytest.approx(0.9, abs=0.06)


def overlapping_rows(n: int, apart: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three Gaussian classes of which the noisy posterior is known, but not the clean class of a row."""
    centres = apart * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    clean = rng.integers(3, size=n)
    x = centres[clean] + rng.normal(size=(n, 2))
    weight = np.exp(-((x[:, None] - centres) ** 2).sum(axis=2) / 2)
    return weight / weight.sum(axis=1, keepdims=True) @ TRUE, corrupt(clean, TRUE, rng)


def afford(monkeypatch, rows: int, replicates: int) -> None:
    """Make `latent`, for three classes, estimate that many rows anew in every replicate, and no more."""
    passes = LATENT.passes
    monkeypatch.setattr(bootstrap, "MOST_REESTIMATED", rows * 3 * passes * replicates)


@pytest.mark.parametrize(("resampling", "n"), [("rows", 600), ("part", 1800)])
def test_latent_intervals_hold_the_planted_truth_where_classes_overlap(
    resampling: str, n: int, monkeypatch
) -> None:
    afford(monkeypatch, 600, replicates=40)
    entries = []
    for draw in range(30):
        probs, labels = overlapping_rows(n, 6.0, np.random.default_rng(draw))
        found = estimate(probs, labels, "latent", bootstrap=40, level=0.8, random_state=draw)
        assert found.resampling == resampling
        entries.append((found.transition_low <= TRUE) & (found.transition_high >= TRUE))
    # 30 draws of nine entries that hang together tell a share of 0.8 to within about 0.04.
    assert np.mean(entries) == pytest.approx(0.8, abs=0.09)


def test_both_ways_of_drawing_again_give_intervals_of_one_width(monkeypatch) -> None:
    probs, labels = certain_rows(2000, np.random.default_rng(1))
    by_rows = estimate(probs, labels, "confident-joint", bootstrap=300)
    monkeypatch.setattr(bootstrap, "MOST_REESTIMATED", 0)
    by_counts = estimate(probs, labels, "confident-joint", bootstrap=300)
    assert (by_rows.resampling, by_counts.resampling) == ("rows", "counts")
    widths = [one.transition_high - one.transition_low for one in (by_rows, by_counts)]
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.25)


def test_a_part_of_the_rows_gives_intervals_of_the_width_that_all_of_them_do(monkeypatch) -> None:
    """Where classes overlap so much that counts, drawn with the link held fixed, are far too sure."""
    probs, labels = overlapping_rows(3000, 4.0, np.random.default_rng(0))
    widths, told = {}, []
    for affordable in (3000, 1000, 100):
        afford(monkeypatch, affordable, replicates=60)
        found = estimate(
            probs, labels, "latent", bootstrap=60, progress=lambda *how_far: told.append(how_far)
        )
        widths[found.resampling] = (found.transition_high - found.transition_low).mean()
    assert list(widths) == ["rows", "part", "counts"]
    assert widths["part"] == pytest.approx(widths["rows"], rel=0.3)
    assert widths["counts"] < 0.6 * widths["rows"]
    # Those of the part are the ones that nobody sees rows being read for.
    assert told == [(done, 60) for done in range(1, 61)]


@pytest.mark.parametrize(("estimator", "seed"), [("anchor", 4), ("dual-t", 9)])
def test_intervals_hold_the_estimate_itself_even_where_replicates_do_not(estimator: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(3, 0.2), size=5)  # hardly more rows than classes
    found = estimate(probs, rng.integers(3, size=5), estimator, bootstrap=20)
    assert (found.class_prior_low <= found.class_prior).all()
    assert (found.class_prior_high >= found.class_prior).all()
    assert (found.transition_low <= found.transition).all()
    assert (found.transition_high >= found.transition).all()


def test_intervals_have_the_width_of_the_normal_approximation() -> None:
    probs, labels = certain_rows(4000, np.random.default_rng(2))
    found = estimate(probs, labels, "confident-joint", bootstrap=400)
    expected = 2 * 1.645 * np.sqrt(TRUE * (1 - TRUE) / (4000 * PRIOR[:, None]))
    np.testing.assert_allclose(found.transition_high - found.transition_low, expected, rtol=0.2)


def test_a_higher_level_gives_wider_intervals() -> None:
    probs, labels = certain_rows(500, np.random.default_rng(3))
    narrow, wide = (estimate(probs, labels, level=level) for level in (0.5, 0.95))
    assert (wide.transition_low <= narrow.transition_low).all()
    assert (wide.transition_high >= narrow.transition_high).all()
    assert wide.noise_rate_high - wide.noise_rate_low > narrow.noise_rate_high - narrow.noise_rate_low


def test_a_mistake_that_was_never_seen_is_not_called_impossible() -> None:
    # 100 rows a class, all labelled rightly: the exact binomial bound of a share of which 0 in 100 were seen.
    clean = np.repeat([0, 1], 100)
    found = estimate(np.where(np.eye(2)[clean] == 1, 0.99, 0.01), clean, "confident-joint", level=0.9)
    np.testing.assert_array_equal(found.transition, np.eye(2))
    bound = 1 - 0.05 ** (1 / 100)
    np.testing.assert_allclose(found.transition_high, [[1, bound], [bound, 1]], atol=1e-9)
    np.testing.assert_allclose(found.transition_low, [[1 - bound, 0], [0, 1 - bound]], atol=1e-9)
    assert found.noise_rate_high == pytest.approx(1 - 0.05 ** (1 / 200))


def test_prior_rate_and_joint_belong_to_the_transition() -> None:
    probs, labels = certain_rows(3000, np.random.default_rng(4))
    found = estimate(probs, labels, "confident-joint")
    assert found.joint.sum() == pytest.approx(3000)
    np.testing.assert_allclose(found.joint.sum(axis=1), 3000 * found.class_prior)
    np.testing.assert_allclose(found.joint, found.joint.sum(axis=1, keepdims=True) * found.transition)
    assert found.noise_rate == pytest.approx(1 - np.trace(found.joint) / 3000)
    assert found.noise_rate == pytest.approx(noise_rate(found.transition, found.class_prior))
    np.testing.assert_allclose(found.joint.sum(axis=0), np.bincount(labels), atol=1e-9)


def test_equal_seeds_give_equal_intervals_and_others_do_not() -> None:
    probs, labels = certain_rows(300, np.random.default_rng(5))
    first, same, other = (estimate(probs, labels, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.transition_high, same.transition_high)
    assert (first.transition_high != other.transition_high).any()


def test_many_classes_are_estimated_in_blocks(monkeypatch) -> None:
    monkeypatch.setattr(bootstrap, "SORTED_AT_ONCE", 20 * 60 * 7)  # seven rows of T at a time
    rng = np.random.default_rng(6)
    clean = rng.integers(60, size=6000)
    probs = np.full((6000, 60), 0.2 / 59)
    probs[np.arange(6000), clean] = 0.8
    found = estimate(probs, clean, "confident-joint", bootstrap=20)
    monkeypatch.undo()
    whole = estimate(probs, clean, "confident-joint", bootstrap=20)
    np.testing.assert_array_equal(found.transition_low, whole.transition_low)
    np.testing.assert_array_equal(found.transition_high, whole.transition_high)


# ---- the estimator of anchor points


def test_anchor_estimator_reads_t_off_rows_three_tenths_into_those_predicted_as_a_class() -> None:
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.ones(3), size=400) @ TRUE
    labels = (probs.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    found = estimate(probs, labels, "anchor", bootstrap=20)
    for label in range(3):
        above = 3 * int((probs.argmax(axis=1) == label).sum()) // 10
        anchor = sorted(range(400), key=lambda row, label=label: -probs[row, label])[above]
        np.testing.assert_allclose(found.transition[label], probs[anchor], atol=1e-12)


def test_likeliest_prior_solves_for_the_prior_where_there_is_one() -> None:
    np.testing.assert_allclose(likeliest_class_prior(TRUE, PRIOR @ TRUE), PRIOR, atol=1e-6)
    np.testing.assert_allclose(solve_class_prior(TRUE, PRIOR @ TRUE), PRIOR, atol=1e-12)


def test_likeliest_prior_is_a_prior_where_none_explains_the_labels() -> None:
    # T puts at most 0.15 of any class on the last label but its own: more than 0.7 of it cannot be.
    assert solve_class_prior(TRUE, [0.0, 0.0, 1.0]) is None
    np.testing.assert_allclose(likeliest_class_prior(TRUE, [0.0, 0.0, 1.0]), [0, 0, 1], atol=1e-6)


# ---- choices


def test_without_a_bootstrap_the_estimate_is_the_same_and_has_no_intervals() -> None:
    probs, labels = certain_rows(400, np.random.default_rng(8))
    bare, whole = estimate(probs, labels, bootstrap=0), estimate(probs, labels, bootstrap=10)
    np.testing.assert_array_equal(bare.transition, whole.transition)
    assert (bare.noise_rate, bare.bootstrap, bare.resampling) == (whole.noise_rate, 0, None)
    for name in ("transition", "class_prior", "noise_rate"):
        for end in ("low", "high"):
            assert getattr(bare, f"{name}_{end}") is None
            assert getattr(whole, f"{name}_{end}") is not None


def test_the_default_number_of_replicates_is_the_same_everywhere() -> None:
    pytest.importorskip("torch")
    from trevision.classifier import TRevisionClassifier
    from trevision.cli.issues import issues
    from trevision.issues import find_label_issues
    from trevision.runs.label_issues import find_run_issues
    from trevision.runs.noise_estimate import Estimating

    places = (estimate, find_label_issues, TRevisionClassifier.find_label_issues, issues, find_run_issues)
    for function in (*places, Estimating):
        assert signature(function).parameters["bootstrap"].default == 200


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"estimator": "magic"}, "estimator must be one of latent, latent-unpooled, confident-joint, anchor"),
        ({"estimator": "confident"}, "got 'confident'; did you mean confident-joint?"),
        ({"bootstrap": 1}, "at least 10 replicates, or 0 for no intervals, got 1"),
        ({"bootstrap": 9}, "at least 10 replicates, or 0 for no intervals, got 9"),
        ({"bootstrap": -1}, "at least 10 replicates, or 0 for no intervals, got -1"),
        ({"level": 90}, "ninety per cent is written 0.9"),
    ],
)
def test_impossible_choices_are_refused(choice: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimate(TRUE, [0, 1, 2], **choice)
