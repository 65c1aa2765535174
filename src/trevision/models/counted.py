"""A model that tells when it has been fitted, for progress bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, clone

from trevision.refit.models import weight_key


class Counted(ClassifierMixin, BaseEstimator):
    """The classifier `estimator`; `on_fit` is called after each fit of it and of its clones.

    Parameters
    ----------
    estimator : classifier
        The model. It is cloned, never fitted itself.
    on_fit : callable
        A plain function: scikit-learn copies the parameters of a clone, but no functions.
    """

    def __init__(self, estimator: Any, on_fit: Callable[[], None]) -> None:
        self.estimator = estimator
        self.on_fit = on_fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Counted:
        key = weight_key(self.estimator)
        weights = {} if sample_weight is None or key is None else {key: sample_weight}
        self.fitted_ = clone(self.estimator).fit(X, y, **weights)
        self.classes_ = self.fitted_.classes_
        self.on_fit()
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.fitted_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        return self.fitted_.predict(X)
