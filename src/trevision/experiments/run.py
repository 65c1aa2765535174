"""One experiment: data, noise, method and seed in; a run folder out."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
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
from trevision.estimation import transition_error
from trevision.experiments.anchors import remove_anchors
from trevision.experiments.prior_files import read_prior
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
from trevision.training.folder import ModelCard, save_model, write_json

VALIDATION_SHARE = 0.1
OUT_OF_SAMPLE_FILE = "probabilities.npz"
STANDARDISED_FILES = 2000
"""Images in files that tell the mean and the scale of all."""
ALWAYS_SAID = ("source", "noise", "method", "schedule", "seed")
"""What identifies a run whatever its default; any other setting may be added without renaming old runs."""


@dataclass(frozen=True)
class Settings:
    """Everything that a run's result depends on."""

    noise: str | None = None
    """Noise to add to the training labels: sym-50, pair-45 (percent), or a .csv or .npy file with T."""
    method: str = "reweight-r"
    """standard, decoupling, mentornet, co-teaching, forward, backward, reweight, forward-r or reweight-r."""
    schedule: str = "quick"
    """quick (for two CPU cores) or paper (the published protocol)."""
    seed: int = 0
    """Seed of noise, split, initial weights and batches."""
    network: str | None = None
    """lenet, resnet18, resnet34, resnet50 or mlp; chosen by the data's shape if not given."""
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
    """Lightning Fabric's precision: 32-true, bf16-mixed, ..."""
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
    hardware = hardware or Hardware()
    method = find_method(settings.method)
    settings.options.check(settings.method)
    if settings.remove_anchors is not None:
        check_share(settings.remove_anchors)
    config = run_config(source, settings)
    finished = _finished_result(folder, config)
    if finished is not None:
        return finished
    prior = read_prior(settings.options.prior)

    if hardware.threads is not None:
        torch.set_num_threads(hardware.threads)
    dataset = load(source, data_dir, download_progress, settings.reading)
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

    folder.mkdir(parents=True, exist_ok=True)
    if fabric.is_global_zero:
        write_json(folder / "config.json", config)
    problem = with_out_of_sample(problem)
    learned = method(problem)
    if problem.out_of_sample is not None:
        learned = replace(learned, history=problem.out_of_sample.history + learned.history)
    result = summarise(learned, settings, truth, dataset.notes)
    if fabric.is_global_zero:
        card = ModelCard(network, shape, dataset.class_values)
        if dataset.preprocessing is not None:
            write_atomically(folder / PREPROCESSING_FILE, dataset.preprocessing.save)
        if problem.out_of_sample is not None and keep_model:
            save_out_of_sample(folder, problem.out_of_sample, data)
        _write_outcome(folder, config, card, learned, result, keep_model)
        store.clear()
    fabric.barrier()
    return result


