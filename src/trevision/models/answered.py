"""A scikit-learn model fitted on P(clean), from the answers of several annotators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from trevision.estimation import Answers, CrowdLearnt
from trevision.models.corrected import FITS_OF_ONE, Corrected
from trevision.models.counted import Counted
from trevision.models.crowd import expected_accuracy
from trevision.refit.answered import (
    fit_on_targets,
    learn_from_answers,
    reason_for_answers,
    share_of_wrong_answers,
)
from trevision.refit.models import FittedModel
from trevision.refit.selection import Task
from trevision.training.progress import Progress


def fit_answered(
    model: Any, x: Any, answers: Answers, folds: list[np.ndarray], seed: int, progress: Progress
) -> tuple[Corrected, CrowdLearnt]:
    """Fit a model on several labels a row, as `NoisyLabelClassifier` does.

    Parameters
    ----------
    model
        A scikit-learn classifier.
    x
        Rows as the model takes them.
    answers
        Who gave which label to which row. Unlike a y of one column for each annotator, they need no more
        memory where each annotator answered few rows.
    folds
        For each fold a mask of the rows that are held out.
    seed
        Seed of what the model draws.
    progress
        Called with a stage.

    Returns
    -------
    tuple of Corrected and CrowdLearnt
        The fitted model, whose `probs` are P(clean | x) out of fold, and what was learnt of the annotators.
    """
    counted = Counted(model, lambda: progress.batch())
    task = Task(counted, x, answers.vote(), None, folds, answers.classes, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        progress.stage("learn from answers", 0, FITS_OF_ONE)
        learnt = learn_from_answers(task, answers)
        fitted = fit_on_targets(task, learnt.targets)
    corrected = Corrected(
        fitted=FittedModel(_plain(fitted.model), fitted.present, fitted.num_classes),
        initial_transition=learnt.alone.crowd,
        transition=learnt.annotators.crowd,
        probs=learnt.held_out,
        held_out_accuracy=expected_accuracy(learnt.held_out, learnt.targets),
        noise_rate=share_of_wrong_answers(answers, learnt.annotators.clean_posterior),
        correction="soft",
        reason=reason_for_answers(learnt),
        scores={},
        warnings=list(learnt.annotators.warnings),
    )
    return corrected, learnt


def _plain(model: Any) -> Any:
    """The model that was counted. Where all rows are of one class, another kind was fitted instead."""
    return model.fitted_ if isinstance(model, Counted) else model
