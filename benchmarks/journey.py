"""From a file to a list of wrong labels and a better classifier: our commands beside cleanlab's tutorials.

Four data sets whose wrong labels are known: a generated table and scikit-learn's digits as a folder of images
(20% of the labels wrong, by any other class), and two sets of texts that rules labelled in earnest
($TREVISION_DATA/real-noise; left out where it is not). Both tools are used as their documentation says:

- ours: `trevision fit`, `issues`, `apply`, `fit`, `predict`, with no flag but the names of columns;
- cleanlab: cross-validated probabilities, then Datalab's list, as in its tutorials for tables, texts and
  images; after the correction, CleanLearning around the same model. The text tutorial embeds with a
  pretrained transformer, the image tutorial trains a convolutional network; both are replaced by models
  that need no download (TF-IDF with logistic regression; scikit-learn's MLP on pixels).

Counted: lines typed (imports too, blank lines not); CPU seconds of the processes up to the list, and from the
corrected labels to predictions; wrong labels among the first 100 listed; accuracy on clean held-out rows
before, and after these 100 were corrected by the truth. One thread. docs/beside-cleanlab.md has the figures.

    python -m benchmarks journey                        # seeds 1 to 3 of noise, held-out rows and training
    TREVISION_SEEDS=1 python -m benchmarks journey      # fewer

Needs `pip install -c constraints.txt -e '.[bench]'`.
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split

from trevision import noise

SEEDS = tuple(int(seed) for seed in os.environ.get("TREVISION_SEEDS", "1,2,3").split(","))
LISTED = 100
WRONG = 0.2
DATA = Path(os.environ.get("TREVISION_DATA", "data")) / "real-noise"


@dataclass(frozen=True)
class Journey:
    """What is typed for one kind of data; every file is in the working directory."""

    ours: tuple[str, ...]
    """Up to the list."""
    ours_after: tuple[str, ...]
    """From corrections.csv, as the report's page downloads it, to predictions for the held-out rows."""
    cleanlab: str
    """Up to `listed`, a frame of suspects by row."""
    cleanlab_after: str
    """From the corrected `labels` to `predicted`."""


READ_TABLE = """\
table = pd.read_csv("train.csv")
X, labels = table.drop(columns="label"), table["label"]
"""

READ_TEXTS = """\
table = pd.read_csv("train.csv")
X, labels = TfidfVectorizer().fit_transform(table["text"]), table["label"]
"""

READ_IMAGES = """\
paths = sorted(Path("train").glob("*/*.png"))
X = np.stack([np.asarray(Image.open(path)).ravel() / 255 for path in paths])
labels = pd.Series([path.parent.name for path in paths])
"""

FIND = """\
pred_probs = cross_val_predict(model, X, labels, cv=5, method="predict_proba")
lab = Datalab({"y": labels.to_numpy()}, label_name="y")
lab.find_issues(pred_probs=pred_probs)
lab.report()
issues = lab.get_issues("label")
listed = issues[issues["is_label_issue"]].sort_values("label_score")
"""

TRAIN = """\
from cleanlab.classification import CleanLearning
from sklearn.preprocessing import LabelEncoder
encoder = LabelEncoder()
learner = CleanLearning(model)
learner.fit(X, encoder.fit_transform(labels))
"""

IMPORTS = """\
import pandas as pd
from cleanlab import Datalab
from sklearn.model_selection import cross_val_predict
"""

TABLE_JOURNEY = Journey(
    ours=(
        "trevision fit train.csv --label-column label --out run",
        "trevision issues run",
    ),
    ours_after=(
        "trevision apply run corrections.csv --out cleaned.csv",
        "trevision fit cleaned.csv --label-column label --out repaired",
        "trevision predict repaired test.csv --out predicted.csv",
    ),
    cleanlab=IMPORTS
    + "from sklearn.ensemble import HistGradientBoostingClassifier\n"
    + READ_TABLE
    + "model = HistGradientBoostingClassifier()\n"
    + FIND,
    cleanlab_after=TRAIN
    + 'test = pd.read_csv("test.csv").drop(columns="label")\n'
    + "predicted = encoder.inverse_transform(learner.predict(test))\n",
)

TEXT_FLAGS = "--label-column label --text-column text --ignore-column id"

TEXT_JOURNEY = Journey(
    ours=(
        f"trevision fit train.csv {TEXT_FLAGS} --out run",
        "trevision issues run",
    ),
    ours_after=(
        "trevision apply run corrections.csv --out cleaned.csv",
        f"trevision fit cleaned.csv {TEXT_FLAGS} --out repaired",
        "trevision predict repaired test.csv --out predicted.csv",
    ),
    cleanlab=IMPORTS
    + "from sklearn.feature_extraction.text import TfidfVectorizer\n"
    + "from sklearn.linear_model import LogisticRegression\n"
    + READ_TEXTS
    + "model = LogisticRegression(max_iter=400)\n"
    + FIND,
    cleanlab_after=TRAIN
    + 'vectorizer = TfidfVectorizer().fit(table["text"])\n'
    + 'test = vectorizer.transform(pd.read_csv("test.csv")["text"])\n'
    + "predicted = encoder.inverse_transform(learner.predict(test))\n",
)