def make_problem(
    source: str, settings: Settings, data: NoisyData, truth: Truth | None, runtime: Runtime
) -> Problem:
    """What the settings ask of a method."""
    shape = tuple(data.train_x.shape[1:])
    network = settings.network or choose(shape)
    preset = schedule_for(settings.schedule, source, len(data.train_x), data.num_classes)
    schedule = settings.options.applied_to(preset)
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
    """A config as JSON gives it back, without its model and without what was left at its default.

    Two configs of the same run are equal in this form, also when one was written before a setting existed.
    """
    plain = json.loads(json.dumps(config))
    plain.pop("model", None)
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
    data = replace(data, label_pairs=dataset.label_pairs)
    if dataset.row_numbers is not None:
        numbers = dataset.row_numbers
        data = replace(data, train_rows=numbers[data.train_rows], valid_rows=numbers[data.valid_rows])
    if settings.trusted or settings.reading.trusts_rows:
        if dataset.trusted_x is None:
            raise DataError(f"trusted must be left out for {dataset.name}: it has no clean validation labels")
        data = replace(data, trusted_x=dataset.trusted_x, trusted_y=dataset.trusted_y)
    return data, Truth(transition, dataset.test_x, dataset.test_y)


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
    """Source and settings as a run's config.json tells them."""
    given = {name: value for name, value in config.items() if name not in ("source", "model")}
    try:
        reading = Reading.from_json(given.get("reading", {}))
        return config["source"], Settings(
            **given | {"options": Options(**given["options"]), "reading": reading}
        )
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
        if path.suffix == ".npy":
            matrix = np.load(path, allow_pickle=False)
        else:
            matrix = np.loadtxt(path, delimiter=",", ndmin=2)
        return noise.validate(matrix, num_classes)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def summarise(
    learned: Learned, settings: Settings, truth: Truth, data_notes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The contents of result.json."""
    selected = learned.selected
    result: dict[str, Any] = {
        "method": settings.method,
        "seed": settings.seed,
        "noise": settings.noise,
        "schedule": settings.schedule,
        "test_accuracy": selected.get("test_accuracy"),
        "initial_transition_error": None,
        "transition_error": None,
        "noise_rate": learned.noise_rate,
        "noisy_validation_accuracy": 1 - selected["noisy_validation_error"],
        "selected_stage": selected["stage"],
        "selected_epoch": selected["epoch"],
        "epochs": sum("train_loss" in record for record in learned.history),
        "seconds": round(sum(record["seconds"] for record in learned.history), 1),
        "stopped_because": learned.stopped_because,
        "transition_ran_away": learned.transition_ran_away,
        "warnings": learned.warnings,
        "data_notes": list(data_notes),
        "versions": {name: version(name) for name in ("trevision", "torch", "numpy", "lightning-fabric")}
        | {"python": platform.python_version()},
    }
    if truth.transition is not None:
        result["initial_transition_error"] = transition_error(learned.initial_transition, truth.transition)
        result["transition_error"] = transition_error(learned.transition, truth.transition)
    return result


def save_out_of_sample(folder: Path, found: OutOfSample, data: NoisyData) -> None:
    """Write probabilities.npz: P(noisy | x) of every row, its noisy label and its number in the source."""
    probs, labels = found.rows(data)
    rows = np.concatenate([data.train_rows, data.valid_rows])

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, probs=probs, labels=labels, rows=rows, folds=found.folds)

    write_atomically(folder / OUT_OF_SAMPLE_FILE, write)


def _finished_result(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a finished run of this config; an error if the folder is another run's."""
    path = folder / "config.json"
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"out must be a new folder or that of an earlier run, got {folder}")
        return None
    known, wanted = canonical(json.loads(path.read_text(encoding="utf-8"))), canonical(config)
    if known != wanted:
        changed = sorted(key for key in known | wanted if known.get(key) != wanted.get(key))
        raise ValueError(
            f"{folder} holds a run with another {', '.join(changed) or 'configuration'}; "
            "choose another folder, or remove it"
        )
    result = folder / "result.json"
    return json.loads(result.read_text(encoding="utf-8")) if result.exists() else None


def _write_outcome(
    folder: Path,
    config: dict[str, Any],
    card: ModelCard,
    learned: Learned,
    result: dict[str, Any],
    keep_model: bool,
) -> None:
    """The files of a finished run; result.json comes last, so that its presence means the run is whole."""
    lines = "".join(json.dumps(record) + "\n" for record in learned.history)
    write_atomically(folder / "metrics.jsonl", lambda path: path.write_text(lines, encoding="utf-8"))
    write_atomically(
        folder / "transition.csv",
        lambda path: np.savetxt(path, learned.transition, delimiter=",", fmt="%.8g"),
    )
    if keep_model:
        save_model(
            folder / "model.safetensors",
            learned.model,
            learned.initial_transition,
            learned.transition,
        )
    write_json(folder / "config.json", config | {"model": card.to_json()})
    write_json(folder / "result.json", result)


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
