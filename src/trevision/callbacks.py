"""Callbacks: what is told of a training as it goes on, and three that write it to well-known tools.

A callback is an observer of the training loop (`training.progress.Progress`) that is also told of the end.
`TRevisionClassifier(callbacks=[...])` takes them; in a loop of your own they go into
`Runtime(progress=Several([...]))`. The packages of the tools are imported when a training begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any

from trevision.training.progress import Progress

METHODS = ("stage", "batch", "epoch", "end")


class Callback:
    """Does nothing; a callback of your own overrides the methods that it needs.

    scikit-learn's `clone` copies a callback, so it opens files when a training begins and closes them at its
    end.

    Examples
    --------
    >>> class Longest(Callback):
    ...     seconds = 0.0
    ...
    ...     def epoch(self, metrics):
    ...         self.seconds = max(self.seconds, metrics["seconds"])
    """

    def stage(self, name: str, epochs: int, batches: int) -> None:
        """A stage begins: its name, its most epochs and the batches of each."""

    def batch(self) -> None:
        """A batch is done."""

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """An epoch is done: `stage`, `epoch`, `train_loss`, `noisy_validation_error` and other numbers."""

    def end(self, result: Mapping[str, Any] | None) -> None:
        """The training has ended; `result` is None if an error ended it.

        Otherwise it holds `transition` and `initial_transition` (C, C), `noise_rate`, `stopped_because`,
        `warnings` and `parameters`.
        """


class Several:
    """Passes everything on to several observers, in their order."""

    def __init__(self, observers: Sequence[Progress]) -> None:
        self.observers = list(observers)

    def stage(self, name: str, epochs: int, batches: int) -> None:
        for observer in self.observers:
            observer.stage(name, epochs, batches)

    def batch(self) -> None:
        for observer in self.observers:
            observer.batch()

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        for observer in self.observers:
            observer.epoch(metrics)

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Tell those that have the method `end`."""
        for observer in self.observers:
            if hasattr(observer, "end"):
                observer.end(result)


