"""The floor table from hand-made run folders, against numbers worked out by hand."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import warnings
from pathlib import Path

import pytest

from trevision.methods.registry import check_options
from trevision.reproduce import dot_plots
from trevision.reproduce import floor_table as floor
from trevision.reproduce import plans as tables
from trevision.reproduce.archive import run_folder
from trevision.reproduce.floor_table import Column, tabulate_floor
from trevision.reproduce.plans import make_plan, planned_runs
from trevision.reproduce.rendering import to_csv
from trevision.reproduce.tables import SPECS
from trevision.runs.provenance import NUMERICS
from trevision.runs.settings import run_config

ROWS = ("anchor", "cleanlab", "standard", "forward", "tv")
FLOORS = (0.02, 0.025, 0.03)
A, REST = Column("sym-20", "A"), Column("sym-20", "N/A")


def record(results: Path, run, result: dict) -> None:
    folder = run_folder(results, run.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(run_config(run.source, run.settings)))
    (folder / "result.json").write_text(json.dumps({"numerics": NUMERICS} | result))


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Three seeds with anchor points, one without: all of sym-20, nothing of pair-45; `tv` is not there.

    forward has a run with an error of T but no use (31 %) and one whose T is not made of numbers;
    cleanlab took part in two runs of three and failed in one of these.
    """
    methods = {name: method for name, method in tables.METHODS.items() if name != "tv"}
    monkeypatch.setattr(tables, "METHODS", methods)
    monkeypatch.setattr("trevision.reproduce.plans.lacking", lambda name: "")
    plan = make_plan("floor", "digits", ROWS, ("sym-20", "pair-45"), "quick")
    for run in planned_runs(plan):
        if run.noise != "sym-20" or not run.is_available:
            continue
        seed = run.settings.seed
        known = {"transition_floor": FLOORS[seed], "seconds": 100.0 + seed}
        if run.row.is_estimator:
            estimates = {"anchor": {"transition_error": 0.1, "wrong_label_auc": 0.9, "seconds": 0.5}}
            if seed == 0:
                estimates["cleanlab"] = {"transition_error": 0.06, "wrong_label_auc": 0.8, "seconds": 1.0}
            elif seed == 1:
                estimates["cleanlab"] = {"error": "ValueError: a | torn <b>matrix</b>"}
            record(tmp_path, run, known | {"estimates": estimates})
        elif run.row.name == "standard":
            told = {"uses_transition": False, "transition_error": 0.1, "test_accuracy": 0.9 + 0.01 * seed}
            record(tmp_path, run, known | told | {"wrong_label_auc": 0.95})
        else:
            error, accuracy = ((0.04, 0.98), (0.03, 0.31), (None, 0.97))[seed]
            told = {"uses_transition": True, "transition_error": error, "test_accuracy": accuracy}
            record(tmp_path, run, known | told | {"wrong_label_auc": 0.99})
    return tabulate_floor(plan, tmp_path)


def row_of(table, name):
    return next(row for row in table.rows if row.name == name)


def cell(table, measure, name, column=A):
    return table.cell(measure, row_of(table, name), column)


def test_the_error_stands_beside_the_mean_of_its_multiples_of_each_runs_own_floor(table):
    assert cell(table, "transition_error", "anchor").values == (0.1, 0.1, 0.1)
    ratios = [0.1 / one for one in FLOORS]
    assert cell(table, "error_to_floor", "anchor").mean == pytest.approx(sum(ratios) / 3)
    header, rows = floor.by_measure(table, "transition_error", "A")
    assert header == ["", "sym-20, A", "pair-45, A"]
    assert rows[0] == ["sampling floor", "0.0250 ± 0.0050 (3)", "-"]
    shown = {row[0]: row[1:] for row in rows}
    assert shown["anchor (T only)"] == [f"0.1000 ± 0.0000 (3), x{sum(ratios) / 3:.2f}", "3 missing"]


def test_what_a_method_without_t_leaves_behind_is_not_its_error_of_t(table):
    assert cell(table, "transition_error", "standard").n == 0
    assert cell(table, "transition_floor", "standard").n == 3
    assert "standard" not in [row[0] for row in floor.by_measure(table, "transition_error", "A")[1]]
    assert "standard" in [row[0] for row in floor.by_measure(table, "test_accuracy", "A")[1]]
    assert "anchor (T only)" not in [row[0] for row in floor.by_measure(table, "test_accuracy", "A")[1]]


def test_collapsed_runs_are_marked_and_counted(table):
    forward = cell(table, "test_accuracy", "forward")
    assert forward.collapsed == (1, 2)  # 31 %, and a T that is not made of numbers
    assert forward.n == 3
    shown = dict(row[:2] for row in floor.by_measure(table, "test_accuracy", "A")[1])
    accuracies = (98, 31, 97)
    mean = sum(accuracies) / 3
    std = math.sqrt(sum((one - mean) ** 2 for one in accuracies) / 2)
    assert shown["forward"] == f"{mean:.2f} ± {std:.2f} (3), 2 collapsed"
    assert cell(table, "test_accuracy", "standard").collapsed == ()
    assert cell(table, "test_accuracy", "forward", REST).collapsed == ()


