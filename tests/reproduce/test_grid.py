"""The grid: sharing changes no bit, no stage is trained twice, and a dead worker is a failed run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from trevision.data.load import load
from trevision.data.rows import take_rows
from trevision.files import write_json
from trevision.methods.options import Options
from trevision.reproduce.archive import run_folder
from trevision.reproduce.cells import tabulate
from trevision.reproduce.durations import Record
from trevision.reproduce.grid import Conditions, remove_stages, run_grid
from trevision.reproduce.job import Done, Job, work
from trevision.reproduce.outcomes import unfinished
from trevision.reproduce.plans import make_plan, planned_runs
from trevision.reproduce.sharing import SharedStore, is_finished, run_name, shared_stages
from trevision.reproduce.workers import CRASHED, ProcessPool
from trevision.runs import anchor_removal as anchors
from trevision.runs.prepare import prepare
from trevision.runs.provenance import NUMERICS
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings, run_config

CPU = Hardware(accelerator="cpu", threads=1)


def tiny(method: str, **others) -> Settings:
    return Settings(noise="sym-20", method=method, seed=1, train_size=150, **others)


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def timeless(value):
    if isinstance(value, list):
        return [timeless(one) for one in value]
    return {key: one for key, one in value.items() if key not in ("seconds", "date")}


@pytest.mark.parametrize("base", ["reweight", "forward"])
def test_a_run_on_shared_stages_is_the_same_to_the_bit_as_alone(tmp_path, base):
    alone = tmp_path / "alone"
    run("digits", tiny(f"{base}-r"), alone, CPU)
    jobs = [Job("digits", tiny(m), tmp_path / "shared", CPU, keep_model=True) for m in (base, f"{base}-r")]
    assert [work(job) for job in jobs] == [Done(), Done()]
    first, second = (job.folder for job in jobs)
    for name in ("model.safetensors", "transition.csv"):
        assert (second / name).read_bytes() == (alone / name).read_bytes()
    assert timeless(metrics(second)) == timeless(metrics(alone))
    results = [json.loads((folder / "result.json").read_text()) for folder in (second, alone)]
    assert timeless(results[0]) == timeless(results[1])
    # Every stage is in the file, and the shared ones with the very seconds they took the first run.
    assert {record["stage"] for record in metrics(second)} == {"noisy-posterior", "classifier", "revision"}
    assert metrics(second)[: len(metrics(first))] == metrics(first)
    assert not (second / "checkpoints").exists()


def test_a_shared_stage_under_way_is_continued_by_another_run(tmp_path):
    """A run is stopped in the middle of stage 1, and a run of another method takes the stage over."""

    class Stopped(Exception):
        pass

    class StopsAfterThree(SharedStore):
        saved = 0

        def save(self, name, state):
            super().save(name, state)
            self.saved += 1
            if self.saved == 3:
                raise Stopped

    first = Job("digits", tiny("forward"), tmp_path / "shared", CPU)
    with pytest.raises(Stopped):
        run(
            "digits",
            first.settings,
            first.folder,
            CPU,
            store=StopsAfterThree(first.folder / "c", first.stages),
        )
    assert not is_finished(first.stages["noisy-posterior"])
    second = Job("digits", tiny("reweight"), tmp_path / "shared", CPU)
    assert work(second) == Done()
    run("digits", tiny("reweight"), tmp_path / "alone", CPU)
    assert timeless(metrics(second.folder)) == timeless(metrics(tmp_path / "alone"))


def test_stages_are_shared_by_what_determines_them_and_by_nothing_else():
    def keys(source="digits", method="reweight-r", **settings):
        return shared_stages(source, Settings(method=method, **settings), CPU)

    assert keys(method="reweight") == keys()
    assert keys(method="forward") == keys(method="forward-r")
    assert keys(method="forward")["noisy-posterior"] == keys()["noisy-posterior"]
    assert keys(method="forward")["classifier"] != keys()["classifier"]
    assert keys(method="standard") == {"noisy-posterior": keys()["noisy-posterior"]}
    for other in (
        {"source": "mnist"}, {"seed": 1}, {"noise": "sym-20"}, {"schedule": "paper"}, {"train_size": 9},
        {"network": "lenet"}, {"remove_anchors": 0.4},
    ):  # fmt: skip
        assert set(keys(**other).values()).isdisjoint(keys().values())


def test_names_of_runs_and_stages_without_an_estimator_are_those_of_recorded_runs():
    """Names that earlier versions gave: by them the runs in a folder of results are found again."""
    settings = Settings(noise="sym-50", method="reweight-r", seed=1)
    assert run_name("mnist", settings) == "2cff90687c62f934"
    assert shared_stages("mnist", settings, CPU) == {
        "noisy-posterior": "c194d9a3e8bb85e4",
        "classifier": "d3d27dd493aa7187",
    }
    removed = Settings(noise="pair-45", method="forward-r", seed=2, remove_anchors=0.4)
    assert run_name("mnist", removed) == "85f0265bd6d2ab81"
    assert shared_stages("mnist", removed, CPU)["classifier"] == "4192227c49e48904"
    # A run on data of one's own has folds besides.
    own = shared_stages("a.csv", Settings(method="forward-r"), CPU)
    assert own["noisy-posterior"] == "2785e623d0956bfb"
    assert own["classifier"] == "06db58590aaf4c69"


def test_stage_1_and_the_folds_do_not_depend_on_the_estimator_but_the_classifier_does():
    def keys(method="forward", estimator=None, source="digits", **others):
        options = Options(estimator=estimator)
        return shared_stages(source, Settings(method=method, options=options, **others), CPU)

    folds = [f"fold-{number}" for number in range(1, 6)]
    dual_t, hoc = keys(estimator="dual-t"), keys("reweight", estimator="hoc")
    assert list(dual_t) == list(hoc) == [*folds, "noisy-posterior", "classifier"]
    assert all(dual_t[name] == hoc[name] for name in (*folds, "noisy-posterior"))
    assert len(set(dual_t.values())) == 7
    assert keys()["noisy-posterior"] == dual_t["noisy-posterior"]
    classifiers = [keys(estimator=name)["classifier"] for name in (None, "dual-t", "hoc", "latent")]
    assert len(set(classifiers)) == 4
    assert keys("forward-r", "hoc")["classifier"] == keys(estimator="hoc")["classifier"]
    # There are folds where a run cross-fits, and nowhere else.
    assert set(keys("standard", "counted")) == {*folds, "noisy-posterior"}
    for without in (keys(), keys(estimator="anchor"), keys(source="a.csv", estimator="anchor")):
        assert not set(folds) & set(without)
    assert set(folds) < set(keys(source="a.csv"))
    assert set(folds) < set(keys(source="a.csv", trusted=True))
    assert set(folds) < set(keys("recursive"))
    assert keys("estimators") == {name: dual_t[name] for name in folds}
    for other in ({"seed": 1}, {"noise": "sym-20"}, {"schedule": "paper"}, {"remove_anchors": 0.4}):
        assert set(keys(estimator="hoc", **other).values()).isdisjoint(hoc.values())


def test_folds_that_another_estimators_run_trained_give_the_same_bits_as_alone(tmp_path):
    first, second = (
        Job("digits", tiny("forward", options=Options(estimator=name)), tmp_path / "shared", CPU)
        for name in ("counted", "confident-joint")
    )
    assert [work(first), work(second)] == [Done(), Done()]
    run("digits", second.settings, tmp_path / "alone", CPU)
    assert timeless(metrics(second.folder)) == timeless(metrics(tmp_path / "alone"))
    assert (second.folder / "transition.csv").read_bytes() == (
        tmp_path / "alone" / "transition.csv"
    ).read_bytes()
    # The folds and stage 1 are the first run's to the second; the classifier is not.
    mine, others = metrics(second.folder), metrics(first.folder)
    shared = [record for record in mine if record["stage"] != "classifier"]
    assert shared == [record for record in others if record["stage"] != "classifier"]
    assert {record["stage"] for record in shared} == {*(f"fold-{n}" for n in range(1, 6)), "noisy-posterior"}
    assert timeless(mine) != timeless(others)


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_trained_once_for_all_estimators(tmp_path, seed):
    rows = ("forward", "forward:estimator=dual-t", "forward-r:estimator=dual-t", "reweight:estimator=hoc",
            "standard:estimator=counted")  # fmt: skip
    plan = make_plan("table1", "digits", rows, seeds=2)
    runs, conditions = planned_runs(plan), Conditions(tmp_path, CPU)
    workers = ImaginaryWorkers(3, seed)
    assert set(run_grid(runs, conditions, workers)) == {one.name for one in runs}
    # 2 noises x 2 seeds: stage 1, five folds, and the classifiers of forward, dual-t and hoc.
    assert len(workers.trained) == len(set(workers.trained)) == 4 * (1 + 5 + 3)
    assert remove_stages(runs, conditions) == 36


def test_the_time_left_counts_folds_only_for_runs_that_have_them(tmp_path):
    rows = ("forward", "forward:estimator=hoc", "forward:estimator=dual-t")
    anchored, hoc, dual_t = planned_runs(make_plan("table1", "digits", rows, ("sym-20",), seeds=1))
    for one, stages in ((anchored, ("classifier",)), (hoc, ("fold-1", "classifier"))):
        folder = run_folder(tmp_path, one.name)
        folder.mkdir(parents=True)
        write_json(folder / "config.json", run_config(one.source, one.settings))
        lines = [json.dumps({"stage": stage, "seconds": 10.0}) for stage in stages]
        (folder / "metrics.jsonl").write_text("\n".join(lines))
        (folder / "result.json").write_text("{}")
    record = Record(tmp_path)
    assert record.stages(anchored) == {"classifier": 10.0}
    assert record.stages(dual_t) == {"fold-1": 10.0, "classifier": 10.0}
    assert record.estimate([dual_t, hoc], CPU).seconds == 30  # the fold is the same in both


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", '{"stage": "classifier", "sec'),
        ("metrics.jsonl", '{"epoch": 1}'),
        ("config.json", "[]"),
        ("config.json", '{"a": 1}'),
    ],
)
def test_a_damaged_folder_of_results_does_not_stop_an_estimate_of_time(tmp_path, name, content):
    (one,) = planned_runs(make_plan("table1", "digits", ("forward",), ("sym-20",), seeds=1))
    folder = run_folder(tmp_path, "one")
    folder.mkdir(parents=True)
    write_json(folder / "config.json", run_config(one.source, one.settings))
    (folder / "metrics.jsonl").write_text('{"stage": "classifier", "seconds": 10.0}')
    (folder / "result.json").write_text("{}")
    assert Record(tmp_path).stages(one) == {"classifier": 10.0}
    (folder / name).write_text(content)
    assert Record(tmp_path).stages(one) is None


def test_a_part_of_a_table_has_files_of_its_own():
    whole = make_plan("table1", "mnist")
    parts = [
        make_plan("table1", "mnist", ("forward",)),
        make_plan("table1", "mnist", noises=("sym-20",)),
    ]
    assert whole.stem == "table1-mnist-quick"
    assert {part.stem for part in parts} == {"table1-mnist-quick-part"}


class ImaginaryWorkers:
    """Ends one job at a time, at random, and checks that no two running ones train the same stage."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.rng = count, np.random.default_rng(seed)
        self.jobs: list[Job] = []
        self.trained: list[Path] = []
        self.most = 0

    @property
    def free(self) -> int:
        return self.count - len(self.jobs)

    def start(self, job: Job) -> None:
        open_stages = [{f for f in one.stages.values() if not is_finished(f)} for one in [*self.jobs, job]]
        assert sum(map(len, open_stages)) == len(set().union(*open_stages))
        self.jobs.append(job)
        self.most = max(self.most, len(self.jobs))

    def wait(self, seconds: float) -> list[tuple[Job, Done]]:
        job = self.jobs.pop(self.rng.integers(len(self.jobs)))
        for folder in job.stages.values():
            if not is_finished(folder):
                self.trained.append(folder)
                folder.mkdir(parents=True)
                (folder / "finished.pt").touch()
        job.folder.mkdir(parents=True, exist_ok=True)
        write_json(job.folder / "config.json", run_config(job.source, job.settings))
        result = {"test_accuracy": 0.5, "seconds": 1.0, "numerics": NUMERICS}
        (job.folder / "result.json").write_text(json.dumps(result))
        return [(job, Done())]

    def close(self) -> None: ...


