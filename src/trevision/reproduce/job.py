"""One run of a grid in a worker. It always writes a result or an error to its folder."""

from __future__ import annotations

import shutil
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from trevision.files import write_json
from trevision.reproduce.archive import run_folder
from trevision.reproduce.estimators import ESTIMATORS, compare_estimators
from trevision.reproduce.outcomes import ERROR_FILE
from trevision.reproduce.sharing import STAGES_FOLDER, SharedStore, run_name, shared_stages
from trevision.runs import provenance
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings, run_config
from trevision.training.loop import TrainingDiverged

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Job:
    """A run, with the folder of results that holds its folder and its shared stages."""

    source: str
    settings: Settings
    results: Path
    hardware: Hardware = field(default_factory=lambda: Hardware(accelerator="cpu", threads=1))
    data_dir: Path | None = None
    keep_model: bool = False

    @property
    def name(self) -> str:
        return run_name(self.source, self.settings)

    @property
    def folder(self) -> Path:
        return run_folder(self.results, self.name)

    @property
    def stages(self) -> dict[str, Path]:
        """The folders of the stages that this run shares with others."""
        shared = shared_stages(self.source, self.settings, self.hardware)
        return {name: stage_folder(self.results, key) for name, key in shared.items()}


def stage_folder(results: Path, key: str) -> Path:
    """The folder of a shared stage. It differs by NUMERICS, so stages of older code are trained again."""
    return results / STAGES_FOLDER / _numerics() / key


def _numerics() -> str:
    """The subfolder for stages of the current version of the numbers."""
    return f"numerics-{provenance.NUMERICS}"


@dataclass(frozen=True)
class Done:
    """How a job ended: `error` and `reason` are empty if it succeeded."""

    error: str = ""
    reason: str = ""


def work(job: Job) -> Done:
    """Run a job. An error is written to its folder and returned, never raised."""
    provenance.code()  # asked now: the checkout may change while the run trains
    try:
        (job.folder / ERROR_FILE).unlink(missing_ok=True)
        with warnings.catch_warnings():
            # result.json has the warnings. Many workers would mix theirs on one terminal.
            warnings.simplefilter("ignore")
            make = compare_estimators if job.settings.method == ESTIMATORS else run
            make(
                job.source,
                job.settings,
                job.folder,
                job.hardware,
                job.data_dir,
                # A folder per NUMERICS, so that newer code does not continue a run of older code.
                store=SharedStore(job.folder / CHECKPOINTS / _numerics(), job.stages),
                keep_model=job.keep_model,
            )
        shutil.rmtree(job.folder / CHECKPOINTS, ignore_errors=True)
    except Exception as error:
        foreseen = isinstance(error, ValueError | OSError | TrainingDiverged)
        trace = None if foreseen else traceback.format_exc()
        done = Done(type(error).__name__, " ".join(str(error).split()) or "no message")
        try:
            record_failure(job, done, trace)
        except OSError as unwritable:
            return Done(done.error, f"{done.reason} (and {ERROR_FILE} could not be written: {unwritable})")
        return done
    return Done()


def record_failure(job: Job, done: Done, trace: str | None = None) -> None:
    """Write the reason of a failure, and the config, to the run's folder.

    Parameters
    ----------
    job
        The run.
    done
        Its error and the reason.
    trace
        The traceback; only for unexpected errors.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    if not (job.folder / "config.json").exists():
        write_json(job.folder / "config.json", run_config(job.source, job.settings))
    failure = {"error": done.error, "reason": done.reason} | ({"traceback": trace} if trace else {})
    write_json(job.folder / ERROR_FILE, failure)
