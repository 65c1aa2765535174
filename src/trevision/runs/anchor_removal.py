"""Data without anchor points: each class loses the rows with the highest clean posterior.

This happens before noise is added, and no method is involved. The posterior is estimated by a network trained
on the clean training labels, with a short recipe that does not depend on the run's schedule. It is kept in
the user's cache, since it is the same for every method, noise and seed.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from trevision.data.dataset import Dataset
from trevision.data.named.locations import cache_folder
from trevision.data.noisy import split
from trevision.data.rows import keep_rows
from trevision.files import DataError, locked, write_npy
from trevision.methods.registry import pose
from trevision.methods.schedules import colour, schedule_for
from trevision.methods.stages import fit_noisy_posterior
from trevision.networks.choose import build, choose
from trevision.networks.colour import WIDTHS
from trevision.networks.standardise import Standardise
from trevision.npy import read_array
from trevision.training.evaluate import PREDICTION_BATCH
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, is_cpu, launch

RECIPE = Phase(epochs=5, lr=2e-2, decay="one-cycle")
LEAST_STEPS = 400  # minimum number of updates: small data get more epochs than the recipe has
CPU_NETWORK, PAPERS_NETWORK = "narrow", "resnet18"
"""For small colour images. Five epochs of the latter would take a CPU core hours."""

SEED = 0  # not the run's seed: the remaining rows are a property of the data set


def remove_anchors(
    dataset: Dataset, share: float, train_size: int | None = None, accelerator: str = "cpu"
) -> Dataset:
    """Drop the `share` of each class's training rows with the highest P(Y = class | x)."""
    if dataset.labels_are_noisy:
        raise DataError(f"remove_anchors must be left out for {dataset.name}: its clean labels are not known")
    scores = clean_log_odds(dataset, train_size, accelerator)
    rows = torch.from_numpy(drop_highest(scores, dataset.train_y, share))
    return keep_rows(dataset, rows)


def clean_log_odds(dataset: Dataset, train_size: int | None = None, accelerator: str = "cpu") -> np.ndarray:
    """log P(Y = i | x) / (1 - P(Y = i | x)) of every training row and class, (n, C), estimated or cached.

    Log-odds are used because on easy data 40 % of float32 probabilities are exactly 1.
    """
    if not isinstance(dataset.train_x, Tensor):
        raise DataError(f"remove_anchors needs {dataset.name} in memory")
    network = choose(tuple(dataset.train_x.shape[1:]), CPU_NETWORK if is_cpu(accelerator) else PAPERS_NETWORK)
    phase = _recipe(dataset.name, len(dataset.train_y), network)
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
    # If several workers need the same estimate, the first computes it and the others wait.
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
    """The rows that stay, as ascending numbers, when each class loses its most typical rows.

    Of the n_i rows with clean label i, the round(share * n_i) with the highest `posterior[:, i]`, the
    estimated P(Y = i | x), are dropped (Section 4 of Xia et al. 2019, "N/A"). At least one row of a class
    stays. Only the order matters, so log-odds work as well as probabilities. Of equal rows the first goes.
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
    """A hash of the values, types and shapes of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _recipe(source: str, rows: int, network: str) -> Phase:
    if network in WIDTHS:
        return colour(source, rows).noisy_posterior
    batch = min(RECIPE.batch_size, max(16, rows // 20))
    steps = math.ceil(rows / batch)
    return replace(RECIPE, batch_size=batch, epochs=max(RECIPE.epochs, math.ceil(LEAST_STEPS / steps)))


def _estimate(dataset: Dataset, network: str, phase: Phase, accelerator: str) -> np.ndarray:
    """Train on clean labels. Stage 1, which gives P(noisy | x) on noisy labels, gives P(Y | x) here."""
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
        scores = read_array(path)
    except DataError:  # missing or damaged: it is computed again
        return None
    return scores if scores.shape == shape else None
