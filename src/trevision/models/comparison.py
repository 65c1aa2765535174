"""Which model makes held-out noisy labels likeliest: all on the same folds, all calibrated alike.

A model is fitted on the labels as given, without each fold, and predicts P(noisy | x) of the fold's rows. Its
score is the mean of log P(noisy = y | x) with the calibration of `refit.scoring`. No clean label is needed.

With several labels a row, a model is fitted on P(clean | answers), and its score is the likelihood of the
answers to the fold's rows (`crowd`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from trevision.data.files.arrays import npz_members
from trevision.files import DamagedFile, DataError, write_atomically
from trevision.models.candidates import CANDIDATES, Candidate
from trevision.models.counted import Counted
from trevision.models.crowd import CrowdEvidence
from trevision.models.features import Features
from trevision.models.names import NETWORK
from trevision.noise import FloatArray, IntArray
from trevision.refit.correction import Training, weighted_copies
from trevision.refit.models import cross_fit
from trevision.refit.scoring import gain, held_out_noisy
from trevision.training.progress import Progress


@dataclass(frozen=True, eq=False)
class SharedFolds:
    """Rows that models are compared on, codes of their labels, and the folds that all models share.

    With several labels a row, the labels are votes, and `crowd` says what the answers do.
    """

    features: Features
    labels: IntArray
    folds: list[np.ndarray]
    """For each fold a mask of the rows that are held out."""
    num_classes: int
    seed: int
    crowd: CrowdEvidence | None = None

    @property
    def training(self) -> Training:
        """What models are fitted on: the labels as given, or copies weighted by P(clean | answers)."""
        if self.crowd is not None:
            return weighted_copies(self.crowd.targets)
        count = len(self.labels)
        return Training(np.arange(count), self.labels, np.ones(count))

    def log_likelihoods(self, probs: FloatArray) -> FloatArray:
        """How likely the labels of every row are, (n,), by out-of-fold predictions (n, C)."""
        if self.crowd is not None:
            return self.crowd.log_likelihoods(probs, self.folds)
        none: list[FloatArray | None] = [None] * len(self.folds)
        weights = np.ones(len(self.labels))
        rows, _ = held_out_noisy(probs, self.labels, none, self.folds, weights)
        return rows

    def accuracy(self, probs: FloatArray) -> float:
        """The share of rows whose label is the likeliest by `probs`."""
        if self.crowd is not None:
            return self.crowd.accuracy(probs)
        return float((probs.argmax(axis=1) == self.labels).mean())


@dataclass(frozen=True, eq=False)
class Compared:
    """How a model did on held-out noisy labels.

    Attributes
    ----------
    name : str
        The model.
    value : float or None
        The value of its setting that was best.
    log_likelihood : float
        Mean of log P(noisy = y | x), in nats; with several labels a row, of their sum.
    accuracy : float
        The share of rows whose noisy label was the likeliest; with several labels a row, the clean one.
    seconds : float
        What the comparison took.
    behind, behind_error : float
        By how much a row's label is less likely than by the best model, and the standard error of that.
    error : str or None
        Why it could not be compared.
    rows : ndarray of shape (n,) or None
        log P(noisy = y | x) of every row, as in `log_likelihood`.
    """

    name: str
    value: float | None = None
    log_likelihood: float = -np.inf
    accuracy: float = 0.0
    seconds: float = 0.0
    behind: float = 0.0
    behind_error: float = 0.0
    error: str | None = None
    rows: FloatArray | None = None

    def to_json(self, chosen: bool) -> dict[str, Any]:
        """The entry of `models` in result.json."""
        if self.error is not None:
            return {"name": self.name, "error": self.error, "chosen": False}
        setting = {} if self.value is None else {CANDIDATES[self.name].setting: self.value}
        return {
            "name": self.name,
            "settings": setting,
            "log_likelihood": self.log_likelihood,
            "accuracy": self.accuracy,
            "behind": self.behind,
            "behind_error": self.behind_error,
            "seconds": round(self.seconds, 1),
            "chosen": chosen,
        }


NetworkProbs = Callable[[SharedFolds], FloatArray]
"""Trains networks without each fold and predicts P(noisy | x) of the fold's rows, (n, C)."""


