"""Which words of a text speak for one class and against another, and which texts share rare words.

Counts of rows, not a model: what is marked is what anybody could count. For classes s and g, a word that
occurs in d_s of n_s rows labelled s and in d_g of n_g labelled g has the smoothed log-odds ratio

    r = logit((d_s + 1/2) / (n_s + 1)) - logit((d_g + 1/2) / (n_g + 1)),

and speaks for s if r exceeds twice its standard error (Woolf 1955, with Haldane's 1/2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

WORD = re.compile(r"[^\W_]+")
"""The page's script splits texts alike."""
FEWEST_ROWS = 2
"""Minimum rows that have a word: with one, it tells nothing about a class."""
CLEARLY = 2.0
"""Standard errors from which on a word speaks for a class."""
MOST_WORDS = 8
"""Maximum words of a row that are marked for a class."""


class Words:
    """The words of some texts, counted by class over the rows that are trusted to have their label.

    Parameters
    ----------
    texts
        The texts.
    codes
        (n,) their labels; -1 for a row that is not counted.
    """

    def __init__(self, texts: Sequence[str], codes: NDArray[np.int64]) -> None:
        self.codes = codes
        found = [sorted(set(WORD.findall(text.lower()))) for text in texts]
        numbers: dict[str, int] = {}
        columns = [numbers.setdefault(word, len(numbers)) for words in found for word in words]
        starts = np.concatenate([[0], np.cumsum([len(words) for words in found])])
        self.names = np.array(list(numbers), dtype=object)
        shape = len(texts), len(numbers)
        self.rows = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        self._dense: dict[int, tuple[NDArray[np.floating], int]] = {}

    def speaking(self, row: int, suggested: int, given: int) -> tuple[list[str], list[str]]:
        """The words of a text that speak for `suggested`, and those for `given`, the clearest first."""
        words = self.rows.indices[self.rows.indptr[row] : self.rows.indptr[row + 1]]
        (for_it, n_s), (against, n_g) = self._counts(suggested), self._counts(given)
        if not n_s or not n_g or not len(words):
            return [], []
        d_s, d_g = for_it[words] + 0.5, against[words] + 0.5
        rest_s, rest_g = n_s + 1 - d_s, n_g + 1 - d_g
        ratio = np.log(d_s / rest_s) - np.log(d_g / rest_g)
        clear = ratio / np.sqrt(1 / d_s + 1 / rest_s + 1 / d_g + 1 / rest_g)
        clear[self._common[words] < FEWEST_ROWS] = 0

        def first(signed: NDArray[np.floating]) -> list[str]:
            order = np.argsort(-signed, kind="stable")[:MOST_WORDS]
            return [str(word) for word in self.names[words[order[signed[order] >= CLEARLY]]]]

        return first(clear), first(-clear)

    def alike(self, points: NDArray[np.int64], pool: NDArray[np.int64], number: int) -> list[list[int]]:
        """For each text of `points`, the places in `pool` of those that share the most and rarest words.

        Cosine of the texts' words, weighted by their inverse document frequency. Texts that share no word
        are not listed.
        """
        rarity = np.log((1 + len(self.codes)) / (1 + self._common))
        weighted = self.rows.multiply(rarity).tocsr()
        lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1))).ravel()
        weighted = sparse.diags_array(1 / np.maximum(lengths, 1e-12)).tocsr() @ weighted
        among = weighted[pool].T.tocsr()
        found: list[list[int]] = []
        for start in range(0, len(points), 256):
            scores = (weighted[points[start : start + 256]] @ among).tocsr()
            for one in range(scores.shape[0]):
                here = slice(scores.indptr[one], scores.indptr[one + 1])
                places, values = scores.indices[here], scores.data[here]
                best = np.argsort(-values, kind="stable")[:number]
                found.append(places[best[values[best] > 0]].tolist())
        return found

    @cached_property
    def _common(self) -> NDArray[np.floating]:
        return np.asarray(self.rows.sum(axis=0)).ravel()

    def _counts(self, code: int) -> tuple[NDArray[np.floating], int]:
        """The number of rows of a class that have each word, and of its rows."""
        if code not in self._dense:
            rows = np.flatnonzero(self.codes == code)
            self._dense[code] = np.asarray(self.rows[rows].sum(axis=0)).ravel(), len(rows)
        return self._dense[code]
