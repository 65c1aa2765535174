"""A fitted scikit-learn model in one file, `model.skops`, without pickle.

The file is an archive of skops, with one more member: the classes that the model knows, the form of its rows,
and both transition matrices. Only types of the candidates are loaded. The indices in their trees are checked,
because scikit-learn follows them blindly.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn._loss._loss import CyHalfBinomialLoss, CyHalfMultinomialLoss
from sklearn._loss.link import Interval, LogitLink, MultinomialLogit
from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

from trevision.data.files.skops_files import Trusted, read_description, read_skops, write_skops
from trevision.files import DataError, write_atomically
from trevision.forms import check_form
from trevision.models.corrected import Corrected
from trevision.noise import FloatArray
from trevision.refit.models import FittedModel
from trevision.training.model_card import checked_transition

MODEL_MEMBER = "trevision.json"

_BOOSTING = (
    *(HistGradientBoostingClassifier, TreePredictor, _BinMapper, LabelEncoder, Interval, LogitLink),
    *(MultinomialLogit, HalfBinomialLoss, HalfMultinomialLoss, CyHalfBinomialLoss, CyHalfMultinomialLoss),
)
_FOREST = (RandomForestClassifier, DecisionTreeClassifier, Tree)
_LINEAR = (LogisticRegression, Pipeline, StandardScaler)
TRUSTED = Trusted((*_BOOSTING, *_FOREST, *_LINEAR, DummyClassifier), ("Loss", "Tree"))


@dataclass(frozen=True, eq=False)
class SavedClassifier:
    """A model read from a file, and whether it takes texts as weights of words."""

    fitted: FittedModel
    takes_words: bool


def save_classifier(path: Path, corrected: Corrected, takes_words: bool) -> None:
    """Write a model and its transition matrices."""
    model = copy.copy(corrected.fitted.model)
    if isinstance(model, HistGradientBoostingClassifier):
        model._feature_subsample_rng = None  # only a fit draws from it
    description = {
        "present": corrected.fitted.present.tolist(),
        "classes": corrected.fitted.num_classes,
        "takes_words": takes_words,
        "initial_transition": corrected.initial_transition.tolist(),
        "transition": corrected.transition.tolist(),
    }
    write_atomically(path, lambda temporary: write_skops(temporary, model, MODEL_MEMBER, description))


def load_classifier(path: Path) -> SavedClassifier:
    """Read a model that `save_classifier` wrote.

    Raises
    ------
    DataError
        If the file is damaged, or names a type that none of the models has.
    """
    description = read_description(path, MODEL_MEMBER)
    model = read_skops(path, TRUSTED)
    try:
        fitted = FittedModel(model, np.array(description["present"], dtype=np.int64), description["classes"])
        known = set(range(fitted.num_classes))
        sound = fitted.present.shape == model.classes_.shape and set(fitted.present.tolist()) <= known
        sound = sound and _has_sound_trees(model)
        saved = SavedClassifier(fitted, bool(description["takes_words"]))
    except Exception as error:  # what is missing in a damaged file shows in many ways
        raise DataError(f"{path}: is no model that a run wrote, or is damaged ({error!r})") from None
    if not sound:
        raise DataError(f"{path}: is no model that a run wrote, or is damaged: its parts do not fit together")
    return saved


def load_transitions(path: Path) -> tuple[FloatArray, FloatArray]:
    """T before and after its revision, from the file of a model."""
    description = read_description(path, MODEL_MEMBER)
    number = int | float
    check_form(
        description, {"initial_transition": [[number]], "transition": [[number]], "classes": int}, path
    )
    try:
        initial, learnt = (
            np.array(description[key], dtype=float) for key in ("initial_transition", "transition")
        )
    except ValueError as error:
        raise DataError(f"{path}: is no model that a run wrote, or is damaged ({error!r})") from None
    size = description["classes"]
    return checked_transition(path, initial, size), checked_transition(path, learnt, size)


def _has_sound_trees(model: Any) -> bool:
    """Whether every tree leads from its root to a leaf, by columns and classes that there are."""
    return all(
        (left > own).all()
        and (right > own).all()
        and (left < size).all()
        and (right < size).all()
        and (column >= 0).all()
        and (column < model.n_features_in_).all()
        for own, left, right, column, size in _inner_nodes(model)
    )


def _inner_nodes(model: Any) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]]:
    """For each tree, of its nodes that are no leaves: own number, left, right, column; and all nodes' number.

    Both kinds of trees number a node before its children.
    """
    if isinstance(model, RandomForestClassifier):
        for each in model.estimators_:
            tree = each.tree_
            if tree.n_features != model.n_features_in_ or tree.n_outputs != 1:
                raise ValueError("a tree is made for other rows")
            inner = np.flatnonzero(tree.children_left != -1)
            left, right, column = (
                values[inner] for values in (tree.children_left, tree.children_right, tree.feature)
            )
            yield inner, left, right, column, tree.node_count
    elif isinstance(model, HistGradientBoostingClassifier):
        for each in (predictor for round_ in model._predictors for predictor in round_):
            nodes = each.nodes
            if nodes["is_categorical"].any() or not len(nodes):
                raise ValueError("a tree has categories, which no run gives it")
            inner = np.flatnonzero(nodes["is_leaf"] == 0)
            # They are unsigned there: as signed ones they compare with others.
            left, right, column = (
                nodes[key][inner].astype(np.int64) for key in ("left", "right", "feature_idx")
            )
            yield inner, left, right, column, len(nodes)
