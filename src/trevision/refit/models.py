"""Fitting any scikit-learn classifier on weighted rows of anything that can be indexed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, has_fit_parameter

from trevision.noise import FloatArray, IntArray
from trevision.refit.correction import Training

SUM_TOLERANCE = 1e-9
"""How far the sum of a row's probabilities may miss 1 by rounding in double precision."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted classifier whose label k stands for the class `present[k]` of `num_classes`."""

    model: Any
    present: IntArray
    num_classes: int

    def predict_proba(self, x: Any) -> FloatArray:
        """Probabilities in the order of all classes, (n, C); a class that was not fitted has none."""
        probs = np.asarray(self.model.predict_proba(x), dtype=np.float64)
        if probs.ndim != 2 or probs.shape[1] != len(self.present):
            raise ValueError(
                f"estimator must have a predict_proba that gives a column for each of {len(self.present)} "
                f"classes, got shape {probs.shape} from {type(self.model).__name__}"
            )
        whole = np.zeros((len(probs), self.num_classes))
        whole[:, self.present] = probs
        total: FloatArray = whole.sum(axis=1, keepdims=True)
        if not np.isfinite(total).all() or total.min() <= 0 or whole.min() < 0:
            raise ValueError(
                "estimator must predict finite probabilities with a positive sum, got others from "
                f"{type(self.model).__name__}"
            )
        # Probabilities that sum to 1 are handed on as they came, to the bit.
        return whole if np.abs(total - 1).max() < SUM_TOLERANCE else whole / total


def weight_key(estimator: Any) -> str | None:
    """The argument of `fit` by which a model takes weights; None if it takes none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> weight_key(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        key = weight_key(last)
        return None if key is None else f"{name}__{key}"
    if isinstance(estimator, BaseSearchCV):
        return weight_key(estimator.estimator)
    if not hasattr(estimator, "fit"):
        return None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fresh(estimator: Any) -> Any:
    """A model with the same parameters that is not fitted."""
    try:
        return clone(estimator)
    except RuntimeError:
        # CatBoost copies lists that it is given, such as cat_features, which `clone` takes for a fault.
        return type(estimator)(**copy.deepcopy(estimator.get_params(deep=False)))


def fit_model(estimator: Any, x: Any, training: Training, num_classes: int, seed: int) -> FittedModel:
    """A clone of `estimator`, fitted on weighted rows of `x`.

    Labels are coded 0, 1, ... without gaps, as XGBoost wants them. A model that takes no weights gets rows
    drawn by them. Weights that are all 1 are not handed over at all.
    """
    present, labels = np.unique(training.labels, return_inverse=True)
    rows, weights = training.rows, training.weights
    key = weight_key(estimator)
    keywords: dict[str, Any] = {}
    if not (weights == 1).all():
        if key is None:
            drawn = drawn_by_weight(weights, len(np.unique(rows)), np.random.default_rng(seed))
            rows, labels = rows[drawn], labels[drawn]
            present, again = np.unique(present[labels], return_inverse=True)
            labels = again
        else:
            keywords[key] = weights
    if len(present) == 1:
        # Few models fit a single class; folds of very few rows may hold no other.
        return FittedModel(DummyClassifier().fit(_safe_indexing(x, rows), labels), present, num_classes)
    whole = len(rows) == _num_samples(x) and np.array_equal(rows, np.arange(len(rows)))
    model = fresh(estimator).fit(x if whole else _safe_indexing(x, rows), labels, **keywords)
    return FittedModel(model, present, num_classes)


def drawn_by_weight(weights: FloatArray, least: int, rng: np.random.Generator) -> IntArray:
    """Numbers of entries, each about as often as its weight says, at least `least` in all.

    Entry i comes floor(w_1 + ... + w_i + u) - floor(w_1 + ... + w_(i-1) + u) times with one uniform u:
    weights that are whole numbers give exactly so many copies.

    >>> drawn_by_weight(np.array([2.0, 0.0, 1.0]), 3, np.random.default_rng(0))
    array([0, 0, 2])
    """
    scale = max(1.0, least / weights.sum())
    # Sums of copies that add up to 1 must not miss it by rounding.
    ends = np.floor(np.round(scale * weights.cumsum(), 9) + rng.uniform(1e-6, 1 - 1e-6))
    times = np.diff(ends, prepend=0).astype(np.int64)
    return np.repeat(np.arange(len(weights)), times)


Folds = Sequence[NDArray[np.bool_]]
"""For each fold a mask of the rows that are held out."""


def make_folds(
    labels: IntArray, weights: FloatArray | None, cv: Any, x: Any, seed: int
) -> list[NDArray[Any]]:
    """Stratified folds of the rows; `cv` is a number of folds, a scikit-learn splitter or a list of splits.

    With a number, rows without weight do not take part in the stratification: they are only predicted.
    """
    counted = np.ones(len(labels), dtype=bool) if weights is None else weights > 0
    rows, others = np.flatnonzero(counted), np.flatnonzero(~counted)
    folds = []
    if isinstance(cv, int | np.integer):
        splitter = StratifiedKFold(int(cv), shuffle=True, random_state=seed)
        splits = [rows[held_out] for _, held_out in splitter.split(np.zeros(len(rows)), labels[rows])]
        splits = [np.append(held_out, others[k :: len(splits)]) for k, held_out in enumerate(splits)]
    elif hasattr(cv, "split"):
        splits = [held_out for _, held_out in cv.split(x, labels)]
    else:
        splits = [held_out for _, held_out in cv]
    for held_out in splits:
        mask = np.zeros(len(labels), dtype=bool)
        mask[held_out] = True
        folds.append(mask)
    if not folds or (np.sum(folds, axis=0) != 1).any():
        raise ValueError(
            "cv must hold out every row exactly once, got a splitter that does not; "
            "take a number of folds, KFold or StratifiedKFold"
        )
    return folds


def cross_fit(
    estimator: Any, x: Any, training: Training, folds: Folds, num_classes: int, seed: int, n_jobs: int | None
) -> FloatArray:
    """Probabilities of every row by a model fitted on the part of `training` outside its fold, (n, C)."""
    return fit_folds(estimator, x, training, folds, num_classes, seed, n_jobs)[0]


def fit_folds(
    estimator: Any, x: Any, training: Training, folds: Folds, num_classes: int, seed: int, n_jobs: int | None
) -> tuple[FloatArray, tuple[FittedModel, ...]]:
    """The probabilities of `cross_fit`, and the models, one a fold."""

    def held_out_probs(number: int, fold: NDArray[np.bool_]) -> tuple[FloatArray, FittedModel]:
        model = fit_model(estimator, x, training.among(~fold), num_classes, seed + number)
        return model.predict_proba(_safe_indexing(x, np.flatnonzero(fold))), model

    parts = Parallel(n_jobs=n_jobs)(
        delayed(held_out_probs)(number, fold) for number, fold in enumerate(folds)
    )
    probs = np.empty((len(folds[0]), num_classes))
    for fold, (part, _) in zip(folds, parts, strict=True):
        probs[fold] = part
    return probs, tuple(model for _, model in parts)


def averaged(whole: FloatArray, models: Sequence[FittedModel], x: Any) -> FloatArray:
    """Half of `whole`, the probabilities (n, C) by the model of all rows, half of the mean of `models`.

    Half, and not one share each: a fold's T comes from fewer rows, and may be wrong where that of all rows
    is right.
    """
    total = sum((model.predict_proba(x) for model in models), np.zeros_like(whole))
    return whole / 2 + total / (2 * len(models))
