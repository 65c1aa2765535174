"""One experiment: data, noise, method and seed in; a run folder out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from trevision import noise
from trevision.data import (
    PREPROCESSING_FILE,
    DataError,
    Dataset,
    ImageFiles,
    NoisyData,
    Reading,
    Rows,
    Truth,
    check_share,
    load,
    load_preprocessing,
    split,
    take_rows,
)
from trevision.data.image_files import PHOTOGRAPH
from trevision.experiments.anchors import remove_anchors
from trevision.experiments.named_files import check_unchanged, describe, located, read_npy
from trevision.experiments.prior_files import named_in, read_prior
from trevision.experiments.record import summarise
from trevision.methods import (
    Learned,
    Options,
    OutOfSample,
    Problem,
    find_method,
    network_seed,
    schedule_for,
    with_out_of_sample,
)
from trevision.networks import Standardise, build, choose, load_torchvision_weights
from trevision.training import (
    Evaluation,
    FolderStore,
    NoProgress,
    Progress,
    Runtime,
    Store,
    launch,
)
from trevision.training.checkpoint import write_atomically
from trevision.training.folder import ModelCard, read_json, save_model, write_json

VALIDATION_SHARE = 0.1
OUT_OF_SAMPLE_FILE = "probabilities.npz"
STANDARDISED_FILES = 2000
"""Images in files that tell the mean and the scale of all."""
ALWAYS_SAID = ("source", "noise", "method", "schedule", "seed")
"""What identifies a run whatever its default; any other setting may be added without renaming old runs."""
BESIDE_SETTINGS = ("model", "files")
"""What config.json says besides source and settings."""
ALWAYS_TOLD = ("method", "seed", "noise", "epochs", "seconds")
"""What every result.json tells, whatever was run."""


@dataclass(frozen=True)
class Settings:
    """Everything that a run's result depends on."""

    noise: str | None = None
    """Noise to add to the training labels: sym-50, pair-45 (percent), or a .csv or .npy file with T."""
    method: str = "reweight-r"
    """standard, decoupling, mentornet, co-teaching, gce, sce, volminnet, tv, forward, backward, reweight,
    forward-r, reweight-r or recursive."""
    schedule: str = "quick"
    """quick (for two CPU cores), strong (longer, averaged weights) or paper (the published protocol)."""
    seed: int = 0
    """Seed of noise, split, initial weights and batches."""
    network: str | None = None
    """lenet, resnet8, resnet18, resnet34, resnet50 or mlp; chosen by the data's shape if not given."""
    train_size: int | None = None
    """Use only this many training rows, drawn at random."""
    remove_anchors: float | None = None
    """Before the noise, drop this share of each class, its surest rows (0.4 on MNIST in the paper)."""
    weights: str | None = None
    """A .safetensors or .pth file of torchvision's weights that the network starts from."""
    trusted: bool = False
    """Select by the clean validation labels that come with the data (clothing1m), not by noisy ones.
    Needless with clean_column and clean_source, whose rows are always used so."""
    options: Options = field(default_factory=Options)
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Hardware:
    """Where a run is computed."""

    accelerator: str = "auto"
    """auto, cpu, cuda or mps."""
    devices: int = 1
    """Number of devices (or CPU processes) that share each batch."""
    precision: str = "32-true"
    """Lightning Fabric's precision: 32-true, 16-mixed or bf16-mixed."""
    threads: int | None = 1
    """CPU threads a process. One gives the same bits whatever the number of cores, and those of `reproduce`;
    more are faster for large networks. None leaves torch's own choice."""


