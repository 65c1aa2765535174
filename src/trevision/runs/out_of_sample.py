"""Out-of-sample predictions for a finished run that made none."""

from __future__ import annotations

from dataclasses import replace

import torch

from trevision.methods.cross_fit import cross_fit
from trevision.methods.registry import RELEASED
from trevision.runs.prepare import make_problem, prepare, read_source
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Hardware, Settings
from trevision.training.checkpoint import FolderStore
from trevision.training.precision import settled_precision
from trevision.training.progress import NoProgress, Progress
from trevision.training.runtime import Runtime, launch


def predict_out_of_sample(run: RunFolder, progress: Progress | None = None) -> None:
    """Train a network for each part of the rows on the other parts, and write probabilities.npz."""
    hardware = Hardware()
    torch.set_num_threads(hardware.threads or torch.get_num_threads())
    source, settings = run.source, run.settings
    if settings.schedule == RELEASED:  # it has no stage 1, and folds train nothing else
        settings = replace(settings, schedule=Settings.schedule)
    dataset = read_source(run.path, source, settings, run.data_dir, run.progress)
    data, _ = prepare(dataset, settings, hardware.accelerator)
    # An interrupted command continues, as `fit` does.
    store = FolderStore(run.path / "checkpoints")
    network = run.card.network
    precision = settled_precision(hardware.precision, network, hardware.accelerator)
    fabric = launch(hardware.accelerator, hardware.devices, precision)
    runtime = Runtime(fabric, store, progress or NoProgress(), precision)
    problem = make_problem(source, settings, network, data, runtime)
    run.save_out_of_sample(cross_fit(problem), data)
    store.clear()
