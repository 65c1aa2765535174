"""The rows that scikit-learn models learn from, without torch: a part of them, and noise, if asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trevision import noise
from trevision.data.dataset import Dataset, drawn_rows
from trevision.data.load_arrays import load_arrays, load_words
from trevision.data.progress import Progress
from trevision.data.row_labels import RowLabels
from trevision.models.features import Features
from trevision.runs.noise_files import read_noise

if TYPE_CHECKING:
    from trevision.estimation import Answers
    from trevision.runs.settings import Settings


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Rows with noisy labels, and beside them what only the record may see.

    Attributes
    ----------
    dataset : Dataset
        The whole source, before noise.
    features : Features
        The rows.
    labels : ndarray of shape (n,)
        Codes of their noisy labels.
    source_labels : RowLabels
        Their numbers and names in the source, and their labels there.
    transition : ndarray of shape (C, C) or None
        T of the noise that was added.
    answers : Answers or None
        With several labels a row, who gave which label to which row; `labels` are their votes.
    trusted : Features or None
        More rows, whose labels are known to be right: learnt from, and never judged.
    """

    dataset: Dataset
    features: Features
    labels: np.ndarray
    source_labels: RowLabels
    transition: np.ndarray | None
    answers: Answers | None = None
    trusted: Features | None = None

    def learnt_from(self) -> tuple[Features, np.ndarray]:
        """All rows that models learn from, those with trusted labels last, and the codes of their labels."""
        if self.trusted is None:
            return self.features, self.labels
        return self.features.followed_by(self.trusted), np.concatenate([self.labels, self.dataset.trusted_y])

    @property
    def true_labels(self) -> np.ndarray | None:
        """The labels before noise; None if no noise was added."""
        return None if self.transition is None else self.source_labels.codes


def read_rows(source: str, settings: Settings, words: bool, progress: Progress | None = None) -> ModelRows:
    """Read the source of a run as `prepare` does for networks: the same rows, the same noise.

    Parameters
    ----------
    source, settings
        The run.
    words
        Whether a model takes texts as weights of words.
    progress
        Called with the progress of reading.
    """
    dataset = load_arrays(source, settings.reading, progress)
    preprocessing = dataset.preprocessing
    by_words = None
    if words and preprocessing is not None and preprocessing.has_texts:
        by_words = load_words(source, settings.reading, dataset, progress)
    scaled, count = preprocessing is not None, len(dataset.train_x)
    features = Features(dataset.train_x, None if by_words is None else by_words[:count], scaled)
    trusted = None
    if dataset.trusted_x is not None:
        trusted = Features(dataset.trusted_x, None if by_words is None else by_words[count:], scaled)
    rows, answers = dataset.labels, dataset.answers
    if settings.train_size is not None:
        kept = drawn_rows(dataset, settings.train_size, np.random.default_rng([settings.seed, 0]))
        features, rows = features.take(kept), rows.take(kept)
        answers = None if answers is None else answers.take(kept)
    labels, transition = rows.codes, None
    if settings.noise is not None:
        transition = read_noise(settings.noise, dataset.num_classes)
        labels = noise.corrupt(labels, transition, np.random.default_rng([settings.seed, 1]))
    return ModelRows(dataset, features, labels, rows, transition, answers, trusted)
