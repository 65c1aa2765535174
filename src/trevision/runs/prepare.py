"""Set up a run: from settings to data with noise and a problem for a method."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from trevision import noise
from trevision.data.dataset import Dataset
from trevision.data.load import load
from trevision.data.noisy import NoisyData, Truth, split
from trevision.data.rows import take_rows
from trevision.data.sources import SOURCES
from trevision.estimation import counted_transition
from trevision.files import DataError, folder_gone, write_json
from trevision.methods.options import ANSWERS_METHOD
from trevision.methods.problem import Problem, network_seed
from trevision.methods.registry import METHODS, pose, schedule_of
from trevision.methods.schedules import colour_network
from trevision.networks.choose import build, choose
from trevision.networks.colour import WIDTHS
from trevision.networks.pretrained import load_torchvision_weights
from trevision.prior import Prior
from trevision.runs.anchor_removal import check_share, remove_anchors
from trevision.runs.noise_files import read_noise
from trevision.runs.prior_files import read_prior
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Hardware, Settings, check_numbers, files_of, run_config
from trevision.training.checkpoint import FolderStore, Store
from trevision.training.evaluate import Measure, measure_against, measure_nothing
from trevision.training.inputs import standardise_for
from trevision.training.model_files import ModelCard
from trevision.training.precision import settled_precision
from trevision.training.progress import NoProgress, Progress
from trevision.training.runtime import Runtime, is_cpu, launch

VALIDATION_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Begun:
    """A run that is set up: its data, the truth, and the problem for its method.

    Attributes
    ----------
    config : dict
        The contents of config.json, without the model.
    dataset : Dataset
        The data as read, before noise.
    truth : Truth
        What only the evaluation may see.
    problem : Problem
        What the method is given.
    card : ModelCard
        Network, shape and classes of the model.
    """

    config: dict[str, Any]
    dataset: Dataset
    truth: Truth
    problem: Problem
    card: ModelCard


def begin(
    source: str,
    settings: Settings,
    folder: Path,
    hardware: Hardware | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    download_progress: Callable[[int, int | None], None] | None = None,
    store: Store | None = None,
) -> Begun:
    """Set up a run: read and corrupt its data, make its problem, write config.json. Arguments as in `run`."""
    hardware = hardware or Hardware()
    check_numbers(settings, hardware)
    if settings.remove_anchors is not None:
        check_share(settings.remove_anchors)
    if hardware.threads is not None:
        torch.set_num_threads(hardware.threads)
    dataset = load(source, data_dir, download_progress, settings.reading)
    prior = read_prior(settings.options.prior, dataset.num_classes)
    data, truth = prepare(dataset, settings, hardware.accelerator)
    shape = tuple(data.train_x.shape[1:])
    network = network_for(source, settings, shape, hardware.accelerator)
    # A network that does not fit fails here, before anything is written. So does a wrong option below.
    starting_network(network, shape, data.num_classes, settings)
    precision = settled_precision(hardware.precision, network, hardware.accelerator)
    fabric = launch(hardware.accelerator, hardware.devices, precision)
    store = store or FolderStore(folder / "checkpoints")
    metrics = _MetricsFile(folder, progress or NoProgress(), fabric.is_global_zero)
    runtime = Runtime(fabric, store, metrics, precision)
    problem = make_problem(source, settings, network, data, runtime, prior, measure_against(truth))
    config = run_config(source, settings)
    files = files_of(source, settings)
    config |= {"files": files} if files else {}
    folder.mkdir(parents=True, exist_ok=True)
    if fabric.is_global_zero:
        write_json(folder / "config.json", config)
    return Begun(config, dataset, truth, problem, ModelCard(network, shape, dataset.class_values))


def make_problem(
    source: str,
    settings: Settings,
    network: str,
    data: NoisyData,
    runtime: Runtime,
    prior: Prior | None = None,
    measure: Measure = measure_nothing,
) -> Problem:
    """The problem for the settings' method, with the network of that name."""
    shape = tuple(data.train_x.shape[1:])
    # A comparison of estimators is not a method. It trains only stage 1, as `standard` does.
    method = settings.method if settings.method in METHODS else "standard"
    return pose(
        method if settings.reading.annotator_column is None else ANSWERS_METHOD,
        data,
        make_network=lambda number=0: starting_network(network, shape, data.num_classes, settings, number),
        standardise=standardise_for(data.train_x),
        schedule=schedule_of(settings.schedule, method, source, len(data.train_x), data.num_classes, network),
        seed=settings.seed,
        runtime=runtime,
        options=settings.options,
        prior=prior,
        measure=measure,
    )


