"""A scikit-learn model fitted on what its noisy labels probably were, at a bounded cost."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing

from trevision.models.counted import Counted
from trevision.noise import FloatArray, IntArray
from trevision.refit.classifier import NoisyLabelClassifier
from trevision.refit.models import FittedModel
from trevision.refit.registry import AUTO
from trevision.training.progress import Progress

FITS = 36
"""About how many models are fitted to choose a correction with five folds; for the progress bar alone."""

FITS_OF_ONE = 6
"""The same if the correction is known."""


@dataclass(frozen=True, eq=False)
class Corrected:
    """A fitted model, and what was learnt on the way.

    Attributes
    ----------
    fitted : FittedModel
        The model that predicts, and the classes that it knows.
    initial_transition, transition : ndarray of shape (C, C)
        T before and after its revision.
    probs : ndarray of shape (n, C)
        P(noisy | x) of each row by a model that was not fitted on it; P(clean | x) with several labels a row.
    held_out_accuracy : float
        The share of rows whose label is the likeliest by `probs`.
    noise_rate : float
        The estimated share of wrong labels.
    correction : str
        The correction that was made.
    reason : str
        Why, in words.
    scores : dict
        The corrections that were compared.
    warnings : list of str
        What is doubtful.
    notes : list of str
        What was done to keep the cost bounded.
    held_out : dict or None
        How often held-out noisy labels are hit by the model fitted on the labels as given (`plain`) and by
        the one fitted on corrected labels (`classifier`); None if that was not compared.
    """

    fitted: FittedModel
    initial_transition: FloatArray
    transition: FloatArray
    probs: FloatArray
    held_out_accuracy: float
    noise_rate: float
    correction: str
    reason: str
    scores: dict[str, dict[str, float]]
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    held_out: dict[str, float] | None = None


def fit_corrected(
    model: Any,
    x: Any,
    labels: IntArray,
    folds: list[np.ndarray],
    num_classes: int,
    seed: int,
    progress: Progress,
    correction: str = AUTO,
    transition_estimator: str | None = None,
    part: IntArray | None = None,
) -> Corrected:
    """Fit a model on corrected labels.

    Parameters
    ----------
    model
        A scikit-learn classifier.
    x, labels
        Rows as the model takes them, and the codes of their labels.
    folds
        For each fold a mask of the rows that are held out.
    num_classes
        The number of classes, also of those without a row.
    seed
        Seed of what the correction draws.
    progress
        Called with a stage.
    correction
        A correction of `NoisyLabelClassifier`.
    transition_estimator
        Where T comes from; None for the default.
    part
        Rows by which the correction is chosen; None for all.
    """
    notes: list[str] = []
    chosen, reason, revise = correction, None, True
    scores: dict[str, dict[str, float]] = {}
    held_out = None
    counted = Counted(model, lambda: progress.batch())
    # The file of a run holds one model.
    common: dict[str, Any] = {
        "transition_estimator": transition_estimator,
        "random_state": seed,
        "average": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # told in warnings_
        if part is not None and correction == AUTO:
            progress.stage("choose a correction", 0, FITS)
            tried = NoisyLabelClassifier(counted, cv=_splits(folds, part), **common)
            tried.fit(_safe_indexing(x, part), labels[part])
            chosen, reason, revise = tried.correction_, tried.correction_reason_, False
            scores, held_out = tried.correction_scores_, _held_out(tried)
            notes.append(
                f"The correction was chosen by {len(part):,} of the {len(labels):,} rows, drawn at random, "
                "and T was not revised on all of them, to bound the cost."
            )
        progress.stage("correct", 0, FITS if chosen == AUTO else FITS_OF_ONE)
        fitted = NoisyLabelClassifier(
            counted, correction=chosen, revise=revise, cv=_splits(folds), **common
        ).fit(x, labels)
    codes = fitted.classes_.astype(np.int64)
    probs = _columns(fitted.out_of_sample_[0], codes, num_classes)
    return Corrected(
        fitted=FittedModel(fitted.estimator_.fitted_, codes[_fitted_classes(fitted, x)], num_classes),
        initial_transition=_whole(fitted.initial_transition_matrix_, codes, num_classes),
        transition=_whole(fitted.transition_matrix_, codes, num_classes),
        probs=probs,
        held_out_accuracy=float((probs.argmax(axis=1) == labels).mean()),
        noise_rate=float(fitted.noise_rate_),
        correction=fitted.correction_,
        reason=reason or fitted.correction_reason_,
        scores=scores or fitted.correction_scores_,
        warnings=list(fitted.warnings_),
        notes=notes,
        held_out=held_out or _held_out(fitted),
    )


def _held_out(fitted: NoisyLabelClassifier) -> dict[str, float] | None:
    """How often held-out noisy labels are hit without the correction and with it."""
    scores, chosen = fitted.correction_scores_, fitted.correction_
    if any(step.get("accepted") and step.get("correction") == chosen for step in fitted.history_):
        chosen = f"{chosen} with revised T"
    if not {"none", chosen} <= set(scores):
        return None
    return {"plain": scores["none"]["accuracy"], "classifier": scores[chosen]["accuracy"]}


def _splits(folds: list[np.ndarray], part: IntArray | None = None) -> list[tuple[IntArray, IntArray]]:
    masks = folds if part is None else [fold[part] for fold in folds]
    return [(np.flatnonzero(~mask), np.flatnonzero(mask)) for mask in masks]


def _fitted_classes(fitted: NoisyLabelClassifier, x: Any) -> IntArray:
    """Which classes the final model knows: a correction may have left none of a rare class."""
    count = len(fitted.estimator_.classes_)
    if count == len(fitted.classes_):
        return np.arange(count)
    # A class that the model does not know has the probability 0 in every row.
    known = np.flatnonzero(fitted.predict_proba(x).any(axis=0))
    assert len(known) == count
    return known


def _whole(matrix: FloatArray, codes: IntArray, num_classes: int) -> FloatArray:
    """T over all classes; one without a label is taken to be labelled right."""
    whole = np.eye(num_classes)
    whole[np.ix_(codes, codes)] = matrix
    return whole


def _columns(probs: FloatArray, codes: IntArray, num_classes: int) -> FloatArray:
    whole = np.zeros((len(probs), num_classes))
    whole[:, codes] = probs
    return whole
