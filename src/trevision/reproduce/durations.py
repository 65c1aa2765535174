"""Estimate how long runs take, from recorded runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trevision.estimation import find_estimator
from trevision.methods.options import Options
from trevision.methods.registry import METHODS
from trevision.methods.schedules import usual_estimator
from trevision.reproduce.archive import epochs_of, find_run, finished_names
from trevision.reproduce.job import stage_folder
from trevision.reproduce.plans import Planned
from trevision.reproduce.sharing import is_finished, shared_stages
from trevision.runs.settings import Hardware, canonical, run_config

Like = tuple[Any, ...]


@dataclass(frozen=True)
class Estimate:
    """Seconds of remaining work, and runs of unknown length because no similar run is recorded."""

    seconds: float
    unknown: tuple[Planned, ...]


class Record:
    """How long each stage took in the recorded runs, by kind of run."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._seen: set[str] = set()
        self._times: dict[Like, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.update()

    def update(self) -> None:
        """Read the runs that have finished since the last call."""
        for name in sorted(finished_names(self.results) - self._seen):
            self._seen.add(name)
            self._add(name)

    def _add(self, name: str) -> None:
        try:
            run = find_run(name, self.results)
            if run is None:
                return
            seconds: dict[str, float] = defaultdict(float)
            for epoch in epochs_of(run):
                seconds[epoch["stage"]] += epoch["seconds"]
            likes = _likes(run.config)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # a damaged folder must not stop an estimate
        for like in likes:
            for stage, value in seconds.items():
                self._times[like][stage].append(value)

    def stages(self, run: Planned) -> dict[str, float] | None:
        """The expected seconds of each stage of a run; None if no similar run is recorded."""
        for like in _likes(canonical(run_config(run.source, run.settings))):
            if like in self._times:
                return {stage: sum(times) / len(times) for stage, times in self._times[like].items()}
        return None

    def estimate(self, runs: Iterable[Planned], hardware: Hardware) -> Estimate:
        """The remaining work of `runs`. Shared stages count once, finished stages not at all."""
        seconds, unknown = 0.0, []
        counted: set[str] = set()
        for run in runs:
            stages = self.stages(run)
            if stages is None:
                unknown.append(run)
                continue
            for name, key in shared_stages(run.source, run.settings, hardware).items():
                if key in counted or is_finished(stage_folder(self.results, key)):
                    stages.pop(name, None)
                counted.add(key)
            seconds += sum(stages.values())
        return Estimate(seconds, tuple(unknown))


def _likes(config: dict[str, Any]) -> tuple[Like, Like]:
    """A narrow and a wide kind of a run; runs of the same kind take about as long.

    Noise and seed hardly matter.
    """
    base = tuple(config.get(key) for key in ("source", "schedule", "method", "network", "train_size"))
    method = METHODS.get(config["method"])
    own = None if method is None else method.own_estimator
    options = Options(**config.get("options", {}))
    estimator = find_estimator(options.estimator or own or usual_estimator(config["source"]))
    base += (options.reads_out_of_sample(estimator),)  # if so, folds are trained too
    return (*base, config.get("remove_anchors"), "strict"), (*base, "loose")


def in_words(seconds: float) -> str:
    """A readable duration.

    >>> in_words(42), in_words(100), in_words(5000)
    ('42 s', '2 min', '1 h 23 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
