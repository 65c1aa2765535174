"""What `NoisyLabelClassifier.fit` demands of its arguments, said in one sentence each."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, _num_samples

from trevision.noise import IntArray


def check_estimator_given(estimator: Any) -> None:
    """Raise unless `estimator` is a classifier that predicts probabilities."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(f"estimator must be a model, got the class {name}; write {name}()")
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise TypeError(
            f"estimator must be a scikit-learn classifier, got {estimator!r}; "
            "write NoisyLabelClassifier(LogisticRegression())"
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator must have predict_proba, got {type(estimator).__name__} without it; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV"
        )


def check_labels_given(x: Any, y: Any) -> tuple[NDArray[Any], IntArray]:
    """The classes, sorted, and the code of every row's label."""
    y = _check_y(y, multi_output=False, y_numeric=False, estimator="NoisyLabelClassifier")
    check_classification_targets(y)
    if _num_samples(x) != len(y):
        raise ValueError(f"X and y must be of one length, got {_num_samples(x)} and {len(y)}")
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in y}))
        raise ValueError(f"y must hold labels of one type, got {kinds}; write y.astype(str)") from None
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got one class in {len(y)} rows (n_samples={len(y)})"
        )
    return classes, codes.astype(np.int64)


def check_folds(cv: Any, codes: IntArray, classes: NDArray[Any], doubts: list[str]) -> Any:
    """`cv`, reduced where a class has fewer rows; what was changed is told and added to `doubts`."""
    if not isinstance(cv, numbers.Integral):
        if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, list | tuple)):
            raise ValueError(f"cv must be a number of folds, a splitter or a list of splits, got {cv!r}")
        return cv
    if isinstance(cv, bool) or cv < 2:
        raise ValueError(f"cv must be at least 2 folds, got {cv!r}; 5 is usual")
    counts = np.bincount(codes, minlength=len(classes))
    present = np.flatnonzero(counts)
    if len(present) < 2:
        raise ValueError(
            "y must hold at least two classes with a positive sample_weight, got one class in "
            f"{len(codes)} rows"
        )
    rarest = present[counts[present].argmin()]
    if counts[rarest] >= cv:
        return int(cv)
    folds = max(2, int(counts[rarest]))
    doubt = (
        f"class {classes[rarest]!s} has {counts[rarest]} row(s), fewer than the {cv} "
        f"folds: {folds} folds were used; merge or leave out classes that are so rare"
    )
    doubts.append(doubt)
    warnings.warn(doubt, UserWarning, stacklevel=3)
    return folds