def run(
    source: str,
    settings: Settings,
    folder: Path,
    hardware: Hardware | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    download_progress: Callable[[int, int | None], None] | None = None,
    store: Store | None = None,
    keep_model: bool = True,
) -> dict[str, Any]:
    """Run one experiment into `folder` and return what its result.json holds.

    A folder that holds the same experiment is continued, or left as it is when finished; one that
    holds another is refused. `store` keeps the stages under way, in the folder itself if not given.
    """
    method = find_method(settings.method)
    settings.options.check(settings.method)
    finished = finished_result(folder, run_config(source, settings))
    if finished is not None:
        return finished
    begun = begin(source, settings, folder, hardware, data_dir, progress, download_progress, store)
    dataset, problem = begun.dataset, with_out_of_sample(begun.problem)
    learned = method(problem)
    if problem.out_of_sample is not None:
        learned = replace(learned, history=problem.out_of_sample.history + learned.history)
    result = summarise(learned, settings, problem, begun.truth, dataset.notes)
    fabric = problem.runtime.fabric
    if fabric.is_global_zero:
        if dataset.preprocessing is not None:
            write_atomically(folder / PREPROCESSING_FILE, dataset.preprocessing.save)
        if problem.out_of_sample is not None and keep_model:
            save_out_of_sample(folder, problem.out_of_sample, problem.data)
        _write_outcome(folder, begun, learned, result, keep_model)
        problem.runtime.store.clear()
    fabric.barrier()
    return result


@dataclass(frozen=True, eq=False)
class Begun:
    """A run that is set up: its data, apart from them the truth, and what its method is given."""

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
    """Set a run up: read and corrupt its data, make its problem, write config.json; arguments as `run`."""
    hardware = hardware or Hardware()
    if settings.seed < 0:
        raise ValueError(f"seed must be 0 or more, got {settings.seed}")
    if hardware.threads is not None and hardware.threads < 1:
        raise ValueError(f"threads must be at least 1, got {hardware.threads}")
    if settings.remove_anchors is not None:
        check_share(settings.remove_anchors)
    if hardware.threads is not None:
        torch.set_num_threads(hardware.threads)
    dataset = load(source, data_dir, download_progress, settings.reading)
    prior = read_prior(settings.options.prior, dataset.num_classes)
    data, truth = prepare(dataset, settings, hardware.accelerator)
    shape = tuple(data.train_x.shape[1:])
    network = settings.network or choose(shape)
    # An unfit network fails before anything is written, and so does an unfit choice below.
    starting_network(network, shape, data.num_classes, settings)
    fabric = launch(hardware.accelerator, hardware.devices, hardware.precision)
    store = store or FolderStore(folder / "checkpoints")
    metrics = _MetricsFile(folder, progress or NoProgress(), fabric.is_global_zero)
    problem = make_problem(source, settings, data, truth, Runtime(fabric, store, metrics))
    problem = replace(problem, prior=prior)
    problem.check(settings.method)
    config = run_config(source, settings)
    files = files_of(source, settings)
    config |= {"files": files} if files else {}
    folder.mkdir(parents=True, exist_ok=True)
    if fabric.is_global_zero:
        write_json(folder / "config.json", config)
    return Begun(config, dataset, truth, problem, ModelCard(network, shape, dataset.class_values))


def files_of(source: str, settings: Settings) -> dict[str, dict[str, str]]:
    """The files that a run reads by the names in its config, with their digests."""
    named = (source, settings.reading.clean_source, settings.noise, settings.weights)
    return describe(*named, *named_in(settings.options.prior))


def make_problem(
    source: str, settings: Settings, data: NoisyData, truth: Truth | None, runtime: Runtime
) -> Problem:
    """What the settings ask of a method."""
    shape = tuple(data.train_x.shape[1:])
    network = settings.network or choose(shape)
    preset = schedule_for(settings.schedule, source, len(data.train_x), data.num_classes)
    schedule = settings.options.applied_to(preset, settings.method)
    return Problem(
        evaluation=Evaluation(data, truth, schedule.select_by),
        make_network=lambda number=0: starting_network(network, shape, data.num_classes, settings, number),
        standardise=standardise_for(data.train_x),
        schedule=schedule,
        seed=settings.seed,
        runtime=runtime,
        options=settings.options,
    )


def run_config(source: str, settings: Settings) -> dict[str, Any]:
    """What config.json says of a run, besides its model."""
    return {"source": source, **asdict(settings)}


