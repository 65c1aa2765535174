"""What a run is asked to do, as its config.json tells: all that its result depends on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trevision.data.files.reading import Reading
from trevision.methods.options import Options
from trevision.runs.named_files import check_unchanged, describe, located

ALWAYS_SAID = ("source", "noise", "method", "schedule", "seed")
"""Always part of a run's name; other settings are if not at their default, so a new one renames no run."""
BESIDE_SETTINGS = ("model", "files")
"""What config.json says besides source and settings."""


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
    pretrained: str | None = None
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


def run_config(source: str, settings: Settings) -> dict[str, Any]:
    """What config.json says of a run, besides its model."""
    return {"source": source, **asdict(settings)}


def canonical(config: dict[str, Any]) -> dict[str, Any]:
    """A config as JSON gives it back, without model, files and settings at their default.

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
            value = _chosen(value, defaults.get(key, {})) or None
        if value is not None and (key in ALWAYS_SAID or value != defaults.get(key)):
            chosen[key] = value
    return chosen


def settings_of(config: dict[str, Any]) -> tuple[str, Settings]:
    """Source and settings of a run; an error if a file that it read has changed since.

    A file that the config names relative to another folder is named by its whole path.
    """
    given = {name: value for name, value in config.items() if name not in ("source", *BESIDE_SETTINGS)}
    files = config.get("files", {})
    check_unchanged(files)
    try:
        reading = Reading.from_json(given.get("reading", {}))
        if reading.clean_source is not None:
            reading = replace(reading, clean_source=located(reading.clean_source, files))
        for key in ("noise", "pretrained"):
            given[key] = None if given.get(key) is None else located(given[key], files)
        settings = Settings(**given | {"options": Options(**given["options"]), "reading": reading})
        return located(config["source"], files), settings
    except (KeyError, TypeError) as error:
        raise ValueError(f"config.json must be that of a run of this version, but {error}") from None


def files_of(source: str, settings: Settings) -> dict[str, dict[str, str]]:
    """The files that a run reads by the names in its config, with their digests."""
    from trevision.runs.prior_files import named_in  # imports torch, and only a run that begins needs it

    named = (source, settings.reading.clean_source, settings.noise, settings.pretrained)
    return describe(*named, *named_in(settings.options.prior))
