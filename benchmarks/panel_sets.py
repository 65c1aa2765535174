"""The sets of the panel: rows whose given labels are partly wrong, with the truth beside them.

Kinds of mistakes:
- class: they depend on the true class alone, symmetric or not;
- boundary: more where the two nearest classes are hard to tell apart;
- cluster: in some groups of rows and not in others;
- annotators: each row labelled by one of several people, of whom some are careless and all err more on rows
  that are hard;
- rules: the label is a function of a few words or columns;
- clean: none;
- people: labels of texts and images that rules and people gave in earnest.

A seed draws rows, mistakes and held-out rows. A set named 1:20 or 1:100 has one class that is so much rarer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.any_model import dense_transition
from benchmarks.own_data import generated
from benchmarks.real_noise import DATA, LABEL_SETS, image_features
from trevision import noise
from trevision.data.named.cifar10n import human_labels

Kind = Literal["class", "boundary", "cluster", "annotators", "rules", "clean", "people"]

TEST_ROWS = 1000
IMAGES, IMAGE_TEST_ROWS, IMAGE_ROWS = 3000, 1000, 1500
TEXT_ROWS, WORDS = 2000, 3000


@dataclass(frozen=True, eq=False)
class PanelCase:
    """Rows with given and true labels, and held-out rows with true labels."""

    x: Any
    given: np.ndarray
    clean: np.ndarray
    test_x: Any
    test_y: np.ndarray
    seed: int

    @property
    def wrong(self) -> np.ndarray:
        return self.given != self.clean


@dataclass(frozen=True)
class PanelSet:
    """A set: what its mistakes depend on, whether T is asymmetric, and how a seed makes it."""

    kind: Kind
    make: Callable[[int], PanelCase]
    asymmetric: bool = False


Table = tuple[np.ndarray, np.ndarray]


def gaussians(
    seed: int, classes: int, rows: int, apart: float = 3.0, columns: int = 8, shares: Any = None
) -> Table:
    """Gaussian classes of variance 1 with centres at a distance of about `apart` from each other."""
    rng = np.random.default_rng([seed, classes, rows])
    centres = rng.normal(size=(classes, columns)) * apart / np.sqrt(2 * columns)
    y = rng.choice(classes, size=rows, p=shares)
    return centres[y] + rng.normal(size=(rows, columns)), y


def rare_last(classes: int, ratio: int) -> np.ndarray:
    """Shares of the classes, the last of which has `ratio` times fewer rows than each other."""
    shares = np.array([ratio] * (classes - 1) + [1.0])
    return shares / shares.sum()


def digits(seed: int) -> Table:
    return load_digits(return_X_y=True)


def cancer(seed: int) -> Table:
    return load_breast_cancer(return_X_y=True)


def split(table: Table, mislabel: Callable[..., np.ndarray], seed: int, test_rows: int) -> PanelCase:
    """Held-out rows, and the others with labels by `mislabel(x, y, rng)`."""
    x, y = table
    train_x, test_x, clean, test_y = train_test_split(x, y, test_size=test_rows, random_state=seed)
    given = mislabel(train_x, clean, np.random.default_rng([seed, 1]))
    # A class that lost all of its labels would be unknown to a model: its codes stay as they are, one kept.
    for lost in set(np.unique(clean)) - set(np.unique(given)):
        given[np.flatnonzero(clean == lost)[:2]] = lost
    return PanelCase(train_x, given, clean, test_x, test_y, seed)


def by_transition(transition: np.ndarray | str) -> Callable[..., np.ndarray]:
    def mislabel(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        size = len(np.unique(y))
        matrix = noise.parse(transition, size) if isinstance(transition, str) else transition
        return noise.corrupt(y, matrix, random_state=rng)

    return mislabel


def dense(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    size = len(np.unique(y))
    return noise.corrupt(y, dense_transition(size, int(rng.integers(2**31))), random_state=rng)


def as_given(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return y.copy()


def neighbours_say(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How unsure the class of each row is, from 0 to 1, by its 15 neighbours, and the likeliest other one."""
    votes = KNeighborsClassifier(16).fit(x, y).predict_proba(x)
    votes[np.arange(len(y)), y] -= 1 / 16
    own = votes[np.arange(len(y)), y].copy()
    votes[np.arange(len(y)), y] = -1
    other = votes.max(axis=1)
    return np.clip(2 * other / np.maximum(own + other, 1e-9), 0, 1), votes.argmax(axis=1)