class TensorBoard(Callback):
    """Writes the metrics of each epoch for TensorBoard.

    Each fit is a run of its own, `folder/run-1`, `folder/run-2` and so on.

    Parameters
    ----------
    folder : str or Path
        The folder to show with `tensorboard --logdir folder`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = folder
        self._writer: Any = None

    def stage(self, name: str, epochs: int, batches: int) -> None:
        if self._writer is None:
            _imported("tensorboard", "TensorBoard")
            writers = _imported("torch.utils.tensorboard", "TensorBoard")
            self._writer = writers.SummaryWriter(str(_new_run(Path(self.folder))))

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        for name, value in numbers(metrics).items():
            self._writer.add_scalar(name, value, metrics["epoch"])
        self._writer.flush()

    def end(self, result: Mapping[str, Any] | None) -> None:
        if self._writer is None:
            return
        if result is not None:
            self._writer.add_text("transition", _as_markdown(result["transition"]))
            self._writer.add_text("stopped because", result["stopped_because"])
        self._writer.close()
        self._writer = None


class MLflow(Callback):
    """Logs the metrics of each epoch, the parameters and T to MLflow.

    A run that is active already is used and left open; otherwise each fit is a run of its own.

    Parameters
    ----------
    experiment : str or None
        The experiment's name; None keeps MLflow's own.
    run_name : str or None
        The name of the run.
    tracking_uri : str or None
        Where MLflow keeps its runs; None keeps MLflow's own.
    """

    def __init__(
        self, experiment: str | None = None, run_name: str | None = None, tracking_uri: str | None = None
    ) -> None:
        self.experiment = experiment
        self.run_name = run_name
        self.tracking_uri = tracking_uri
        self._begun = self._own = False

    def stage(self, name: str, epochs: int, batches: int) -> None:
        if self._begun:
            return
        mlflow = _imported("mlflow", "MLflow")
        self._begun = True
        self._own = mlflow.active_run() is None
        if self._own:
            if self.tracking_uri is not None:
                mlflow.set_tracking_uri(self.tracking_uri)
            if self.experiment is not None:
                mlflow.set_experiment(self.experiment)
            mlflow.start_run(run_name=self.run_name)

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        _imported("mlflow", "MLflow").log_metrics(numbers(metrics), step=metrics["epoch"])

    def end(self, result: Mapping[str, Any] | None) -> None:
        if not self._begun:
            return
        mlflow = _imported("mlflow", "MLflow")
        if result is not None:
            mlflow.log_params(dict(result["parameters"]))
            mlflow.log_dict({"transition": result["transition"].tolist()}, "transition.json")
        if self._own:
            mlflow.end_run("FINISHED" if result is not None else "FAILED")
        self._begun = self._own = False


class WandB(Callback):
    """Logs the metrics of each epoch, the parameters and T to Weights & Biases; each fit is a run of its own.

    Parameters
    ----------
    project : str or None
        The project; None keeps that of the environment.
    **settings
        Further arguments of `wandb.init`, such as `name` or `mode="offline"`.
    """

    def __init__(self, project: str | None = None, **settings: Any) -> None:
        self.project = project
        self.settings = settings
        self._run: Any = None

    def stage(self, name: str, epochs: int, batches: int) -> None:
        if self._run is None:
            self._run = _imported("wandb", "WandB").init(project=self.project, **self.settings)
        # Each stage counts its own epochs.
        self._run.define_metric(f"{name}/epoch")
        self._run.define_metric(f"{name}/*", step_metric=f"{name}/epoch")

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        self._run.log({f"{metrics['stage']}/epoch": metrics["epoch"]} | numbers(metrics))

    def end(self, result: Mapping[str, Any] | None) -> None:
        if self._run is None:
            return
        if result is not None:
            self._run.config.update(dict(result["parameters"]))
            self._run.summary.update({"transition": result["transition"].tolist()})
        self._run.finish(exit_code=int(result is None))
        self._run = None


def check_callbacks(callbacks: Sequence[Callback] | None) -> list[Callback]:
    """The callbacks, once each is known to have the methods of one.

    Parameters
    ----------
    callbacks : sequence of Callback or None
        What the user gave.

    Returns
    -------
    list of Callback

    Raises
    ------
    TypeError
        If this is no sequence of callbacks.
    """
    if callbacks is None:
        return []
    if not isinstance(callbacks, Sequence):
        raise TypeError(f"callbacks must be a list, got {callbacks!r}; one callback is written [callback]")
    for callback in callbacks:
        lacking = [name for name in METHODS if not callable(getattr(callback, name, None))]
        if isinstance(callback, type) or lacking:
            repair = "make an instance of it" if isinstance(callback, type) else "derive it from Callback"
            raise TypeError(
                f"callbacks must have the methods {', '.join(METHODS)}, got {callback!r}; {repair}"
            )
    return list(callbacks)


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among an epoch's metrics, named `stage/metric`; of a list, `stage/metric/0` and so on.

    What is not finite is left out: some tools refuse it.

    >>> numbers({"stage": "revision", "epoch": 3, "train_loss": 0.5, "sums": [1.0, 1.25]})
    {'revision/train_loss': 0.5, 'revision/sums/0': 1.0, 'revision/sums/1': 1.25}
    """
    named: dict[str, float] = {}
    for name, value in metrics.items():
        if name in ("stage", "epoch"):
            continue
        several = enumerate(value) if isinstance(value, list | tuple) else [("", value)]
        for place, number in several:
            if isinstance(number, Real) and math.isfinite(number):
                named[f"{metrics['stage']}/{name}/{place}".rstrip("/")] = float(number)
    return named


def _imported(module: str, callback: str) -> Any:
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"callbacks.{callback} needs the package {error.name or package}, which is not installed: "
            f"pip install {error.name or package}",
            name=error.name,
        ) from None


def _new_run(folder: Path) -> Path:
    """A new folder `run-N`; fits in several processes never share one."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            run = folder / f"run-{number}"
            run.mkdir()
            return run
        except FileExistsError:
            number += 1


def _as_markdown(matrix: Any) -> str:
    rows = [[str(row), *(f"{value:.3f}" for value in values)] for row, values in enumerate(matrix.tolist())]
    header = ["clean \\ noisy", *(str(column) for column in range(matrix.shape[1]))]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
