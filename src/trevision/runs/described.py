"""What a result says of a run, whatever was trained: settings, versions, and numbers against the truth."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trevision.estimation import clean_given_label
from trevision.runs.provenance import provenance

if TYPE_CHECKING:
    from trevision.runs.settings import Settings


def described_run(
    settings: Settings, seconds: float, data_notes: Sequence[str], packages: Sequence[str], threads: int
) -> dict[str, Any]:
    """The fields that every result has: what was run, for how long, by which code and on which machine."""
    return {
        "seed": settings.seed,
        "noise": settings.noise,
        "schedule": settings.schedule,
        "seconds": round(seconds, 1),
        "data_notes": list(data_notes),
        "versions": {name: version(name) for name in ("trevision", "numpy", *packages)}
        | {"python": platform.python_version()},
        **provenance(threads),
    }


def auc_of_wrong_labels(
    clean_posterior: NDArray[np.floating], transition: np.ndarray | None, given: np.ndarray, true: np.ndarray
) -> float | None:
    """The area under the ROC curve of finding wrong labels by a low P(clean = given | x, given).

    `clean_posterior` (n, C) is g(x). Without T, g at the given label is used. None if no label is wrong, or
    none is right, or T is not finite.
    """
    if transition is not None:
        if not np.isfinite(transition).all():
            return None
        clean_posterior = clean_given_label(clean_posterior, transition, given)
    return auc(given != true, clean_posterior[np.arange(len(given)), given])


def auc(wrong: NDArray[np.bool_], p_given: NDArray[np.floating]) -> float | None:
    """The share of pairs of a wrong and a right label where the wrong label is less probable.

    Ties count half.
    """
    from sklearn.metrics import roc_auc_score

    if wrong.all() or not wrong.any() or not np.isfinite(p_given).all():
        return None
    return float(roc_auc_score(wrong, -p_given))
