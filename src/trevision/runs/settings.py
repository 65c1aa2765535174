"""The settings of a run, as written to config.json: everything its result depends on."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from trevision.data.files.reading import Reading, kind_of
from trevision.data.sources import SOURCES
from trevision.forms import check_form, from_json
from trevision.methods.options import Options
from trevision.models.names import AUTO, NETWORK
from trevision.runs.named_files import check_unchanged, describe, located

ALWAYS_SAID = ("source", "noise", "method", "schedule", "seed")
"""Always part of a run's name. Others only if not at their default, so that new settings rename no run."""
BESIDE_SETTINGS = ("model", "files")
"""Keys of config.json that are neither the source nor settings."""


@dataclass(frozen=True)
class Models:
    """Which model learns a table, and how a scikit-learn model is corrected."""

    model: str = NETWORK
    """auto (the one that makes held-out noisy labels likeliest), network, boosting, forest or linear. auto is
    the default for tables and texts, unless another flag asks for the network. With several labels a row,
    auto takes the one that makes the answers to held-out rows likeliest."""
    correction: str = AUTO
    """What a scikit-learn model is fitted on: auto, soft, reweight, prune, confident or none (the labels as
    given). With several labels a row it is always P(clean)."""


@dataclass(frozen=True)
class Settings:
    """Everything that the result of a run depends on, besides its source."""

    noise: str | None = None
    """Noise to add to the training labels: sym-50, pair-45 (percent), or a .csv or .npy file with T."""
    method: str = "reweight-r"
    """auto, standard, decoupling, mentornet, co-teaching, gce, sce, volminnet, tv, forward, backward,
    reweight, rent, forward-gce, forward-sce, unlabel, forward-r, reweight-r or recursive. auto is the default
    for your own data: it corrects by T only where held-out noisy labels speak for it."""
    schedule: str = "quick"
    """quick (for two CPU cores), strong (longer, averaged weights) or paper (the published protocol). For
    volminnet and tv also released: their authors' recipe, for the data sets that they had."""
    seed: int = 0
    """Seed of the noise, the split, initial weights and batches."""
    network: str | None = None
    """lenet, resnet8, resnet18, resnet34, resnet50, narrow, wide or mlp; if not given, chosen by the data's
    shape and, for small colour images on a CPU, by the schedule (quick: narrow, strong: wide)."""
    train_size: int | None = None
    """Use only this many training rows, drawn at random."""
    remove_anchors: float | None = None
    """Before adding noise, drop this share of each class: its most typical rows (paper: 0.4 on MNIST)."""
    pretrained: str | None = None
    """A .safetensors or .pth file of torchvision's weights that the network starts from."""
    trusted: bool = False
    """Select epochs by the clean validation labels that come with the data (clothing1m). Rows of
    clean_column and clean_source are learnt from, or select epochs, without it."""
    models: Models = field(default_factory=Models)
    options: Options = field(default_factory=Options)
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Hardware:
    """Where a run is computed."""

    accelerator: str = "auto"
    """auto, cpu, cuda or mps."""
    devices: int = 1
    """Number of devices (or CPU processes) that share each batch."""
    precision: str = "auto"
    """Lightning Fabric's precision: 32-true, 16-mixed or bf16-mixed. auto takes bf16-mixed for the networks
    narrow and wide if the processor is faster by it, else 32-true. T and losses are always in 32 bits."""
    threads: int | None = 1
    """CPU threads per process. With one, results are bit-identical on any number of cores and equal those of
    `reproduce`; more are faster for large networks. None lets torch choose."""


def usual_method(source: str, reading: Reading) -> str:
    """The method if none is said: `auto` for a user's own rows, with one label each, else the paper's."""
    own = source not in SOURCES and reading.annotator_column is None
    return "auto" if own else Settings.method


def check_numbers(settings: Settings, hardware: Hardware) -> None:
    """Raise a ValueError for a seed or a number of threads that there cannot be."""
    if settings.seed < 0:
        raise ValueError(f"seed must be 0 or more, got {settings.seed}")
    if hardware.threads is not None and hardware.threads < 1:
        raise ValueError(f"threads must be at least 1, got {hardware.threads}")


def run_config(source: str, settings: Settings) -> dict[str, Any]:
    """Source and settings as config.json has them."""
    return {"source": source, **asdict(settings)}


def canonical(config: dict[str, Any]) -> dict[str, Any]:
    """A config after a round trip through JSON, without model, files and settings at their default.

    Two configs of the same run are equal in this form, even if one was written before a setting existed.
    """
    plain = json.loads(json.dumps(config))
    for beside in BESIDE_SETTINGS:
        plain.pop(beside, None)
    return _chosen(plain, json.loads(json.dumps(asdict(Settings()))))


def _chosen(config: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    chosen = {}
    for key, value in config.items():
        if isinstance(value, dict):
            usual = defaults.get(key)
            value = _chosen(value, usual if isinstance(usual, dict) else {}) or None
        if value is not None and (key in ALWAYS_SAID or value != defaults.get(key)):
            chosen[key] = value
    return chosen


def settings_of(config: dict[str, Any], path: Path = Path("config.json")) -> tuple[str, Settings]:
    """Source and settings of a run, from its config, the contents of the file at `path`.

    Raises a ValueError if a file that the run read has changed since. A file that is named relative to
    another working directory gets its absolute path.
    """
    given = {name: value for name, value in config.items() if name not in ("source", *BESIDE_SETTINGS)}
    files = config.get("files", {})
    check_form(config, {"source": str, "options": dict}, path)
    check_unchanged(files, path)
    settings = from_json(Settings, given, path)
    reading = settings.reading
    if reading.clean_source is not None:
        reading = replace(reading, clean_source=located(reading.clean_source, files))
    if reading.rows_source is not None:
        reading = replace(reading, rows_source=located(reading.rows_source, files))
    noise, pretrained = (
        None if name is None else located(name, files) for name in (settings.noise, settings.pretrained)
    )
    settings = replace(settings, reading=reading, noise=noise, pretrained=pretrained)
    return located(config["source"], files), settings


def fit_command(source: str, settings: Settings, out: Path) -> str:
    """The `trevision fit` command with these settings; those at their default are left out."""
    words = ["trevision", "fit", source]
    parts: tuple[tuple[Any, Any], ...] = (
        (settings, Settings(method=usual_method(source, settings.reading))),
        (settings.options, Options()),
        (settings.reading, Reading()),
        # Of a table, the command compares models unless it is told which.
        (settings.models, Models(model=AUTO if kind_of(source) == "table" else NETWORK)),
    )
    for chosen, default in parts:
        for field_ in fields(chosen):
            value = getattr(chosen, field_.name)
            if field_.name in ("models", "options", "reading") or value == getattr(default, field_.name):
                continue
            flag = f"--{field_.name.replace('_', '-')}"
            if isinstance(value, bool):
                words.append(flag if value else f"--no-{flag[2:]}")
            else:
                for one in value if isinstance(value, tuple) else (value,):
                    words += [flag, str(one)]
    return shlex.join([*words, "--out", str(out)])


def files_of(source: str, settings: Settings) -> dict[str, dict[str, str]]:
    """The files that a run reads, by the names in its config, with their digests."""
    from trevision.runs.prior_files import named_in  # imports torch, which only a new run needs

    reading = settings.reading
    named = (source, reading.clean_source, reading.rows_source, settings.noise, settings.pretrained)
    return describe(*named, *named_in(settings.options.prior))
