"""Stages that several runs share, so that each is trained only once.

Stage 1 and the folds of cross-fitting do not depend on the method or the estimator of T. `reweight-r` and
`forward-r` begin with all stages of `reweight` and `forward`. The folder of a shared stage is named by the
hash of everything that determines it. A run that finds the finished stage there uses it, with its history
and seconds; the result is bit-identical.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trevision.data.sources import SOURCES
from trevision.estimation import find_estimator
from trevision.files import json_digest
from trevision.methods.cross_fit import stage_name
from trevision.methods.options import LATER, TRANSITION, Options
from trevision.methods.registry import METHODS, find_method
from trevision.methods.schedules import (
    COLOUR_ESTIMATOR,
    COLOUR_FOLDS,
    FOLDS,
    has_colour_schedule,
    usual_estimator,
)
from trevision.reproduce.estimators import ESTIMATORS
from trevision.runs.prepare import network_for
from trevision.runs.settings import Hardware, Settings, canonical, files_of, run_config
from trevision.training.checkpoint import FolderStore
from trevision.training.precision import AUTO, SINGLE

STAGES_FOLDER = ".stages"


def run_name(source: str, settings: Settings) -> str:
    """The name of a run's folder: the hash of its config."""
    return json_digest(canonical(run_config(source, settings)))


def shared_stages(source: str, settings: Settings, hardware: Hardware) -> dict[str, str]:
    """The shared stages of a run, in their order, each with the name of its folder."""
    base = canonical(run_config(source, settings))
    del base["method"]
    options = _without(base.pop("options", {}), Options.first_read_in(LATER))
    computed = {k: v for k, v in asdict(hardware).items() if k != "threads"}
    colour = _in_colour(source, settings, hardware.accelerator)
    if not colour and hardware.precision == AUTO:
        computed["precision"] = SINGLE
    base |= {"options": options, "hardware": computed}
    first = base | {"options": _without(options, Options.first_read_in(TRANSITION))}
    first |= _files(source, replace(settings, options=replace(settings.options, prior=None)))
    base |= _files(source, settings)
    folds = []
    if cross_fits(source, settings, colour=colour):
        folds = [stage_name(fold) for fold in range(COLOUR_FOLDS if colour else FOLDS)]
    # A comparison of estimators trains the folds of stage 1, but not stage 1 on all rows.
    method = METHODS.get(settings.method)
    whole = ["noisy-posterior"] if method is not None and method.starts_from_estimate else []
    stages = {name: json_digest(first | {"stage": name}) for name in (*folds, *whole)}
    if method is not None and method.family is not None:
        stages["classifier"] = json_digest(base | {"stage": "classifier", "family": method.family})
    return stages


def _without(options: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _files(source: str, settings: Settings) -> dict[str, Any]:
    """The digests of the files that are read: a file with other contents gives other stages."""
    digests = {name: file["sha256"] for name, file in files_of(source, settings).items()}
    return {"files": digests} if digests else {}


def _in_colour(source: str, settings: Settings, accelerator: str) -> bool:
    """Whether a run has the schedule of networks for colour images, as far as its settings tell."""
    network = settings.network
    if source in SOURCES:
        network = network_for(source, settings, SOURCES[source].shape, accelerator)
    return has_colour_schedule(settings.schedule, network)


def cross_fits(source: str, settings: Settings, *, colour: bool) -> bool:
    """Whether a run trains the folds of cross-fitting, judged by its settings.

    With fewer rows than folds it does not; the folders of its folds then stay empty.
    """
    if settings.method == ESTIMATORS:
        return True
    own = find_method(settings.method).own_estimator
    usual = COLOUR_ESTIMATOR if colour else usual_estimator(source)
    return settings.options.reads_out_of_sample(find_estimator(settings.options.estimator or own or usual))


def is_finished(folder: Path) -> bool:
    """Whether a shared stage is finished."""
    return (folder / "finished.pt").exists()


class SharedStore:
    """Checkpoints of one run: shared stages in folders of their own, the others in the run's folder.

    A finished and an unfinished stage are different files. So it is enough to look for a file to know that a
    stage is finished, and the next run can continue an unfinished one.
    """

    def __init__(self, own: Path, shared: dict[str, Path]) -> None:
        self.own = FolderStore(own)
        self.shared = {name: FolderStore(folder) for name, folder in shared.items()}

    def load(self, name: str) -> dict[str, Any] | None:
        if name not in self.shared:
            return self.own.load(name)
        return self.shared[name].load("finished") or self.shared[name].load("running")

    def save(self, name: str, state: dict[str, Any]) -> None:
        if name not in self.shared:
            return self.own.save(name, state)
        store = self.shared[name]
        if not state["done"]:
            return store.save("running", state)
        store.save("finished", state)
        (store.folder / "running.pt").unlink(missing_ok=True)
        return None

    def clear(self) -> None:
        """Remove the run's own stages. Shared stages stay: other runs may need them."""
        self.own.clear()