def test_rows_that_this_version_lacks_are_shown_as_unavailable(table):
    for measure in ("transition_error", "test_accuracy", "wrong_label_auc", "seconds"):
        shown = {row[0]: row[1:] for row in floor.by_measure(table, measure, "N/A")[1]}
        assert shown["tv"] == ["unavailable", "unavailable"]
    page = floor.floor_page(table, "e.svg", "a.svg")
    assert "## Unavailable\n- tv: there is no method tv in this version" in page


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.row_names])
def test_every_row_of_every_table_is_a_run_whose_choices_its_method_takes(name):
    plan = make_plan(name, SPECS[name].datasets[0])
    for row in plan.rows:
        assert row.lacking in ("", "cleanlab is not installed: pip install 'trevision[bench]'")
        if not row.is_estimator:
            check_options(row.options, row.method)


def test_only_a_table_with_estimators_speaks_of_them(tmp_path):
    for name, speaks in (("floor", True), ("revisions", False), ("priors", False)):
        table = floor.tabulate_floor(make_plan(name, "mnist"), tmp_path)
        page = floor.floor_page(table, "e.svg", "a.svg")
        assert ("(T only)" in page) == speaks
        assert f"trevision reproduce {name} --dataset mnist" in page


def test_the_page_says_how_rows_of_rivals_differ_from_their_authors_recipes(tmp_path):
    notes = SPECS["floor"].notes
    assert set(notes) == {"volminnet", "tv", "dual-t"}
    for rows in (("tv", "dual-t"), ("volminnet",), ("forward",), ()):
        page = floor.floor_page(floor.tabulate_floor(make_plan("floor", "mnist", rows), tmp_path), "e", "a")
        told = {name for name, note in notes.items() if f"- {note}" in page}
        assert told == (set(notes).intersection(rows) if rows else set(notes))
    # The rows that they speak of can be asked for.
    asked = ("volminnet:schedule=released", "tv:schedule=released")
    asked += ("forward:estimator=dual-t,posterior=in-sample",)
    assert all(any(row in note for note in notes.values()) for row in asked)
    assert not any(row.lacking for row in make_plan("floor", "mnist", asked).rows)


def test_rows_of_the_table_itself_may_be_lacking_and_any_other_must_exist():
    spec = SPECS["floor"]
    plan = make_plan("floor", "mnist")
    assert {row.name for row in plan.rows} == set(spec.row_names)
    assert all(row.is_estimator == (row.name in spec.estimators) for row in plan.rows)
    for wrong, says in (
        ("anchr", "did you mean anchor"),
        ("reweigh", "did you mean reweight"),
        ("forward:estimator=none", "estimator must be"),
        ("standard:revision=frozen", "revision is a choice of"),
        ("anchor:estimator=latent", "methods must be among"),
    ):
        with pytest.raises(ValueError, match=says):
            make_plan("floor", "mnist", (wrong,))
    with pytest.raises(ValueError, match="methods must be among"):
        make_plan("table1", "mnist", ("anchor",))  # it has no accuracy


def test_an_estimator_that_failed_or_took_no_part_is_shown_as_such_and_named_with_its_reason(table):
    found = cell(table, "transition_error", "cleanlab")
    assert (found.n, found.failed, found.missing) == (1, (1,), (2,))
    ((name, reason),) = table.failures.items()
    assert name == "cleanlab, estimators-A on digits, sym-20, seed 1"
    assert reason == "ValueError: a | torn <b>matrix</b>"
    assert cell(table, "seconds", "cleanlab").values[0] == pytest.approx(
        101.0
    )  # the folds, and its own second
    page = floor.floor_page(table, "e.svg", "a.svg")
    assert r"seed 1: ValueError: a \| torn \<b\>matrix\</b\>" in page


def test_a_column_has_all_measures_and_n_once(table):
    header, rows = floor.by_column(table, A)
    assert header == ["", "n", "error of T", "/ floor", "accuracy", "AUC", "seconds", "remarks"]
    shown = {row[0]: row[1:] for row in rows}
    assert shown["standard"] == ["3", "-", "-", "91.00 ± 1.00", "0.9500 ± 0.0000", "101 ± 1", ""]
    # Where fewer runs have a number than there are runs, it says how many.
    assert shown["forward"][1] == "0.0350 ± 0.0071 (2)"
    assert shown["forward"][-1] == "2 collapsed"
    assert shown["tv"] == ["0", "-", "-", "-", "-", "-", "unavailable"]
    assert floor.column_title(table, REST) == (
        "sym-20, without anchor points; sampling floor of T: 0.0200 (1)"
    )


def test_seeds_without_anchors_are_one_by_default_and_none_leaves_their_columns_out():
    def counts(**how):
        plan = make_plan("floor", "digits", ("forward",), ("sym-20",), "quick", **how)
        found = [run.row.anchors for run in planned_runs(plan)]
        return found.count("A"), found.count("N/A")

    assert counts() == (3, 1)
    assert counts(seeds=2, seeds_without_anchors=4) == (2, 4)
    assert counts(seeds_without_anchors=0) == (3, 0)
    assert len(planned_runs(make_plan("table2", "digits", ("forward",), ("sym-20",)))) == 3
    with pytest.raises(ValueError, match="seeds_without_anchors must be at least 1"):
        make_plan("table2", "digits", seeds_without_anchors=0)