def canonical(config: dict[str, Any]) -> dict[str, Any]:
    """A config as JSON gives it back, without its model, its files and what was left at its default.

    Two configs of the same run are equal in this form, also when one was written before a setting existed.
    """
    plain = json.loads(json.dumps(config))
    for beside in BESIDE_SETTINGS:
        plain.pop(beside, None)
    return _chosen(plain, json.loads(json.dumps(asdict(Settings()))))


def _chosen(config: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    chosen = {}
    for key, value in config.items():
        if isinstance(value, dict):
            value = _chosen(value, defaults.get(key, {})) or None
        if value is not None and (key in ALWAYS_SAID or value != defaults.get(key)):
            chosen[key] = value
    return chosen


def read_source(
    folder: Path,
    source: str,
    settings: Settings,
    data_dir: Path | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Dataset:
    """The source of the run in `folder` as the run read it, before noise or selection of rows."""
    fitted = folder / PREPROCESSING_FILE
    preprocessing = load_preprocessing(fitted) if fitted.is_file() else None
    return load(source, data_dir, progress, settings.reading, preprocessing)


def prepare(dataset: Dataset, settings: Settings, accelerator: str = "cpu") -> tuple[NoisyData, Truth]:
    """The noisy training and validation sets, and apart from them the truth for the record."""
    if settings.train_size is not None:
        dataset = take_rows(dataset, settings.train_size, np.random.default_rng([settings.seed, 0]))
    if settings.remove_anchors is not None:
        dataset = remove_anchors(dataset, settings.remove_anchors, settings.train_size, accelerator)
    labels = dataset.train_y.numpy()
    transition = None
    if settings.noise is not None:
        if dataset.labels_are_noisy:
            raise DataError(f"noise must be left out for {dataset.name}: its labels are noisy as they are")
        transition = read_noise(settings.noise, dataset.num_classes)
        labels = noise.corrupt(labels, transition, np.random.default_rng([settings.seed, 1]))
    data = split(
        dataset.train_x,
        labels,
        VALIDATION_SHARE,
        num_classes=dataset.num_classes,
        random_state=np.random.default_rng([settings.seed, 2]),
        augmentation=dataset.augmentation,
    )
    truth = Truth(transition, dataset.test_x, dataset.test_y)
    if transition is not None:
        clean = dataset.train_y
        truth = replace(truth, true_train_y=clean[data.train_rows], true_valid_y=clean[data.valid_rows])
    data = replace(data, label_pairs=dataset.label_pairs)
    if dataset.row_numbers is not None:
        numbers = dataset.row_numbers
        data = replace(data, train_rows=numbers[data.train_rows], valid_rows=numbers[data.valid_rows])
    if settings.trusted or settings.reading.trusts_rows:
        if dataset.trusted_x is None:
            raise DataError(f"trusted must be left out for {dataset.name}: it has no clean validation labels")
        data = replace(data, trusted_x=dataset.trusted_x, trusted_y=dataset.trusted_y)
    return data, truth


def starting_network(
    name: str, shape: tuple[int, ...], num_classes: int, settings: Settings, number: int = 0
) -> nn.Module:
    """The network before any training: drawn from the seed, and read from `weights` where they are given."""
    network = build(name, shape, num_classes, network_seed(settings.seed, number))
    if settings.weights is not None:
        load_torchvision_weights(network, settings.weights)
    return network


def standardise_for(x: Rows) -> Standardise:
    """The mean and scale of the training rows, or those of ImageNet for photographs in files."""
    if not isinstance(x, ImageFiles):
        return Standardise.from_data(x)
    if x.framing == PHOTOGRAPH:
        return Standardise.imagenet()
    rows = np.random.default_rng(0).permutation(len(x))[:STANDARDISED_FILES]
    return Standardise.from_data(x[torch.from_numpy(rows)])


def settings_of(config: dict[str, Any]) -> tuple[str, Settings]:
    """Source and settings as a run's config.json tells them; an error if a file has changed since.

    What was named from another folder than the present one is named by its whole path.
    """
    given = {name: value for name, value in config.items() if name not in ("source", *BESIDE_SETTINGS)}
    files = config.get("files", {})
    check_unchanged(files)
    try:
        reading = Reading.from_json(given.get("reading", {}))
        if reading.clean_source is not None:
            reading = replace(reading, clean_source=located(reading.clean_source, files))
        for key in ("noise", "weights"):
            given[key] = None if given.get(key) is None else located(given[key], files)
        settings = Settings(**given | {"options": Options(**given["options"]), "reading": reading})
        return located(config["source"], files), settings
    except (KeyError, TypeError) as error:
        raise ValueError(f"config.json must be that of a run of this version, but {error}") from None


def read_noise(name: str, num_classes: int) -> np.ndarray:
    """T by its noise name, or from a .csv (no header) or .npy file."""
    path = Path(name)
    if path.suffix not in (".csv", ".npy"):
        return noise.parse(name, num_classes)
    if not path.is_file():
        raise DataError(f"noise must be a name such as sym-50 or a file with a matrix: {path} does not exist")
    try:
        matrix = read_npy(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
        return noise.validate(matrix, num_classes)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def save_out_of_sample(folder: Path, found: OutOfSample, data: NoisyData) -> None:
    """Write probabilities.npz: P(noisy | x) of every row, its noisy label and its number in the source."""
    probs, labels = found.rows(data)
    rows = np.concatenate([data.train_rows, data.valid_rows])

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, probs=probs, labels=labels, rows=rows, folds=found.folds)

    write_atomically(folder / OUT_OF_SAMPLE_FILE, write)


def finished_result(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a finished run of this config; an error if the folder is another run's."""
    path = folder / "config.json"
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"out must be a new folder or that of an earlier run, got {folder}")
        return None
    found = read_json(path)
    known, wanted = canonical(found), canonical(config)
    if known != wanted:
        changed = sorted(key for key in known | wanted if known.get(key) != wanted.get(key))
        raise ValueError(
            f"{folder} holds a run with another {', '.join(changed) or 'configuration'}; "
            "choose another folder, or remove it"
        )
    check_unchanged(found.get("files", {}))
    return read_result(folder) if (folder / "result.json").exists() else None


def read_result(folder: Path) -> dict[str, Any]:
    """What a finished run's result.json holds."""
    path = folder / "result.json"
    result = read_json(path)
    if lacking := [key for key in ALWAYS_TOLD if key not in result]:
        raise ValueError(
            f"{path} must be the result of a run, but lacks {', '.join(lacking)}; was it edited?"
        )
    return result


def _write_outcome(
    folder: Path, begun: Begun, learned: Learned, result: dict[str, Any], keep_model: bool
) -> None:
    """The files of a finished run; result.json comes last, so that its presence means the run is whole."""
    write_metrics(folder, learned.history)
    write_transition(folder / "transition.csv", learned.transition)
    if keep_model:
        save_model(
            folder / "model.safetensors",
            learned.model,
            learned.initial_transition,
            learned.transition,
        )
    write_json(folder / "config.json", begun.config | {"model": begun.card.to_json()})
    write_json(folder / "result.json", result)


def write_metrics(folder: Path, history: Sequence[dict[str, Any]]) -> None:
    """Write metrics.jsonl, a line an epoch."""
    lines = "".join(json.dumps(record) + "\n" for record in history)
    write_atomically(folder / "metrics.jsonl", lambda path: path.write_text(lines, encoding="utf-8"))


def write_transition(path: Path, transition: np.ndarray) -> None:
    """Write T as a .csv file, which `noise` of another run may name."""
    write_atomically(path, lambda file: np.savetxt(file, transition, delimiter=",", fmt="%.8g"))


class _MetricsFile:
    """Writes a line an epoch to metrics.jsonl while the run lasts, and passes everything on.

    The lines of a resumed run may repeat an epoch; the file is written anew, whole, at the end.
    """

    def __init__(self, folder: Path, after: Progress, writes: bool) -> None:
        self.path, self.after, self.writes = folder / "metrics.jsonl", after, writes

    def stage(self, name: str, epochs: int, batches: int) -> None:
        self.after.stage(name, epochs, batches)

    def batch(self) -> None:
        self.after.batch()

    def epoch(self, metrics: Any) -> None:
        if self.writes:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(metrics) + "\n")
        self.after.epoch(metrics)
