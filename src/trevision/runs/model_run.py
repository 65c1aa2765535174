"""One run of a scikit-learn model, or of the best of several models, from rows to a run folder.

The models are compared by held-out noisy labels (`models.comparison`); the best is fitted on corrected labels
(`models.corrected`), or on P(clean) from several labels a row (`models.answered`). If that is the network,
`run` trains it. Nothing here imports torch before that.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trevision.data.folds import fold_of
from trevision.data.progress import Progress as ReadingProgress
from trevision.estimation import counted_transition, invert, transition_error
from trevision.extras import PACKAGES, is_installed
from trevision.files import DataError, write_atomically, write_json, write_matrix
from trevision.models.answered import fit_answered
from trevision.models.candidates import CANDIDATES, Candidate
from trevision.models.comparison import Compared, NetworkProbs, SharedFolds, compare
from trevision.models.corrected import Corrected, fit_corrected
from trevision.models.crowd import CrowdEvidence
from trevision.models.files import save_classifier
from trevision.models.names import AUTO, NETWORK
from trevision.noise import FloatArray
from trevision.runs.answered import Answered, check_settings_for_answers
from trevision.runs.described import auc_of_wrong_labels, described_run
from trevision.runs.model_rows import ModelRows, read_rows
from trevision.runs.provenance import code
from trevision.runs.run_folder import PREPROCESSING_FILE, OutOfSampleRows, RunFolder
from trevision.runs.settings import Hardware, Settings, check_numbers, files_of, run_config
from trevision.training.model_card import CLASSIFIER_FILE, ModelCard
from trevision.training.progress import NoProgress, Progress

FOLDS = 5
MOST_ROWS = 10_000
"""Rows by which models are compared and a correction is chosen; of more, so many are drawn at random."""

WITHOUT_TORCH = "The network was not compared: it needs torch, which is not installed."


def run_model(
    source: str,
    settings: Settings,
    folder: Path,
    hardware: Hardware | None = None,
    progress: Progress | None = None,
    reading: ReadingProgress | None = None,
) -> dict[str, Any]:
    """Do one run of `settings.models` in `folder` and return the contents of its result.json.

    If the folder holds the same run, it is continued, or left as it is if finished. If it holds another run,
    a ValueError is raised.

    Parameters
    ----------
    source
        The path of a table or of an .npz file with two-dimensional rows.
    settings
        Everything else that the result depends on.
    folder
        The run folder.
    hardware
        Where it is computed; a scikit-learn model reads only the threads.
    progress, reading
        Called with the progress of fitting, and of reading the source.
    """
    code()  # asked now: the checkout may change while a long run trains
    hardware, progress = hardware or Hardware(), progress or NoProgress()
    check_numbers(settings, hardware)
    if settings.reading.annotator_column is not None:
        check_settings_for_answers(settings)
    finished = RunFolder(folder).finished_result(run_config(source, settings))
    if finished is not None:
        return finished
    names, notes = models_to_compare(settings)
    words = any(name != NETWORK and CANDIDATES[name].takes_words for name in names)
    rows = read_rows(source, settings, words, reading)
    files = files_of(source, settings)
    config = run_config(source, settings) | ({"files": files} if files else {})
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)

    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    with threadpool_limits(hardware.threads):
        _, labels = rows.learnt_from()
        folds = _folds(labels, settings.seed)
        part = _part(len(labels), settings.seed)
        shared = _shared(rows, folds, part, settings.seed)
        network = _network_probs(source, settings, hardware, folder, progress) if NETWORK in names else None
        compared = compare(names, shared, network, progress, folder / "checkpoints")
        best = compared[0]
        if part is not None:
            notes.append(
                f"Models were compared on {len(part):,} of the {len(labels):,} rows, drawn at random."
            )
        notes += _near_ones(compared)
        told: dict[str, Any] = {
            "model": best.name,
            "models": [each.to_json(chosen=each is best) for each in compared],
            "data_notes": notes,
            "warnings": [
                f"{each.name} could not be fitted and was not compared: {each.error}"
                for each in compared
                if each.error is not None
            ],
        }
        if best.name == NETWORK:
            from trevision.runs.run import run

            return run(source, settings, folder, hardware, None, progress, reading, told=told)
        began = time.perf_counter()
        corrected, answered = _fitted(best, rows, folds, part, settings, progress, told["warnings"])
        seconds = sum(each.seconds for each in compared) + time.perf_counter() - began
    told["data_notes"] = [*rows.dataset.notes, *notes, *corrected.notes]
    result = _summarised(best, rows, corrected, settings, seconds, hardware.threads) | told
    result["warnings"] = [*told["warnings"], *corrected.warnings]
    if answered is not None:
        result["annotators"] = answered.summary()
    _write(folder, config, rows, best, compared, corrected, answered, result)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return result


def models_to_compare(settings: Settings) -> tuple[list[str], list[str]]:
    """The models that a run compares, and notes on those that it leaves out."""
    if settings.models.model != AUTO:
        return [settings.models.model], []
    if settings.models.correction != AUTO:
        note = f"The network was not compared: the correction {settings.models.correction} is not one of its."
        return [*CANDIDATES], [note]
    if not all(map(is_installed, PACKAGES["torch"])):
        return [*CANDIDATES], [WITHOUT_TORCH]
    return [NETWORK, *CANDIDATES], []


def _near_ones(compared: list[Compared]) -> list[str]:
    """A note if other models may be as good as the best: none is worse by more than a standard error."""
    best, *others = compared
    near = [each.name for each in others if each.error is None and each.behind <= each.behind_error]
    if not near:
        return []
    return [
        f"The model {best.name} is hardly ahead of {', '.join(near)} on labels that they had not seen: the "
        "lead may be chance."
    ]


def _folds(labels: np.ndarray, seed: int) -> list[np.ndarray]:
    count = len(labels)
    if count < 2:
        raise DataError(f"models need at least 2 rows to be compared, got {count}")
    folds = min(FOLDS, count)
    assigned = fold_of(labels, folds, np.random.default_rng([seed, 3]))
    return [assigned == number for number in range(folds)]


def _part(count: int, seed: int) -> np.ndarray | None:
    """Rows by which choices are made if all would cost too much."""
    if count <= MOST_ROWS:
        return None
    return np.sort(np.random.default_rng([seed, 5]).permutation(count)[:MOST_ROWS])


def _shared(rows: ModelRows, folds: list[np.ndarray], part: np.ndarray | None, seed: int) -> SharedFolds:
    (features, labels), answers = rows.learnt_from(), rows.answers
    if part is not None:
        features, labels, folds = features.take(part), labels[part], [fold[part] for fold in folds]
        answers = None if answers is None else answers.take(part)
    crowd = None if answers is None else CrowdEvidence.of(answers)
    return SharedFolds(features, labels, folds, rows.dataset.num_classes, seed, crowd)


def _network_probs(
    source: str, settings: Settings, hardware: Hardware, folder: Path, progress: Progress
) -> NetworkProbs:
    def probs(shared: SharedFolds) -> FloatArray:
        import torch

        from trevision.models.network import network_probs
        from trevision.training.checkpoint import FolderStore
        from trevision.training.precision import settled_precision
        from trevision.training.runtime import Runtime, launch

        if hardware.threads is not None:
            torch.set_num_threads(hardware.threads)
        precision = settled_precision(hardware.precision, "mlp", hardware.accelerator)
        fabric = launch(hardware.accelerator, hardware.devices, precision)
        runtime = Runtime(fabric, FolderStore(folder / "checkpoints"), progress)
        return network_probs(shared, source, settings.schedule, runtime)

    return probs


def _fitted(
    best: Compared,
    rows: ModelRows,
    folds: list[np.ndarray],
    part: np.ndarray | None,
    settings: Settings,
    progress: Progress,
    doubts: list[str],
) -> tuple[Corrected, Answered | None]:
    """The best model, fitted on all rows; with several labels a row, also what was learnt of annotators."""
    candidate = CANDIDATES[best.name]
    assert best.value is not None
    model = candidate.model(best.value, settings.seed, rows.features.scaled)
    features, labels = rows.learnt_from()
    x = features.for_model(candidate)
    if rows.answers is None:
        corrected = _corrected(
            model, x, labels, rows.dataset.num_classes, folds, part, settings, progress, doubts
        )
        # Rows that are known to be right are not judged.
        return replace(corrected, probs=corrected.probs[: len(rows.labels)]), None
    corrected, learnt = fit_answered(model, x, rows.answers, folds, settings.seed, progress)
    numbers = rows.source_labels.row_numbers
    return corrected, Answered(learnt.annotators, rows.answers, numbers, rows.dataset.class_names)


def _corrected(
    model: Any,
    x: Any,
    labels: np.ndarray,
    num_classes: int,
    folds: list[np.ndarray],
    part: np.ndarray | None,
    settings: Settings,
    progress: Progress,
    doubts: list[str],
) -> Corrected:
    arguments = (model, x, labels, folds, num_classes, settings.seed, progress)
    chosen, estimator = settings.models.correction, settings.options.estimator
    try:
        return fit_corrected(*arguments, chosen, estimator, part)
    except Exception as error:
        if chosen != AUTO:
            raise
        # A correction may leave too few rows of a class; the labels as given served in the comparison.
        doubts.append(f"no correction was made, because one failed: {' '.join(str(error).split())}")
        return fit_corrected(*arguments, "none", estimator, part)


def _summarised(
    best: Compared,
    rows: ModelRows,
    corrected: Corrected,
    settings: Settings,
    seconds: float,
    threads: int | None,
) -> dict[str, Any]:
    """The contents of result.json, but for what is told of the comparison."""
    candidate = CANDIDATES[best.name]
    packages = ("scikit-learn", "skops")
    return {
        "method": best.name,
        **described_run(settings, seconds, (), packages, threads or os.cpu_count() or 1),
        "epochs": 0,
        "test_accuracy": _test_accuracy(rows, corrected),
        **_against_truth(candidate, rows, corrected),
        "starts_from_estimate": True,
        "uses_transition": corrected.correction != "none",
        "noise_rate": corrected.noise_rate,
        "noisy_validation_accuracy": corrected.held_out_accuracy,
        "held_out": corrected.held_out,
        "selected_stage": best.name,
        "selected_epoch": 1,
        "stopped_because": "the model was fitted",
        "transition_ran_away": False,
        "correction": corrected.correction,
        "correction_reason": corrected.reason,
        "correction_scores": corrected.scores,
    }


def _test_accuracy(rows: ModelRows, corrected: Corrected) -> float | None:
    if rows.dataset.test_x is None:
        return None
    predicted = corrected.fitted.predict_proba(rows.dataset.test_x).argmax(axis=1)
    return float((predicted == rows.dataset.test_y).mean())


def _against_truth(candidate: Candidate, rows: ModelRows, corrected: Corrected) -> dict[str, float | None]:
    """Errors of T, and how well wrong labels are found; None if the truth is not known. As for a network."""
    true, planted = rows.true_labels, rows.transition
    if true is None or planted is None:
        names = ("initial_transition_error", "transition_error", "transition_floor")
        return dict.fromkeys((*names, "initial_wrong_label_auc", "wrong_label_auc"))
    counted = counted_transition(true, rows.labels, rows.dataset.num_classes)
    initial = invert(corrected.probs, corrected.initial_transition)
    learnt = corrected.fitted.predict_proba(rows.features.for_model(candidate))
    used = None if corrected.correction == "none" else corrected.transition
    return {
        "initial_transition_error": transition_error(corrected.initial_transition, planted),
        "transition_error": transition_error(corrected.transition, planted),
        "transition_floor": transition_error(counted, planted),
        "initial_wrong_label_auc": auc_of_wrong_labels(
            initial, corrected.initial_transition, rows.labels, true
        ),
        "wrong_label_auc": auc_of_wrong_labels(learnt, used, rows.labels, true),
    }


def _write(
    folder: Path,
    config: dict[str, Any],
    rows: ModelRows,
    best: Compared,
    compared: list[Compared],
    corrected: Corrected,
    answered: Answered | None,
    result: dict[str, Any],
) -> None:
    """Write the files of a finished run. result.json is last: if it exists, the run is complete."""
    run, dataset = RunFolder(folder), rows.dataset
    takes_words = rows.features.uses_words(CANDIDATES[best.name])
    width = rows.features.for_model(CANDIDATES[best.name]).shape[1]
    if dataset.preprocessing is not None:
        write_atomically(folder / PREPROCESSING_FILE, dataset.preprocessing.save)
    numbers = rows.source_labels.row_numbers
    if answered is None:
        run.write_out_of_sample(
            OutOfSampleRows(corrected.probs, rows.labels, numbers, min(FOLDS, len(rows.labels)))
        )
    else:
        answered.write(folder)
    run.write_labels(dataset.labels, numbers, rows.labels)
    history = [
        {
            "stage": each.name,
            "epoch": 1,
            "noisy_validation_error": 1 - each.accuracy,
            "log_likelihood": each.log_likelihood,
            "seconds": each.seconds,
        }
        for each in compared
        if each.error is None
    ]
    run.write_metrics(history)
    write_matrix(folder / "transition.csv", corrected.transition)
    save_classifier(folder / CLASSIFIER_FILE, corrected, takes_words)
    card = ModelCard(best.name, (width,), dataset.class_values, is_network=False)
    write_json(folder / "config.json", config | {"model": card.to_json()})
    write_json(folder / "result.json", result)
