"""Tables from hand-made run folders, against numbers worked out by hand."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trevision.files import json_digest as digest
from trevision.reproduce import rendering
from trevision.reproduce.archive import run_folder
from trevision.reproduce.cells import published, tabulate
from trevision.reproduce.curves import draw_curves, error_curves
from trevision.reproduce.dot_plots import draw_table
from trevision.reproduce.durations import Record
from trevision.reproduce.job import Job
from trevision.reproduce.plans import make_plan, planned_runs
from trevision.reproduce.sharing import shared_stages
from trevision.reproduce.tables import SPECS
from trevision.reproduce.tables.figure1 import draw_worked_example
from trevision.runs.provenance import NUMERICS
from trevision.runs.settings import Hardware, canonical, run_config

CPU = Hardware(accelerator="cpu", threads=1)


def write_run(results: Path, run, *, error: str = "", **result) -> None:
    folder = run_folder(results, run.name)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(run_config(run.source, run.settings)))
    if error:
        (folder / "error.json").write_text(json.dumps({"error": "DataError", "reason": error}))
    else:
        result = {
            "test_accuracy": 0.5,
            "transition_error": 0.1,
            "seconds": 10.0,
            "numerics": NUMERICS,
        } | result
        (folder / "result.json").write_text(json.dumps(result))


def test_a_row_or_column_that_is_named_twice_is_there_once():
    plan = make_plan("table1", "mnist", ("forward", "forward"), ("sym-20", "sym-20"), seeds=2)
    assert [row.name for row in plan.rows] == ["forward"]
    assert plan.noises == ("sym-20",)
    assert len(planned_runs(plan)) == 2


def choose(runs, label, noise, seed):
    return next(r for r in runs if (r.row.label, r.noise, r.settings.seed) == (label, noise, seed))


@pytest.fixture
def table(tmp_path):
    """forward: three runs; reweight: one run, one failed, one missing; the rest missing."""
    plan = make_plan("table1", "mnist", seeds=3)
    runs = planned_runs(plan)
    for seed, accuracy in enumerate((0.96, 0.98, 0.99)):
        write_run(tmp_path, choose(runs, "forward-A", "sym-20", seed), test_accuracy=accuracy)
    write_run(tmp_path, choose(runs, "reweight-A", "sym-20", 0), test_accuracy=0.9)
    write_run(tmp_path, choose(runs, "reweight-A", "sym-20", 1), error="a | torn <b>file</b>")
    return tabulate(plan, tmp_path)


def test_a_cell_is_mean_and_sample_deviation_beside_the_published_number(table):
    cell = next(
        cell for (row, noise), cell in table.cells.items() if (row.name, noise) == ("forward", "sym-20")
    )
    mean = (96 + 98 + 99) / 3
    assert cell.n == 3
    assert cell.mean == pytest.approx(mean)
    assert cell.std == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in (96, 98, 99)) / 2))
    assert cell.published == (98.75, 0.08)
    assert cell.difference == pytest.approx(mean - 98.75)
    assert rendering.ours(cell) == "97.67 ± 1.53 (3)"
    assert rendering.difference(cell) == "-1.08"


def test_failed_and_missing_runs_are_shown_as_such(table):
    cell = next(
        cell for (row, noise), cell in table.cells.items() if (row.name, noise) == ("reweight", "sym-20")
    )
    assert (cell.n, cell.failed, cell.missing) == (1, (1,), (2,))
    assert cell.std is None
    assert rendering.ours(cell) == "90.00 (1), 1 failed, 1 missing"
    ((name, reason),) = table.failures.items()
    assert name == "reweight-A on mnist, sym-20, seed 1"
    assert reason == "DataError: a | torn <b>file</b>"
    untouched = next(
        c for (row, noise), c in table.cells.items() if (row.name, noise) == ("forward", "sym-50")
    )
    assert rendering.ours(untouched) == "3 missing"


def test_every_published_number_has_a_cell_of_its_table():
    found = set()
    for spec in SPECS.values():
        for dataset in spec.datasets:
            plan = make_plan(spec.name, dataset)
            found |= {(dataset, run.noise, run.row.method, run.row.anchors) for run in planned_runs(plan)}
    assert set(published()) <= found
    assert len(published()) == 7 * 6 * 2 + 24 + 7 + 4


def test_all_seven_methods_are_rows_and_one_that_is_not_there_is_missing_not_a_crash(table, monkeypatch):
    assert [row.name for row in table.plan.rows] == [
        "decoupling", "mentornet", "co-teaching", "forward", "reweight", "forward-r", "reweight-r",
    ]  # fmt: skip
    monkeypatch.setattr("trevision.reproduce.plans.METHODS", {})
    assert not any(run.is_available for run in planned_runs(table.plan))


def test_without_anchors_the_papers_share_is_removed():
    def share(dataset):
        return {run.settings.remove_anchors for run in planned_runs(make_plan("table2", dataset))}

    assert (share("mnist"), share("cifar10"), share("cifar100")) == ({0.4}, {0.2}, {0.2})
    assert {run.settings.remove_anchors for run in planned_runs(make_plan("table1", "mnist"))} == {None}


def test_choices_make_a_row_of_their_own_without_a_published_number():
    plan = make_plan("table1", "mnist", ("reweight-r", "reweight-r:revision=frozen,lr-revision=1e-4"))
    runs = planned_runs(plan)
    assert len({run.name for run in runs}) == len(runs)
    assert plan.rows[1].options.revision == "frozen"
    assert plan.rows[1].options.lr_revision == 1e-4
    cells = tabulate(plan, Path("nowhere")).cells
    assert cells[plan.rows[0], "sym-20"].published == (98.91, 0.04)
    assert cells[plan.rows[1], "sym-20"].published is None
    for wrong in ("reweight-x", "reweight-r:speed=3", "reweight-r:revision=loose"):
        with pytest.raises(ValueError, match="must"):
            make_plan("table1", "mnist", (wrong,))
    with pytest.raises(
        ValueError, match="reweight_gradient is a choice of auto, reweight-r, got method forward-r"
    ):
        make_plan("table1", "mnist", ("forward-r:reweight-gradient=live",))


def test_a_table_of_other_data_or_another_network_says_so_and_shows_no_published_number():
    for how in ({"train_size": 500}, {"network": "resnet8"}, {"pretrained": "resnet18.pth"}):
        plan = make_plan("table1", "cifar10", ("forward",), ("sym-20",), **how)
        table = tabulate(plan, Path("nowhere"))
        assert table.cells[plan.rows[0], "sym-20"].published is None
        assert "not comparable" in rendering.title(table)
    plan = make_plan("table1", "cifar10", ("forward",), ("sym-20",), train_size=500, network="resnet8")
    told = "Unlike in the paper: 500 training rows, network resnet8; hence not comparable with its numbers"
    assert told in rendering.title(tabulate(plan, Path("nowhere")))


def test_a_table_filled_by_a_network_for_cpus_says_so_beside_the_published_numbers():
    quick, paper = (
        make_plan("table1", "cifar10", ("forward",), schedule=name) for name in ("quick", "paper")
    )
    assert "network narrow (CPU; paper: ResNet)" in rendering.title(tabulate(quick, Path("nowhere")))
    assert "network" not in rendering.title(tabulate(paper, Path("nowhere")))
    assert "network" not in rendering.subject(make_plan("table1", "mnist"))


def test_the_columns_of_cifar10n_are_labels_of_people_and_no_noise_is_added():
    plan = make_plan("cifar10n", "cifar10n", ("forward",), seeds=1)
    said = {run.noise: (run.settings.noise, run.settings.reading.noise_set) for run in planned_runs(plan)}
    assert said == {name: (None, name) for name in ("worse", "aggre", "random1")}
    cells = tabulate(plan, Path("nowhere")).cells
    assert cells[plan.rows[0], "worse"].published == (79.79, None)
    assert "worse, Wei et al. 2022" in rendering.wide(tabulate(plan, Path("nowhere")))[0]


def test_table_4_is_the_papers_when_its_networks_start_from_given_weights():
    pretrained, fresh = (
        make_plan("table4", "clothing1m", pretrained=file) for file in ("a/resnet50.pth", None)
    )
    assert (pretrained.departures, fresh.departures) == ([], ["no pretrained weights"])
    row = pretrained.rows[-1]
    assert row.method == "reweight-r"
    assert tabulate(pretrained, Path("nowhere")).cells[row, "real"].published == (74.18, None)
    assert tabulate(fresh, Path("nowhere")).cells[row, "real"].published is None


def test_weights_and_trusted_labels_reach_every_run_its_name_the_files_and_the_command():
    plain = make_plan("table4", "clothing1m")
    for how, words in (
        ({"pretrained": "a/resnet50.pth"}, "--pretrained a/resnet50.pth"),
        ({"trusted": True}, "--trusted"),
    ):
        plan = make_plan("table4", "clothing1m", **how)
        runs, others = planned_runs(plan), planned_runs(plain)
        assert all(getattr(run.settings, key) == value for run in runs for key, value in how.items())
        assert {run.name for run in runs}.isdisjoint(run.name for run in others)
        assert plan.stem != plain.stem
        assert rendering.command(plan).endswith(words)


def test_runs_are_still_named_as_before_weights_and_trusted_labels_could_be_chosen():
    (mnist,) = planned_runs(make_plan("table1", "mnist", ("standard",), ("sym-20",), seeds=1))
    (clothing,) = planned_runs(make_plan("table4", "clothing1m", ("reweight-r",), seeds=1))
    assert (mnist.name, clothing.name) == ("108c0cc9880b10f9", "b3034a0fde20e772")


def test_the_name_of_a_run_ignores_settings_left_at_their_default_and_no_others():
    plan = make_plan("table1", "mnist", ("forward",), ("sym-20",), seeds=2)
    one, two = planned_runs(plan)
    assert one.name != two.name
    assert one.name == Job(one.source, one.settings, Path("elsewhere")).name
    older = run_config(one.source, one.settings)
    del older["remove_anchors"], older["options"]["reweight_gradient"]  # written before these existed

    assert digest(canonical(older)) == one.name


def test_a_prior_renames_the_runs_it_is_given_to_and_only_these(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("mask.csv", np.eye(10), delimiter=",")
    methods = ("reweight-r", "reweight-r:prior=symmetric+support=mask.csv,revision=simplex")
    plain, informed = planned_runs(make_plan("table1", "mnist", methods, ("sym-20",), seeds=1))
    assert informed.settings.options.prior == "symmetric+support=mask.csv"
    assert informed.settings.options.revision == "simplex"
    older = run_config(plain.source, plain.settings)
    del older["options"]["prior"]  # written before there was one
    assert digest(canonical(older)) == plain.name != informed.name
    # Stage 1 knows nothing of T; the classifier is trained with T-hat.
    stages = [shared_stages(run.source, run.settings, CPU) for run in (plain, informed)]
    assert stages[0]["noisy-posterior"] == stages[1]["noisy-posterior"]
    assert stages[0]["classifier"] != stages[1]["classifier"]
    # Nor does a mask with other contents change it; a matrix of the noise does, also where both are one file.
    masked, noisy = informed.settings, replace(informed.settings, noise="mask.csv")
    before = [shared_stages("mnist", settings, CPU) for settings in (masked, noisy)]
    np.savetxt("mask.csv", np.eye(10) + np.eye(10, k=1), delimiter=",")
    after = [shared_stages("mnist", settings, CPU) for settings in (masked, noisy)]
    assert before[0]["noisy-posterior"] == after[0]["noisy-posterior"]
    assert before[0]["classifier"] != after[0]["classifier"]
    assert before[1]["noisy-posterior"] != after[1]["noisy-posterior"]
    with pytest.raises(ValueError, match=r"prior must join by \+ some of .* got 'symetric'"):
        make_plan("table1", "mnist", ("reweight-r:prior=symetric",))


def test_a_folder_with_another_runs_config_is_refused(tmp_path):
    plan = make_plan("table1", "mnist", ("forward",), ("sym-20",), seeds=2)
    one, two = planned_runs(plan)
    write_run(tmp_path, one)
    run_folder(tmp_path, one.name).rename(run_folder(tmp_path, two.name))
    with pytest.raises(ValueError, match="another's"):
        tabulate(plan, tmp_path)


def test_csv_gives_the_numbers_back(table):
    rows = list(csv.DictReader(io.StringIO(rendering.to_csv(table))))
    assert len(rows) == 14
    forward = next(row for row in rows if (row["method"], row["noise"]) == ("forward", "sym-20"))
    assert float(forward["mean"]) == pytest.approx(97.6667, abs=1e-4)
    assert (forward["n"], forward["published_mean"], forward["missing"]) == ("3", "98.75", "0")
    reweight = next(row for row in rows if (row["method"], row["noise"]) == ("reweight", "sym-20"))
    assert (reweight["std"], reweight["failed"], reweight["missing"]) == ("", "1", "1")


def unescaped_bars(line: str) -> int:
    return sum(sign == "|" and line[i - 1] != "\\" for i, sign in enumerate(line))


def test_markdown_and_latex_keep_odd_names_from_breaking_them(tmp_path):
    plan = make_plan("table1", "a|b_<i>&5%$.npz", ("forward",), ("sym-20",))
    table = tabulate(plan, tmp_path)
    lines = rendering.markdown(table).splitlines()
    assert r"a\|b\_\<i\>\&5%$.npz" in lines[0]
    assert {unescaped_bars(line) for line in lines[2:]} == {3}
    latex = rendering.latex(table)
    assert r"a\textbar{}b\_\textless{}i\textgreater{}\&5\%\$.npz" in latex
    assert r"$\pm$" in latex
    assert rendering.escape_latex("~^\\{}#") == (r"\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}\#")
    page = rendering.docs_page(table, "x.svg")
    assert "--dataset 'a|b_<i>&5%$.npz'" in page


def test_a_page_tells_the_command_failures_n_and_seconds(table):
    page = rendering.docs_page(table, "x.svg")
    assert "trevision reproduce table1 --dataset mnist --schedule quick --seeds 3\n" in page
    assert "| forward-A | sym-20 | 3 | 97.67 | 1.53 | 10 | 0 | 0 |" in page
    assert r"- reweight-A on mnist, sym-20, seed 1: DataError: a \| torn \<b\>file\</b\>" in page


def test_pictures_are_written_with_their_words(table, tmp_path):
    draw_table(tmp_path / "t.svg", table)
    text = (tmp_path / "t.svg").read_text()
    for word in ("test accuracy (%)", "reweight-r-A", "sym-50", "paper", "ours"):
        assert word in text
    draw_worked_example(tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert "class 4" in text
    assert "class 3" in text


def test_curves_of_figure_3_are_means_over_runs_up_to_the_shortest(tmp_path):
    plan = make_plan("figure3", "mnist", ("forward-r",), ("sym-20",), seeds=2)
    runs = [run for run in planned_runs(plan) if run.row.anchors == "A"]
    for run, errors in zip(runs, ([0.4, 0.2, 0.1], [0.2, 0.4]), strict=True):
        write_run(tmp_path, run)
        lines = [{"stage": "classifier", "epoch": 1, "transition_error": 9.0, "seconds": 1.0}]
        lines += [
            {"stage": "revision", "epoch": k, "transition_error": e, "seconds": 1.0}
            for k, e in enumerate(errors)
        ]
        (run_folder(tmp_path, run.name) / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    curves = error_curves(plan, tmp_path)
    (curve,) = curves.values()
    np.testing.assert_allclose(curve.mean, [0.3, 0.3])
    np.testing.assert_allclose(curve.std, [0.1 * math.sqrt(2)] * 2)
    draw_curves(tmp_path / "f.svg", plan, curves)
    text = (tmp_path / "f.svg").read_text()
    assert "epoch of the revision" in text
    assert "forward-r-A (n = 2)" in text


def test_an_estimate_counts_shared_stages_once_and_says_what_it_cannot_know(tmp_path):
    plan = make_plan("table1", "mnist", ("reweight", "reweight-r", "forward"), ("sym-20", "sym-50"), seeds=1)
    runs = planned_runs(plan)
    seconds = {"noisy-posterior": 10.0, "classifier": 20.0, "revision": 5.0}
    for label in ("reweight-A", "reweight-r-A"):
        run = choose(runs, label, "sym-20", 0)
        write_run(tmp_path, run)
        stages = [s for s in seconds if s != "revision" or label == "reweight-r-A"]
        lines = [{"stage": s, "epoch": e, "seconds": seconds[s] / 2} for s in stages for e in (1, 2)]
        (run_folder(tmp_path, run.name) / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    estimate = Record(tmp_path).estimate([run for run in runs if run.noise == "sym-50"], CPU)
    assert estimate.seconds == pytest.approx(35)  # not 30 + 35
    assert [run.row.method for run in estimate.unknown] == ["forward"]