IMAGE_JOURNEY = Journey(
    ours=(
        "trevision fit train --out run",
        "trevision issues run",
    ),
    ours_after=(
        "trevision apply run corrections.csv --out cleaned.csv",
        "trevision fit cleaned.csv --out repaired",
        "trevision predict repaired test --out predicted.csv",
    ),
    cleanlab=IMPORTS
    + "from pathlib import Path\n"
    + "import numpy as np\n"
    + "from PIL import Image\n"
    + "from sklearn.neural_network import MLPClassifier\n"
    + READ_IMAGES
    + "model = MLPClassifier((256, 128), early_stopping=True)\n"
    + FIND,
    cleanlab_after=TRAIN
    + 'test_paths = sorted(Path("test").glob("*/*.png"))\n'
    + "test = np.stack([np.asarray(Image.open(path)).ravel() / 255 for path in test_paths])\n"
    + "predicted = encoder.inverse_transform(learner.predict(test))\n",
)

LIST = """
rest = issues[~issues["is_label_issue"]].sort_values("label_score")
pd.concat([listed, rest]).index.to_series().to_csv("listed.csv", index=False)
"""
"""What the benchmark adds to cleanlab's script: rows beyond its list follow by the same score."""

PREDICT = '\npd.Series(predicted).to_csv("theirs.csv", index=False)\n'


@dataclass(frozen=True)
class Truth:
    """The labels that were given, the right ones, and those of the held-out rows, as words."""

    given: np.ndarray
    clean: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """What one tool came to on one data set."""

    lines: int
    find_seconds: float
    repair_seconds: float
    found: int
    before: float
    after: float


def table_set(folder: Path, seed: int) -> Truth:
    x, clean = make_classification(
        n_samples=4000,
        n_features=20,
        n_informative=12,
        n_redundant=0,
        n_classes=5,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=seed,
    )
    names = np.array(["amber", "blue", "coral", "denim", "ecru"])
    given = noise.corrupt(clean, noise.symmetric(5, WRONG), random_state=seed)
    columns = [f"x{i}" for i in range(x.shape[1])]
    frame = pd.DataFrame(x.round(4), columns=columns)
    frame.assign(label=names[given])[:3000].to_csv(folder / "train.csv", index=False)
    frame.assign(label=names[clean])[3000:].to_csv(folder / "test.csv", index=False)
    return Truth(names[given[:3000]], names[clean[:3000]], names[clean[3000:]])


def image_set(folder: Path, seed: int) -> Truth:
    images, clean = load_digits(return_X_y=True)
    rows, test = train_test_split(np.arange(len(clean)), test_size=0.25, random_state=seed, stratify=clean)
    given = clean.copy()
    given[rows] = noise.corrupt(clean[rows], noise.symmetric(10, WRONG), random_state=seed)
    for part, members in (("train", rows), ("test", test)):
        for row in members:
            path = folder / part / str(given[row]) / f"{row:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((15 * images[row].reshape(8, 8)).astype(np.uint8)).save(path)

    def listed(part: str) -> np.ndarray:
        return np.array([int(path.stem) for path in sorted((folder / part).glob("*/*.png"))])

    train, held_out = listed("train"), listed("test")
    return Truth(given[train].astype(str), clean[train].astype(str), clean[held_out].astype(str))


def text_set(name: str) -> Callable[[Path, int], Truth]:
    def write(folder: Path, seed: int) -> Truth:
        train, truth, test = (pd.read_csv(DATA / name / f"{part}.csv") for part in ("train", "truth", "test"))
        train["text"], test["text"] = train["text"].fillna(""), test["text"].fillna("")
        train.to_csv(folder / "train.csv", index=False)
        test.to_csv(folder / "test.csv", index=False)
        clean = train[["id"]].merge(truth, on="id", validate="one_to_one")["clean"]
        given, clean, held_out = (
            column.astype(str).to_numpy() for column in (train["label"], clean, test["label"])
        )
        return Truth(given, clean, held_out)

    return write


def data_sets() -> Iterator[tuple[str, Journey, Callable[[Path, int], Truth]]]:
    yield "table", TABLE_JOURNEY, table_set
    yield "images", IMAGE_JOURNEY, image_set
    for name in ("sms", "semeval"):
        if (DATA / name).is_dir():
            yield name, TEXT_JOURNEY, text_set(name)


