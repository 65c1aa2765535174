"""Estimators of T compared in one run: the numbers are those of each alone, and a new one is added."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trevision import estimation
from trevision.data.load import load
from trevision.noise import from_cleanlab
from trevision.reproduce import estimators
from trevision.reproduce.estimators import ESTIMATORS, compare_estimators
from trevision.reproduce.job import Done, Job, work
from trevision.reproduce.outcomes import outcome, unfinished
from trevision.reproduce.plans import make_plan, planned_runs
from trevision.runs import label_issues
from trevision.runs.prepare import prepare
from trevision.runs.run_folder import OUT_OF_SAMPLE_FILE
from trevision.runs.settings import Hardware, Settings

CPU = Hardware(accelerator="cpu", threads=1)
OURS = ("anchor", "confident-joint")


@pytest.fixture(scope="module")
def comparison(blobs, tmp_path_factory):
    """A comparison on blobs that an asymmetric T was applied to, with its predictions kept."""
    folder = tmp_path_factory.mktemp("comparison")
    np.savez(folder / "blobs.npz", x=blobs.x, y=blobs.clean, x_test=blobs.test_x, y_test=blobs.test_y)
    np.savetxt(folder / "t.csv", blobs.transition, delimiter=",")
    settings = Settings(noise=str(folder / "t.csv"), method=ESTIMATORS, train_size=300, seed=1)
    source = str(folder / "blobs.npz")
    compare_estimators(source, settings, folder / "run", CPU, keep_model=True)
    return source, settings, folder / "run"


def area_by_pairs(wrong: np.ndarray, p_given: np.ndarray) -> float:
    differences = p_given[~wrong][None, :] - p_given[wrong][:, None]
    return float(((differences > 0) + 0.5 * (differences == 0)).mean())


def kept(comparison):
    """The result, the kept predictions with their labels, and which training labels are wrong."""
    source, settings, folder = comparison
    with np.load(folder / OUT_OF_SAMPLE_FILE) as arrays:
        probs, labels = arrays["probs"], arrays["labels"]
    data, truth = prepare(load(source), settings)
    wrong = (data.train_y != truth.true_train_y).numpy()
    assert np.array_equal(labels[: len(wrong)], data.train_y.numpy())
    return json.loads((folder / "result.json").read_text()), probs, labels, wrong


@pytest.mark.parametrize("name", OURS)
def test_each_estimate_is_that_of_the_estimator_alone_on_the_same_predictions(comparison, blobs, name):
    result, probs, labels, wrong = kept(comparison)
    alone = estimation.estimate(probs, labels, estimator=name, bootstrap=10)
    told = result["estimates"][name]
    error = np.abs(alone.transition - blobs.transition).sum() / 4
    assert told["transition_error"] == pytest.approx(error)
    written = np.loadtxt(comparison[2] / f"transition-{name}.csv", delimiter=",")
    np.testing.assert_allclose(written, alone.transition, rtol=1e-6)
    posterior = alone.clean_posterior(probs)
    given = posterior[np.arange(len(labels)), labels] * alone.transition[labels, labels]
    total = (posterior * alone.transition.T[labels]).sum(axis=1)
    suspicion = np.where(
        total > 0, given / np.where(total > 0, total, 1), posterior[np.arange(len(labels)), labels]
    )
    area = area_by_pairs(wrong, suspicion[: len(wrong)])
    assert told["wrong_label_auc"] == pytest.approx(area, abs=1e-6)
    assert told["wrong_label_auc"] > 0.6
    assert told["seconds"] >= 0


def test_cleanlab_has_its_own_matrix_turned_and_its_own_score(comparison, blobs):
    count = pytest.importorskip("cleanlab.count")
    result, probs, labels, wrong = kept(comparison)
    exact = probs.astype(np.float64) / probs.sum(axis=1, keepdims=True, dtype=np.float64)
    _, matrix, *_ = count.estimate_py_and_noise_matrices_from_probabilities(labels, exact)
    told = result["estimates"]["cleanlab"]
    error = np.abs(from_cleanlab(matrix) - blobs.transition).sum() / 4
    assert told["transition_error"] == pytest.approx(error)
    self_confidence = exact[np.arange(len(labels)), labels][: len(wrong)]
    assert told["wrong_label_auc"] == pytest.approx(area_by_pairs(wrong, self_confidence), abs=1e-6)


def test_the_folds_are_all_that_is_trained_and_no_model_is_pretended(comparison):
    folder = comparison[2]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert {line["stage"] for line in lines} == {f"fold-{k}" for k in range(1, 6)}
    result = json.loads((folder / "result.json").read_text())
    assert result["seconds"] == pytest.approx(sum(line["seconds"] for line in lines), abs=0.06)
    assert not (folder / "model.safetensors").exists()
    with pytest.raises(ValueError, match="no finished model"):
        label_issues.find_run_issues(folder)


def test_an_estimator_that_fails_costs_the_others_nothing_and_tells_why(comparison, tmp_path, monkeypatch):
    class Refusing(estimation.Estimator):
        def _solve(self, rows, weights, start, knowledge):
            raise ValueError("it cannot\nbe done")

    source, settings, folder = comparison
    ours = {"anchor": estimation.ESTIMATORS["anchor"], "new": Refusing(name="new")}
    monkeypatch.setattr(estimators, "OURS", ours)
    monkeypatch.setattr(estimators, "cross_fit", cached_predictions(folder))
    result = compare_estimators(source, settings, tmp_path / "run", CPU)
    before = json.loads((folder / "result.json").read_text())["estimates"]["anchor"]
    assert result["estimates"]["new"] == {"error": "ValueError: it cannot be done"}
    # What failed is tried again.
    ours["new"] = ours["anchor"]
    again = compare_estimators(source, settings, tmp_path / "run", CPU)["estimates"]
    assert again["new"]["transition_error"] == again["anchor"]["transition_error"]
    assert result["estimates"]["anchor"]["transition_error"] == before["transition_error"]


def cached_predictions(folder):
    """A stand-in for cross-fitting that takes the predictions of an earlier run."""
    from trevision.methods.problem import OutOfSample

    def predict(problem):
        with np.load(folder / OUT_OF_SAMPLE_FILE) as arrays:
            probs = arrays["probs"]
        n = len(problem.data.train_y)
        history = [{"stage": "fold-1", "epoch": 1, "seconds": 1.0}]
        return OutOfSample(probs[:n], probs[n:], 5, history)

    return predict


def test_a_finished_comparison_is_made_again_only_when_an_estimator_was_added(
    comparison, tmp_path, monkeypatch
):
    source, settings, folder = comparison
    both = dict(estimation.ESTIMATORS)
    monkeypatch.setattr(estimators, "OURS", {"anchor": both["anchor"]})
    monkeypatch.setattr(estimators, "cross_fit", cached_predictions(folder))
    first = compare_estimators(source, settings, tmp_path / "run", CPU)

    def never(problem):
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr(estimators, "cross_fit", never)
    assert compare_estimators(source, settings, tmp_path / "run", CPU) == first
    monkeypatch.setattr(estimators, "OURS", {name: both[name] for name in OURS})
    with pytest.raises(AssertionError, match="nothing is to be trained"):
        compare_estimators(source, settings, tmp_path / "run", CPU)
    monkeypatch.setattr(estimators, "cross_fit", cached_predictions(folder))
    second = compare_estimators(source, settings, tmp_path / "run", CPU)
    assert set(OURS) <= set(second["estimates"])
    assert (
        second["estimates"]["anchor"]["transition_error"] == first["estimates"]["anchor"]["transition_error"]
    )


def test_a_job_compares_and_the_rows_of_a_table_share_its_one_run(tmp_path, monkeypatch):
    plan = make_plan("floor", "digits", ("anchor", "cleanlab"), ("sym-20",), "quick", seeds=1, train_size=150)
    runs = [run for run in planned_runs(plan) if run.row.anchors == "A"]
    assert len(runs) == 2
    assert len({run.name for run in runs}) == 1
    assert runs[0].label == "estimators-A on digits, sym-20, seed 0"
    (to_do,) = unfinished(runs, tmp_path)
    job = Job(to_do.source, to_do.settings, tmp_path, CPU)
    assert work(job) == Done()
    assert unfinished(runs, tmp_path) == []
    states = [outcome(run, tmp_path) for run in runs]
    assert [how.state for how in states] == [
        "finished",
        "finished" if not runs[1].row.lacking else "unavailable",
    ]
    whole = json.loads((job.folder / "result.json").read_text())
    assert states[0].result["seconds"] == whole["seconds"] + whole["estimates"]["anchor"]["seconds"]
    # Of an estimator that took no part, a row is missing and its run to be made again.
    del whole["estimates"]["anchor"]
    (job.folder / "result.json").write_text(json.dumps(whole))
    assert outcome(runs[0], tmp_path).state == "missing"
    assert [run.name for run in unfinished(runs, tmp_path)] == [job.name]


def test_without_cleanlab_its_row_is_unavailable_and_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(estimators.importlib.util, "find_spec", lambda name: None)
    plan = make_plan("floor", "digits", ("cleanlab", "anchor"), ("sym-20",), "quick", seeds=1)
    rows = {run.row.name: run for run in planned_runs(plan)}
    assert not rows["cleanlab"].is_available
    assert "trevision[bench]" in rows["cleanlab"].row.lacking
    assert rows["anchor"].is_available
