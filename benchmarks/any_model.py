"""How good `NoisyLabelClassifier` is around common models, beside the plain model and CleanLearning.

Claims, for LightGBM, HistGradientBoosting, a random forest and logistic regression:
1. `auto` is nowhere more than 0.3 points below the plain model, nor 0.5 points below CleanLearning;
2. it is above CleanLearning on average;
3. under pair-40 it is 10 points above the plain model and 5 above CleanLearning.
docs/any-model.md has what was measured, and where a claim failed.

Tables: scikit-learn's digits and breast_cancer, and `make_classification`. Noises: sym-40, pair-40, a dense
T drawn at random with 25 to 45% of each class wrong, none, and sym-20 with a class of 20 times fewer rows.
Each seed draws the held-out rows (30%, clean), the noise and the models' randomness. No tool is told T.
`python -m benchmarks real_noise` does the same on labels that rules and people gave.

    python -m benchmarks any_model                       # seeds 1 to 5
    TREVISION_SEEDS=1,2 python -m benchmarks any_model   # fewer
    TREVISION_JOBS=2 python -m benchmarks any_model      # two cells at a time

Printed: mean accuracy on clean held-out rows, in per cent, and what `auto` chose, as Markdown.
Needs `pip install -c constraints.txt -e '.[bench]' lightgbm`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from typing import Any

import numpy as np
from cleanlab.classification import CleanLearning
from joblib import Parallel, delayed
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.progress import track
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.own_data import generated
from trevision import NoisyLabelClassifier, noise

SEEDS = tuple(int(word) for word in os.environ.get("TREVISION_SEEDS", "1,2,3,4,5").split(","))
JOBS = int(os.environ.get("TREVISION_JOBS", "1"))
NOISES = ("sym-40", "pair-40", "dense", "clean", "1:20")
HELD_OUT = 0.3
ROUNDS = 25
"""Of both kinds of gradient boosting: most of the accuracy in a quarter of the time of 100."""

TREES = 50
"""Of the forest."""

RARE, RARE_NOISE = 20, "sym-20"

Results = dict[tuple[str, str, str], list[tuple[dict[str, float], str]]]
"""By data, noise and model, for each seed: the accuracies, and the correction that was chosen."""


def models(seed: int) -> dict[str, Any]:
    return {
        "LightGBM": LGBMClassifier(n_estimators=ROUNDS, n_jobs=1, verbose=-1, random_state=seed),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "random forest": RandomForestClassifier(TREES, random_state=seed),
        "HistGradientBoosting": HistGradientBoostingClassifier(max_iter=ROUNDS, random_state=seed),
    }


TABLES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "digits": lambda seed: load_digits(return_X_y=True),
    "make_classification": lambda seed: generated(seed, rows=3000),
    "breast_cancer": lambda seed: load_breast_cancer(return_X_y=True),
}


@dataclass(frozen=True, eq=False)
class Case:
    """Training rows with their noisy labels, and clean held-out rows."""

    x: Any
    noisy: np.ndarray
    test_x: Any
    test_y: np.ndarray
    seed: int


def dense_transition(size: int, seed: int) -> np.ndarray:
    """25 to 45% of each class go wrong, to the others in shares drawn evenly from all that there are."""
    rng = np.random.default_rng([seed, 7])
    transition = np.zeros((size, size))
    for row, rate in enumerate(rng.uniform(0.25, 0.45, size)):
        transition[row, np.arange(size) != row] = rate * rng.dirichlet(np.ones(size - 1))
        transition[row, row] = 1 - rate
    return transition


def make_case(table: str, noise_name: str, seed: int) -> Case:
    x, y = TABLES[table](seed)
    size = len(np.unique(y))
    transition = np.eye(size)
    if noise_name == "1:20":
        rng = np.random.default_rng([seed, 8])
        kept = (y != size - 1) | (rng.random(len(y)) < 1 / RARE)
        x, y, transition = x[kept], y[kept], noise.parse(RARE_NOISE, size)
    elif noise_name == "dense":
        transition = dense_transition(size, seed)
    elif noise_name != "clean":
        transition = noise.parse(noise_name, size)
    train_x, test_x, clean, test_y = train_test_split(x, y, test_size=HELD_OUT, random_state=seed, stratify=y)
    return Case(train_x, noise.corrupt(clean, transition, random_state=seed), test_x, test_y, seed)


def accuracies(model: Any, case: Case) -> tuple[dict[str, float], str]:
    """Accuracy of the plain model, of CleanLearning and of `auto`; the correction that was chosen."""

    def right(fitted: Any) -> float:
        return 100 * float(np.mean(fitted.predict(case.test_x) == case.test_y))

    ours = NoisyLabelClassifier(model, random_state=case.seed).fit(case.x, case.noisy)
    cleaned = CleanLearning(clone(model), seed=case.seed, find_label_issues_kwargs={"n_jobs": 1})
    scores = {
        "plain": right(clone(model).fit(case.x, case.noisy)),
        "CleanLearning": right(cleaned.fit(case.x, case.noisy)),
        "auto": right(ours),
    }
    revised = {step["correction"] for step in ours.history_ if step.get("accepted")}
    return scores, ours.correction_ + ("+T" if ours.correction_ in revised else "")


def cell(model: str, seed: int, table: str, kind: str) -> tuple[dict[str, float], str]:
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        return accuracies(models(seed)[model], make_case(table, kind, seed))


def print_heading() -> None:
    packages = ("trevision", "scikit-learn", "lightgbm", "cleanlab")
    print(f"Seeds {SEEDS}, one thread, {', '.join(f'{name} {version(name)}' for name in packages)}\n")


def print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def print_table(results: Results, slack: float = 0.5) -> None:
    """A line a cell; then cells where `auto` is 0.3 below the plain model, or `slack` below CleanLearning."""
    print_row("table", "noise", "model", "plain", "CleanLearning", "auto", "chosen")
    print_row("---", "---", "---", "---:", "---:", "---:", "---")
    means = []
    for key, seeds in results.items():
        mean = {name: np.mean([scores[name] for scores, _ in seeds]) for name in seeds[0][0]}
        means.append((key, mean))
        chosen = Counter(name for _, name in seeds)
        told = ", ".join(f"{name} {count}" for name, count in chosen.most_common())
        print_row(*key, *(f"{value:.1f}" for value in mean.values()), told)
    print()
    for kind in dict.fromkeys(key[1] for key, _ in means):
        own = [mean for key, mean in means if key[1] == kind]
        told = ", ".join(f"{name} {np.mean([mean[name] for mean in own]):.2f}" for name in own[0])
        print(f"- mean of {kind}: {told}")
    told = ", ".join(f"{name} {np.mean([mean[name] for _, mean in means]):.2f}" for name in means[0][1])
    print(f"- mean of all: {told}")
    for rival, allowed in (("plain", 0.3), ("CleanLearning", slack)):
        below = [
            f"{', '.join(key)} ({mean['auto'] - mean[rival]:+.1f})"
            for key, mean in means
            if mean["auto"] < mean[rival] - allowed
        ]
        print(f"- more than {allowed} points below {rival}: {len(below)} of {len(means)}. {'; '.join(below)}")


def main() -> None:
    warnings.filterwarnings("ignore")
    print_heading()
    results: Results = {}
    console = Console(stderr=True)
    work = [(model, seed, *each) for seed in SEEDS for model in models(0) for each in product(TABLES, NOISES)]
    done = Parallel(n_jobs=JOBS, return_as="generator")(delayed(cell)(*each) for each in work)
    progress = track(zip(work, done, strict=True), "tables", len(work), console=console)
    for (model, seed, table, kind), result in progress:
        results.setdefault((table, kind, model), []).append(result)
        print(f"{table}, {kind}, {model}, seed {seed}: {result}", file=sys.stderr, flush=True)
    print_table(results)
