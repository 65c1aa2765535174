"""Is this T to be trusted? Findings about an estimate, each in one sentence, with a verdict.

Thresholds are in `LIMITS`; docs/estimate.md says what each check means and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from trevision.estimation.anchors import Anchor
from trevision.estimation.confident_joint import CONFIDENT_JOINT
from trevision.estimation.count import TOLD, Count, count_wrong
from trevision.estimation.fit_test import FitTest, LabelTally
from trevision.estimation.from_probabilities import Estimate
from trevision.estimation.latent import LATENT
from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.noise import FloatArray

Verdict = Literal["good", "caution", "bad"]

# From where on a value asks for caution, and from where on it is bad. For the checks of FROM_ABOVE small
# values are the bad ones.
LIMITS: dict[str, tuple[float, float]] = {
    "condition": (10.0, 100.0),  # errors of P(noisy) grow by at most this factor when T is inverted
    "diagonal": (0.5, 0.0),  # the smallest T[i, i]; bad too where another entry of its row is larger
    "rare classes": (0.2, 0.5),  # the widest interval of a diagonal entry
    "agreement": (0.35, 0.7),  # labels that the nearest other estimator explains otherwise, per wrong label
    "anchors": (0.9, 0.7),  # the least of max_x P(noisy = i | x) / T[i, i]
    "calibration": (0.03, 0.1),  # share of labels that the probabilities do not explain
    "fit": (0.03, 0.1),  # share of labels that T does not explain
}
FROM_ABOVE = ("diagonal", "anchors")

# The estimators that an estimate is compared with: they are quick, and wrong for reasons of their own. Anchor
# points are those of the maximum: the surest row errs towards too little noise, others towards too much.
COMPARED = (LATENT, CONFIDENT_JOINT, Anchor(percentile=None))

# Noise rates below this are compared as if they were this: no estimator tells them apart.
LEAST_RATE = 0.02

# A deviation that chance makes in one of a hundred cases is no finding, however large it looks.
SIGNIFICANCE = 0.01

# A fit test finds what matters in this many rows, drawn at random; more only cost time.
MOST_TESTED = 100_000


@dataclass(frozen=True)
class Finding:
    """One check of T.

    Attributes
    ----------
    check : str
        What was checked.
    verdict : str
        "good", "caution" or "bad".
    value : float or None
        The number that the verdict is about; None where there is none.
    sentence : str
        The finding in words.

    Examples
    --------
    >>> Finding("condition", "good", 1.5, "T can be inverted.").verdict
    'good'
    """

    check: str
    verdict: Verdict
    value: float | None
    sentence: str


def diagnose(
    noisy_probs: ArrayLike | RowSource,
    noisy_labels: ArrayLike,
    estimate: Estimate,
    class_names: Sequence[str] | None = None,
    random_state: int | np.random.Generator = 0,
    count: Count | None = None,
) -> list[Finding]:
    """Check the T of `estimate` against the probabilities and labels it was made from.

    Makes one pass over the rows and one for each other estimator. docs/estimate.md explains the checks.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x), as for `estimate`.
    noisy_labels : array-like of shape (n,)
        The labels given.
    estimate : Estimate
        What was estimated from them.
    class_names : sequence of str or None
        Names for the sentences. None takes the numbers of the classes.
    random_state : int or Generator
        Chooses the rows that the fit tests use where there are very many.
    count : Count or None
        What `count_wrong` makes of the same rows. None makes it here, in one more pass.

    Returns
    -------
    list of Finding

    Raises
    ------
    ValueError
        If `estimate` or `class_names` does not fit the number of classes.

    Examples
    --------
    >>> from trevision.estimation import estimate
    >>> sure = np.repeat([[0.8, 0.2], [0.3, 0.7]], 500, axis=0)
    >>> labels = np.repeat([0, 1, 0, 1], [400, 100, 150, 350])
    >>> findings = diagnose(sure, labels, estimate(sure, labels, bootstrap=20))
    >>> {finding.verdict for finding in findings}
    {'good'}
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    size = len(estimate.transition)
    if rows.num_classes != size:
        raise ValueError(f"estimate must be of the {rows.num_classes} classes of noisy_probs, got {size}")
    names = [str(name) for name in (range(size) if class_names is None else class_names)]
    if len(names) != size:
        raise ValueError(f"class_names must hold {size} names, got {len(names)}")
    surest, calibration, fit = _one_pass(rows, estimate, np.random.default_rng(random_state))
    counted = count_wrong(noisy_probs, noisy_labels, estimate) if count is None else count
    return [
        _count(counted),
        _condition(estimate.transition),
        _diagonal(estimate.transition, names),
        _rare_classes(estimate, names),
        _agreement(rows, estimate),
        _anchors(estimate.transition, surest, names),
        _calibration(calibration, absorbed=estimate.solution.has_own_posterior),
        _fit(fit),
        _convergence(estimate),
    ]


