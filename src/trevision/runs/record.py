"""The contents of result.json: what a run learnt and, if the noise was added by us, its errors.

The true labels of training rows are used only here, after all training. They never reach a method or the
selection of an epoch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trevision.data.noisy import NoisyData, Truth
from trevision.estimation import counted_transition, invert, transition_error
from trevision.methods.problem import Learned, Problem
from trevision.methods.registry import find_method
from trevision.runs.described import auc_of_wrong_labels, described_run
from trevision.training.evaluate import class_probs

if TYPE_CHECKING:
    from trevision.runs.settings import Settings
    from trevision.training.runtime import Runtime

FIRST_STAGE = "noisy-posterior"


def summarise(
    learned: Learned, settings: Settings, problem: Problem, truth: Truth, data_notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The contents of result.json."""
    selected = learned.selected
    return {
        **described(settings, learned.history, data_notes, problem.runtime, learned.seconds_estimating),
        "test_accuracy": selected.get("test_accuracy"),
        **_against_truth(learned, settings, problem, truth),
        "starts_from_estimate": find_method(settings.method).starts_from_estimate,
        "uses_transition": learned.model.transition is not None,
        "noise_rate": learned.noise_rate,
        "noisy_validation_accuracy": 1 - selected["noisy_validation_error"],
        "held_out": _held_out(learned),
        "selected_stage": selected["stage"],
        "selected_epoch": selected["epoch"],
        "stopped_because": learned.stopped_because,
        "transition_ran_away": learned.transition_ran_away,
        "guard": learned.guard,
        **({} if learned.choice is None else {"choice": learned.choice}),
        "warnings": learned.warnings,
    }


def _held_out(learned: Learned) -> dict[str, float] | None:
    """How often held-out noisy labels are hit by plain training and by the classifier, on the same rows.

    `auto` compares both. Of other methods, stage 1 is plain training, for fewer epochs.
    """
    choice = learned.choice
    if choice is not None:
        scores, chosen = choice["scores"], choice["correction"]
        if not {"none", chosen} <= set(scores):
            return None
        return {"plain": scores["none"]["accuracy"], "classifier": scores[chosen]["accuracy"]}
    plain = [
        1 - record["noisy_validation_error"]
        for record in learned.history
        if record["stage"] == FIRST_STAGE and "noisy_validation_error" in record
    ]
    if not plain:
        return None
    return {"stage_1": max(plain), "classifier": 1 - learned.selected["noisy_validation_error"]}


def described(
    settings: Settings,
    history: Sequence[dict[str, Any]],
    data_notes: Sequence[str],
    runtime: Runtime,
    estimation_seconds: float = 0.0,
) -> dict[str, Any]:
    """The fields that every result has: what was run, for how long, by which code and on which machine."""
    seconds = sum(record["seconds"] for record in history) + estimation_seconds
    packages, threads = ("torch", "lightning-fabric"), torch.get_num_threads()
    return {
        "method": settings.method,
        **described_run(settings, seconds, data_notes, packages, threads),
        "precision": runtime.precision,
        "epochs": sum("train_loss" in record for record in history),
    }


def _against_truth(
    learned: Learned, settings: Settings, problem: Problem, truth: Truth
) -> dict[str, float | None]:
    """Errors of T, and how well wrong labels are found (AUC); None if the truth is not known.

    The AUC is that of the selected model on its own training rows, by P(clean = given | x, given) or, for a
    method without T, by P(given | x). The initial AUC uses T-hat and out-of-sample predictions, if there are
    any.
    """
    data, predicted = problem.data, problem.out_of_sample
    initial_auc = learned_auc = None
    if truth.true_train_y is not None:
        model = copy.deepcopy(learned.model).to(problem.runtime.fabric.device)
        posterior = class_probs(model, data.train_x).double().numpy()
        used = None if model.transition is None else learned.transition
        learned_auc = wrong_label_auc(posterior, used, data.train_y, truth.true_train_y)
        initial = learned.initial_transition
        # If T is learnt from the start, its initial value carries no information.
        estimated = find_method(settings.method).starts_from_estimate
        if predicted is not None and estimated and np.isfinite(initial).all():
            posterior = invert(predicted.train_probs, initial)
            initial_auc = wrong_label_auc(posterior, initial, data.train_y, truth.true_train_y)
    return {
        "initial_transition_error": error_of(learned.initial_transition, truth),
        "transition_error": error_of(learned.transition, truth),
        "transition_floor": transition_floor(data, truth),
        "initial_wrong_label_auc": initial_auc,
        "wrong_label_auc": learned_auc,
    }


def error_of(transition: np.ndarray, truth: Truth) -> float | None:
    """The error of an estimate of T; None if the truth is not known or the estimate is not finite."""
    if truth.transition is None:
        return None
    error = transition_error(transition, truth.transition)
    return error if math.isfinite(error) else None


def transition_floor(data: NoisyData, truth: Truth) -> float | None:
    """The error of T counted from true and noisy labels of all rows: the sampling floor.

    It is the sampling noise of these labels. Without true labels, only an estimator that assumes something
    about T can be expected to beat it.
    """
    if truth.true_train_y is None or truth.true_valid_y is None:
        return None
    true = torch.cat([truth.true_train_y, truth.true_valid_y])
    noisy = torch.cat([data.train_y, data.valid_y])
    return error_of(counted_transition(true.cpu(), noisy.cpu(), data.num_classes), truth)


def wrong_label_auc(
    clean_posterior: NDArray[np.floating], transition: np.ndarray | None, given: Tensor, true: Tensor
) -> float | None:
    """`auc_of_wrong_labels` of tensors of labels."""
    return auc_of_wrong_labels(clean_posterior, transition, given.cpu().numpy(), true.cpu().numpy())
