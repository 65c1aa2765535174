"""One run: from data, noise, method and seed to a run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from trevision.data.noisy import vanished
from trevision.files import write_atomically, write_json, write_matrix
from trevision.methods.cross_fit import with_out_of_sample
from trevision.methods.options import ANSWERS_METHOD
from trevision.methods.problem import Learned
from trevision.methods.registry import check_options, check_schedule, find_method
from trevision.runs.answered import check_settings_for_answers, learn_answered
from trevision.runs.prepare import Begun, begin
from trevision.runs.provenance import code
from trevision.runs.record import summarise
from trevision.runs.run_folder import PREPROCESSING_FILE, RunFolder
from trevision.runs.settings import Hardware, Settings, run_config
from trevision.training.checkpoint import Store
from trevision.training.model_files import save_model
from trevision.training.progress import Progress


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
    told: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Do one run in `folder` and return the contents of its result.json.

    If the folder holds the same run, it is continued, or left as it is if finished. If it holds another run,
    a ValueError is raised.

    Parameters
    ----------
    source : str
        A named data set, or the path of a file or folder.
    settings : Settings
        Everything else that the result depends on.
    folder : Path
        The run folder.
    hardware : Hardware or None, default=None
        Where it is computed.
    data_dir : Path or None, default=None
        Where to look for data files first.
    progress, download_progress
        Called with the progress of training, and of reading or downloading the data.
    store : Store or None, default=None
        Keeps the checkpoints; in the run folder if None.
    keep_model : bool, default=True
        Whether to write the model, the labels and the out-of-sample predictions.
    told : dict or None, default=None
        More fields for result.json: how the network was chosen among other models. Lists that both have, such
        as `warnings`, are joined.

    Returns
    -------
    dict
        The contents of result.json.
    """
    code()  # asked now: the checkout may change while a long run trains
    method = find_method(settings.method)
    check_schedule(settings.schedule, settings.method, source)
    if settings.reading.annotator_column is None:
        check_options(settings.options, settings.method)
    else:
        check_settings_for_answers(settings)
    finished = RunFolder(folder).finished_result(run_config(source, settings))
    if finished is not None:
        return finished
    begun = begin(source, settings, folder, hardware, data_dir, progress, download_progress, store)
    dataset, answered = begun.dataset, None
    if dataset.answers is None:
        problem = with_out_of_sample(begun.problem)
        learned = method(problem)
        if problem.out_of_sample is not None:
            learned = replace(learned, history=problem.out_of_sample.history + learned.history)
        result = summarise(learned, settings, problem, begun.truth, dataset.notes)
    else:
        problem = begun.problem
        learned, answered = learn_answered(begun)
        as_trained = replace(settings, method=ANSWERS_METHOD)
        result = summarise(learned, as_trained, problem, begun.truth, dataset.notes)
        result["annotators"] = answered.summary()
    result["warnings"] = [*result["warnings"], *vanished(problem.data, dataset.class_names)]
    for key, value in (told or {}).items():
        result[key] = [*result[key], *value] if key in result else value
    fabric = problem.runtime.fabric
    if fabric.is_global_zero:
        if dataset.preprocessing is not None:
            write_atomically(folder / PREPROCESSING_FILE, dataset.preprocessing.save)
        if problem.out_of_sample is not None and keep_model:
            RunFolder(folder).save_out_of_sample(problem.out_of_sample, problem.data)
        if keep_model:
            RunFolder(folder).save_labels(dataset.labels, problem.data)
        if answered is not None:
            answered.write(folder)
        _write_outcome(folder, begun, learned, result, keep_model)
        problem.runtime.store.clear()
    fabric.barrier()
    return result


def _write_outcome(
    folder: Path, begun: Begun, learned: Learned, result: dict[str, Any], keep_model: bool
) -> None:
    """Write the files of a finished run. result.json is last: if it exists, the run is complete."""
    RunFolder(folder).write_metrics(learned.history)
    write_matrix(folder / "transition.csv", learned.transition)
    if keep_model:
        save_model(
            folder / "model.safetensors",
            learned.model,
            learned.initial_transition,
            learned.transition,
        )
    write_json(folder / "config.json", begun.config | {"model": begun.card.to_json()})
    write_json(folder / "result.json", result)