def compare(
    names: Sequence[str],
    shared: SharedFolds,
    network_probs: NetworkProbs | None,
    progress: Progress,
    kept: Path,
) -> list[Compared]:
    """Compare models on the same folds; the best is first.

    Parameters
    ----------
    names
        The models.
    shared
        Rows, labels and folds.
    network_probs
        Predicts by networks, if these are among the models.
    progress
        Called with a stage for each model.
    kept
        A folder where predictions of a model are kept, so that a stopped run continues after it.

    Raises
    ------
    DataError
        If no model could be fitted.
    """
    outcomes = []
    for name in names:
        try:
            outcomes.append(_scored(name, shared, network_probs, progress, kept))
        except Exception as error:  # whatever ails one model, the others are compared
            reason = " ".join(str(error).split()) or type(error).__name__
            outcomes.append(Compared(name, error=reason))
    outcomes.sort(key=lambda each: -each.log_likelihood)
    best = outcomes[0]
    if best.rows is None:
        raise DataError("no model could be fitted: " + "; ".join(f"{x.name}: {x.error}" for x in outcomes))
    weights = np.ones(len(shared.labels))
    told = []
    for each in outcomes:
        if each.rows is not None:
            lead = gain(best.rows, each.rows, weights)
            each = replace(each, behind=lead.mean, behind_error=lead.error)
        told.append(each)
    return told


def _scored(
    name: str, shared: SharedFolds, network_probs: NetworkProbs | None, progress: Progress, kept: Path
) -> Compared:
    path = kept / f"compare-{name}.npz"
    if not path.is_file():
        began = time.perf_counter()
        if name == NETWORK:
            assert network_probs is not None
            value, probs = np.nan, network_probs(shared)
        else:
            value, probs = _best_setting(CANDIDATES[name], shared, progress)
        seconds = time.perf_counter() - began
        kept.mkdir(parents=True, exist_ok=True)

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez(file, probs=probs, value=value, seconds=seconds)

        write_atomically(path, write)
    known = npz_members(path)
    forms = {name: known[name].shape if name in known else None for name in ("probs", "value", "seconds")}
    if forms != {"probs": (len(shared.labels), shared.num_classes), "value": (), "seconds": ()} or any(
        each.dtype.kind not in "fiu" for each in known.values()
    ):
        raise DamagedFile(
            f"{path}: is damaged, or of another run; remove it, and it is made again", path=path
        )
    probs, value = known["probs"], float(known["value"])
    rows = shared.log_likelihoods(probs)
    return Compared(
        name,
        None if np.isnan(value) else value,
        float(rows.mean()),
        shared.accuracy(probs),
        float(known["seconds"]),
        rows=rows,
    )


def _best_setting(candidate: Candidate, shared: SharedFolds, progress: Progress) -> tuple[float, FloatArray]:
    """The value of the model's setting with the likeliest noisy labels, and its predictions.

    They are tried in their order until one is no better than the one before. The best of a few values looks a
    little better than it is: by far less than models differ, where there are hundreds of rows.
    """
    progress.stage(candidate.name, 0, len(candidate.values) * len(shared.folds))
    best = -np.inf, np.nan, np.empty(0)
    for value in candidate.values:
        model = candidate.model(value, shared.seed, shared.features.scaled)
        probs = out_of_fold(model, shared.features.for_model(candidate), shared, progress)
        score = float(shared.log_likelihoods(probs).mean())
        if score <= best[0]:
            break  # values rise in what they let a model learn: beyond this one, it learns the noise
        best = score, value, probs
    return best[1:]


def out_of_fold(model: Any, x: Any, shared: SharedFolds, progress: Progress) -> FloatArray:
    """P(noisy | x) of every row by a clone of `model` that was fitted on the other folds, (n, C).

    With several labels a row, it is P(clean | x).
    """
    # As a plain function, it survives that scikit-learn copies a model's parameters.
    counted = Counted(model, lambda: progress.batch())
    with warnings.catch_warnings():
        # Predictions before the optimum serve as well; they are judged by labels that are held out.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cross_fit(counted, x, shared.training, shared.folds, shared.num_classes, shared.seed, None)
