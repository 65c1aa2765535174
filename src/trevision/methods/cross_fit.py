"""Out-of-sample predictions: each row is predicted by a network that was not trained on it.

A network leans towards wrong labels it was trained on. Its predictions for its own training rows are
therefore biased, both for estimating T and for finding wrong labels. Only stage 1 is repeated for every fold:
its few epochs of plain cross-entropy are enough to estimate P(noisy | x).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trevision.data.folds import fold_of
from trevision.data.rows import select_rows
from trevision.methods.problem import OutOfSample, Problem
from trevision.methods.stages import TransitionWarning, fit_noisy_posterior, predicted_probs
from trevision.training.evaluate import measure_nothing
from trevision.training.loop import StageResult


def with_out_of_sample(problem: Problem) -> Problem:
    """Add out-of-sample predictions to a problem, if its estimator of T reads them.

    None are needed if T-hat is counted from pairs of labels and the user did not choose an estimator. With
    too few rows for the folds none are made: the problem gets a warning, and T-hat comes from anchor points
    or, unless the user chose an estimator, from a trusted set.

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    Problem
        The problem with `out_of_sample` or a warning, or the same problem.
    """
    data, schedule = problem.data, problem.schedule
    informed = data.label_pairs is not None and problem.options.estimator is None
    if informed or not problem.options.reads_out_of_sample(problem.estimator):
        return problem
    if len(data.train_x) <= schedule.folds:
        message = (
            f"T is not estimated by {problem.estimator.name}, which needs predictions out of sample by "
            f"{schedule.folds} folds, and so more training rows than {len(data.train_x)}"
        )
        warnings.warn(message, TransitionWarning, stacklevel=2)
        return replace(problem, warnings=(*problem.warnings, message))
    return replace(problem, out_of_sample=cross_fit(problem))


def cross_fit(
    problem: Problem,
    train: Callable[[Problem, str], StageResult] = fit_noisy_posterior,
    folds: int | None = None,
    prefix: str = "fold",
) -> OutOfSample:
    """For every fold, train a network without the fold's rows and predict those rows.

    Validation rows select the epoch in every fold and are never trained on. Each fold's network predicts a
    part of them.

    Parameters
    ----------
    problem : Problem
        The problem.
    train : callable, default=fit_noisy_posterior
        Trains one network, given the problem without the fold's rows and a name for the stage.
    folds : int or None, default=None
        The number of folds; the schedule's if None.
    prefix : str, default="fold"
        How the names of the stages begin.

    Returns
    -------
    OutOfSample
        Predictions for all training and validation rows.

    Raises
    ------
    ValueError
        If there is only one training row.
    """
    data, folds = problem.data, folds or problem.schedule.folds
    if len(data.train_x) < 2:
        raise ValueError("predictions out of sample need at least 2 training rows, got 1")
    train_fold, valid_fold = fold_assignment(problem, folds)
    train_probs = np.empty((len(train_fold), data.num_classes), dtype=np.float32)
    valid_probs = np.empty((len(valid_fold), data.num_classes), dtype=np.float32)
    history: list[dict[str, Any]] = []
    doubts: list[str] = []
    for fold in range(folds):
        kept = torch.from_numpy(np.flatnonzero(train_fold != fold))
        part = replace(problem, data=data.only(kept), measure=measure_nothing)
        trained = train(part, stage_name(fold, prefix))
        history += trained.history
        doubts += trained.warnings
        if trained.diverged:
            doubts.append(trained.stopped_because)
        for x, assigned, probs in (
            (data.train_x, train_fold, train_probs),
            (data.valid_x, valid_fold, valid_probs),
        ):
            unseen = np.flatnonzero(assigned == fold)
            if len(unseen):
                probs[unseen] = predicted_probs(part, trained, select_rows(x, unseen))
    return OutOfSample(train_probs, valid_probs, folds, history, tuple(doubts))


def fold_assignment(problem: Problem, folds: int) -> tuple[np.ndarray, np.ndarray]:
    """The fold of each training row and of each validation row."""
    labels = (problem.data.train_y, problem.data.valid_y)
    train_fold, valid_fold = (
        fold_of(given.cpu().numpy(), folds, np.random.default_rng([problem.seed, number]))
        for number, given in enumerate(labels, start=3)
    )
    return train_fold, valid_fold


def stage_name(fold: int, prefix: str = "fold") -> str:
    """The name of a fold's stage, in progress bars and checkpoints."""
    return f"{prefix}-{fold + 1}"
