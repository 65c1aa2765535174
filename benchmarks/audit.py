"""`trevision audit`: do its intervals hold, and how narrow are they beside those of a simple random sample?

Claims, over 500 audits of 100 rows each:
- the 90% intervals hold the truth in at least 88%, for class-conditional noise, noise near the boundary,
  labels of keyword rules, no noise, and classes of 1:100;
- at 14% wrong labels, their mean width is at most 0.88 times that of Wilson's interval from a simple random
  sample where the ranking has an AUC of 0.85 (0.77 is the best that any allocation could give), at most
  0.62 times at 0.95 (0.51), and at most 1.1 times at any AUC: also where scores that look like those of AUC
  0.85 or 0.95 know nothing, or point the wrong way.
docs/audit.md has what was measured.

    python -m benchmarks audit                          # 500 audits of each kind
    TREVISION_AUDITS=50 python -m benchmarks audit      # fewer
    TREVISION_DATA=data python -m benchmarks audit      # also labels that are wrong in earnest

In the first two parts a population is made once (4,000 rows; scores by `find_label_issues` from out-of-fold
probabilities of a logistic regression) or anew for each audit (5,000 rows; binormal scores).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.stats import norm, rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from trevision import noise
from trevision.audit import AuditPlan, Interval, audit_estimate, audit_plan, count_interval
from trevision.issues import find_label_issues

AUDITS = int(os.environ.get("TREVISION_AUDITS", "500"))
ROWS = 100
DATA = Path(os.environ.get("TREVISION_DATA", "data"))
RATE = 0.14

Population = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Given labels, true labels, and scores."""


def total(plan: AuditPlan, wrong: np.ndarray) -> Interval:
    """The interval of all wrong labels, as `audit_estimate` has it if every row was told."""
    found = np.bincount(plan.strata[plan.rows[wrong[plan.rows]]], minlength=len(plan.sizes))
    return count_interval(found, plan.drawn, plan.sizes)


def wilson(found: int, rows: int) -> tuple[float, float]:
    """Wilson's score interval of confidence 90% for a share."""
    z = norm.ppf(0.95)
    share, middle = found / rows, 1 + z * z / rows
    half = z * np.sqrt(share * (1 - share) / rows + (z / (2 * rows)) ** 2) / middle
    centre = (share + z * z / (2 * rows)) / middle
    return centre - half, centre + half


def auc(wrong: np.ndarray, scores: np.ndarray) -> float:
    ranks, number = rankdata(scores), wrong.sum()
    if number in (0, len(wrong)):
        return np.nan
    return float((ranks[wrong].sum() - number * (number + 1) / 2) / (number * (len(wrong) - number)))


def scored(x: np.ndarray, given: np.ndarray) -> np.ndarray:
    probs = cross_val_predict(LogisticRegression(max_iter=500), x, given, cv=5, method="predict_proba")
    return 1 - find_label_issues(probs, given, bootstrap=0).p_given


