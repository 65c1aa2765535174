"""The columns of a table as numbers a network takes, fitted once and kept with the model.

The kinds of the columns are plain data, and a scikit-learn ColumnTransformer is fitted to them. Both are
saved in one file. It is not a pickle: a file that names a class not listed here is refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from trevision.data.files.columns import DATE_PARTS, Column, booleans, date_parts, numbers, plain, words
from trevision.data.files.saved_columns import COLUMNS_MEMBER, read_columns
from trevision.data.files.skops_files import Trusted, read_skops, write_skops
from trevision.files import DataError

MOST_CATEGORIES = 32
LEAST_CATEGORIES = 4
RARE = 0.01
"""Minimum fraction of rows for a category of its own; rarer categories are grouped."""
MOST_TERMS = 20_000
TEXT_DIMENSIONS = 100
TEXT_STEP = "text "
"""How the names of the transformer's steps for texts begin."""
MOST_BYTES = 4 << 30
"""Maximum bytes of the transformed rows; beyond it, columns get fewer categories."""

ESTIMATORS = (
    ColumnTransformer,
    Pipeline,
    SimpleImputer,
    StandardScaler,
    OneHotEncoder,
    TfidfVectorizer,
    TfidfTransformer,
    TruncatedSVD,
)


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """The columns to learn from, with their kinds, and the transformer fitted to them."""

    columns: tuple[Column, ...]
    transformer: ColumnTransformer

    @property
    def width(self) -> int:
        """The number of features per row."""
        return sum(where.stop - where.start for where in self.transformer.output_indices_.values())

    def transform(self, table: pd.DataFrame) -> np.ndarray:
        """The features (n, width) in float32, from the result of `prepared`."""
        return np.asarray(self.transformer.transform(table), dtype=np.float32)

    @property
    def has_texts(self) -> bool:
        """Whether a column is text, so that `transform_to_words` gives more than `transform`."""
        return any(column.kind == "text" for column in self.columns)

    def transform_to_words(self, table: pd.DataFrame) -> sparse.csr_array:
        """The features as a sparse matrix in float32, in which texts are the weights of their words."""
        parts = [
            # A text's pipeline ends in the directions that words are summed up by.
            (step[:-1] if name.startswith(TEXT_STEP) else step).transform(table[columns])
            for name, step, columns in self.transformer.transformers_
        ]
        return sparse.csr_array(sparse.hstack(parts, format="csr", dtype=np.float32))

    def save(self, path: Path) -> None:
        """Write it to one file."""
        columns = [asdict(column) for column in self.columns]
        write_skops(path, self.transformer, COLUMNS_MEMBER, {"columns": columns})


def fit_preprocessing(columns: tuple[Column, ...], sample: pa.Table, rows: int) -> Preprocessing:
    """Fit the transformer.

    Parameters
    ----------
    columns
        The columns to learn from, and their kinds.
    sample
        Some rows of the table, with these columns.
    rows
        Number of rows of the whole table, which limits the number of categories.

    Raises
    ------
    DataError
        If a column of text holds too few words.
    """
    table = prepared(columns, {column.name: plain(sample.column(column.name)) for column in columns})
    by_kind = {kind: [c.name for c in columns if c.kind == kind] for kind in ("category", "text")}
    numeric = [name for name in table.columns if name not in (*by_kind["category"], *by_kind["text"])]
    steps: list[tuple[str, Any, Any]] = []
    if numeric:
        steps.append(("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric))
    if by_kind["category"]:
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=max(2, round(RARE * len(table))),
            max_categories=_categories(rows, len(by_kind["category"])),
            dtype=np.float32,
        )
        pipeline = make_pipeline(SimpleImputer(strategy="most_frequent"), encoder)
        steps.append(("categories", pipeline, by_kind["category"]))
    for number, name in enumerate(by_kind["text"]):
        steps.append((f"{TEXT_STEP}{number}", _text_pipeline(name, table[name]), name))
    transformer = ColumnTransformer(steps, sparse_threshold=0)
    transformer.fit(table)
    return Preprocessing(columns, transformer)


def _categories(rows: int, columns: int) -> int:
    affordable = MOST_BYTES // (4 * rows * columns)
    return int(np.clip(affordable, LEAST_CATEGORIES, MOST_CATEGORIES))


def _text_pipeline(name: str, texts: pd.Series) -> Pipeline:
    """TF-IDF, then as many directions as the vocabulary allows."""
    terms = TfidfVectorizer(max_features=MOST_TERMS, sublinear_tf=True, dtype=np.float32)
    try:
        weights = terms.fit_transform(texts)
    except ValueError as error:
        raise DataError(f"text_column {name!r} must hold words of two letters or more ({error})") from None
    dimensions = min(TEXT_DIMENSIONS, weights.shape[1] - 1, max(1, weights.shape[0] - 1))
    if dimensions < 1:
        raise DataError(f"text_column {name!r} must hold more than one different word")
    return make_pipeline(terms, TruncatedSVD(dimensions, random_state=0))


def prepared(columns: tuple[Column, ...], values: dict[str, pa.Array]) -> pd.DataFrame:
    """The transformer's input: floats for numbers, booleans and dates, objects for words."""
    table: dict[str, np.ndarray] = {}
    for column in columns:
        array = values[column.name]
        if column.kind == "number":
            table[column.name] = numbers(array, decimal_comma=column.decimal_comma)
        elif column.kind == "boolean":
            table[column.name] = booleans(array)
        elif column.kind == "date":
            parts = date_parts(array, column.date_format)
            table |= {part_name(column, part, columns): parts[:, k] for k, part in enumerate(DATE_PARTS)}
        elif column.kind == "category":
            table[column.name] = words(array)
        elif column.kind == "text":
            texts = words(array)
            texts[pd.isna(texts)] = ""
            table[column.name] = texts
    return pd.DataFrame(table, copy=False).astype(
        {c.name: object for c in columns if c.kind in ("category", "text")}
    )


def part_name(column: Column, part: str, columns: tuple[Column, ...]) -> str:
    """The name of a column for one part of a date.

    Parameters
    ----------
    column
        The column of dates.
    part
        One of `DATE_PARTS`.
    columns
        All columns; the name differs from theirs.
    """
    name = f"{column.name} ({part})"
    # The names of columns are trimmed, so none of them ends in a space.
    return f"{name} " if any(other.name == name for other in columns) else name


def load_preprocessing(path: Path) -> Preprocessing:
    """Read a file written by `save`. A file that names a class not allowed here is refused."""
    columns = read_columns(path)
    transformer = read_skops(path, Trusted(ESTIMATORS))
    if not isinstance(transformer, ColumnTransformer):
        raise DataError(f"{path}: must hold a ColumnTransformer, got {type(transformer).__name__}")
    return Preprocessing(columns, transformer)