@pytest.mark.parametrize("seed", range(3))
def test_no_stage_is_trained_twice_and_all_workers_are_used(tmp_path, seed):
    plan = make_plan(
        "table1", "digits", ("standard", "forward-r", "forward", "reweight", "reweight-r"), seeds=2
    )
    runs, conditions = planned_runs(plan), Conditions(tmp_path, CPU)
    workers = ImaginaryWorkers(3, seed)
    assert set(run_grid(runs, conditions, workers)) == {one.name for one in runs}
    assert len(workers.trained) == len(set(workers.trained)) == 4 * 3  # 2 noises x 2 seeds, 3 stages each
    assert workers.most == 3
    assert unfinished(runs, tmp_path) == []
    assert remove_stages(runs, conditions) == 12
    assert not any(path.is_file() for path in (tmp_path / ".stages").rglob("*"))


def test_stages_that_an_unfinished_run_needs_are_not_removed(tmp_path):
    runs = planned_runs(make_plan("table1", "digits", ("forward", "reweight"), ("sym-20",), seeds=1))
    conditions = Conditions(tmp_path, CPU)
    run_grid(runs[:1], conditions, ImaginaryWorkers(1, 0))
    assert remove_stages(runs, conditions) == 1  # forward's classifier; stage 1 is also reweight's


