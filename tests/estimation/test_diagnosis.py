"""Each finding about T is good where nothing is wrong, and flips where its defect is planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trevision.estimation import (
    Estimate,
    Estimator,
    Finding,
    Hoc,
    Latent,
    diagnose,
    diagnosis,
    estimate,
    registry,
)
from trevision.estimation.diagnosis import LIMITS
from trevision.estimation.fit_test import BINS, KINDS, SURENESS, LabelTally

TRUE = np.array(
    [[0.80, 0.10, 0.06, 0.04], [0.02, 0.75, 0.15, 0.08], [0.12, 0.06, 0.72, 0.10], [0.05, 0.05, 0.10, 0.80]]
)


def drawn_from(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (probs.cumsum(axis=1) < rng.random((len(probs), 1))).sum(axis=1)


def clean_posteriors(n: int, rng: np.random.Generator, certain: float = 0.95) -> np.ndarray:
    """Rows of which a share is certain of its class, and the others are anywhere."""
    sure = rng.random((n, 1)) < certain
    return np.where(sure, np.eye(4)[rng.integers(4, size=n)], rng.dirichlet(np.ones(4), size=n))


def noisy_rows(n: int = 6000, transition: np.ndarray = TRUE, **how: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    probs = clean_posteriors(n, rng, **how) @ transition
    return probs, drawn_from(probs, rng)


@pytest.fixture(scope="module")
def usual() -> tuple[np.ndarray, np.ndarray, Estimate]:
    """Rows with which nothing is wrong, and what is estimated from them."""
    probs, labels = noisy_rows()
    return probs, labels, estimate(probs, labels, bootstrap=20)


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


@pytest.mark.parametrize("estimator", ["confident-joint", "anchor"])
def test_everything_is_good_where_nothing_is_wrong(estimator: str) -> None:
    probs, labels = noisy_rows()
    findings = diagnose(probs, labels, estimate(probs, labels, estimator, bootstrap=50))
    assert [finding.check for finding in findings] == ["count", *LIMITS, "convergence"]
    assert {finding.verdict for finding in findings} == {"good"}, findings


def test_sentences_are_single_and_name_the_classes(usual) -> None:
    findings = diagnose(*usual, ["ant", "bee", "cat", "dog"])
    for finding in findings:
        assert finding.sentence[0].isupper() or finding.sentence[0].isdigit()
        assert finding.sentence[-1] in ".?"
        assert ". " not in finding.sentence
    assert "class cat" in by_check(findings)["diagonal"].sentence  # the one of the least T[i, i]


def test_two_classes_with_nearly_one_row_of_t_make_it_ill_conditioned() -> None:
    alike = TRUE.copy()
    alike[0] = [0.42, 0.40, 0.10, 0.08]
    alike[1] = [0.40, 0.42, 0.10, 0.08]
    probs, labels = noisy_rows(transition=alike)
    found = by_check(diagnose(probs, labels, estimate(probs, labels, "anchor", bootstrap=20)))["condition"]
    assert found.value == pytest.approx(np.linalg.cond(alike), rel=1e-6)
    assert found.verdict == "caution"


def test_a_singular_t_is_bad_and_has_no_number(usual) -> None:
    probs, labels, made = usual
    singular = TRUE.copy()
    singular[1] = singular[0]
    made = replace(made, transition=singular)
    found = by_check(diagnose(probs, labels, made))["condition"]
    assert found.verdict == "bad"
    assert found.value is None or found.value > 1e12


def test_a_class_that_is_mostly_labelled_as_another_is_bad(usual) -> None:
    probs, labels, made = usual
    swapped = TRUE.copy()
    swapped[1] = [0.05, 0.40, 0.50, 0.05]
    made = replace(made, transition=swapped)
    found = by_check(diagnose(probs, labels, made, ["ant", "bee", "cat", "dog"]))["diagonal"]
    assert (found.verdict, found.value) == ("bad", pytest.approx(0.4))
    assert "bee are labelled cat" in found.sentence


def test_a_class_that_is_more_often_wrong_than_right_asks_for_caution(usual) -> None:
    probs, labels, made = usual
    weak = TRUE.copy()
    weak[1] = [0.2, 0.4, 0.2, 0.2]
    made = replace(made, transition=weak)
    assert by_check(diagnose(probs, labels, made))["diagonal"].verdict == "caution"


@pytest.mark.parametrize(("rows", "verdict"), [(1000, "good"), (25, "caution"), (5, "bad")])
def test_a_class_of_few_rows_is_too_rare_to_tell(rows: int, verdict: str) -> None:
    rng = np.random.default_rng(0)
    clean = np.repeat([0, 1, 2, 3], [1000, 1000, 1000, rows])
    probs = TRUE[clean]
    labels = drawn_from(probs, rng)
    made = estimate(probs, labels, "confident-joint", bootstrap=100)
    found = by_check(diagnose(probs, labels, made, ["ant", "bee", "cat", "dog"]))["rare classes"]
    assert found.verdict == verdict
    assert ("class dog" in found.sentence) == (verdict != "good")


def test_estimators_disagree_where_no_row_is_certain() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 3.0), size=4000) @ TRUE
    labels = drawn_from(probs, rng)
    findings = diagnose(probs, labels, estimate(probs, labels, "confident-joint", bootstrap=20))
    assert by_check(findings)["agreement"].verdict in ("caution", "bad")


def test_without_certain_rows_there_are_no_anchors() -> None:
    rng = np.random.default_rng(0)
    probs = (0.5 * rng.dirichlet(np.ones(4), size=2000) + 0.125) @ TRUE
    labels = drawn_from(probs, rng)
    made = replace(estimate(probs, labels, "confident-joint", bootstrap=20), transition=TRUE)
    found = by_check(diagnose(probs, labels, made))["anchors"]
    assert found.verdict == "bad"
    assert found.value == pytest.approx((probs.max(axis=0) / TRUE.diagonal()).min())


def test_probabilities_that_are_too_sure_are_found() -> None:
    probs, labels = noisy_rows()
    sharp = probs**4 / (probs**4).sum(axis=1, keepdims=True)
    found = by_check(diagnose(sharp, labels, estimate(sharp, labels, "confident-joint", bootstrap=20)))[
        "calibration"
    ]
    assert found.verdict == "bad"
    assert found.value == pytest.approx(0.2, abs=0.06)  # 0.76 of labels are right where nearly 1 was said


def test_mistakes_that_go_elsewhere_for_some_rows_of_a_class_are_found() -> None:
    # Rows of class i are mistaken for i + 1 or for i + 2, by the row: one T on average only.
    rng = np.random.default_rng(0)
    clean = clean_posteriors(6000, rng, certain=1.0)
    near, far = (0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), step, axis=1) for step in (1, 2))
    probs = np.where(rng.random((6000, 1)) < 0.5, clean @ near, clean @ far)
    labels = drawn_from(probs, rng)
    made = estimate(probs, labels, "confident-joint", bootstrap=20)
    np.testing.assert_allclose(made.transition, (near + far) / 2, atol=0.03)
    found = by_check(diagnose(probs, labels, made))
    assert found["calibration"].verdict == "good"  # the probabilities are right, one T is not
    assert found["fit"].verdict == "bad"


def test_rows_that_are_labelled_more_reliably_than_t_allows_are_found() -> None:
    # Half of the rows of each class are labelled rightly and half twice as badly: TRUE holds on average only.
    rng = np.random.default_rng(0)
    clean = clean_posteriors(6000, rng)
    easy = rng.random((6000, 1)) < 0.5
    probs = np.where(easy, clean, clean @ (2 * TRUE - np.eye(4)))
    labels = drawn_from(probs, rng)
    made = replace(estimate(probs, labels, "confident-joint", bootstrap=20), transition=TRUE)
    found = by_check(diagnose(probs, labels, made))
    assert found["calibration"].verdict == "good"
    assert found["fit"].verdict == "bad"


def test_a_trifle_stays_good_however_many_rows_there_are(monkeypatch) -> None:
    monkeypatch.setattr(diagnosis, "MOST_TESTED", 300_000)
    probs, _ = noisy_rows(200_000, certain=1.0)
    labels = drawn_from(0.97 * probs + 0.03 * np.eye(4)[probs.argmax(axis=1)], np.random.default_rng(1))
    made = replace(estimate(probs[:2000], labels[:2000], bootstrap=20), transition=TRUE)
    found = by_check(diagnose(probs, labels, made))["fit"]
    assert float(found.sentence.split("p = ")[1].split(")")[0]) < 1e-3
    assert found.verdict == "good"
    assert found.value == pytest.approx(0.03 * (1 - TRUE.diagonal().mean()), rel=0.5)


def test_a_sample_of_the_rows_tells_the_same(monkeypatch) -> None:
    probs, labels = noisy_rows(8000)
    made = estimate(probs[:5000], labels[:5000], "confident-joint", bootstrap=20)
    sharp = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    whole = by_check(diagnose(sharp, labels, made))["calibration"]
    monkeypatch.setattr(diagnosis, "MOST_TESTED", 4000)
    part = by_check(diagnose(sharp, labels, made))["calibration"]
    assert part.verdict == whole.verdict == "bad"
    assert part.value == pytest.approx(whole.value, abs=0.03)


def test_names_and_estimate_must_fit_the_probabilities() -> None:
    probs, labels = noisy_rows(200)
    made = estimate(probs, labels, bootstrap=20)
    with pytest.raises(ValueError, match="must hold 4 names, got 2"):
        diagnose(probs, labels, made, ["a", "b"])
    with pytest.raises(ValueError, match="of the 2 classes"):
        diagnose(np.full((3, 2), 0.5), [0, 1, 0], made)


def test_without_intervals_rare_classes_are_said_not_to_have_been_checked(usual) -> None:
    probs, labels, _ = usual
    bare = estimate(probs, labels, "confident-joint", bootstrap=0)
    findings = by_check(diagnose(probs, labels, bare))
    assert findings["rare classes"].verdict == "caution"
    assert findings["rare classes"].value is None
    assert "was not checked" in findings["rare classes"].sentence
    others = by_check(diagnose(probs, labels, estimate(probs, labels, "confident-joint", bootstrap=20)))
    for check in set(findings) - {"rare classes"}:
        assert findings[check] == others[check]


@pytest.mark.parametrize("estimator", [Latent(most_iterations=3), Hoc(most_iterations=3)])
def test_a_search_that_is_stopped_early_is_a_finding(usual, estimator: Estimator, monkeypatch) -> None:
    probs, labels, _ = usual
    assert by_check(diagnose(probs, labels, estimate(probs, labels, estimator.name, 0)))[
        "convergence"
    ] == Finding("convergence", "good", None, "The estimate is complete: no search for T stopped early.")
    monkeypatch.setitem(registry.ESTIMATORS, estimator.name, estimator)
    stopped = estimate(probs, labels, estimator.name, bootstrap=0)
    assert not stopped.converged
    finding = by_check(diagnose(probs, labels, stopped))["convergence"]
    assert finding.verdict == "caution"
    assert f"The search of {estimator.name} stopped at its limit" in finding.sentence


# ---- the chi-square test itself


def tally(probs: np.ndarray, labels: np.ndarray, transition: np.ndarray) -> LabelTally:
    made = LabelTally(transition)
    made.add(made.groups(probs, probs, probs.argmax(axis=1)), probs, labels)
    return made


def test_statistic_equals_a_loop_with_the_whole_covariance() -> None:
    probs, labels = noisy_rows(12_000, certain=0.5)
    made = tally(probs, labels, TRUE).test()
    chi2, df = 0.0, 0
    for k in range(4):
        wrong = max((j for j in range(4) if j != k), key=lambda j: TRUE[k, j])
        ratio = probs[:, k] / TRUE[k, k]
        for place in range(BINS):
            edges = np.concatenate([[-np.inf], SURENESS, [np.inf]])
            inside = (probs.argmax(axis=1) == k) & (edges[place] <= ratio) & (ratio < edges[place + 1])
            if not inside.any():
                continue
            off, covariance = np.zeros(2), np.zeros((2, 2))
            for p, label in zip(probs[inside], labels[inside], strict=True):
                q = p[[k, wrong]]
                off += (np.array([label == k, label == wrong])) - q
                covariance += np.diag(q) - np.outer(q, q)
            chi2 += off @ np.linalg.solve(covariance, off)
            df += 2
            assert min(covariance[0, 0], covariance[1, 1], covariance.sum()) >= 5  # none is joined to others
    assert (made.chi2, made.df) == (pytest.approx(chi2), df)


@pytest.mark.parametrize("n", [300, 3000])
def test_false_alarms_are_about_as_frequent_as_the_level_says(n: int) -> None:
    rng = np.random.default_rng(0)
    alarms = []
    for _ in range(400):
        probs = clean_posteriors(n, rng, certain=0.5) @ TRUE
        alarms.append(tally(probs, drawn_from(probs, rng), TRUE).test().p_value < 0.1)
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.045)  # three standard errors


def test_small_groups_are_joined_over_the_classes_and_tested() -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(200, size=1000)  # five rows a class
    transition = np.full((200, 200), 0.4 / 199)
    np.fill_diagonal(transition, 0.6)
    made = tally(transition[clean], drawn_from(transition[clean], rng), transition).test()
    assert made.rows == 1000
    assert 1 <= made.df <= 2 * KINDS
    unlike = tally(transition[clean], clean, transition).test()  # all labels are right
    assert unlike.p_value < 1e-6
    assert unlike.unexplained == pytest.approx(0.4, abs=0.02)
