"""The network among the models that are compared: its first stage, trained without each fold."""

from __future__ import annotations

import numpy as np
import torch

from trevision.data.noisy import split
from trevision.methods.cross_fit import stage_name
from trevision.methods.registry import pose
from trevision.methods.schedules import schedule_for
from trevision.methods.stages import fit_noisy_posterior, predicted_probs
from trevision.models.comparison import SharedFolds
from trevision.networks.choose import build, choose
from trevision.networks.standardise import Standardise
from trevision.noise import FloatArray
from trevision.training.runtime import Runtime


def network_probs(shared: SharedFolds, source: str, schedule: str, runtime: Runtime) -> FloatArray:
    """P(noisy | x) of every row by a network that was not trained on its fold, (n, C).

    A tenth of the rows outside of a fold select the epoch. The network is the one that `fit` would train.
    With several labels a row, it learns and predicts P(clean).
    """
    x, labels = torch.from_numpy(shared.features.dense), shared.labels
    shape, classes = tuple(x.shape[1:]), shared.num_classes
    name = choose(shape)
    probs = np.empty((len(labels), classes))
    for number, fold in enumerate(shared.folds):
        others = x[torch.from_numpy(~fold)]
        data = split(
            others,
            labels[~fold],
            num_classes=classes,
            random_state=np.random.default_rng([shared.seed, 2, number]),
        )
        if shared.crowd is not None:
            placed = np.flatnonzero(~fold)[np.concatenate([data.train_rows, data.valid_rows])]
            data = data.with_targets(shared.crowd.targets[placed])
        problem = pose(
            "standard",
            data,
            make_network=lambda number=0: build(name, shape, classes, shared.seed),
            standardise=Standardise.from_data(others),
            schedule=schedule_for(schedule, source, len(data.train_x), classes),
            seed=shared.seed,
            runtime=runtime,
        )
        trained = fit_noisy_posterior(problem, stage_name(number, "network"))
        probs[fold] = predicted_probs(problem, trained, x[torch.from_numpy(fold)])
    return probs
