"""What the page shows beside a suspect to judge it by: its fields, telling words, and rows like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trevision.data.files.columns import WORDS_OF_TEXT
from trevision.report.differences import FieldDifferences
from trevision.report.posterior import nearest
from trevision.report.run_files import RunRecord, Suspect
from trevision.report.source_rows import columns_told_elsewhere, shortened, source_fields
from trevision.report.words import Words

POOL = 20_000
"""Maximum rows that suspects are compared with; of more, that many are drawn."""
MOST_ALIKE = 4
MOST_WITH_ALIKE = 2_000
"""Similar rows of a suspect, and suspects that get them."""
MOST_COLUMNS = 12
MOST_LETTERS = 200
LETTERS_OF_TEXT = 2_000
"""Maximum columns, letters of a field, and letters of a field of text."""
LETTERS_ALIKE = 160


@dataclass(frozen=True)
class Alike:
    """Rows that are like suspects: `of[k]` are places in the other lists for the k-th suspect."""

    by: str
    of: list[list[int]]
    row: list[int]
    name: list[str]
    given: list[str]
    text: list[str] | None = None


@dataclass(frozen=True)
class FieldEvidence:
    """The fields of the first suspects.

    Attributes
    ----------
    columns
        Names of the columns; the first `texts` of them hold free text.
    rows
        A list of texts for each suspect.
    order
        For each suspect the columns, those first that differ most from the suggested class.
    usual
        For each column, what is usual in a class, by the class's name; empty for texts and identifiers.
    words
        For each suspect the words that speak for the suggested and for the given class.
    columns_in_source
        Columns of the source that could have been shown.
    """

    columns: list[str]
    texts: int
    rows: list[list[str]]
    order: list[list[int]]
    usual: list[dict[str, str]]
    words: list[tuple[list[str], list[str]]]
    columns_in_source: int


@dataclass(frozen=True)
class Evidence:
    """Fields, where the source is a table, and similar rows, where there is something to compare."""

    fields: FieldEvidence | None = None
    alike: Alike | None = None


def gather(run: RunRecord, listed: list[Suspect]) -> Evidence:
    """Read the suspects' rows and the rows to compare them with, and compare."""
    pool = _pool(run, listed)
    table = None
    if len(run.shape) != 3 and run.folder is not None:
        table = _Table.read(run, listed, pool)
    if table is None:
        return Evidence(None, _alike_by_posterior(run, listed, pool))
    words = table.words()
    return Evidence(table.fields(words), table.alike(words) or _alike_by_posterior(run, listed, pool, table))


def _pool(run: RunRecord, listed: list[Suspect]) -> list[Suspect]:
    """The rows that are compared with: not suspect themselves, and not listed."""
    shown = {suspect.row for suspect in listed}
    others = [one for one in run.suspects if not one.likely and one.row not in shown]
    if len(others) > POOL:
        drawn = np.random.default_rng(0).choice(len(others), POOL, replace=False)
        others = [others[place] for place in np.sort(drawn)]
    return others


def _alike_by_posterior(
    run: RunRecord, listed: list[Suspect], pool: list[Suspect], table: _Table | None = None
) -> Alike | None:
    """Rows of which the model says most nearly the same, by Hellinger's distance."""
    first = listed[:MOST_WITH_ALIKE]
    if run.posterior is None or not first or not pool:
        return None
    points, among = (np.sqrt(run.posterior.of([one.row for one in part])) for part in (first, pool))
    if np.isnan(points).any() or np.isnan(among).any():
        return None  # the probabilities are of other rows
    places = nearest(points, among, MOST_ALIKE).tolist()
    return _named(
        "of which the model, which had not seen them, says most nearly the same", places, pool, table
    )


def _named(by: str, places: list[list[int]], pool: list[Suspect], table: _Table | None) -> Alike:
    """Each similar row once, however many suspects it is like."""
    number: dict[int, int] = {}
    of = [[number.setdefault(place, len(number)) for place in each] for each in places]
    rows = [pool[place] for place in number]
    texts = None if table is None else [table.in_short(place) for place in number]
    return Alike(by, of, [one.row for one in rows], [one.name for one in rows],
                 [one.given for one in rows], texts)  # fmt: skip


