"""One run of a grid, as a worker does it: a result or an error, always in its folder."""

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
    """A run, and where it puts its folder and its shared stages."""

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
    """Where a shared stage lies. Newer code does not find what older code trained, and trains it again."""
    return results / STAGES_FOLDER / _numerics() / key


def _numerics() -> str:
    """The folder for what a version of the numbers trained."""
    return f"numerics-{provenance.NUMERICS}"


@dataclass(frozen=True)
class Done:
    """How a job ended: `error` and `reason` are empty if it went well."""

    error: str = ""
    reason: str = ""


def work(job: Job) -> Done:
    """Run a job. An error is written to its folder and returned, never raised."""
    provenance.code()  # as it is when the run begins
    try:
        (job.folder / ERROR_FILE).unlink(missing_ok=True)
        with warnings.catch_warnings():
            # What is doubtful about a result is in result.json; many workers on one terminal help nobody.
            warnings.simplefilter("ignore")
            make = compare_estimators if job.settings.method == ESTIMATORS else run
            make(
                job.source,
                job.settings,
                job.folder,
                job.hardware,
                job.data_dir,
                # Newer code does not continue what older code began.
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
    """Write to the run's folder why it failed, beside its config.

    Parameters
    ----------
    job
        The run.
    done
        Its error and the reason.
    trace
        Where in the code it failed; only for errors that were not foreseen.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    if not (job.folder / "config.json").exists():
        write_json(job.folder / "config.json", run_config(job.source, job.settings))
    told = {"error": done.error, "reason": done.reason} | ({"traceback": trace} if trace else {})
    write_json(job.folder / ERROR_FILE, told)
