"""Any scikit-learn classifier on the answers of several annotators."""

from __future__ import annotations

import numpy as np

from trevision.estimation import Answers, CrowdLearnt, learn_with_classifier
from trevision.noise import FloatArray
from trevision.refit.correction import weighted_copies
from trevision.refit.models import FittedModel, cross_fit, fit_model
from trevision.refit.selection import Task


def learn_from_answers(
    task: Task, answers: Answers, level: float = 0.9, discount: bool = True
) -> CrowdLearnt:
    """Annotators, and what the model is to learn, with the model's say on rows that it was not fitted on.

    Parameters
    ----------
    task : Task
        The rows, the model and the folds. Its labels only divide the rows.
    answers : Answers
        Who gave which label to which row.
    level : float, default=0.9
        The share of intervals that are to hold the truth.
    discount : bool, default=True
        Whether it is estimated how many independent answers an answer counts as. False: one.
    """

    def predict(targets: FloatArray) -> FloatArray:
        training = weighted_copies(targets).times(task.weights)
        size, seed = task.num_classes, task.seed
        return cross_fit(task.estimator, task.x, training, task.folds, size, seed, task.n_jobs)

    return learn_with_classifier(answers, predict, level=level, sample_weight=task.weights, discount=discount)


def fit_on_targets(task: Task, targets: FloatArray) -> FittedModel:
    """The model, fitted on weighted copies of all rows."""
    training = weighted_copies(targets).times(task.weights)
    return fit_model(task.estimator, task.x, training, task.num_classes, task.seed)


def reason_for_answers(learnt: CrowdLearnt) -> str:
    """Why no correction was chosen, and how many independent answers an answer counts as."""
    return (
        f"soft: several labels a row are learnt as P(clean); an answer counts as "
        f"{learnt.annotators.counts_as:g} independent ones"
    )


def share_of_wrong_answers(answers: Answers, clean_posterior: FloatArray) -> float:
    """The expected share of answers that are not the clean label."""
    return float(1 - np.mean(clean_posterior[answers.row, answers.label]))