def test_two_grids_do_not_work_in_one_folder(tmp_path):
    runs = planned_runs(make_plan("table1", "digits", ("forward",), ("sym-20",), seeds=1))
    conditions = Conditions(tmp_path, CPU)

    class Meddling(ImaginaryWorkers):
        def start(self, job):
            with pytest.raises(ValueError, match="another trevision reproduce"):
                run_grid(runs, conditions, ImaginaryWorkers(1, 0))
            super().start(job)

    run_grid(runs, conditions, Meddling(1, 0))
    assert unfinished(runs, tmp_path) == []


def test_a_killed_worker_is_a_failed_run_with_its_reason_and_the_next_run_goes_on(tmp_path):
    np.savez(tmp_path / "bad.npz", x=np.zeros((5, 2)))
    plan = make_plan("table1", "digits", ("forward",), ("sym-20",), seeds=1, train_size=150)

    class Killing(ProcessPool):
        def start(self, job):
            super().start(job)
            if self.killing:
                next(one for one in self._processes if one.job is job).process.kill()

    pool = Killing(1)
    pool.killing = True
    runs, conditions = planned_runs(plan), Conditions(tmp_path / "results", CPU)
    try:
        (done,) = run_grid(runs, conditions, pool).values()
        assert done.error == CRASHED
        assert "SIGKILL" in done.reason
        (reason,) = tabulate(plan, tmp_path / "results").failures.values()
        assert "SIGKILL" in reason
        pool.killing = False
        pool.start(Job(str(tmp_path / "bad.npz"), Settings(), tmp_path / "results", CPU))
        ((_, done),) = pool.wait(120)
        assert done.error == "DataError"
        assert "y" in done.reason
    finally:
        pool.close()