def _verdict(check: str, value: float) -> Verdict:
    caution, bad = LIMITS[check]
    if check in FROM_ABOVE:
        value, caution, bad = -value, -caution, -bad
    return "good" if value < caution else "caution" if value < bad else "bad"


def _count(count: Count) -> Finding:
    explained = min(1.0, count.by_class / max(count.by_model, 1))
    if not count.told:
        sentence = f"{count.headline()}: {count.reason}."
        return Finding("count", "bad", explained, sentence[0].upper() + sentence[1:])
    sentence = f"{count.reason}."
    if count.verdict == TOLD:
        sentence = f"{count.reason}, {count.by_model:,} labels."
    verdict: Verdict = "caution" if count.is_wide else "good"
    return Finding("count", verdict, explained, sentence[0].upper() + sentence[1:])


def _condition(transition: FloatArray) -> Finding:
    value = float(np.linalg.cond(transition))
    verdict = _verdict("condition", value)
    accuracy = (
        "not at all: T is singular" if value > 1e12 else f"with errors up to {value:.3g} times as large"
    )
    sentence = f"Clean probabilities follow from noisy ones {accuracy} (condition number {value:.3g})."
    # JSON, where findings end up, knows no infinity.
    return Finding("condition", verdict, value if np.isfinite(value) else None, sentence)


def _diagonal(transition: FloatArray, names: Sequence[str]) -> Finding:
    diagonal = transition.diagonal()
    weakest = int(diagonal.argmin())
    outvoted = np.flatnonzero(diagonal < transition.max(axis=1))
    value = float(diagonal[weakest])
    if len(outvoted):
        first = int(outvoted[0])
        rival = int(transition[first].argmax())
        verdict: Verdict = "bad"
        more = f" (and {len(outvoted) - 1} more)" if len(outvoted) > 1 else ""
        sentence = (
            f"Rows of class {names[first]}{more} are labelled {names[rival]} more often "
            f"({transition[first, rival]:.0%}) than rightly ({diagonal[first]:.0%}), so that classes may "
            "have changed places."
        )
    else:
        verdict = _verdict("diagonal", value)
        sentence = (
            f"The least reliable labels are those of class {names[weakest]}, right in {value:.0%} of its "
            "rows; every class's most frequent label is the right one."
        )
    return Finding("diagonal", verdict, value, sentence)


def _rare_classes(estimate: Estimate, names: Sequence[str]) -> Finding:
    low, high = estimate.transition_low, estimate.transition_high
    if low is None or high is None:
        sentence = (
            "Whether every class has rows enough was not checked, for want of intervals (bootstrap is 0)."
        )
        return Finding("rare classes", "caution", None, sentence)
    widths = (high - low).diagonal()
    widest = int(widths.argmax())
    value = float(widths[widest])
    verdict = _verdict("rare classes", value)
    unsure = int((widths >= LIMITS["rare classes"][0]).sum())
    expected = estimate.rows * estimate.class_prior[widest]
    if verdict == "good":
        lead = "Every class has rows enough"
    else:
        lead = f"{unsure} of {len(names)} classes have too few rows to tell"
    sentence = (
        f"{lead}: the widest interval, of class {names[widest]} with about {expected:,.0f} rows, says that "
        f"between {low[widest, widest]:.0%} and {high[widest, widest]:.0%} of its labels are right."
    )
    return Finding("rare classes", verdict, value, sentence)


