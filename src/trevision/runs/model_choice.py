"""Which model a run is for, from what the user said and did not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from trevision.data.load_arrays import holds_rows
from trevision.files import did_you_mean
from trevision.methods.options import Options
from trevision.models.names import AUTO, MODELS, NETWORK
from trevision.refit.registry import find_correction
from trevision.runs.settings import Hardware, Models, Settings, usual_method


class Unsaid(str):
    """A default. The same word, written by the user, is of another type."""


UNSAID = Settings(
    method=Unsaid(Settings.method), schedule=Unsaid(Settings.schedule), models=Models(model=Unsaid(AUTO))
)
"""The settings of a command line without flags."""


def settle_model(source: str, settings: Settings, hardware: Hardware) -> Settings:
    """The settings of a command line with the model and the method that they mean.

    Where no model is said, tables and texts are learnt by `auto`, unless a flag asks for the network: one
    that only the network reads, or added noise.

    Parameters
    ----------
    source
        Where the rows come from.
    settings
        What the command line says; what it does not say is as in `UNSAID`.
    hardware
        Where the run is computed.

    Raises
    ------
    ValueError
        If there is no such model, or flags contradict each other.
    """
    models = settings.models
    if models.model not in MODELS:
        hint = did_you_mean(models.model, MODELS)
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {models.model!r}{hint}")
    if models.correction != AUTO:
        find_correction(models.correction)
    only = choices_of_the_network(settings, hardware)
    model, why = str(models.model), ""
    if isinstance(models.model, Unsaid):
        if only or settings.noise is not None:
            model, why = NETWORK, f", which {[*only, 'noise'][0]} asks for"
        elif not holds_rows(source, settings.reading):
            model = NETWORK
    elif model != NETWORK and only:
        raise ValueError(
            f"{only[0]} is a choice of the network, got it with --model {model}; leave it out, or take "
            "--model network"
        )
    if model == NETWORK and models.correction != AUTO:
        raise ValueError(
            f"correction is a choice of boosting, forest and linear, got {models.correction} for the network"
            f"{why}; leave it out"
        )
    method, schedule = str(settings.method), str(settings.schedule)
    if isinstance(settings.method, Unsaid):
        method = usual_method(source, settings.reading)
    return replace(settings, method=method, schedule=schedule, models=replace(models, model=model))


def choices_of_the_network(settings: Settings, hardware: Hardware) -> list[str]:
    """Names of what the user chose that only the network reads."""
    chosen = [name for name in ("method", "schedule") if not isinstance(getattr(settings, name), Unsaid)]
    usual = Settings()
    options = [option.name for option in fields(Options) if option.name != "estimator"]
    read_by_the_network: list[tuple[object, object, Sequence[str]]] = [
        (settings, usual, ("network", "remove_anchors", "pretrained", "trusted")),
        (settings.options, usual.options, options),
        (hardware, Hardware(), ("devices", "precision")),
    ]
    for given, default, names in read_by_the_network:
        chosen += [name for name in names if getattr(given, name) != getattr(default, name)]
    if settings.reading.annotator_column is not None and settings.reading.clean_source is not None:
        chosen.append("clean_source")  # beside several labels a row, only the network reads them
    return chosen if hardware.accelerator in ("auto", "cpu") else [*chosen, "accelerator"]
