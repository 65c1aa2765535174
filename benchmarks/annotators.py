"""Several labels a row: are inferred labels better than a vote, and is a classifier that learns from them?

The sentiment answers of Rodrigues et al. (2013) in `$TREVISION_DATA/real-noise/sentiment`: 4,999 sentences,
203 annotators, 27,746 answers. Compared are the vote of the majority, Dawid-Skene (crowd-kit), shares of
votes, and ours, `learn_with_classifier`. Every arm trains the same logistic regression on TF-IDF, on its
labels or probabilities. Features and strength of regularisation are chosen for each arm, from the same grid
and by the same rule: five folds, and the likelihood of the answers to held-out rows. Five seeds of the folds.

Printed: the share of training labels that are right; the accuracy of the classifier on held-out training
texts (folds) and on the test texts, whose labels are clean; and the difference of ours to each arm in the
same rows, with its standard error over rows; how many votes are wrong, estimated and in truth. The truth
takes no part in any training or choice.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import minimize_scalar
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from trevision.estimation import Answers, fit_annotators, learn_with_classifier
from trevision.estimation.annotators import discounted
from trevision.refit.correction import weighted_copies
from trevision.refit.models import cross_fit, fit_model, make_folds

SEEDS = range(5)
FOLDS = 5
CLASSES = 2
STRENGTHS = (1.0, 2.0, 4.0, 8.0)
WORDS = {"min_df": 2, "ngram_range": (1, 2), "sublinear_tf": True, "token_pattern": r"\S+"}
LETTERS = {"analyzer": "char_wb", "min_df": 2, "ngram_range": (2, 5), "sublinear_tf": True}
OURS, TRUTH = "ours", "the true labels"


@dataclass
class Sentiment:
    """Answers, features by name of training and test texts, and the truth, which only the tables see."""

    answers: Answers
    features: dict[str, tuple]
    truth: np.ndarray
    test_truth: np.ndarray


@dataclass
class Trained:
    """An arm with one seed: its training labels, its predictions for held-out and test rows, its choice."""

    labels: np.ndarray
    held_out: np.ndarray
    test: np.ndarray
    chosen: str


def read(folder: Path) -> tuple[Sentiment, pd.DataFrame, pd.Series]:
    data = {name: pd.read_csv(folder / f"{name}.csv") for name in ("train", "truth", "test", "answers")}
    train, test, given = data["train"], data["test"], data["answers"]
    who = given.annotator.astype("category")
    row = given.id.map({name: number for number, name in enumerate(train.id)}).to_numpy()
    answers = Answers(
        row, who.cat.codes.to_numpy().astype(int), given.label.to_numpy(), len(train), CLASSES,
        tuple(map(str, who.cat.categories)),
    )  # fmt: skip
    parts = {}
    for name, choices in (("words", WORDS), ("letters", LETTERS)):
        vectorizer = TfidfVectorizer(**choices).fit(train.text)
        parts[name] = vectorizer.transform(train.text), vectorizer.transform(test.text)
    both = tuple(hstack(pair).tocsr() for pair in zip(*parts.values(), strict=True))
    features = {"words": parts["words"], "words and letters": both}
    truth = data["truth"].set_index("id").loc[train.id, "clean"].to_numpy()
    return Sentiment(answers, features, truth, test.label.to_numpy()), given, train.id


def likelihood(data: Sentiment, transitions: np.ndarray, probs: np.ndarray) -> float:
    """The mean of log sum_i g_i^a T_a[i, y] over the answers, for the best power a."""
    answers = data.answers
    said = transitions[answers.who, :, answers.label]

    def loss(log_power: float) -> float:
        own = (discounted(probs, np.exp(log_power))[answers.row] * said).sum(axis=1)
        return -float(np.log(np.maximum(own, 1e-9)).mean())

    return -float(minimize_scalar(loss, bounds=(-2, 2), method="bounded").fun)


def tuned(data: Sentiment, transitions: np.ndarray, targets: np.ndarray, seed: int) -> tuple:
    """The model whose held-out predictions make answers likeliest: those predictions, and the choice."""
    folds = make_folds(data.answers.vote(), None, FOLDS, None, seed)
    training = weighted_copies(targets)
    best = None
    for name, strength in product(data.features, STRENGTHS):
        model = LogisticRegression(C=strength, max_iter=300, solver="liblinear")
        probs = cross_fit(model, data.features[name][0], training, folds, CLASSES, seed, None)
        value = likelihood(data, transitions, probs)
        if best is None or value > best[0]:
            best = value, probs, name, model
    return best[1:]


def train(data: Sentiment, transitions: np.ndarray, targets: np.ndarray, seed: int) -> Trained:
    probs, name, model = tuned(data, transitions, targets, seed)
    x, test_x = data.features[name]
    fitted = fit_model(model, x, weighted_copies(targets), CLASSES, seed)
    test = fitted.predict_proba(test_x).argmax(axis=1)
    return Trained(targets.argmax(axis=1), probs.argmax(axis=1), test, f"{name}, C = {model.C:g}")


def train_ours(data: Sentiment, transitions: np.ndarray, seed: int) -> tuple[Trained, dict[str, float]]:
    learnt = learn_with_classifier(data.answers, lambda targets: tuned(data, transitions, targets, seed)[0])
    trained = train(data, transitions, learnt.targets, seed)
    trained.labels = learnt.annotators.clean_posterior.argmax(axis=1)
    crowd, each, vote = learnt.annotators, np.arange(len(data.truth)), data.answers.vote()
    told = {"an answer counts as": crowd.counts_as}
    for name, clean in (("", crowd.clean_posterior), (" if independent", crowd.independent_posterior)):
        told[f"wrong votes{name}"] = float((1 - clean[each, vote]).sum())
        told[f"log loss of P(clean){name}"] = float(-np.log(clean[each, data.truth].clip(1e-9)).mean())
    return trained, told


def arms(data: Sentiment, given: pd.DataFrame, ids: pd.Series) -> dict[str, np.ndarray]:
    votes = data.answers.votes()
    targets = {"majority vote": np.eye(CLASSES)[data.answers.vote()]}
    if importlib.util.find_spec("crowdkit") is not None:
        from crowdkit.aggregation import DawidSkene

        named = given.rename(columns={"id": "task", "annotator": "worker"})
        inferred = DawidSkene(n_iter=100).fit_predict(named).loc[ids].to_numpy()
        targets["Dawid-Skene (crowd-kit)"] = np.eye(CLASSES)[inferred]
    targets["shares of votes"] = votes / votes.sum(axis=1, keepdims=True)
    targets[TRUTH] = np.eye(CLASSES)[data.truth]
    return targets


def main() -> None:
    folder = Path(os.environ.get("TREVISION_DATA", "")) / "real-noise" / "sentiment"
    if not folder.is_dir():
        sys.exit(f"TREVISION_DATA must name a folder with real-noise/sentiment, and {folder} is none")
    data, given, ids = read(folder)
    transitions = fit_annotators(data.answers, CLASSES).transitions
    targets = arms(data, given, ids)
    results: dict[str, list[Trained]] = {name: [] for name in (*targets, OURS)}
    told: list[dict[str, float]] = []
    steps = [(seed, name) for seed in SEEDS for name in (*targets, OURS)]
    for seed, name in track(steps, "arms", console=Console(stderr=True)):
        if name == OURS:
            trained, numbers = train_ours(data, transitions, seed)
            told.append(numbers)
        else:
            trained = train(data, transitions, targets[name], seed)
        results[name].append(trained)
    _print(data, results)
    for name in told[0]:
        values = [numbers[name] for numbers in told]
        print(f"{name}: {np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}")
    print(f"wrong votes in truth: {(data.answers.vote() != data.truth).sum()}")


def _print(data: Sentiment, results: dict[str, list[Trained]]) -> None:
    truths = {"labels": data.truth, "held_out": data.truth, "test": data.test_truth}
    right = {
        name: {key: np.array([getattr(run, key) == truth for run in runs]) for key, truth in truths.items()}
        for name, runs in results.items()
    }
    table = Table(
        "learnt from", "labels right, %", "held-out, %", "test, %", "ours - it, held-out", "ours - it, test"
    )
    for name, hits in right.items():
        cells = []
        for key in truths:
            by_seed = 100 * hits[key].mean(axis=1)
            cells.append(f"{by_seed.mean():.2f} ± {by_seed.std(ddof=1):.2f}")
        for key in ("held_out", "test"):
            gains = 100 * (right[OURS][key].mean(axis=0) - hits[key].mean(axis=0))
            cells.append(f"{gains.mean():+.2f} ± {gains.std(ddof=1) / np.sqrt(len(gains)):.2f}")
        table.add_row(name, *(cells if name != OURS else [*cells[:3], "", ""]))
    console = Console(width=140)
    console.print(table)
    for name, runs in results.items():
        console.print(f"{name}: {'; '.join(sorted({run.chosen for run in runs}))}")
