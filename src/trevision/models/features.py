"""The rows that models learn from, in the two forms that models take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from trevision.models.candidates import Candidate


@dataclass(frozen=True, eq=False)
class Features:
    """Rows (n, columns).

    Attributes
    ----------
    dense : ndarray of shape (n, features)
        Numbers; a text is summed up by some directions.
    words : sparse matrix or None
        The same rows with texts as weights of words; None if there are no texts.
    scaled : bool
        Whether columns are of one scale, as the preprocessing of a table leaves them.
    """

    dense: np.ndarray
    words: Any = None
    scaled: bool = True

    def __len__(self) -> int:
        return len(self.dense)

    def for_model(self, candidate: Candidate) -> Any:
        """The rows in the form that a model takes."""
        return self.words if self.uses_words(candidate) else self.dense

    def uses_words(self, candidate: Candidate) -> bool:
        """Whether the model gets the weights of words."""
        return candidate.takes_words and self.words is not None

    def followed_by(self, others: Features) -> Features:
        """These rows, then others."""
        words = None if self.words is None else sparse.vstack([self.words, others.words], format="csr")
        return Features(np.concatenate([self.dense, others.dense]), words, self.scaled)

    def take(self, rows: np.ndarray) -> Features:
        """Some of the rows."""
        words = None if self.words is None else _safe_indexing(self.words, rows)
        return Features(self.dense[rows], words, self.scaled)
