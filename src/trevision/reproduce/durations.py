"""How long runs will take, from those recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trevision.methods.registry import METHODS
from trevision.methods.schedules import ANCHOR, usual_estimator
from trevision.reproduce.plans import Planned
from trevision.reproduce.sharing import STAGES_FOLDER, is_finished, shared_stages
from trevision.runs.settings import Hardware, canonical, run_config

Like = tuple[Any, ...]


@dataclass(frozen=True)
class Estimate:
    """Seconds of work that is left, and the runs nothing like which is recorded."""

    seconds: float
    unknown: tuple[Planned, ...]


class Record:
    """Seconds a stage took in the runs of a folder of results, by what they were runs of."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._seen: set[str] = set()
        self._times: dict[Like, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.update()

    def update(self) -> None:
        """Read the runs that have been finished since."""
        if not self.results.is_dir():
            return
        for folder in sorted(self.results.iterdir()):
            if folder.name not in self._seen and (folder / "result.json").is_file():
                self._seen.add(folder.name)
                self._add(folder)

    def _add(self, folder: Path) -> None:
        try:
            config = canonical(json.loads((folder / "config.json").read_text(encoding="utf-8")))
            lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            seconds: dict[str, float] = defaultdict(float)
            for record in map(json.loads, lines):
                seconds[record["stage"]] += record["seconds"]
            likes = _likes(config)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # an estimate is no reason to stop for a damaged folder
        for like in likes:
            for stage, value in seconds.items():
                self._times[like][stage].append(value)

    def stages(self, run: Planned) -> dict[str, float] | None:
        """The expected seconds of each stage of a run; None if nothing like it is recorded."""
        for like in _likes(canonical(run_config(run.source, run.settings))):
            if like in self._times:
                return {name: sum(one) / len(one) for name, one in self._times[like].items()}
        return None

    def estimate(self, runs: Iterable[Planned], hardware: Hardware) -> Estimate:
        """The work left in `runs`, shared stages counted once and finished ones not at all."""
        seconds, unknown = 0.0, []
        counted: set[str] = set()
        for run in runs:
            stages = self.stages(run)
            if stages is None:
                unknown.append(run)
                continue
            for name, key in shared_stages(run.source, run.settings, hardware).items():
                if key in counted or is_finished(self.results / STAGES_FOLDER / key):
                    stages.pop(name, None)
                counted.add(key)
            seconds += sum(stages.values())
        return Estimate(seconds, tuple(unknown))


def _likes(config: dict[str, Any]) -> tuple[Like, Like]:
    """What makes runs take about as long, strictly and loosely: the noise and the seed hardly matter."""
    base = tuple(config.get(key) for key in ("source", "schedule", "method", "network", "train_size"))
    method = METHODS.get(config["method"])
    own = None if method is None else method.own_estimator
    estimator = config.get("options", {}).get("estimator") or own or usual_estimator(config["source"])
    base += (estimator == ANCHOR,)  # all others train the same folds
    return (*base, config.get("remove_anchors"), "strict"), (*base, "loose")


def in_words(seconds: float) -> str:
    """A duration for people.

    >>> in_words(42), in_words(100), in_words(5000)
    ('42 s', '2 min', '1 h 23 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