@dataclass(eq=False)
class _Table:
    """The fields of the suspects and of the pool, column by column."""

    listed: list[Suspect]
    pool: list[Suspect]
    names: list[str]
    texts: int
    columns: list[list[str]]
    codes: NDArray[np.int64]
    class_code: dict[str, int]
    columns_in_source: int
    compared: list[FieldDifferences | None] = field(default_factory=list)

    @classmethod
    def read(cls, run: RunRecord, listed: list[Suspect], pool: list[Suspect]) -> _Table | None:
        rows = [one.row for one in (*listed, *pool)]
        fields = source_fields(run.source, run.settings.reading, rows)
        hidden = columns_told_elsewhere(run.source, run.settings.reading)
        names = [name for name in dict.fromkeys(name for row in fields for name in row) if name not in hidden]
        if not names or not listed:
            return None
        by_name = {name: [row.get(name, "") for row in fields] for name in names}
        said = run.settings.reading.text_column
        is_text = {name: name in said if said else _reads_as_text(by_name[name]) for name in names}
        kept = sorted(names, key=lambda name: not is_text[name])[:MOST_COLUMNS]
        code_of = {name: code for code, name in enumerate(run.noise.classes)}
        # A suspect's own label is in doubt, so it is not counted for its class.
        codes = np.array([-1] * len(listed) + [code_of[one.given] for one in pool], dtype=np.int64)
        columns = [by_name[name] for name in kept]
        texts = sum(is_text[name] for name in kept)
        compared = [
            None
            if place < texts or (run.columns is not None and name not in run.columns)
            else FieldDifferences.of(name, columns[place], codes)
            for place, name in enumerate(kept)
        ]
        return cls(listed, pool, kept, texts, columns, codes, code_of, len(names), compared)

    def words(self) -> Words | None:
        """The words of the columns of text; None if there are none."""
        if not self.texts:
            return None
        joined = [" ".join(parts) for parts in zip(*self.columns[: self.texts], strict=True)]
        return Words(joined, self.codes)

    def fields(self, words: Words | None) -> FieldEvidence:
        distances = self._distances()
        telling: list[tuple[list[str], list[str]]] = []
        if words is not None:
            telling = [
                words.speaking(place, self.class_code[one.suggested], self.class_code[one.given])
                for place, one in enumerate(self.listed)
            ]
        named = sorted({name for one in self.listed for name in (one.given, one.suggested)})
        most = [LETTERS_OF_TEXT if place < self.texts else MOST_LETTERS for place in range(len(self.names))]
        return FieldEvidence(
            columns=self.names,
            texts=self.texts,
            rows=[
                [
                    shortened(column[place], letters)
                    for column, letters in zip(self.columns, most, strict=True)
                ]
                for place in range(len(self.listed))
            ],
            order=np.argsort(-distances, axis=1, kind="stable").tolist(),
            usual=[
                {} if one is None else {name: one.usual(self.class_code[name]) for name in named}
                for one in self.compared
            ],
            words=telling,
            columns_in_source=self.columns_in_source,
        )

    def _distances(self) -> NDArray[np.floating]:
        """(suspects, columns): texts first, then what differs most from the suggested class."""
        found = np.full((len(self.listed), len(self.names)), -1.0)
        found[:, : self.texts] = np.inf
        suggested = np.array([self.class_code[one.suggested] for one in self.listed])
        for place, column in enumerate(self.compared):
            if column is not None:
                for code in np.unique(suggested):
                    rows = np.flatnonzero(suggested == code)
                    found[rows, place] = column.distances(rows, int(code))
        return found

    def alike(self, words: Words | None) -> Alike | None:
        """Rows whose texts share rare words with a suspect's."""
        if words is None or not self.pool:
            return None
        first = np.arange(min(len(self.listed), MOST_WITH_ALIKE))
        places = words.alike(first, np.arange(len(self.listed), len(self.codes)), MOST_ALIKE)
        return _named("that share the most and rarest words", places, self.pool, self)

    def in_short(self, place: int) -> str:
        """A row of the pool in a line."""
        row = len(self.listed) + place
        if self.texts:
            return shortened(" ".join(column[row] for column in self.columns[: self.texts]), LETTERS_ALIKE)
        told = (
            f"{name} {column[row]}"
            for name, column in zip(self.names, self.columns, strict=True)
            if column[row]
        )
        return shortened(", ".join(told), LETTERS_ALIKE)


def _reads_as_text(values: Sequence[str]) -> bool:
    some = [value for value in values[:1000] if value]
    words = sum(len(one.split()) for one in some)
    return len(set(some)) > len(some) / 2 and words >= WORDS_OF_TEXT * len(some)
