"""Data without anchor points: the clean posterior is estimated, and each class loses its highest.

This prepares data: the labels are still clean, and no method takes part. The estimate is a network trained on
the clean training labels with a short recipe of its own, whatever the schedule of the run; it is kept in the
user's cache, since every method, noise and seed starts from the same one.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trevision.data.dataset import Dataset
from trevision.data.named.locations import cache_folder
from trevision.data.noisy import split
from trevision.data.rows import keep_rows
from trevision.files import DataError, locked, write_npy
from trevision.methods.registry import pose
from trevision.methods.schedules import schedule_for
from trevision.methods.stages import fit_noisy_posterior
from trevision.networks.choose import build, choose
from trevision.networks.standardise import Standardise
from trevision.training.evaluate import PREDICTION_BATCH
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch

RECIPE = Phase(epochs=5, lr=2e-2, decay="one-cycle")
LEAST_STEPS = 400  # small data get more epochs than the recipe says, until these many updates
SEED = 0  # not the run's: the data that remain are a property of the data set


def remove_anchors(
    dataset: Dataset, share: float, train_size: int | None = None, accelerator: str = "cpu"
) -> Dataset:
    """The data set without the `share` of each class's training rows that are most surely of their class."""
    if dataset.labels_are_noisy:
        raise DataError(f"remove_anchors must be left out for {dataset.name}: its clean labels are not known")
    scores = clean_log_odds(dataset, train_size, accelerator)
    rows = torch.from_numpy(drop_highest(scores, dataset.train_y, share))
    return keep_rows(dataset, rows)


def clean_log_odds(dataset: Dataset, train_size: int | None = None, accelerator: str = "cpu") -> np.ndarray:
    """log P(Y = i | x) / (1 - P(Y = i | x)) of every training row and class, (n, C), estimated or cached.

    Log-odds and not probabilities, because on easy data 40 % of a float32 posterior is exactly 1.
    """
    if not isinstance(dataset.train_x, Tensor):
        raise DataError(f"remove_anchors needs {dataset.name} in memory")
    network = choose(tuple(dataset.train_x.shape[1:]))
    phase = _recipe(len(dataset.train_y))
    identity = {
        "source": dataset.name,
        "network": network,
        "recipe": asdict(phase),
        "seed": SEED,
        "train_size": train_size,
        "content": content_digest(dataset.train_x, dataset.train_y),
    }
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    path = cache_folder() / "clean-posteriors" / f"{name}.npy"
    # Workers that need the same estimate wait for the first of them instead of all computing it.
    with locked(path.with_suffix(".lock")):
        known = _read(path, (len(dataset.train_y), dataset.num_classes))
        if known is not None:
            return known
        scores = _estimate(dataset, network, phase, accelerator)
        write_npy(path, scores)
        return scores


def check_share(share: float) -> None:
    """Raise a ValueError for a share of each class that cannot be removed."""
    if not 0 <= share < 1:
        raise ValueError(
            f"remove_anchors must lie in [0, 1), got {share}; a percentage such as 40 is written 0.40"
        )


def drop_highest(posterior: Tensor | np.ndarray, labels: Tensor | np.ndarray, share: float) -> np.ndarray:
    """Ascending numbers of the rows that stay when each class loses its most typical ones.

    Of the n_i rows with clean label i, the round(share * n_i) with the highest `posterior[:, i]`, the
    estimated P(Y = i | x), are dropped (Section 4 of Xia et al. 2019, "N/A"); one row of a class always
    stays. Only the order counts, so log-odds serve as well as probabilities. Of equals the first row goes.
    """
    check_share(share)
    scores, codes = np.asarray(posterior), np.asarray(labels)
    if scores.ndim != 2 or codes.shape != scores.shape[:1]:
        raise DataError(
            f"posterior must be (n, classes) and labels (n,), got shapes {scores.shape} and {codes.shape}"
        )
    keep = np.ones(len(codes), dtype=bool)
    for label in np.unique(codes):
        rows = np.flatnonzero(codes == label)
        count = min(round(share * len(rows)), len(rows) - 1)
        keep[rows[np.argsort(-scores[rows, label], kind="stable")[:count]]] = False
    return np.flatnonzero(keep)


def content_digest(*tensors: Tensor) -> str:
    """A hash of what tensors hold, with their types and shapes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _recipe(rows: int) -> Phase:
    batch = min(RECIPE.batch_size, max(16, rows // 20))
    steps = math.ceil(rows / batch)
    return replace(RECIPE, batch_size=batch, epochs=max(RECIPE.epochs, math.ceil(LEAST_STEPS / steps)))


def _estimate(dataset: Dataset, network: str, phase: Phase, accelerator: str) -> np.ndarray:
    """Train on clean labels: what is stage 1 of a method on noisy ones gives P(Y | x) here."""
    assert isinstance(dataset.train_x, Tensor)
    shape, classes = tuple(dataset.train_x.shape[1:]), dataset.num_classes
    data = split(
        dataset.train_x,
        dataset.train_y,
        num_classes=classes,
        random_state=np.random.default_rng([SEED, 2]),
        augmentation=dataset.augmentation,
    )

    def make_network(number: int = 0) -> nn.Module:
        return build(network, shape, classes, SEED)

    schedule = schedule_for("paper", dataset.name, len(data.train_x), classes)
    problem = pose(
        "standard",
        data,
        make_network=make_network,
        standardise=Standardise.from_data(dataset.train_x),
        schedule=replace(schedule, noisy_posterior=phase, select_by="loss"),
        seed=SEED,
        runtime=Runtime(launch(accelerator)),
    )
    trained = fit_noisy_posterior(problem)
    model = NoisyLabelModel.from_state(problem.standardise, problem.make_network(), trained.state)
    return _log_odds(model.to(problem.runtime.fabric.device).eval(), dataset.train_x)


@torch.no_grad()
def _log_odds(model: nn.Module, x: Tensor) -> np.ndarray:
    device = next(model.parameters()).device
    parts = []
    for part in x.split(PREDICTION_BATCH):
        logits = model(part.to(device))[0].double()
        others = logits[:, None, :].repeat(1, logits.shape[1], 1)
        others.diagonal(dim1=1, dim2=2).fill_(-math.inf)
        parts.append((logits - others.logsumexp(dim=2)).float().cpu())
    return torch.cat(parts).numpy()


def _read(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    try:
        scores: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or damaged: then it is made anew
        return None
    return scores if scores.shape == shape else None