def timed(command: list[str], folder: Path) -> float:
    """Run a command in a folder; its CPU seconds, those of its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)[:200]}\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(journey: Journey, truth: Truth, folder: Path, seed: int) -> Outcome:
    def run(line: str) -> float:
        words = line.split()[1:]
        words += ["--seed", str(seed)] if words[0] == "fit" else []
        return timed([sys.executable, "-m", "trevision", *words], folder)

    def accuracy() -> float:
        labels = pd.read_csv(folder / "predicted.csv", dtype=str)["label"].to_numpy()
        return float(np.mean(labels == truth.test))

    find = sum(map(run, journey.ours))
    issues = pd.read_csv(folder / "run" / "issues.csv", dtype={"given": str})
    rows = issues["row"].to_numpy()[:LISTED]
    run(journey.ours_after[-1].replace("repaired", "run"))
    before = accuracy()
    with (folder / "corrections.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["row", "name", "given", "corrected", "decision"])
        for row, name in zip(rows, issues["name"], strict=False):
            right = truth.clean[row] == truth.given[row]
            lines.writerow([row, name, truth.given[row], truth.clean[row], "keep" if right else "change"])
    repair = sum(map(run, journey.ours_after))
    found = int(np.sum(truth.given[rows] != truth.clean[rows]))
    return Outcome(len(journey.ours + journey.ours_after), find, repair, found, before, accuracy())


def cleanlabs(journey: Journey, truth: Truth, folder: Path, seed: int) -> Outcome:
    seeded = f"import numpy as np\nnp.random.seed({seed})\n"

    def run(script: str) -> float:
        return timed([sys.executable, "-c", seeded + script], folder)

    def trained(corrected: np.ndarray) -> tuple[float, float]:
        pd.Series(corrected).to_csv(folder / "corrected.csv", index=False, header=["label"])
        read = (
            journey.cleanlab.replace(FIND, "") + 'labels = pd.read_csv("corrected.csv", dtype=str)["label"]\n'
        )
        seconds = run(read + journey.cleanlab_after + PREDICT)
        labels = pd.read_csv(folder / "theirs.csv", dtype=str).iloc[:, 0].to_numpy()
        return seconds, float(np.mean(labels == truth.test))

    find = run(journey.cleanlab + LIST)
    rows = pd.read_csv(folder / "listed.csv").iloc[:, 0].to_numpy()[:LISTED]
    _, before = trained(truth.given)
    corrected = truth.given.copy()
    corrected[rows] = truth.clean[rows]
    repair, after = trained(corrected)
    lines = [line for line in (journey.cleanlab + journey.cleanlab_after).splitlines() if line.strip()]
    found = int(np.sum(truth.given[rows] != truth.clean[rows]))
    return Outcome(len(lines), find, repair, found, before, after)


def main() -> None:
    tools = {"trevision": ours, "cleanlab": cleanlabs}
    results: dict[tuple[str, str], list[Outcome]] = {}
    wrong: dict[str, list[str]] = {}
    for name, journey, write in data_sets():
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                truth = write(folder, seed)
                share = f"{int(np.sum(truth.given != truth.clean))} of {len(truth.given)}"
                wrong.setdefault(name, []).append(share)
                for tool, run in tools.items():
                    outcome = run(journey, truth, folder, seed)
                    results.setdefault((name, tool), []).append(outcome)
                    print(f"{name}, seed {seed}, {tool}: {outcome}", file=sys.stderr, flush=True)
    print_table(results, wrong)


def print_table(results: dict[tuple[str, str], list[Outcome]], wrong: dict[str, list[str]]) -> None:
    """Means ± standard deviations over the seeds, as Markdown."""

    def cell(values: list[float], form: str) -> str:
        spread = f" ± {np.std(values, ddof=1):{form}}" if len(values) > 1 else ""
        return f"{np.mean(values):{form}}{spread}"

    print(f"n = {len(SEEDS)} (seeds {', '.join(map(str, SEEDS))})\n")
    print(
        "| data | wrong labels | tool | lines typed | CPU s to the list | CPU s to the new classifier |",
        end="",
    )
    print(f" wrong among the first {LISTED} | accuracy before, % | after, % |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|")
    for (name, tool), outcomes in results.items():
        cells = [
            str(outcomes[0].lines),
            cell([one.find_seconds for one in outcomes], ".0f"),
            cell([one.repair_seconds for one in outcomes], ".0f"),
            cell([one.found for one in outcomes], ".1f"),
            cell([100 * one.before for one in outcomes], ".1f"),
            cell([100 * one.after for one in outcomes], ".1f"),
        ]
        print(f"| {name} | {', '.join(dict.fromkeys(wrong[name]))} | {tool} | {' | '.join(cells)} |")
