"""Several labels a row: are inferred labels better than a vote, and what does a classifier add?

The sentiment answers of Rodrigues et al. (2013) in `$TREVISION_DATA/real-noise/sentiment`: 4,999 sentences,
203 annotators, 27,746 answers. Compared are the vote of the majority, Dawid-Skene (crowd-kit, where it is
installed), `fit_annotators` on the answers alone, and `fit_annotators` with out-of-fold predictions of a
classifier on TF-IDF, which learns from the inferred labels (five seeds of the folds). Printed: the share of
training labels that are right, and the accuracy of logistic regression on clean test labels after training on
them. The truth takes no part in any of it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import minimize_scalar
from scipy.sparse import vstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from trevision.estimation import fit_annotators
from trevision.estimation.annotators import MISSING

SEEDS = range(5)
FOLDS = 5
CLASSES = 2


def read(folder: Path) -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(folder / f"{name}.csv") for name in ("train", "truth", "test", "answers")}


def fitted(x, clean: np.ndarray) -> LogisticRegression:
    """Logistic regression on each row once for each class, weighted by P(clean)."""
    rows = x.shape[0]
    model = LogisticRegression(C=4, max_iter=300)
    labels = np.repeat(np.arange(CLASSES), rows)
    return model.fit(vstack([x] * CLASSES), labels, sample_weight=clean.T.ravel())


def sharpened(probs: np.ndarray, clean: np.ndarray) -> np.ndarray:
    """Predictions raised to the power that explains P(clean) best."""
    logs = np.log(np.maximum(probs, 1e-9))

    def powered(power: float) -> np.ndarray:
        scaled = power * logs
        return scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))

    best = minimize_scalar(lambda power: -(clean * powered(power)).sum(), bounds=(0.1, 10), method="bounded")
    return np.exp(powered(best.x))


def with_classifier(answers: np.ndarray, x, seed: int) -> np.ndarray:
    """P(clean), once a classifier that has not seen a row's answers has been asked about it."""
    clean = fit_annotators(answers, CLASSES).clean_posterior
    probs = np.empty_like(clean)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for train, held_out in folds.split(probs, clean.argmax(axis=1)):
        probs[held_out] = fitted(x[train], clean[train]).predict_proba(x[held_out])
    return fit_annotators(answers, CLASSES, sharpened(probs, clean)).clean_posterior


def main() -> None:
    folder = Path(os.environ.get("TREVISION_DATA", "")) / "real-noise" / "sentiment"
    if not folder.is_dir():
        sys.exit(f"TREVISION_DATA must name a folder with real-noise/sentiment, and {folder} is none")
    data = read(folder)
    train, test, given = data["train"], data["test"], data["answers"]
    truth = data["truth"].set_index("id").loc[train.id, "clean"].to_numpy()
    row = given.id.map({name: number for number, name in enumerate(train.id)})
    who = given.annotator.astype("category").cat.codes
    answers = np.full((len(train), who.max() + 1), MISSING)
    answers[row, who] = given.label
    words = TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True).fit(train.text)
    x, test_x = words.transform(train.text), words.transform(test.text)

    def measured(clean: np.ndarray) -> tuple[float, float]:
        right = (clean.argmax(axis=1) == truth).mean()
        return 100 * right, 100 * (fitted(x, clean).predict(test_x) == test.label).mean()

    votes = np.stack([(answers == label).sum(axis=1) for label in range(CLASSES)], axis=1)
    ours = [with_classifier(answers, x, seed) for seed in track(SEEDS, "folds", console=Console(stderr=True))]
    results = {"majority vote (ties to the first class)": [measured(np.eye(CLASSES)[votes.argmax(axis=1)])]}
    if importlib.util.find_spec("crowdkit") is not None:
        from crowdkit.aggregation import DawidSkene

        named = given.rename(columns={"id": "task", "annotator": "worker"})
        inferred = DawidSkene(n_iter=100).fit_predict(named).loc[train.id].to_numpy()
        results["Dawid-Skene (crowd-kit)"] = [measured(np.eye(CLASSES)[inferred])]
    results["fit_annotators, answers alone"] = [measured(fit_annotators(answers, CLASSES).clean_posterior)]
    results[f"fit_annotators with a classifier, {len(SEEDS)} seeds"] = [measured(clean) for clean in ours]
    results["the true labels"] = [measured(np.eye(CLASSES)[truth])]
    table = Table("labels", "right, %", "test accuracy, %")
    for name, values in results.items():
        cells = [
            f"{np.mean(column):.2f}" + (f" ± {np.std(column, ddof=1):.2f}" if len(column) > 1 else "")
            for column in zip(*values, strict=True)
        ]
        table.add_row(name, *cells)
    Console().print(table)
