"""Which stages are the same in several runs, and where they are kept so that one of them trains for all.

Stage 1 and the folds of cross-fitting do not know which method and which estimator of T they are trained for,
and `reweight-r` and `forward-r` begin with the whole of `reweight` and `forward`. A shared stage lies in a
folder named by the hash of all that determines it; a run that finds it finished there takes it over, with its
history and its seconds, to the same bits.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trevision.estimation import find_estimator
from trevision.files import json_digest
from trevision.methods.cross_fit import stage_name
from trevision.methods.options import LATER, TRANSITION, Options
from trevision.methods.registry import METHODS, find_method
from trevision.methods.schedules import FOLDS, usual_estimator
from trevision.reproduce.estimators import ESTIMATORS
from trevision.runs.settings import Hardware, Settings, canonical, files_of, run_config
from trevision.training.checkpoint import FolderStore

STAGES_FOLDER = ".stages"


def run_name(source: str, settings: Settings) -> str:
    """The name of a run's folder in a folder of results: the hash of its config."""
    return json_digest(canonical(run_config(source, settings)))


def shared_stages(source: str, settings: Settings, hardware: Hardware) -> dict[str, str]:
    """The shared stages of a run, in their order, each with the name of its folder."""
    base = canonical(run_config(source, settings))
    del base["method"]
    options = _without(base.pop("options", {}), Options.first_read_in(LATER))
    computed = {k: v for k, v in asdict(hardware).items() if k != "threads"}
    base |= {"options": options, "hardware": computed}
    first = base | {"options": _without(options, Options.first_read_in(TRANSITION))}
    first |= _files(source, replace(settings, options=replace(settings.options, prior=None)))
    base |= _files(source, settings)
    folds = [stage_name(fold) for fold in range(FOLDS)] if cross_fits(source, settings) else []
    # A comparison of estimators trains the folds of stage 1, and not stage 1 as a whole.
    method = METHODS.get(settings.method)
    whole = ["noisy-posterior"] if method is not None and method.starts_from_estimate else []
    stages = {name: json_digest(first | {"stage": name}) for name in (*folds, *whole)}
    if method is not None and method.family is not None:
        stages["classifier"] = json_digest(base | {"stage": "classifier", "family": method.family})
    return stages


def _without(options: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _files(source: str, settings: Settings) -> dict[str, Any]:
    """The digests of the files that are read: an old name with other contents makes other stages."""
    digests = {name: file["sha256"] for name, file in files_of(source, settings).items()}
    return {"files": digests} if digests else {}


def cross_fits(source: str, settings: Settings) -> bool:
    """Whether a run trains the folds of cross-fitting, as far as its settings tell.

    With fewer rows than folds it does not after all: the folders of its folds then stay empty.
    """
    if settings.method == ESTIMATORS:
        return True
    own = find_method(settings.method).own_estimator
    return find_estimator(settings.options.estimator or own or usual_estimator(source)).needs_out_of_sample


def is_finished(folder: Path) -> bool:
    """Whether a shared stage has been trained to its end."""
    return (folder / "finished.pt").exists()


class SharedStore:
    """The stages of one run: the shared ones in folders of their own, the others with the run.

    A finished stage and one under way are different files, so that whoever waits for a stage need only
    look, and the one under way is continued by whichever run comes next.
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
        """Forget the run's own stages; others may still need the shared ones."""
        self.own.clear()
