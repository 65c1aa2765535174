"""How good `trevision fit` is on a table of one's own, beside other tools on the same noisy labels.

Claims, for tables of scikit-learn's digits and of `make_classification`, with sym-40 and with pair-40 noise:
1. on clean held-out rows `trevision fit` is more often right than the same network trained plainly;
2. from the same out-of-sample probabilities, T and the ranking of wrong labels are no worse than cleanlab's,
   and better under pair noise.
docs/own-data.md has what was measured, and where a claim failed.

Each seed draws the held-out rows (30%), the noise and the tool's own randomness. The training rows go into a
.csv file with their noisy labels, the held-out rows into another with their clean ones; the tool sees only
the first, and is not told T. `fit` and `predict` are called as the commands call them, with defaults.
HistGradientBoosting and cleanlab's CleanLearning (around it, and around scikit-learn's MLP of the same
layers) learn from the same rows; both stop early by 10% of the noisy rows, as trevision selects its epoch;
gradient boosting is also printed with scikit-learn's default of 100 rounds.
T's error is |T - T-hat| summed and divided by the sum of T; the AUC is that of telling wrong labels from
right ones by how improbable they are. Printed: mean ± standard deviation over seeds, as Markdown.
Needs `pip install -c constraints.txt -e '.[bench]'`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from cleanlab.classification import CleanLearning
from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities, num_label_issues
from cleanlab.rank import get_label_quality_scores
from rich.console import Console
from rich.progress import track
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from trevision import find_label_issues, noise
from trevision.estimation import transition_error
from trevision.runs.predict import predict_to_csv
from trevision.runs.run import run
from trevision.runs.run_folder import OUT_OF_SAMPLE_FILE
from trevision.runs.settings import Settings

SEEDS = (0, 1, 2)
NOISES = ("sym-40", "pair-40")
METHODS = ("forward", "reweight-r", "standard")
HELD_OUT = 0.3
HIDDEN_LAYERS = (256, 128)
"""Those of trevision's network for tables."""

DECIMALS = {"T error": 3, "AUC": 4}

Scores = dict[str, float]


@dataclass(frozen=True, eq=False)
class Case:
    """Training rows with clean and noisy labels, clean held-out rows, and the T behind the noise."""

    train_x: np.ndarray
    clean: np.ndarray
    noisy: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    transition: np.ndarray
    seed: int


def digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x, y


def generated(seed: int, rows: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    x, y = make_classification(
        n_samples=rows,
        n_features=20,
        n_informative=12,
        n_redundant=0,
        n_classes=5,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=seed,
    )
    return x, y


TABLES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "digits": digits,
    "make_classification": generated,
}


def make_case(table: str, noise_name: str, seed: int) -> Case:
    x, y = TABLES[table](seed)
    train_x, test_x, clean, test_y = train_test_split(x, y, test_size=HELD_OUT, random_state=seed, stratify=y)
    transition = noise.parse(noise_name, len(np.unique(y)))
    noisy = noise.corrupt(clean, transition, random_state=seed)
    return Case(train_x, clean, noisy, test_x, test_y, transition, seed)


def write_table(path: Path, x: np.ndarray, labels: np.ndarray) -> None:
    columns = [f"column {i}" for i in range(x.shape[1])]
    pd.DataFrame(x, columns=columns).assign(label=labels).to_csv(path, index=False)


def accuracies_of_trevision(case: Case, folder: Path) -> Scores:
    """Held-out accuracy of each method; its run stays in a folder of its name."""
    train, test = folder / "train.csv", folder / "test.csv"
    write_table(train, case.train_x, case.noisy)
    write_table(test, case.test_x, case.test_y)
    scores = {}
    for method in METHODS:
        run(str(train), Settings(method=method, seed=case.seed), folder / method)
        predicted = predict_to_csv(folder / method, str(test), folder / f"{method}.csv")
        if predicted.accuracy is None:
            raise RuntimeError("the held-out table has labels, so there is an accuracy")
        scores[f"trevision, {method}"] = predicted.accuracy
    return scores


def accuracies_of_others(case: Case) -> Scores:
    trees = HistGradientBoostingClassifier(early_stopping=True, random_state=case.seed)
    network = make_pipeline(
        StandardScaler(), MLPClassifier(HIDDEN_LAYERS, early_stopping=True, random_state=case.seed)
    )

    def cleaned(model: BaseEstimator) -> CleanLearning:
        return CleanLearning(model, seed=case.seed, find_label_issues_kwargs={"n_jobs": 1})

    models = {
        "HistGradientBoosting": trees,
        "HistGradientBoosting, all rounds": HistGradientBoostingClassifier(random_state=case.seed),
        "CleanLearning, HistGradientBoosting": cleaned(trees),
        "CleanLearning, MLP": cleaned(network),
    }
    return {
        name: float(np.mean(model.fit(case.train_x, case.noisy).predict(case.test_x) == case.test_y))
        for name, model in models.items()
    }


