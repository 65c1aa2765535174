"""The models that `fit --model` chooses among. Only scikit-learn is imported here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True)
class Candidate:
    """A kind of scikit-learn model.

    Attributes
    ----------
    name : str
        The name by which a user chooses it.
    called : str
        What it is, for sentences.
    setting : str
        The setting that held-out noisy labels choose.
    values : tuple
        Its values to choose from; each lets the model learn more than the one before.
    make : callable
        Makes a model from one of the values and a seed.
    takes_words : bool
        Whether texts are given as the weights of their words, in a sparse matrix, and not as directions.
    needs_scale : bool
        Whether columns must be of one scale.
    """

    name: str
    called: str
    setting: str
    values: tuple[float, ...]
    make: Callable[[Any, int], Any]
    takes_words: bool = False
    needs_scale: bool = False

    def model(self, value: float, seed: int, scaled: bool) -> Any:
        """A model that is not fitted; `scaled` says whether the columns are of one scale already."""
        made = self.make(value, seed)
        return make_pipeline(StandardScaler(), made) if self.needs_scale and not scaled else made


BOOSTING = Candidate(
    "boosting",
    "gradient boosting",
    "rounds",
    (20, 60, 180),
    # Rounds are not chosen by early stopping: it would judge copies of a corrected row by one another.
    lambda rounds, seed: HistGradientBoostingClassifier(
        max_iter=int(rounds), early_stopping=False, random_state=seed
    ),
)
FOREST = Candidate(
    "forest",
    "a random forest",
    "leaf",
    (10, 3),
    lambda leaf, seed: RandomForestClassifier(100, min_samples_leaf=int(leaf), random_state=seed),
)
LINEAR = Candidate(
    "linear",
    "logistic regression",
    "C",
    (0.01, 0.1, 1.0, 10.0, 100.0),
    lambda strength, seed: LogisticRegression(C=strength, max_iter=1000, random_state=seed),
    takes_words=True,
    needs_scale=True,
)

CANDIDATES = {candidate.name: candidate for candidate in (BOOSTING, FOREST, LINEAR)}
