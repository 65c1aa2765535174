"""Callbacks are told of every epoch, and write what they are told."""

from __future__ import annotations

import copy
import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from trevision import Phase, Schedule, TRevisionClassifier
from trevision.callbacks import Callback, MLflow, Several, TensorBoard, WandB
from trevision.training.progress import LineProgress

SHORT = Schedule(Phase(2), Phase(2), Phase(1), parameterisation="simplex", estimator="latent", folds=2)
STAGES = [("fold-1", 2), ("fold-2", 2), ("noisy-posterior", 2), ("classifier", 2), ("revision", 1)]


class Recorder(Callback):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.batches = 0
        self.epochs: list[dict[str, Any]] = []
        self.ends: list[Any] = []

    def stage(self, name: str, epochs: int, batches: int) -> None:
        self.stages.append((name, epochs))

    def batch(self) -> None:
        self.batches += 1

    def epoch(self, metrics: Any) -> None:
        self.epochs.append(dict(metrics))

    def end(self, result: Any) -> None:
        self.ends.append(result)


def fitted(blobs, *callbacks: Callback, **choices: Any) -> TRevisionClassifier:
    choices = {"method": "reweight-r", **choices}
    model = TRevisionClassifier(schedule=SHORT, random_state=0, callbacks=list(callbacks), **choices)
    return model.fit(blobs.x[:200], blobs.noisy[:200])


def test_a_callback_is_told_of_every_stage_epoch_and_batch_and_of_the_end(blobs):
    told, also = Recorder(), Recorder()
    model = fitted(blobs, told, also)
    assert told.stages == STAGES
    # 180 rows in batches of 128, or 90 rows of a fold in one batch.
    assert told.batches == 2 * 2 + 5 * 2
    # Epoch 0 of a stage is measured before it begins, and belongs to no training.
    trained = [record for record in model.history_ if record["epoch"] > 0]
    assert [record for record in told.epochs if not record["stage"].startswith("fold")] == trained
    (result,) = told.ends
    assert np.array_equal(result["transition"], model.transition_matrix_)
    assert result["parameters"]["method"] == "reweight-r"
    assert result["stopped_because"] == model.stopped_because_
    assert also.epochs == told.epochs


def test_callbacks_do_not_change_the_model(blobs):
    with_them, without = fitted(blobs, Recorder()), fitted(blobs)
    assert np.array_equal(with_them.predict_proba(blobs.test_x), without.predict_proba(blobs.test_x))


def test_an_error_is_an_end_without_a_result(blobs):
    class Stops(Callback):
        def epoch(self, metrics: Any) -> None:
            raise KeyboardInterrupt

    told = Recorder()
    with pytest.raises(KeyboardInterrupt):
        fitted(blobs, told, Stops())
    assert told.ends == [None]


def test_clone_and_a_search_copy_callbacks(blobs):
    model = fitted(blobs, Recorder())
    copied = clone(model).get_params()["callbacks"]
    assert isinstance(copied[0], Recorder)
    assert copied[0] is not model.callbacks[0]
    search = GridSearchCV(
        TRevisionClassifier(schedule=SHORT, callbacks=[Recorder()]), {"method": ["standard"]}, cv=2
    )
    search.fit(blobs.x[:200], blobs.noisy[:200])
    assert len(search.best_estimator_.callbacks[0].ends) == 1
    assert search.estimator.callbacks[0].ends == []


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (Recorder(), r"callbacks must be a list, got .*Recorder.*; one callback is written \[callback\]"),
        ([Recorder], "callbacks must have the methods stage, batch, epoch, end, .*make an instance of it"),
        ([print], "callbacks must have the methods .*derive it from Callback"),
        ([LineProgress()], "callbacks must have the methods .*derive it from Callback"),
    ],
)
def test_what_is_no_callback_is_refused_at_fit(blobs, callbacks, message):
    model = TRevisionClassifier(schedule=SHORT, callbacks=callbacks)
    with pytest.raises(TypeError, match=message):
        model.fit(blobs.x, blobs.noisy)


def test_several_pass_an_end_on_to_those_that_want_it():
    told = Recorder()
    Several([LineProgress(), told]).end(None)
    assert told.ends == [None]