def at_boundary(share: float) -> Callable[..., np.ndarray]:
    """`share` of the labels change to the likeliest other class, the more often the less sure a row is."""

    def mislabel(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        unsure, other = neighbours_say(x, y)
        chance = (unsure + 0.02) ** 1.5
        drawn = rng.choice(len(y), size=round(share * len(y)), replace=False, p=chance / chance.sum())
        given = y.copy()
        given[drawn] = other[drawn]
        return given

    return mislabel


def in_clusters(groups: int, affected: float, rate: float) -> Callable[..., np.ndarray]:
    """In a share of the k-means groups, `rate` of the labels become one other class of that group's own."""

    def mislabel(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        group = KMeans(groups, n_init=1, random_state=int(rng.integers(2**31))).fit_predict(x)
        given, size = y.copy(), len(np.unique(y))
        for bad in rng.choice(groups, size=round(affected * groups), replace=False):
            rows = np.flatnonzero((group == bad) & (rng.random(len(y)) < rate))
            given[rows] = (y[rows] + rng.integers(1, size)) % size
        return given

    return mislabel


def by_annotators(people: int, best: float, worst: float) -> Callable[..., np.ndarray]:
    """One of `people` labels each row; careful ones err in `best`, careless in `worst`, more on hard rows."""

    def mislabel(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        size = len(np.unique(y))
        rates, person = np.linspace(best, worst, people), rng.integers(people, size=len(y))
        unsure, other = neighbours_say(x, y)
        errs = rng.random(len(y)) < np.clip(rates[person] * (0.6 + 2.5 * unsure), 0, 0.8)
        confused = rng.random(len(y)) < 0.7
        wrong = np.where(confused, other, (y + rng.integers(1, size, size=len(y))) % size)
        return np.where(errs, wrong, y)

    return mislabel


def by_rule(depth: int, columns: int) -> Callable[..., np.ndarray]:
    """Labels by a small tree on a few columns: as an expert would write who saw a twentieth of the rows."""

    def mislabel(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        spread = np.flatnonzero(x.std(axis=0) > 0)
        used = rng.choice(spread, size=min(columns, len(spread)), replace=False)
        seen = rng.permutation(len(y))[: max(100, len(y) // 20)]
        rule = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(x[seen][:, used], y[seen])
        return rule.predict(x[:, used])

    return mislabel


def keyword_comments(seed: int, classes: int, stray: float, rows: int = 1400) -> PanelCase:
    """Bags of 150 words; ten keywords a class vote for the label. Keywords stray into other classes too."""
    rng = np.random.default_rng([seed, 5, classes])
    total, keywords = rows + TEST_ROWS, 10 * classes
    y = rng.integers(classes, size=total)
    own = np.arange(keywords) // 10 == np.arange(classes)[:, None]
    rates = np.where(own, 0.15, rng.uniform(0, stray, size=(classes, keywords)))
    # Other words tell of the class as well, a little each.
    others = np.clip(0.08 * np.exp(rng.normal(scale=0.6, size=(classes, 120))), 0, 0.9)
    words = rng.random((total, keywords + 120)) < np.hstack([rates, others])[y]
    votes = words[:, :keywords].reshape(total, classes, 10).sum(axis=2)
    given, x = votes.argmax(axis=1), words.astype(float)
    return PanelCase(x[:rows], given[:rows], y[:rows], x[rows:], y[rows:], seed)


def text_case(name: str) -> Callable[[int], PanelCase]:
    def make(seed: int) -> PanelCase:
        import pandas as pd
        from sklearn.feature_extraction.text import TfidfVectorizer

        folder = DATA / "real-noise" / name
        train = pd.read_csv(folder / "train.csv").merge(pd.read_csv(folder / "truth.csv"), on="id")
        train = train.sample(min(TEXT_ROWS, len(train)), random_state=seed)
        test = pd.read_csv(folder / "test.csv")
        texts = [frame["text"].fillna("").astype(str) for frame in (train, test)]
        names = np.unique(train["label"].astype(str))
        places = {value: code for code, value in enumerate(names)}
        # A class that no label names is no class of the set: its rows are wrong, whatever they are called.
        given, clean, known = (
            np.array([places.get(value, -1) for value in column.astype(str)])
            for column in (train["label"], train["clean"], test["label"])
        )
        vectors = TfidfVectorizer(sublinear_tf=True, max_features=WORDS).fit(texts[0])
        return PanelCase(vectors.transform(texts[0]), given, clean, vectors.transform(texts[1]), known, seed)

    return make


@cache
def images() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels of images of CIFAR-10, for training and for testing, and the rows drawn."""
    from trevision.data.named.cifar import read_cifar10

    data = read_cifar10(DATA)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.train_y))[:IMAGES]
    tests = rng.permutation(len(data.test_y))[:IMAGE_TEST_ROWS]
    x, test_x = image_features(data.train_x[rows], data.test_x[tests])
    return x, data.train_y[rows], test_x, data.test_y[tests], rows


def image_case(label_set: str) -> Callable[[int], PanelCase]:
    def make(seed: int) -> PanelCase:
        x, y, test_x, test_y, rows = images()
        drawn = np.random.default_rng(seed).permutation(IMAGES)[:IMAGE_ROWS]
        given = human_labels(DATA / "cifar-n" / "CIFAR-10_human.pt")[label_set][rows[drawn]]
        return PanelCase(x[drawn], given, y[drawn], test_x, test_y, seed)

    return make


def planted(
    kind: Kind,
    table: Callable[[int], Table],
    mislabel: Callable[..., np.ndarray],
    asymmetric: bool = False,
    test_rows: int = TEST_ROWS,
) -> PanelSet:
    return PanelSet(kind, lambda seed: split(table(seed), mislabel, seed, test_rows), asymmetric)


SETS: dict[str, PanelSet] = {
    "2 classes, uneven T": planted(
        "class", lambda s: gaussians(s, 2, 2200), by_transition(np.array([[0.9, 0.1], [0.35, 0.65]])), True
    ),
    "cancer sym-20": planted("class", cancer, by_transition("sym-20"), test_rows=150),
    "3 classes dense": planted("class", lambda s: gaussians(s, 3, 2200, 4.0), dense, True),
    "5 classes pair-30": planted(
        "class", lambda s: gaussians(s, 5, 2400, 4.5), by_transition("pair-30"), True
    ),
    "5 classes overlapping sym-20": planted(
        "class", lambda s: gaussians(s, 5, 2400, 3.0), by_transition("sym-20")
    ),
    "table dense": planted("class", lambda s: generated(s, 2400), dense, True),
    "digits sym-40": planted("class", digits, by_transition("sym-40"), test_rows=500),
    "digits pair-40": planted("class", digits, by_transition("pair-40"), True, test_rows=500),
    "digits dense": planted("class", digits, dense, True, test_rows=500),
    "20 classes sym-30": planted("class", lambda s: gaussians(s, 20, 2800, 7.0, 16), by_transition("sym-30")),
    "50 classes sym-20": planted("class", lambda s: gaussians(s, 50, 2600, 8.0, 20), by_transition("sym-20")),
    "1:20 sym-20": planted(
        "class", lambda s: gaussians(s, 4, 2600, 4.0, shares=rare_last(4, 20)), by_transition("sym-20")
    ),
    "1:100 uneven T": planted(
        "class",
        lambda s: gaussians(s, 2, 3000, 4.0, shares=rare_last(2, 100)),
        by_transition(np.array([[0.98, 0.02], [0.3, 0.7]])),
        True,
    ),
    "5 classes boundary": planted("boundary", lambda s: gaussians(s, 5, 2800, 3.5), at_boundary(0.17)),
    "2 classes boundary": planted("boundary", lambda s: gaussians(s, 2, 2200, 2.5), at_boundary(0.12)),
    "table boundary": planted("boundary", lambda s: generated(s, 2400), at_boundary(0.15)),
    "digits boundary": planted("boundary", digits, at_boundary(0.1), test_rows=500),
    "5 classes cluster": planted("cluster", lambda s: gaussians(s, 5, 2400, 4.0), in_clusters(20, 0.3, 0.6)),
    "digits cluster": planted("cluster", digits, in_clusters(30, 0.3, 0.6), test_rows=500),
    "digits annotators": planted("annotators", digits, by_annotators(8, 0.05, 0.5), test_rows=500),
    "5 classes annotators": planted(
        "annotators", lambda s: gaussians(s, 5, 2400, 4.0), by_annotators(8, 0.02, 0.35)
    ),
    "keywords, 2 classes": PanelSet("rules", lambda s: keyword_comments(s, 2, 0.05)),
    "keywords, 4 classes": PanelSet("rules", lambda s: keyword_comments(s, 4, 0.03)),
    "rules on a table": planted("rules", lambda s: generated(s, 2400), by_rule(5, 6)),
    "rules on digits": planted("rules", digits, by_rule(6, 16), test_rows=500),
    "digits clean": planted("clean", digits, as_given, test_rows=500),
    "5 classes clean": planted("clean", lambda s: gaussians(s, 5, 2400, 3.0), as_given),
    "1:20 clean": planted("clean", lambda s: gaussians(s, 5, 2600, 3.0, shares=rare_last(5, 20)), as_given),
    "1:100 clean": planted("clean", lambda s: gaussians(s, 5, 3400, 3.0, shares=rare_last(5, 100)), as_given),
    **{name: PanelSet("people", text_case(name)) for name in ("sms", "semeval", "sentiment")},
    **{f"CIFAR-10N {name}": PanelSet("people", image_case(name)) for name in LABEL_SETS},
}


def found_sets(names: list[str]) -> list[str]:
    """Those of `names` whose files are there; the others are named on standard error."""
    kept = []
    for name in names:
        folders = []
        if name.startswith("CIFAR-10N"):
            folders = [DATA / "cifar-n", DATA / "cifar-10-batches-bin"]
        elif SETS[name].kind == "people":
            folders = [DATA / "real-noise" / name]
        missing = [folder for folder in folders if not folder.is_dir()]
        if missing:
            print(f"{name} is left out: no folder {missing[0]}", file=sys.stderr)
        else:
            kept.append(name)
    return kept
