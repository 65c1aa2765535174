"""Several labels a row: a network that learns P(clean), and T of each annotator.

    learn_with_classifier -> fit_noisy_posterior -> classifier -> fine-tuning

The stages are those of `standard`. P(clean | answers) is the target of cross-entropy in all of them, so
nothing is corrected by T: the T of each annotator is in P(clean) already. The model keeps the T of the crowd.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trevision.estimation import Answers, CrowdLearnt, fit_annotators, learn_with_classifier
from trevision.estimation.crowd_learning import targets_of
from trevision.methods.cross_fit import cross_fit
from trevision.methods.problem import EstimatedTransition, Learned, Problem
from trevision.methods.stages import conclude, continue_plainly, fit_noisy_posterior
from trevision.training.model import NoisyLabelModel


def learn_from_answers(problem: Problem, answers: Answers, level: float = 0.9) -> tuple[Learned, CrowdLearnt]:
    """Learn from several labels a row.

    Parameters
    ----------
    problem : Problem
        The problem. Its labels only divide the rows.
    answers : Answers
        Who gave which label to which row, training rows first.
    level : float, default=0.9
        The share of intervals that are to hold the truth.

    Returns
    -------
    tuple of Learned and CrowdLearnt
        The network with the crowd's T, and the annotators.
    """
    history: list[dict[str, Any]] = []
    doubts: list[str] = []
    weights = problem.data.weights

    def predict(targets: np.ndarray) -> np.ndarray:
        part = replace(problem, data=problem.data.with_targets(targets))
        predicted = cross_fit(part)
        history.extend(predicted.history)
        doubts.extend(predicted.warnings)
        return np.concatenate([predicted.train_probs, predicted.valid_probs]).astype(np.float64)

    if len(problem.data.train_x) > problem.schedule.folds:
        learnt = learn_with_classifier(answers, predict, level=level, sample_weight=weights)
    else:
        alone = fit_annotators(answers, answers.classes, level=level, sample_weight=weights)
        targets = targets_of(answers, alone)
        learnt = CrowdLearnt(alone, alone, targets, alone.clean_posterior, [])
        doubts.append(
            f"the network had no say in P(clean): its {problem.schedule.folds} folds need more training rows "
            f"than {len(problem.data.train_x)}"
        )
    found = (*problem.warnings, *learnt.annotators.warnings, *doubts)
    problem = replace(problem, data=problem.data.with_targets(learnt.targets), warnings=found)
    posterior = fit_noisy_posterior(problem)
    trained = continue_plainly(problem, posterior, "classifier", problem.schedule.classifier)
    tuned = continue_plainly(problem, trained, "fine-tuning", problem.schedule.revision, record_start=True)
    crowd = torch.tensor(learnt.annotators.crowd, dtype=torch.float32)
    tuned = replace(tuned, state=NoisyLabelModel.state_with_transition(tuned.state, crowd))
    initial = EstimatedTransition(learnt.alone.crowd)
    learned = conclude(problem, initial, [posterior, trained, tuned])
    return replace(learned, history=history + learned.history), learnt