def test_tensorboard_reads_back_every_number_and_each_fit_is_a_run(blobs, tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = TensorBoard(tmp_path / "board")
    model = fitted(blobs, board)
    assert (tmp_path / "board" / "run-1").is_dir()
    read = accumulators.EventAccumulator(str(tmp_path / "board" / "run-1"))
    read.Reload()
    for name in ("train_loss", "noisy_validation_error"):
        expected = [
            (record["epoch"], record[name])
            for record in model.history_
            if record["stage"] == "classifier" and record["epoch"] > 0
        ]
        written = [(event.step, event.value) for event in read.Scalars(f"classifier/{name}")]
        assert [step for step, _ in written] == [step for step, _ in expected] == [1, 2]
        np.testing.assert_allclose([v for _, v in written], [v for _, v in expected], rtol=1e-6)
    text = read.Tensors("transition/text_summary")[0].tensor_proto.string_val[0].decode()
    assert f"| {model.transition_matrix_[2, 3]:.3f} |" in text
    copy.deepcopy(board)  # nothing that is open is left in it
    fitted(blobs, board)
    assert sorted(path.name for path in (tmp_path / "board").iterdir()) == ["run-1", "run-2"]


class FakeMLflow(SimpleNamespace):
    """Keeps the calls that MLflow would get. Names and arguments are those of MLflow 2 and 3."""

    def __init__(self, active: bool = False) -> None:
        super().__init__(active=active, metrics=[], params={}, dicts={}, ended=[], experiment=None, uri=None)

    def active_run(self) -> object | None:
        return object() if self.active else None

    def set_tracking_uri(self, uri: str) -> None:
        self.uri = uri

    def set_experiment(self, experiment_name: str) -> None:
        self.experiment = experiment_name

    def start_run(self, run_name: str | None = None) -> None:
        assert not self.active
        self.active = True

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        assert self.active
        self.metrics.append((step, metrics))

    def log_params(self, params: dict[str, Any]) -> None:
        self.params |= params

    def log_dict(self, dictionary: dict[str, Any], artifact_file: str) -> None:
        self.dicts[artifact_file] = json.loads(json.dumps(dictionary))

    def end_run(self, status: str) -> None:
        self.active = False
        self.ended.append(status)


def test_mlflow_gets_the_metrics_of_each_epoch_the_parameters_and_t(blobs, monkeypatch):
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    model = fitted(blobs, MLflow(experiment="noise", tracking_uri="file:runs"))
    assert (fake.experiment, fake.uri, fake.ended) == ("noise", "file:runs", ["FINISHED"])
    losses = [(step, m["classifier/train_loss"]) for step, m in fake.metrics if "classifier/train_loss" in m]
    history = [r for r in model.history_ if r["stage"] == "classifier" and r["epoch"] > 0]
    assert losses == [(record["epoch"], record["train_loss"]) for record in history]
    assert fake.params["random_state"] == 0
    assert fake.dicts["transition.json"]["transition"] == model.transition_matrix_.tolist()


def test_a_run_of_mlflow_that_was_active_stays_open(blobs, monkeypatch):
    fake = FakeMLflow(active=True)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    fitted(blobs, MLflow())
    assert fake.active
    assert fake.ended == []


class FakeRun(SimpleNamespace):
    """A run of Weights & Biases that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__(logged=[], steps={}, config={}, summary={}, exit_code=None)

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.steps[name] = step_metric

    def log(self, data: dict[str, Any]) -> None:
        self.logged.append(data)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_wandb_gets_the_metrics_of_each_epoch_the_parameters_and_t(blobs, monkeypatch):
    run, asked = FakeRun(), []
    fake = SimpleNamespace(init=lambda **arguments: asked.append(arguments) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    model = fitted(blobs, WandB("noise", mode="offline"))
    assert asked == [{"project": "noise", "mode": "offline"}]
    assert run.steps["revision/*"] == "revision/epoch"
    history = [r for r in model.history_ if r["stage"] == "revision" and r["epoch"] > 0]
    logged = [data for data in run.logged if "revision/epoch" in data]
    assert [(d["revision/epoch"], d["revision/train_loss"]) for d in logged] == [
        (record["epoch"], record["train_loss"]) for record in history
    ]
    assert run.config["method"] == "reweight-r"
    assert run.summary["transition"] == model.transition_matrix_.tolist()
    assert run.exit_code == 0


def test_a_training_that_failed_is_a_failed_run(blobs, monkeypatch):
    class Stops(Callback):
        def epoch(self, metrics: Any) -> None:
            raise RuntimeError("stop")

    run, flow = FakeRun(), FakeMLflow()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **arguments: run))
    monkeypatch.setitem(sys.modules, "mlflow", flow)
    with pytest.raises(RuntimeError, match="stop"):
        fitted(blobs, WandB(), MLflow(), Stops())
    assert run.exit_code == 1
    assert flow.ended == ["FAILED"]


@pytest.mark.parametrize(
    ("callback", "package"),
    [(TensorBoard("board"), "tensorboard"), (MLflow(), "mlflow"), (WandB(), "wandb")],
)
def test_a_package_that_is_missing_is_named_in_one_line(blobs, callback, package, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as raised:
        fitted(blobs, callback)
    message = str(raised.value)
    assert message.endswith(f"needs the package {package}, which is not installed: pip install {package}")
    assert not list(tmp_path.iterdir())