def noise_found(case: Case, run_folder: Path) -> dict[str, Scores]:
    """What trevision and cleanlab make of the probabilities that a run predicted out of sample."""
    with np.load(run_folder / OUT_OF_SAMPLE_FILE, allow_pickle=False) as arrays:
        probs, given, rows = arrays["probs"].astype(np.float64), arrays["labels"], arrays["rows"]
    probs /= probs.sum(axis=1, keepdims=True)
    wrong = given != case.clean[rows]
    ours = find_label_issues(probs, given, bootstrap=10)
    _, noise_matrix, *_ = estimate_py_and_noise_matrices_from_probabilities(given, probs)

    def scored(transition: np.ndarray, quality: np.ndarray, count: float) -> Scores:
        return {
            "T error": transition_error(transition, case.transition),
            "AUC": float(roc_auc_score(wrong, -quality)),
            "wrong, estimated": count,
            "wrong, in truth": float(wrong.sum()),
        }

    return {
        "trevision": scored(ours.estimate.transition, ours.p_given, ours.wrong[0]),
        "cleanlab": scored(
            noise.from_cleanlab(noise_matrix),
            get_label_quality_scores(given, probs),
            float(num_label_issues(given, probs)),
        ),
    }


def spread(values: list[float], decimals: int, factor: float = 1) -> str:
    scaled = factor * np.array(values)
    return f"{scaled.mean():.{decimals}f} ± {scaled.std(ddof=1):.{decimals}f}"


def print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def print_accuracies(found: dict[str, list[Scores]]) -> None:
    print("\n## Accuracy on clean held-out rows, per cent\n")
    print_row("", *found)
    print_row("---", *("---:" for _ in found))
    for name in next(iter(found.values()))[0]:
        print_row(name, *(spread([seed[name] for seed in seeds], 2, 100) for seeds in found.values()))
    print()
    for case, seeds in found.items():
        plain = np.mean([seed["trevision, standard"] for seed in seeds])
        gains = [
            f"{method} {100 * (np.mean([seed[f'trevision, {method}'] for seed in seeds]) - plain):+.2f}"
            for method in METHODS[:-1]
        ]
        print(f"- {case}: points over plain training of the same network: {', '.join(gains)}")


def print_noise(found: dict[str, list[dict[str, Scores]]]) -> None:
    print("\n## T and wrong labels, from the same out-of-sample probabilities\n")
    columns = next(iter(found.values()))[0]["trevision"]
    print_row("", "", *columns)
    print_row("---", "---", *("---:" for _ in columns))
    for case, seeds in found.items():
        for tool in ("trevision", "cleanlab"):
            scores = {name: [seed[tool][name] for seed in seeds] for name in columns}
            cells = [spread(values, DECIMALS.get(name, 0)) for name, values in scores.items()]
            print_row(case, tool, *cells)
    print()
    for case, seeds in found.items():
        print(f"- {case}: {', '.join(verdict(seeds, name) for name in ('T error', 'AUC'))}")


def verdict(seeds: list[dict[str, Scores]], name: str) -> str:
    """Whether our mean is better than cleanlab's, and with how many seeds we are ahead."""
    sign = -1 if name == "T error" else 1
    gains = np.array([sign * (seed["trevision"][name] - seed["cleanlab"][name]) for seed in seeds])
    word = "better" if gains.mean() > 0 else "no worse" if gains.mean() == 0 else "WORSE"
    return f"{name} {word} than cleanlab's (ahead with {(gains > 0).sum()} of {len(gains)} seeds)"


def main() -> None:
    torch.set_num_threads(1)
    accuracies: dict[str, list[Scores]] = {}
    noises: dict[str, list[dict[str, Scores]]] = {}
    work = [(table, name, seed) for seed in SEEDS for table in TABLES for name in NOISES]
    with threadpool_limits(1):
        for table, name, seed in track(work, "own data", console=Console(stderr=True)):
            case = make_case(table, name, seed)
            with tempfile.TemporaryDirectory() as folder:
                scores = accuracies_of_trevision(case, Path(folder))
                found = noise_found(case, Path(folder) / METHODS[0])
            scores |= accuracies_of_others(case)
            accuracies.setdefault(f"{table}, {name}", []).append(scores)
            noises.setdefault(f"{table}, {name}", []).append(found)
            print(f"{table}, {name}, seed {seed}: {scores} {found}", file=sys.stderr, flush=True)
    packages = ("trevision", "torch", "scikit-learn", "cleanlab")
    print(f"Seeds {SEEDS}, one thread, {', '.join(f'{name} {version(name)}' for name in packages)}")
    print_accuracies(accuracies)
    print_noise(noises)