def network_for(source: str, settings: Settings, shape: tuple[int, ...], accelerator: str) -> str:
    """The network that the user chose, else one for the data, the schedule and the device.

    On a CPU, small colour images get the network of their schedule, which a CPU can train. Published weights
    fit only the paper's networks.
    """
    if settings.network is not None:
        return settings.network
    ours = colour_network(settings.schedule)
    if settings.pretrained is None and is_cpu(accelerator) and choose(shape, ours) in WIDTHS:
        return ours
    return papers_network(source, shape)


def papers_network(source: str, shape: tuple[int, ...]) -> str:
    """The network that the paper has for a data set; for other data one that suits their shape."""
    return (SOURCES[source].network if source in SOURCES else None) or choose(shape)


def read_source(
    folder: Path,
    source: str,
    settings: Settings,
    data_dir: Path | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Dataset:
    """Read the source of the run in `folder` again, as the run did, before noise or selection of rows."""
    return load(source, data_dir, progress, settings.reading, RunFolder(folder).preprocessing)


def prepare(dataset: Dataset, settings: Settings, accelerator: str = "cpu") -> tuple[NoisyData, Truth]:
    """The noisy training and validation sets, and separately the truth for the record."""
    whole_transition = None
    if dataset.true_y is not None:
        # T of labels that people gave: counted from all rows, also if few are used.
        whole_transition = counted_transition(dataset.true_y, dataset.train_y, dataset.num_classes)
    if settings.remove_anchors is not None and dataset.labels_are_noisy:
        raise DataError(f"remove_anchors must be left out for {dataset.name}: its labels are noisy")
    if settings.train_size is not None:
        dataset = take_rows(dataset, settings.train_size, np.random.default_rng([settings.seed, 0]))
    if settings.remove_anchors is not None:
        dataset = remove_anchors(dataset, settings.remove_anchors, settings.train_size, accelerator)
    labels, clean = dataset.train_y.numpy(), dataset.true_y
    transition = whole_transition
    if settings.noise is not None:
        if dataset.labels_are_noisy:
            raise DataError(f"noise must be left out for {dataset.name}: its labels are noisy as they are")
        transition = read_noise(settings.noise, dataset.num_classes)
        labels = noise.corrupt(labels, transition, np.random.default_rng([settings.seed, 1]))
        clean = dataset.train_y
    data = split(
        dataset.train_x,
        labels,
        VALIDATION_SHARE,
        num_classes=dataset.num_classes,
        random_state=np.random.default_rng([settings.seed, 2]),
        augmentation=dataset.augmentation,
    )
    truth = Truth(transition, dataset.test_x, dataset.test_y)
    if clean is not None:
        truth = replace(truth, true_train_y=clean[data.train_rows], true_valid_y=clean[data.valid_rows])
    data = replace(data, label_pairs=dataset.label_pairs)
    if dataset.row_numbers is not None:
        numbers = dataset.row_numbers
        data = replace(data, train_rows=numbers[data.train_rows], valid_rows=numbers[data.valid_rows])
    if settings.trusted or settings.reading.trusts_rows:
        if dataset.trusted_x is None:
            raise DataError(f"trusted must be left out for {dataset.name}: it has no clean validation labels")
        data = replace(
            data,
            trusted_x=dataset.trusted_x,
            trusted_y=dataset.trusted_y,
            trusted_is_learnt=settings.reading.trusts_rows,
        )
    return data, truth


def starting_network(
    name: str, shape: tuple[int, ...], num_classes: int, settings: Settings, number: int = 0
) -> nn.Module:
    """The network before training. Its weights are drawn from the seed or read from `pretrained`."""
    network = build(name, shape, num_classes, network_seed(settings.seed, number))
    if settings.pretrained is not None:
        load_torchvision_weights(network, settings.pretrained)
    return network


class _MetricsFile:
    """Appends one line per epoch to metrics.jsonl during a run, and passes everything on to `after`.

    A resumed run may repeat an epoch. At the end the whole file is written again.
    """

    def __init__(self, folder: Path, after: Progress, writes: bool) -> None:
        self.path, self.after, self.writes = folder / "metrics.jsonl", after, writes

    def stage(self, name: str, epochs: int, batches: int) -> None:
        self.after.stage(name, epochs, batches)

    def batch(self) -> None:
        self.after.batch()

    def epoch(self, metrics: Any) -> None:
        if self.writes:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(metrics) + "\n")
            except FileNotFoundError as error:
                raise folder_gone(self.path) from error
        self.after.epoch(metrics)
