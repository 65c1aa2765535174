"""The scikit-learn estimator once it is fitted: predictions, label issues, and its files."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from trevision.data.files.annotator_files import has_annotators, read_annotators, write_annotators
from trevision.data.files.array_dataset import features
from trevision.data.sparse_rows import SparseRows, sparse_features
from trevision.estimation import BOOTSTRAP, Annotators
from trevision.files import write_json
from trevision.foreign import ScoresDataSets, read_rows
from trevision.issues import LabelIssues, find_label_issues, issues_of_answers
from trevision.methods.schedules import Schedule, colour_network
from trevision.networks.choose import choose
from trevision.noise import refuse_masked
from trevision.training.evaluate import class_probs
from trevision.training.model import NoisyLabelModel
from trevision.training.model_files import CUSTOM_NETWORK, ModelCard, load_model, save_model
from trevision.training.runtime import is_cpu

Network = str | nn.Module | Callable[[], nn.Module]


# Without type information of scikit-learn, its classes are Any to a type checker.
class FittedClassifier(ScoresDataSets, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What a fitted `TRevisionClassifier` can be asked; its own class says how it is fitted.

    The attributes are described there.
    """

    method: str
    network: Network | None
    schedule: str | Schedule
    accelerator: str

    classes_: np.ndarray
    shape_: tuple[int, ...]
    model_: NoisyLabelModel
    initial_transition_matrix_: np.ndarray
    transition_matrix_: np.ndarray
    noise_rate_: float | None
    history_: list[dict[str, Any]]
    stopped_because_: str
    warnings_: list[str]
    correction_reason_: str
    annotators_: Annotators | None
    rows_: np.ndarray
    out_of_sample_: tuple[np.ndarray, np.ndarray] | None

    def predict(self, X: Any) -> np.ndarray:
        """The most probable clean label of each row.

        Parameters
        ----------
        X : array-like or data set
            Rows of the same shape as in `fit`. Labels in a data set are not read.

        Returns
        -------
        ndarray of shape (n,)
            Values of `classes_`.
        """
        check_is_fitted(self)
        labels: np.ndarray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """The clean posterior g(x): what the labels would be without the noise.

        Parameters
        ----------
        X : array-like or data set
            Rows of the same shape as in `fit`. Labels in a data set are not read.

        Returns
        -------
        ndarray of shape (n, C)
            Probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        x = self._checked_rows(X, "X")
        if tuple(x.shape[1:]) != self.shape_:
            raise ValueError(f"X must have rows of shape {self.shape_}, as in fit, got {tuple(x.shape[1:])}")
        model = self.model_
        if x.ndim == 2 and (self.network is None or isinstance(self.network, str)):
            # In single precision, the rows around a row change the seventh digit of its probabilities.
            model, x = copy.deepcopy(model).double(), x.double()
        return _normalised(class_probs(model, x).double().numpy())

    def predict_noisy_proba(self, X: Any) -> np.ndarray:
        """The noisy posterior T'g(x): what the labels would be if given with the same noise.

        Parameters
        ----------
        X : array-like or data set
            Rows of the same shape as in `fit`. Labels in a data set are not read.

        Returns
        -------
        ndarray of shape (n, C)
            Probabilities, in the order of `classes_`.
        """
        probs = self.predict_proba(X)
        if self.model_.transition is None:
            return probs
        return _normalised(probs @ self.transition_matrix_)

    def find_label_issues(self, bootstrap: int = BOOTSTRAP, level: float = 0.9) -> LabelIssues:
        """Which of the labels in `fit` are probably wrong, and what they should be.

        Each label is judged by a network that was not trained on it.

        Parameters
        ----------
        bootstrap : int, default=200
            Number of bootstrap replicates for the intervals; 0 for no intervals.
        level : float, default=0.9
            Confidence of the intervals.

        Returns
        -------
        LabelIssues
            For the rows of a positive weight, each counted once; `to_frame` has their numbers and labels in
            `fit`. With several labels a row, the vote of the annotators is judged by
            `annotators_.clean_posterior`.

        Raises
        ------
        ValueError
            If `fit` made no predictions for rows that a network was not trained on.
        """
        check_is_fitted(self)
        if self.out_of_sample_ is None:
            raise ValueError(
                "find_label_issues needs predictions for rows that a network was not trained on, which fit "
                "makes with estimator='latent', or any other but 'anchor', for more rows than folds; "
                "trevision.find_label_issues takes probabilities of your own"
            )
        probs, codes = self.out_of_sample_
        if self.annotators_ is not None:
            crowd = self.annotators_
            found = issues_of_answers(crowd, codes, bootstrap, level, classes=self.classes_)
        else:
            found = find_label_issues(
                probs, self.classes_[codes], bootstrap=bootstrap, level=level, classes=self.classes_
            )
        return replace(found, rows=self.rows_)

    def save(self, folder: str | Path) -> None:
        """Write the fitted classifier to a folder: safetensors and JSON, nothing executable.

        Parameters
        ----------
        folder : str or Path
            The folder to write to. It is created if it does not exist.
        """
        check_is_fitted(self)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        card = ModelCard(self._network_name(self.shape_), self.shape_, self.classes_)
        save_model(
            folder / "model.safetensors",
            self.model_,
            self.initial_transition_matrix_,
            self.transition_matrix_,
        )
        fitted = {
            "n_features_in": self.n_features_in_,
            "feature_names_in": getattr(self, "feature_names_in_", np.array([])).tolist(),
            "history": self.history_,
            "stopped_because": self.stopped_because_,
            "warnings": self.warnings_,
            "correction_reason": self.correction_reason_,
            "noise_rate": self.noise_rate_,
            "dataset_columns": self.dataset_columns_,
        }
        config = {"method": self.method, "model": card.to_json(), "fitted": fitted}
        if self.annotators_ is not None:
            write_annotators(folder, self.annotators_, self.rows_, self.classes_)
        write_json(folder / "config.json", config)

    @classmethod
    def load(cls, folder: str | Path, network: nn.Module | None = None) -> Self:
        """Read a classifier that `save` or `trevision fit` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder.
        network : nn.Module, optional
            A fresh network, if the classifier had a network of your own: only its weights are stored.

        Returns
        -------
        TRevisionClassifier
            The fitted classifier.
        """
        saved = load_model(Path(folder), None if network is None else copy.deepcopy(network))
        model = cls(
            saved.config["method"],
            network=network if network is not None else saved.card.network,
        )
        model._keep_model(saved.model, saved.initial_transition, saved.transition)
        model.classes_, model.shape_ = saved.card.classes, saved.card.shape
        fitted = saved.config.get("fitted", {})
        model.n_features_in_ = fitted.get("n_features_in", saved.card.shape[0])
        if fitted.get("feature_names_in"):
            model.feature_names_in_ = np.array(fitted["feature_names_in"], dtype=object)
        model.history_ = fitted.get("history", [])
        model.stopped_because_ = fitted.get("stopped_because", "")
        model.warnings_ = fitted.get("warnings", [])
        model.correction_reason_ = fitted.get("correction_reason", "")
        model.noise_rate_ = fitted.get("noise_rate")
        model.dataset_columns_ = fitted.get("dataset_columns")
        model.out_of_sample_ = None
        model.annotators_ = read_annotators(Path(folder)) if has_annotators(Path(folder)) else None
        return model

    def _keep_model(self, model: NoisyLabelModel, initial: np.ndarray, transition: np.ndarray) -> None:
        self.model_ = model
        self.initial_transition_matrix_ = initial
        self.transition_matrix_ = transition

    def _network_name(self, shape: tuple[int, ...]) -> str:
        """The network's name, chosen if the user names none; "custom" for a network of the user's own."""
        if isinstance(self.network, str):
            return self.network
        if self.network is not None:
            return CUSTOM_NETWORK
        if isinstance(self.schedule, str) and is_cpu(self.accelerator):
            return choose(shape, colour_network(self.schedule))
        return choose(shape)

    def _checked_rows(self, X: Any, name: str) -> torch.Tensor | SparseRows:
        """Rows like those of `fit`, to be predicted or trusted."""
        X = read_rows(X, self.dataset_columns_, numeric=True, name=name)
        refuse_masked(X, name)
        return rows_to_learn_from(
            validate_data(self, X, reset=False, accept_sparse="csr", allow_nd=True), name
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def rows_to_learn_from(X: Any, name: str) -> torch.Tensor | SparseRows:
    """Checked rows as a copy to learn from; a sparse table stays sparse."""
    return sparse_features(X, name) if issparse(X) else features(X, name, precise=True)


def _normalised(probs: np.ndarray) -> np.ndarray:
    rows: np.ndarray = probs / probs.sum(axis=1, keepdims=True)
    return rows