def populations(rows: int = 4000) -> Iterator[tuple[str, Population]]:
    rng = np.random.default_rng(0)

    def gaussian(classes: int, shares: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        clean = rng.choice(classes, size=rows, p=shares)
        centres = rng.normal(size=(classes, 8)) * 0.7
        return centres[clean] + rng.normal(size=(rows, 8)), clean, centres

    x, clean, _ = gaussian(4)
    flips = np.array([[0.8, 0.2, 0, 0], [0, 0.9, 0.1, 0], [0.05, 0, 0.9, 0.05], [0, 0, 0.3, 0.7]])
    given = noise.corrupt(clean, flips, random_state=1)
    yield "class-conditional", (given, clean, scored(x, given))

    x, clean, centres = gaussian(4)
    distance = ((x[:, None] - centres) ** 2).sum(axis=2)
    nearest = np.sort(distance, axis=1)
    unsure = np.exp(-(nearest[:, 1] - nearest[:, 0]) / 3)
    other = np.argsort(distance, axis=1)[:, 1]
    given = np.where((rng.random(rows) < 0.9 * unsure) & (other != clean), other, clean)
    yield "boundary", (given, clean, scored(x, given))

    # A rule for each word, ten words a class; a word also occurs in other classes, where its rule is wrong.
    clean = rng.integers(3, size=rows)
    rates = np.where(np.arange(30) // 10 == np.arange(3)[:, None], 0.15, rng.uniform(0, 0.03, size=(3, 30)))
    words = rng.random((rows, 30)) < rates[clean]
    given = words.reshape(rows, 3, 10).sum(axis=2).argmax(axis=1)
    yield "keyword rules", (given, clean, scored(words.astype(float), given))

    x, clean, _ = gaussian(4)
    yield "clean", (clean, clean, scored(x, clean))

    x, clean, _ = gaussian(2, np.array([100, 1]) / 101)
    given = noise.corrupt(clean, np.array([[0.98, 0.02], [0.3, 0.7]]), random_state=1)
    yield "classes 1:100", (given, clean, scored(x, given))


def binormal(rng: np.random.Generator, true_auc: float, looks: float | None, rows: int = 5000) -> Population:
    """Wrong labels at `RATE`, ranked with `true_auc`; scores calibrated for `looks`, or for `true_auc`."""
    apart, seeming = (np.sqrt(2) * norm.ppf(one) for one in (true_auc, looks or true_auc))
    wrong = rng.random(rows) < RATE
    value = rng.normal(size=rows) + apart * wrong
    if looks is not None:
        shape = np.sort(rng.normal(size=rows) + seeming * (rng.random(rows) < RATE))
        value = shape[np.argsort(np.argsort(value))]
    logit = seeming * value - seeming**2 / 2 + np.log(RATE / (1 - RATE))
    given = rng.integers(4, size=rows)
    return given, np.where(wrong, (given + 1) % 4, given), 1 / (1 + np.exp(-logit))


def trials(name: str, population: Callable[[int], Population], audits: int = AUDITS) -> dict[str, float]:
    """Coverage and mean width of audits with seeds 0, 1, ..., and those of a simple random sample."""
    rng = np.random.default_rng(2)
    held, widths, rival_held, rival_widths, aucs = [], [], [], [], []
    for seed in track(range(audits), name, console=Console(stderr=True), transient=True):
        given, true, scores = population(seed)
        wrong = given != true
        found = total(audit_plan(scores, given, ROWS, seed), wrong)
        held.append(found.low <= wrong.sum() <= found.high)
        widths.append(found.width / len(given))
        low, high = wilson(int(wrong[rng.choice(len(given), ROWS, replace=False)].sum()), ROWS)
        rival_held.append(low <= wrong.mean() <= high)
        rival_widths.append(high - low)
        aucs.append(auc(wrong, scores) if seed == 0 else aucs[0])
    return {
        "rate": float(wrong.mean()),
        "auc": aucs[0],
        "held": float(np.mean(held)),
        "width": float(np.mean(widths)),
        "ratio": float(np.mean(widths) / np.mean(rival_widths)),
        "rival_held": float(np.mean(rival_held)),
    }


CASES = ((0.5, None), (0.7, None), (0.85, None), (0.95, None), (0.5, 0.85), (0.3, 0.85), (0.5, 0.95),
         (0.3, 0.95), (0.1, 0.95))  # fmt: skip
"""AUC of the ranking, and the AUC that the scores look like."""
LIMITS = {(0.85, None): 0.88, (0.95, None): 0.62}


def real_sets() -> Iterator[tuple[str, Population, int]]:
    """Labels that rules and people gave, with their truth, scored on TF-IDF; and the number of suspects."""
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer

    from trevision import NoisyLabelClassifier

    for folder in sorted((DATA / "real-noise").glob("*")):
        if not (folder / "truth.csv").is_file():
            continue
        train = pd.read_csv(folder / "train.csv").merge(pd.read_csv(folder / "truth.csv"), on="id")
        _, codes = np.unique(train[["label", "clean"]].astype(str), return_inverse=True)
        given, true = codes.reshape(-1, 2).T
        x = TfidfVectorizer(sublinear_tf=True).fit_transform(train["text"].fillna("").astype(str))
        model = NoisyLabelClassifier(LogisticRegression(max_iter=1000), random_state=0).fit(x, given)
        issues = model.find_label_issues(bootstrap=0)
        yield folder.name, (given, true, 1 - issues.p_given), int(issues.suspect.sum())


def print_real() -> None:
    print("| set | wrong | by the model | AUC | audit of 100 rows, seed 0 | rightly listed ", end="")
    print(f"| wrong, not listed | holds in {AUDITS // 5} audits | width beside Wilson |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (given, true, scores), suspects in real_sets():
        wrong, order = given != true, np.argsort(-scores, kind="stable")
        plan = audit_plan(scores, given, ROWS, 0)
        told = audit_estimate(plan, true[plan.rows], order=order, suspects=suspects)
        listed, on_list, missed = wrong[order[:suspects]].sum(), "none listed", told.wrong
        if told.listed is not None:
            on_list = f"{shown(told.listed.within)} of {suspects}; truth {listed}"
            missed = told.listed.beyond
        many = trials(name, lambda _, fixed=(given, true, scores): fixed, AUDITS // 5)
        print(
            f"| {name} | {wrong.sum()} of {len(wrong)} | {scores.sum():.0f} | {many['auc']:.2f} | "
            f"{shown(told.wrong)} | {on_list} | "
            f"{shown(missed)}; truth {wrong.sum() - listed} | {many['held']:.1%} | "
            f"{many['ratio']:.2f} |",
            flush=True,
        )


def shown(interval: Interval) -> str:
    return f"{interval.estimate:.0f} ({interval.low:.0f} to {interval.high:.0f})"


def main() -> None:
    with threadpool_limits(1):
        print("| noise | wrong | AUC | 90% interval holds | Wilson holds | width beside Wilson |")
        print("|---|---|---|---|---|---|")
        for name, fixed in populations():
            told = trials(name, lambda _, fixed=fixed: fixed)
            print(
                f"| {name} | {told['rate']:.1%} | {told['auc']:.2f} | {told['held']:.1%} | "
                f"{told['rival_held']:.1%} | {told['ratio']:.2f} |",
                flush=True,
            )
        print(
            "\n| AUC of the ranking | scores look like | 90% interval holds | width beside Wilson | limit |"
        )
        print("|---|---|---|---|---|")
        for case in CASES:
            told = trials(str(case), lambda seed, case=case: binormal(np.random.default_rng(seed), *case))
            print(
                f"| {case[0]} | {case[1] or case[0]} | {told['held']:.1%} | {told['ratio']:.3f} | "
                f"{LIMITS.get(case, 1.1)} |",
                flush=True,
            )
        if (DATA / "real-noise").is_dir():
            print()
            print_real()
        else:
            print(f"real labels are left out: {DATA} has no folder real-noise", file=sys.stderr)
