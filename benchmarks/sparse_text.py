"""What texts cost in memory: a `Pipeline` of `TfidfVectorizer` and a linear model in `NoisyLabelClassifier`.

Claims, for 20,000 texts. Each is measured in a process of its own, as the growth of its largest resident set
once everything is imported and the texts are made:
1. `NoisyLabelClassifier` needs less than a tenth of the table of words as a dense array;
2. and at most three times what the plain fit of the same pipeline needs.

Texts are 60 words each, drawn from 50,000 by Zipf's law; half of the words tell one of four classes. 30% of
each class are labelled as the next one. The test set of 5,000 texts has clean labels.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

TEXTS, TEST_TEXTS, WORDS, LENGTH, CLASSES, RATE = 20_000, 5_000, 50_000, 60, 4, 0.3
WAYS = ("plain", "NoisyLabelClassifier")


def peak() -> int:
    """The largest resident set of this process so far, in bytes."""
    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def make_texts() -> tuple[list[str], np.ndarray]:
    """Texts and their classes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(CLASSES, size=TEXTS + TEST_TEXTS)
    shares = 1 / (10 + np.arange(WORDS // CLASSES))
    shares /= shares.sum()
    texts = []
    for own in classes:
        ranks = rng.choice(WORDS // CLASSES, size=LENGTH, p=shares)
        kinds = np.where(rng.random(LENGTH) < 0.5, own, rng.integers(CLASSES, size=LENGTH))
        texts.append(" ".join(f"w{rank}x{kind}" for rank, kind in zip(ranks, kinds, strict=True)))
    return texts, classes


def measure(way: str) -> None:
    """Fit in this process, and print what it took."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    from trevision import NoisyLabelClassifier, noise

    texts, clean = make_texts()
    noisy = noise.corrupt(clean[:TEXTS], noise.pair_flip(CLASSES, RATE), random_state=0)
    pipeline = make_pipeline(TfidfVectorizer(), SGDClassifier(loss="log_loss", random_state=0))
    model = pipeline if way == "plain" else NoisyLabelClassifier(pipeline, random_state=0)
    model.fit(texts[:200], noisy[:200])  # loads what is loaded once
    before, began = peak(), time.process_time()
    model.fit(texts[:TEXTS], noisy)
    took, grown = time.process_time() - began, peak() - before
    vectorizer = (model if way == "plain" else model.estimator_)[0]
    table = vectorizer.transform(texts[:TEXTS])
    found = {
        "grown": grown,
        "seconds": took,
        "accuracy": model.score(texts[TEXTS:], clean[TEXTS:]),
        "columns": table.shape[1],
        "sparse": table.data.nbytes + table.indices.nbytes + table.indptr.nbytes,
    }
    print(json.dumps(found))


def main() -> None:
    if "--measure" in sys.argv:
        measure(sys.argv[sys.argv.index("--measure") + 1])
        return
    found = {}
    for way in track(WAYS, "fitting", console=Console(stderr=True)):
        command = [sys.executable, "-m", "benchmarks", "sparse_text", "--measure", way]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        found[way] = json.loads(ran.stdout)
    columns = found["plain"]["columns"]
    dense = TEXTS * columns * 8
    title = (
        f"{TEXTS:,} texts, {columns:,} words: {found['plain']['sparse'] / 2**20:.0f} MB sparse, "
        f"{dense / 2**20:,.0f} MB dense"
    )
    table = Table(title=title)
    for column in ("", "memory", "of the dense table", "processor", "accuracy"):
        table.add_column(column, justify="right" if column else "left")
    for way, each in found.items():
        table.add_row(
            way,
            f"{each['grown'] / 2**20:.0f} MB",
            f"{each['grown'] / dense:.1%}",
            f"{each['seconds']:.0f} s",
            f"{each['accuracy']:.1%}",
        )
    console = Console()
    console.print(table)
    times = found[WAYS[1]]["grown"] / found[WAYS[0]]["grown"]
    console.print(f"{WAYS[1]} takes {times:.1f} times the memory of the plain fit (<= 3)")