def test_an_error_is_left_in_the_folder_and_gone_after_a_good_run(tmp_path, blobs):
    path = tmp_path / "data.npz"
    path.write_bytes(b"PK torn")
    job = Job(
        str(path), Settings(noise="sym-20", method="forward", train_size=150), tmp_path / "results", CPU
    )
    done = work(job)
    assert done.error == "DamagedFile"
    assert json.loads((job.folder / "error.json").read_text()) == {
        "error": "DamagedFile",
        "reason": done.reason,
    }
    assert json.loads((job.folder / "config.json").read_text())["source"] == str(path)
    np.savez(path, x=blobs.x, y=blobs.clean, x_test=blobs.test_x, y_test=blobs.test_y)
    assert work(job) == Done()
    assert {p.name for p in job.folder.iterdir()} == {
        "config.json", "metrics.jsonl", "result.json", "transition.csv",
    }  # fmt: skip


def test_removing_anchors_drops_the_surest_rows_of_each_class_and_caches_the_posterior(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dataset = take_rows(load("digits"), 500, 0)
    scores = anchors.clean_log_odds(dataset)
    right = (torch.from_numpy(scores).argmax(1) == dataset.train_y).double().mean()
    assert right > 0.95  # a posterior of clean labels, learnt from clean labels
    assert np.isfinite(scores).all()

    def never(*_):
        raise AssertionError("the posterior is cached")

    monkeypatch.setattr(anchors, "_estimate", never)
    left = anchors.remove_anchors(dataset, 0.4)
    before, after = (torch.bincount(one.train_y, minlength=10) for one in (dataset, left))
    assert after.tolist() == [n - round(0.4 * n) for n in before.tolist()]
    digests = {anchors.content_digest(row) for row in left.train_x}
    for label in range(10):
        mine = [row for row in range(500) if dataset.train_y[row] == label]
        kept = [scores[row, label] for row in mine if anchors.content_digest(dataset.train_x[row]) in digests]
        gone = [
            scores[row, label] for row in mine if anchors.content_digest(dataset.train_x[row]) not in digests
        ]
        assert max(kept) <= min(gone)
    with pytest.raises(AssertionError, match="cached"):  # other data have another posterior
        anchors.clean_log_odds(take_rows(load("digits"), 500, 1))


def test_a_damaged_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dataset = take_rows(load("digits"), 100, 0)
    monkeypatch.setattr(anchors, "_estimate", lambda *_: np.ones((100, 10), np.float32))
    anchors.clean_log_odds(dataset)
    (path,) = tmp_path.rglob("*.npy")
    path.write_bytes(path.read_bytes()[:50])
    assert anchors.clean_log_odds(dataset).shape == (100, 10)


def test_anchors_go_before_the_noise_and_the_test_set_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(anchors, "_estimate", lambda *_: np.tile(np.arange(200.0)[:, None], 10))
    dataset = load("digits")
    settings = Settings(noise="sym-50", train_size=200, remove_anchors=0.5)
    data, truth = prepare(dataset, settings)
    rows = take_rows(dataset, 200, np.random.default_rng([0, 0]))
    counts = torch.bincount(rows.train_y, minlength=10).tolist()
    assert len(data.train_x) + len(data.valid_x) == sum(n - min(round(0.5 * n), n - 1) for n in counts)
    assert truth.test_x is dataset.test_x
    with pytest.raises(ValueError, match=r"remove_anchors must lie in \[0, 1\)"):
        run("digits", Settings(remove_anchors=40.0), tmp_path / "run", CPU)
    assert not (tmp_path / "run").exists()
