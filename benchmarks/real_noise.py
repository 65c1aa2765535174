"""`NoisyLabelClassifier` on labels that people and rules gave, beside the plain model and CleanLearning.

Claim: on each set, `auto` is at most 0.3 points below the plain model and at most 0.3 below CleanLearning;
on average it is above both. docs/any-model.md has what was measured.

- Texts, $TREVISION_DATA/real-noise/NAME/{train,test}.csv with columns id, text, label: TF-IDF and logistic
  regression. All rows are used; a seed draws the folds.
- CIFAR-10N (Wei et al. 2022), one person's label an image: $TREVISION_DATA/cifar-n/CIFAR-10_human.pt beside
  the official CIFAR-10 files. Each seed draws 5,000 images. Their features know no label: responses to 400
  whitened random patches of 6 x 6 pixels, averaged over four quarters, 200 principal components (after
  Coates, Lee and Ng 2011). Logistic regression and a forest.

    python -m benchmarks real_noise                       # seeds 1 to 5
    TREVISION_SEEDS=1,2 python -m benchmarks real_noise   # fewer

Printed: mean accuracy on clean test rows in per cent, over the seeds, and what `auto` chose, as Markdown.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.any_model import SEEDS, TREES, Case, Results, accuracies, print_heading, print_table

POOL, ROWS = 10_000, 5_000
"""Images whose features are computed, and how many of them a seed draws."""

PATCH, FILTERS, COMPONENTS = 6, 400, 200
LABEL_SETS = ("aggre_label", "random_label1", "worse_label")
DATA = Path(os.environ.get("TREVISION_DATA", "data"))


def text_cases(seed: int) -> Iterator[tuple[str, Case]]:
    for path in sorted((DATA / "real-noise").glob("*/train.csv")):
        train, test = pd.read_csv(path), pd.read_csv(path.with_name("test.csv"))
        texts = [frame["text"].fillna("").astype(str) for frame in (train, test)]
        # CleanLearning takes numbers for labels, and texts as their TF-IDF vectors.
        names, codes = np.unique(train["label"].astype(str), return_inverse=True)
        known = np.searchsorted(names, test["label"].astype(str))
        vectors = TfidfVectorizer(sublinear_tf=True).fit(texts[0])
        x, test_x = (vectors.transform(part) for part in texts)
        yield path.parent.name, Case(x, codes, test_x, known, seed)


def image_features(train: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal components of the responses to whitened random patches, averaged over quarters."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d, unfold

    generator = torch.Generator().manual_seed(0)
    images = [torch.from_numpy(np.ascontiguousarray(part)).float() for part in (train, others)]

    def normalised(patches: torch.Tensor) -> torch.Tensor:
        return (patches - patches.mean(-1, keepdim=True)) / (patches.var(-1, keepdim=True) + 10).sqrt()

    def all_patches(part: torch.Tensor) -> torch.Tensor:
        return normalised(unfold(part, PATCH).transpose(1, 2))

    drawn = torch.randperm(len(images[0]), generator=generator)[:500]
    sample = all_patches(images[0][drawn]).flatten(0, 1)
    sample = sample[torch.randperm(len(sample), generator=generator)[:50_000]]
    mean = sample.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov(sample.T))
    whiten = vectors @ torch.diag((values.clamp(min=0) + 0.1).rsqrt()) @ vectors.T
    filters = (sample[:FILTERS] - mean) @ whiten
    kernel = ((filters / filters.norm(dim=1, keepdim=True)) @ whiten).T

    def responses(part: torch.Tensor, name: str) -> torch.Tensor:
        side = part.shape[-1] - PATCH + 1
        pooled = []
        for batch in track(part.split(250), name, console=Console(stderr=True)):
            found = torch.relu((all_patches(batch) - mean) @ kernel - 0.5)
            found = found.transpose(1, 2).reshape(len(batch), FILTERS, side, side)
            pooled.append(adaptive_avg_pool2d(found, 2).flatten(1))
        return torch.cat(pooled)

    x, other_x = responses(images[0], "features"), responses(images[1], "features of test images")
    mean_x, scale = x.mean(0), x.std(0) + 1e-6
    x, other_x = (x - mean_x) / scale, (other_x - mean_x) / scale
    values, vectors = torch.linalg.eigh(torch.cov(x.T))
    components = vectors[:, -COMPONENTS:]
    return (x @ components).numpy(), (other_x @ components).numpy()


def image_cases(seeds: tuple[int, ...]) -> Iterator[tuple[str, Case]]:
    from trevision.data.named.cifar import read_cifar10
    from trevision.data.named.cifar10n import human_labels

    labels, data = human_labels(DATA / "cifar-n" / "CIFAR-10_human.pt"), read_cifar10(DATA)
    rows = np.random.default_rng(0).permutation(len(data.train_y))[:POOL]
    x, test_x = image_features(data.train_x[rows], data.test_x)
    for seed in seeds:
        drawn = np.random.default_rng(seed).permutation(POOL)[:ROWS]
        for name in LABEL_SETS:
            yield name, Case(x[drawn], labels[name][rows[drawn]], test_x, data.test_y, seed)


def image_models(seed: int) -> dict[str, Any]:
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300)),
        "random forest": RandomForestClassifier(TREES, random_state=seed),
    }


def main() -> None:
    warnings.filterwarnings("ignore")
    print_heading()
    results: Results = {}

    def add(key: tuple[str, str, str], model: Any, case: Case) -> None:
        result = accuracies(model, case)
        results.setdefault(key, []).append(result)
        print(f"{', '.join(key)}, seed {case.seed}: {result}", file=sys.stderr, flush=True)

    with threadpool_limits(1):
        for seed in SEEDS:
            for name, case in text_cases(seed):
                add(("texts", name, "logistic regression"), LogisticRegression(max_iter=1000), case)
        if (DATA / "cifar-n").is_dir():
            for name, case in image_cases(SEEDS):
                for model_name, model in image_models(case.seed).items():
                    add(("CIFAR-10N features", name, model_name), model, case)
    if not results:
        sys.exit(f"TREVISION_DATA must name a folder with real-noise or cifar-n, and {DATA} has neither")
    print_table(results, slack=0.3)