def test_the_floor_has_a_schedule_of_its_own_and_the_papers_tables_keep_theirs():
    assert make_plan("floor", "mnist").schedule == "strong"
    assert make_plan("table1", "mnist").schedule == "quick"
    assert make_plan("floor", "mnist", schedule="paper").stem == "floor-mnist-paper"


def test_an_estimator_that_is_no_row_of_the_table_is_one_for_the_asking():
    assert "latent-unpooled" not in {row.name for row in make_plan("floor", "mnist").rows}
    asked = make_plan("floor", "mnist", ("latent-unpooled",), seeds_without_anchors=0)
    assert [(row.name, row.is_estimator, row.lacking) for row in asked.rows] == [
        ("latent-unpooled", True, "")
    ]
    with pytest.raises(ValueError, match=r"methods must be among .* got 'latent-unpooled'"):
        make_plan("table1", "mnist", ("latent-unpooled",))


def test_results_from_before_these_measures_still_make_a_table(tmp_path):
    plan = make_plan("floor", "digits", ("forward",), ("sym-20",), "quick", seeds=1, seeds_without_anchors=0)
    (run,) = planned_runs(plan)
    record(tmp_path, run, {"test_accuracy": 0.4, "transition_error": 0.1, "seconds": 10.0})
    old = tabulate_floor(plan, tmp_path)
    _, ((*numbers, lacking),) = floor.by_column(old, A)
    assert numbers == ["forward", "1", "0.1000", "-", "40.00", "-", "10"]
    assert lacking == "1 collapsed"
    assert old.floor(A) == "-"
    dot_plots.draw_error_to_floor(tmp_path / "e.svg", old)
    dot_plots.draw_accuracy(tmp_path / "a.svg", old)
    assert "no runs recorded" in (tmp_path / "e.svg").read_text()


def test_a_t_that_is_exact_and_a_test_without_mistakes_stay_on_the_pictures(tmp_path):
    methods, how = ("forward", "reweight"), {"seeds": 1, "seeds_without_anchors": 0}
    plan = make_plan("floor", "digits", methods, ("sym-20",), "quick", **how)
    for run, error, accuracy in zip(planned_runs(plan), (0.0, 0.04), (1.0, 0.9), strict=True):
        result = {"transition_error": error, "transition_floor": 0.02, "test_accuracy": accuracy}
        record(tmp_path, run, result | {"seconds": 1.0})
    exact = tabulate_floor(plan, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a logarithmic axis objects to zero by a warning
        dot_plots.draw_error_to_floor(tmp_path / "e.svg", exact)
        dot_plots.draw_accuracy(tmp_path / "a.svg", exact)
    marks = re.findall(r">([^<>]*)</text>", (tmp_path / "e.svg").read_text())
    assert marks[:4] == ["\N{LESS-THAN OR EQUAL TO} 0.1", "0.5", "1", "2"]


def test_csv_has_a_line_for_every_cell_in_every_measure(table):
    rows = list(csv.DictReader(io.StringIO(to_csv(*table.tables.values()))))
    assert len(rows) == 6 * len(ROWS) * 4
    found = [
        row for row in rows if (row["method"], row["anchors"], row["noise"]) == ("forward", "A", "sym-20")
    ]
    numbers = {row["measure"]: (row["n"], row["mean"], row["collapsed"]) for row in found}
    assert numbers["transition_floor"] == ("3", "0.025", "2")
    assert numbers["transition_error"] == ("2", "0.035", "2")
    assert numbers["error_to_floor"] == ("2", "1.6", "2")


def test_every_form_of_the_table_is_whole(table, tmp_path):
    paths = floor.write_floor(table, tmp_path / "files")
    assert [path.suffix for path in paths] == [".md", ".csv", ".tex"]
    latex = paths[2].read_text()
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 4 * 2
    page = floor.floor_page(table, "e.svg", "a.svg")
    assert "trevision reproduce floor --dataset digits --schedule quick --seeds 3 --methods anchor" in page
    for line in page.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4  # a name and two noises


def test_pictures_have_every_row_the_floor_and_what_collapsed(table, tmp_path):
    dot_plots.draw_error_to_floor(tmp_path / "e.svg", table)
    text = (tmp_path / "e.svg").read_text()
    for word in ("anchor (T only)", "cleanlab (T only)", "forward", "tv: unavailable", "sym-20", "pair-45"):
        assert word in text
    assert "a run collapsed" in text
    assert "error of T / floor" in text
    assert ">standard<" not in text  # it has no T
    assert text.count("no runs recorded") == 1
    dot_plots.draw_accuracy(tmp_path / "a.svg", table)
    text = (tmp_path / "a.svg").read_text()
    assert ">standard<" in text
    assert "T only" not in text
