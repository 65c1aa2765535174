"""A run that compares all estimators of T on the same predictions, without a classifier.

Stage 1 is trained once for each fold. All estimators use these out-of-sample predictions. result.json has the
errors of each under its name in `estimates`.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np

from trevision.data.noisy import Truth
from trevision.estimation import ESTIMATORS as OURS
from trevision.estimation import ProbabilityRows, clean_given_label
from trevision.files import write_json
from trevision.files import write_matrix as write_transition
from trevision.methods.cross_fit import cross_fit
from trevision.noise import FloatArray, IntArray, from_cleanlab
from trevision.runs.described import auc
from trevision.runs.prepare import begin
from trevision.runs.record import described, error_of, transition_floor
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Hardware, Settings, run_config
from trevision.training.checkpoint import Store

ESTIMATORS = "estimators"
"""The method in the config of a comparison."""
CLEANLAB = "cleanlab"


def estimator_names() -> tuple[str, ...]:
    """The names of all compared estimators: those of this package, and cleanlab's."""
    return (*OURS, CLEANLAB)


def lacking(name: str) -> str:
    """Why an estimator cannot be used; empty if it can."""
    if name == CLEANLAB and importlib.util.find_spec("cleanlab") is None:
        return "cleanlab is not installed: pip install 'trevision[bench]'"
    return "" if name in estimator_names() else f"there is no estimator {name} in this version"


def compare_estimators(
    source: str,
    settings: Settings,
    folder: Path,
    hardware: Hardware | None = None,
    data_dir: Path | None = None,
    store: Store | None = None,
    keep_model: bool = False,
) -> dict[str, Any]:
    """Compare the estimators on one sample of noisy labels, in `folder`. Arguments as for `run`.

    A finished comparison is repeated only if an estimator failed or has been added since. `keep_model` keeps
    the predictions.
    """
    names = [name for name in estimator_names() if not lacking(name)]
    finished = RunFolder(folder).finished_result(run_config(source, settings))
    if finished is not None:
        done = {name for name, how in finished["estimates"].items() if "error" not in how}
        if done.issuperset(names):
            return finished
    begun = begin(source, settings, folder, hardware, data_dir, store=store)
    problem, truth = begun.problem, begun.truth
    data, runtime = problem.data, problem.runtime
    predicted = cross_fit(problem)
    probs, labels = predicted.rows(data)
    estimates = {}
    for name in names:
        transition, estimates[name] = _try(name, probs, labels, truth)
        if transition is not None and runtime.fabric.is_global_zero:
            write_transition(folder / f"transition-{name}.csv", transition)
    result = {
        **described(settings, predicted.history, begun.dataset.notes, runtime),
        "folds": predicted.folds,
        "transition_floor": transition_floor(data, truth),
        "estimates": estimates,
        "warnings": [*problem.warnings, *predicted.warnings],
    }
    if runtime.fabric.is_global_zero:
        RunFolder(folder).write_metrics(predicted.history)
        if keep_model:
            RunFolder(folder).save_out_of_sample(predicted, data)
        write_json(folder / "result.json", result)
        runtime.store.clear()
    runtime.fabric.barrier()
    return result


def _try(
    name: str, probs: np.ndarray, labels: np.ndarray, truth: Truth
) -> tuple[FloatArray | None, dict[str, Any]]:
    """T by one estimator, with its error, AUC and seconds; or None and the error message."""
    began = time.perf_counter()
    try:
        transition, p_given = _by_cleanlab(probs, labels) if name == CLEANLAB else _ours(name, probs, labels)
    except Exception as error:  # the failure of one estimator must not stop the others
        return None, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    seconds = time.perf_counter() - began
    area = None
    if truth.true_train_y is not None:
        true = truth.true_train_y.cpu().numpy()  # the training rows come first
        area = auc(labels[: len(true)] != true, p_given[: len(true)])
    scores = {"transition_error": error_of(transition, truth), "wrong_label_auc": area}
    return transition, scores | {"seconds": round(seconds, 3)}


def _ours(name: str, probs: np.ndarray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
    """T, and P(clean = given | x, given) of every row, by an estimator of this package."""
    rows = ProbabilityRows(probs, labels)
    solution = OURS[name].solve(rows)
    p_given = np.empty(len(rows))
    for part, given, where in rows.chunks():
        clean = clean_given_label(solution.clean_posterior(part), solution.transition, given)
        p_given[where] = clean[np.arange(len(given)), given]
    return solution.transition, p_given


def _by_cleanlab(probs: np.ndarray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
    """T by cleanlab, and its score of every label: the model's probability of the label."""
    from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities
    from cleanlab.rank import get_label_quality_scores

    exact = probs.astype(np.float64)
    exact /= exact.sum(axis=1, keepdims=True)
    _, noise_matrix, *_ = estimate_py_and_noise_matrices_from_probabilities(labels, exact)
    return from_cleanlab(noise_matrix), get_label_quality_scores(labels, exact)
