"""Recorded runs: what a run folder says comes back from the files of its tables, whenever one is killed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from trevision.files import write_json, write_matrix
from trevision.reproduce import archive, rendering
from trevision.reproduce.archive import epochs_of, find_run, read_lines, record, run_folder, unrecorded
from trevision.reproduce.cells import tabulate
from trevision.reproduce.curves import error_curves
from trevision.reproduce.durations import Record
from trevision.reproduce.grid import record_finished
from trevision.reproduce.outcomes import outcome, unfinished
from trevision.reproduce.plans import Planned, make_plan, planned_runs
from trevision.runs import provenance
from trevision.runs.settings import canonical, files_of, run_config

RNG = np.random.default_rng(0)
RESULTS = Path(__file__).parents[2] / "results"


def finish(run: Planned, results: Path, accuracy: float = 0.9, **result: object) -> dict[str, object]:
    """The folder of a finished run; returns its result."""
    folder = run_folder(results, run.name)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", run_config(run.source, run.settings) | {"model": {"network": "lenet"}})
    epochs: list[dict[str, object]] = [
        {"stage": "classifier", "epoch": 1, "train_loss": 1.25, "seconds": 1.5},
        {"stage": "revision", "epoch": 0, "transition_error": 0.25, "seconds": 0.5},
        {"stage": "revision", "epoch": 1, "train_loss": math.nan, "seconds": 0.5},
    ]
    epochs[2] |= {"transition_row_sums": [0.99, 1.01], "transition_error": accuracy / 10}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
    write_matrix(folder / "transition.csv", RNG.dirichlet(np.ones(3), size=3))
    made = {"test_accuracy": accuracy, "transition_error": 0.1, "seconds": 2.5}
    made |= {"numerics": provenance.NUMERICS, "date": "2026-01-01T00:00:00+00:00"} | result
    write_json(folder / "result.json", made)
    return made


def tables_of(*plans) -> dict[str, set[str]]:
    return {plan.record_name: {run.name for run in planned_runs(plan)} for plan in plans}


def forget_folders(results: Path) -> None:
    shutil.rmtree(results / "runs")


@pytest.fixture
def plan():
    return make_plan("table1", "mnist", ("reweight-r", "forward-r"), ("sym-50", "sym-20"), seeds=2)


@pytest.fixture
def figure():
    """A figure with the same runs as the plan."""
    return make_plan("figure3", "mnist", ("forward-r",), ("sym-20",), seeds=2)


def test_a_recorded_run_is_what_its_folder_was(tmp_path, plan):
    runs = planned_runs(plan)
    results = {run.name: finish(run, tmp_path, 0.9 + 0.01 * k) for k, run in enumerate(runs)}
    matrices = {
        name: np.loadtxt(run_folder(tmp_path, name) / "transition.csv", delimiter=",") for name in results
    }
    lines = {
        name: (run_folder(tmp_path, name) / "metrics.jsonl").read_text().splitlines() for name in results
    }
    record(tables_of(plan), tmp_path)
    forget_folders(tmp_path)
    for run in runs:
        recorded = find_run(run.name, tmp_path)
        assert recorded.result == results[run.name]
        assert recorded.config == canonical(run_config(run.source, run.settings))
        np.testing.assert_array_equal(np.array(recorded.transition), matrices[run.name])
        assert repr(epochs_of(recorded)[:2]) == repr(
            [canonical_order(json.loads(line)) for line in lines[run.name][:2]]
        )
        last = epochs_of(recorded)[2]
        assert math.isnan(last["train_loss"])
        assert last["transition_row_sums"] == [0.99, 1.01]
        assert outcome(run, tmp_path).result == results[run.name]


def canonical_order(epoch: dict[str, object]) -> dict[str, object]:
    return {key: epoch[key] for key in archive.EPOCH_COLUMNS if key in epoch}


def test_a_table_its_curves_and_its_times_are_the_same_from_files_as_from_folders(tmp_path, plan, figure):
    for k, run in enumerate([*planned_runs(plan), *planned_runs(figure)]):
        finish(run, tmp_path, 0.9 + 0.001 * k)

    def shown():
        curves = {key: curve.values.tolist() for key, curve in error_curves(figure, tmp_path).items()}
        times = [Record(tmp_path).stages(run) for run in planned_runs(plan)]
        return rendering.markdown(tabulate(plan, tmp_path)), curves, times

    before = shown()
    record(tables_of(plan, figure), tmp_path)
    assert shown() == before
    forget_folders(tmp_path)
    assert shown() == before
    assert len(before[1]) == 2
    assert before[2][0] == {"classifier": 1.5, "revision": 1.0}


def test_the_files_are_sorted_for_people_and_the_same_to_the_bit_in_any_order_of_finishing(tmp_path, plan):
    runs = planned_runs(plan)
    for k, run in enumerate(runs):
        finish(run, tmp_path, 0.9 + 0.01 * k)
    record(tables_of(plan), tmp_path)
    names = ("table1-mnist-quick.jsonl", "table1-mnist-quick-epochs.parquet")
    first = [(tmp_path / name).read_bytes() for name in names]
    configs = [json.loads(line)["config"] for line in first[0].decode().splitlines()]
    order = [(config["noise"], config["method"], config["seed"]) for config in configs]
    assert order == sorted(order)
    assert list(json.loads(first[0].splitlines()[0])) == ["name", "config", "result", "transition"]
    for name in names:
        (tmp_path / name).unlink()
    for run in reversed(runs):
        record({run.table: {run.name}}, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == first
    assert parquet.ParquetFile(tmp_path / names[1]).metadata.row_group(0).column(0).compression == "ZSTD"


def test_noises_are_sorted_by_their_number(tmp_path):
    plan = make_plan("table1", "mnist", ("standard",), ("sym-100", "sym-5", "pair-45", "sym-20"), seeds=1)
    for run in planned_runs(plan):
        finish(run, tmp_path)
    record(tables_of(plan), tmp_path)
    lines = (tmp_path / "table1-mnist-quick.jsonl").read_text().splitlines()
    noises = [json.loads(line)["config"]["noise"] for line in lines]
    assert noises == ["pair-45", "sym-5", "sym-20", "sym-100"]


def test_a_part_of_a_table_is_recorded_with_the_whole_and_takes_nothing_away(tmp_path, plan):
    for run in planned_runs(plan):
        finish(run, tmp_path)
    record(tables_of(plan), tmp_path)
    part = make_plan("table1", "mnist", ("standard",), ("sym-50",), seeds=1)
    assert part.stem.endswith("-part")
    (extra,) = planned_runs(part)
    finish(extra, tmp_path)
    record(tables_of(part), tmp_path)
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["table1-mnist-quick.jsonl"]
    everything = {run.name for run in (*planned_runs(plan), extra)}
    assert set(read_lines(tmp_path / "table1-mnist-quick.jsonl")) == everything


def test_a_run_in_two_tables_is_in_both_files_and_they_stay_equal(tmp_path, plan, figure):
    shared = next(run for run in planned_runs(figure) if run.row.anchors == "A")
    assert shared.name in tables_of(plan)["table1-mnist-quick"]
    finish(shared, tmp_path, 0.8)
    record(tables_of(plan), tmp_path)
    forget_folders(tmp_path)
    # The other table needs no run: the first one's file has it.
    assert shared.name not in {run.name for run in unfinished(planned_runs(figure), tmp_path)}
    record(tables_of(figure), tmp_path)
    paths = [tmp_path / f"{name}-mnist-quick.jsonl" for name in ("table1", "figure3")]
    assert read_lines(paths[0])[shared.name] == read_lines(paths[1])[shared.name]
    # A later result that is recorded for one of them is in both.
    finish(shared, tmp_path, 0.7, date="2026-02-01T00:00:00+00:00")
    record({"table1-mnist-quick": {shared.name}}, tmp_path)
    forget_folders(tmp_path)
    for path in paths:
        run = read_lines(path)[shared.name]
        assert run.result["test_accuracy"] == 0.7
        assert epochs_of(run)[-1]["transition_error"] == pytest.approx(0.07)


def test_the_later_of_two_results_counts_whether_it_is_in_the_folder_or_in_the_file(tmp_path, plan):
    run = planned_runs(plan)[0]
    finish(run, tmp_path, 0.8, date="2026-03-01T00:00:00+00:00")
    record(tables_of(plan), tmp_path)
    # A folder that was left here before the file came from elsewhere.
    finish(run, tmp_path, 0.1, date="2026-02-01T00:00:00+00:00")
    assert outcome(run, tmp_path).result["test_accuracy"] == 0.8
    assert not unrecorded(tables_of(plan), tmp_path)
    # Newer numerics count for more than the date: clocks differ.
    finish(run, tmp_path, 0.6, date="2026-01-01T00:00:00+00:00", numerics=provenance.NUMERICS + 1)
    assert outcome(run, tmp_path).result["test_accuracy"] == 0.6
    assert unrecorded(tables_of(plan), tmp_path)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_a_kill_while_recording_loses_nothing(tmp_path, plan, monkeypatch, ending):
    first, second, *_ = planned_runs(plan)
    finish(first, tmp_path, 0.8)
    record(tables_of(plan), tmp_path)
    finish(second, tmp_path, 0.7)
    real = archive.write_atomically

    def killed(path, write):
        if path.suffix == ending:
            raise KeyboardInterrupt
        real(path, write)

    monkeypatch.setattr(archive, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        record(tables_of(plan), tmp_path)
    monkeypatch.undo()
    assert outcome(first, tmp_path).result["test_accuracy"] == 0.8
    assert outcome(second, tmp_path).result["test_accuracy"] == 0.7  # from its folder
    assert len(epochs_of(read_lines(tmp_path / "table1-mnist-quick.jsonl")[first.name])) == 3
    record_finished(planned_runs(plan), tmp_path)
    forget_folders(tmp_path)
    assert outcome(second, tmp_path).result["test_accuracy"] == 0.7
    assert len(epochs_of(find_run(second.name, tmp_path))) == 3


def test_what_is_recorded_already_is_not_written_again(tmp_path, plan):
    for run in planned_runs(plan):
        finish(run, tmp_path)
    record_finished(planned_runs(plan), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("table1*")}
    assert len(before) == 2
    record_finished(planned_runs(plan), tmp_path)
    record(tables_of(plan), tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("table1*")}


def test_a_comparison_of_estimators_keeps_the_t_of_each(tmp_path):
    plan = make_plan("floor", "digits", ("anchor",), ("sym-20",), "quick", seeds=1, seeds_without_anchors=0)
    (run,) = planned_runs(plan)
    finish(run, tmp_path, estimates={"anchor": {"transition_error": 0.1, "seconds": 1.0}})
    folder = run_folder(tmp_path, run.name)
    (folder / "transition.csv").unlink()
    write_matrix(folder / "transition-anchor.csv", np.eye(3))
    write_matrix(folder / "transition-hoc.csv", np.full((3, 3), np.nan))
    record(tables_of(plan), tmp_path)
    forget_folders(tmp_path)
    transition = find_run(run.name, tmp_path).transition
    assert transition == {"anchor": np.eye(3).tolist(), "hoc": [[None] * 3] * 3}
    assert outcome(run, tmp_path).result["seconds"] == 3.5


def test_a_comparison_is_not_made_anew_without_an_estimator_that_took_part(tmp_path, monkeypatch):
    plan = make_plan("floor", "digits", ("anchor",), ("sym-20",), "quick", seeds=1, seeds_without_anchors=0)
    runs = planned_runs(plan)
    part = {"transition_error": 0.1, "seconds": 1.0}
    finish(runs[0], tmp_path, estimates={"anchor": part, "cleanlab": part}, numerics=0)
    installed = {"cleanlab": ""}
    monkeypatch.setattr("trevision.reproduce.outcomes.lacking", lambda name: installed.get(name, ""))
    assert unfinished(runs, tmp_path) == []
    assert unfinished(runs, tmp_path, refresh=True) == runs
    installed["cleanlab"] = "cleanlab is not installed"
    with pytest.raises(ValueError, match=r"must not lose what is recorded of cleanlab .* not installed"):
        unfinished(runs, tmp_path, refresh=True)


def test_a_config_that_names_a_file_is_recorded_without_its_path_and_a_change_is_noticed(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    np.savez("four.npz", x=np.eye(40, 3), y=np.arange(40) % 4)
    plan = make_plan("table1", "four.npz", ("standard",), ("sym-20",), seeds=1)
    (run,) = planned_runs(plan)
    results = tmp_path / "results"
    finish(run, results)
    config = run_config(run.source, run.settings) | {"files": files_of(run.source, run.settings)}
    write_json(run_folder(results, run.name) / "config.json", config)
    record(tables_of(plan), results)
    forget_folders(results)
    text = (results / "table1-four-quick.jsonl").read_text()
    assert str(tmp_path) not in text
    assert json.loads(text)["files"] == {"four.npz": config["files"]["four.npz"]["sha256"]}
    assert outcome(run, results).state == "finished"
    np.savez("four.npz", x=np.ones((40, 3)), y=np.arange(40) % 4)
    with pytest.raises(ValueError, match=r"four\.npz has changed since the run was begun"):
        outcome(run, results)


@pytest.mark.parametrize(
    "line", ["<<<<<<< HEAD", "[]", '{"name": "a"}', '{"name": "a", "config": 1, "result": {}}']
)
def test_a_file_that_was_damaged_is_an_error_that_names_its_line(tmp_path, plan, line):
    run = planned_runs(plan)[0]
    finish(run, tmp_path)
    record(tables_of(plan), tmp_path)
    path = tmp_path / "table1-mnist-quick.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=r"table1-mnist-quick\.jsonl, line 2, must be a recorded run"):
        outcome(run, tmp_path)


def test_a_line_with_another_runs_config_is_refused(tmp_path, plan):
    first, second, *_ = planned_runs(plan)
    finish(first, tmp_path)
    record(tables_of(plan), tmp_path)
    forget_folders(tmp_path)
    path = tmp_path / "table1-mnist-quick.jsonl"
    path.write_text(path.read_text().replace(first.name, second.name))
    with pytest.raises(ValueError, match="holds another's"):
        outcome(second, tmp_path)


def test_the_recorded_results_name_no_path_of_a_machine():
    paths = sorted(RESULTS.glob("*.jsonl"))
    assert paths
    for path in paths:
        for run in read_lines(path).values():
            assert "/" not in json.dumps([run.config, run.files, run.result])
            assert epochs_of(run)