def _agreement(rows: ProbabilityRows, estimate: Estimate) -> Finding:
    distances, relative = {}, []
    for rival in COMPARED:
        # An estimator of the same family, such as latent-unpooled, would agree for the same reasons.
        if not estimate.estimator.startswith(rival.name) and rival.takes(rows.num_classes):
            other = rival.solve(rows)
            off = np.abs(other.transition - estimate.transition).sum(axis=1) / 2
            distances[rival.name] = float(estimate.class_prior @ off)
            rate = max(other.noise_rate, estimate.noise_rate, LEAST_RATE)
            relative.append(distances[rival.name] / rate)
    value = min(relative)
    verdict = _verdict("agreement", value)
    shares = ", ".join(f"{share:.1%} ({name})" for name, share in distances.items())
    if verdict == "good":
        sentence = f"Another estimator finds nearly the same T; labels explained otherwise: {shares}."
    else:
        sentence = (
            f"Other estimators find another T than {estimate.estimator}; "
            f"labels explained otherwise: {shares}."
        )
    return Finding("agreement", verdict, value, sentence)


def _anchors(transition: FloatArray, surest: FloatArray, names: Sequence[str]) -> Finding:
    ratios = surest / np.maximum(transition.diagonal(), 1e-12)
    worst = int(ratios.argmin())
    value = float(ratios[worst])
    verdict = _verdict("anchors", value)
    worst_row = (
        f"the surest row of class {names[worst]} has a probability of {surest[worst]:.2f} where a certain "
        f"one would have {transition[worst, worst]:.2f}"
    )
    if verdict == "good":
        sentence = f"Every class has rows that are all but certain: at worst, {worst_row}."
    else:
        sentence = (
            f"No row is certain to be of class {names[worst]}, "
            f"so its row of T is an extrapolation: {worst_row}."
        )
    return Finding("anchors", verdict, value, sentence)


def _calibration(test: FitTest, absorbed: bool) -> Finding:
    verdict = _tested("calibration", test)
    if verdict == "good":
        sentence = f"The given labels come as often as the probabilities say ({_numbers(test)})."
    elif absorbed:
        # The latent-class model fits its own link from the probabilities to the labels.
        verdict = "caution"
        sentence = (
            f"The probabilities are too soft or too sharp for the given labels ({_numbers(test)}), which the "
            "estimate makes good if they were made for rows that the model was not trained on."
        )
    else:
        sentence = (
            f"The probabilities do not match the given labels ({_numbers(test)}): were they made for rows "
            "that the model was not trained on?"
        )
    return Finding("calibration", verdict, test.unexplained, sentence)


def _fit(test: FitTest) -> Finding:
    verdict = _tested("fit", test)
    if verdict == "good":
        sentence = f"One T for all rows explains the given labels ({_numbers(test)})."
    else:
        sentence = (
            f"One T for all rows does not explain the given labels ({_numbers(test)}): mistakes depend on "
            "more than the class, or T is off."
        )
    return Finding("fit", verdict, test.unexplained, sentence)


def _convergence(estimate: Estimate) -> Finding:
    if estimate.converged:
        sentence = "The estimate is complete: no search for T stopped early."
        return Finding("convergence", "good", None, sentence)
    sentence = (
        f"The search of {estimate.estimator} stopped at its limit while it was still improving, so that T "
        "may be off by more than its intervals say."
    )
    return Finding("convergence", "caution", None, sentence)


def _tested(check: str, test: FitTest) -> Verdict:
    return "good" if test.p_value >= SIGNIFICANCE else _verdict(check, test.unexplained)


def _numbers(test: FitTest) -> str:
    return f"{test.unexplained:.1%} off, chi-square {test.chi2:.0f} with {test.df} df, p = {test.p_value:.2g}"


def _one_pass(
    rows: ProbabilityRows, estimate: Estimate, rng: np.random.Generator
) -> tuple[FloatArray, FitTest, FitTest]:
    """The largest probability of each class, and the tests of the probabilities themselves and of T."""
    surest, transition = np.zeros(rows.num_classes), estimate.transition
    by_probs, by_transition = LabelTally(transition), LabelTally(transition)
    share = min(1.0, MOST_TESTED / len(rows))
    for probs, labels, _ in rows.chunks():
        surest = np.maximum(surest, probs.max(axis=0))
        chosen = slice(None) if share == 1 else rng.random(len(probs)) < share
        probs, labels = probs[chosen], labels[chosen]
        clean = estimate.clean_posterior(probs)
        predicted = clean @ transition
        groups = by_probs.groups(probs, predicted, clean.argmax(axis=1))
        by_probs.add(groups, probs, labels)
        by_transition.add(groups, predicted, labels)
    return surest, by_probs.test(), by_transition.test()
