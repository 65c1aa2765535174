"""`trevision reproduce` as a user meets it, also when it is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from trevision.cli import main
from trevision.reproduce.job import Done, Job, stage_folder, work
from trevision.reproduce.sharing import shared_stages
from trevision.runs import provenance
from trevision.runs.settings import Hardware, Settings

TINY = ("table3", "--dataset", "digits", "--methods", "reweight", "reweight-r", "--noise", "sym-20")
TINY += ("--seeds", "1", "--train-size", "150", "--workers", "2")


def command(results: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "trevision", "reproduce", *map(str, arguments), "--results", str(results)]


def in_a_process(results: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(results, *arguments), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def reproduce(results: Path, *arguments: object) -> None:
    """The command in this process, which spares the seconds to load torch; its workers are others."""
    main(command(results, *arguments)[3:])


def timeless(result: dict[str, object]) -> dict[str, object]:
    return {**result, "seconds": 0, "date": ""}


def recorded(results: Path) -> dict[str, object]:
    """All that a grid leaves and that does not tell the time."""
    left: dict[str, object] = {}
    for path in sorted(results.rglob("*")):
        name = str(path.relative_to(results))
        if path.is_dir() or name.startswith((".stages", ".lock")):
            continue
        if path.name == "metrics.jsonl":
            left[name] = [{**json.loads(line), "seconds": 0} for line in path.read_text().splitlines()]
        elif path.name == "result.json":
            left[name] = timeless(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            runs = [json.loads(line) for line in path.read_text().splitlines()]
            left[name] = [{**run, "result": timeless(run["result"])} for run in runs]
        elif path.suffix == ".parquet":
            left[name] = parquet.read_table(path).drop_columns("seconds")
        else:
            left[name] = path.read_bytes()
    return left


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of the module's own, so that the clean posterior is estimated in it once."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory) -> Path:
    results = tmp_path_factory.mktemp("results")
    done = in_a_process(results, *TINY)
    assert done.stderr.count(": finished (") == 4
    assert "reweight-r-N/A" in done.stdout
    return results


def test_a_table_is_written_in_every_form_and_models_are_not_kept(finished):
    written = {path.suffix for path in (finished / "tables").iterdir()}
    assert written == {".md", ".csv", ".tex", ".svg"}
    assert not list(finished.rglob("*.safetensors"))
    assert ".stages/" in (finished / ".gitignore").read_text().splitlines()
    runs = list(finished.glob("runs/*/result.json"))
    assert len(runs) == 4


def test_finished_runs_are_not_run_again(finished, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished.glob("runs/*/*.json*")}
    reproduce(finished, *TINY, "--docs", finished / "docs")
    out = capsys.readouterr()
    assert "finished (" not in out.err
    assert before == {path: path.stat().st_mtime_ns for path in finished.glob("runs/*/*.json*")}
    page = (finished / "docs" / "table3-digits-quick-n150-part.md").read_text()
    assert "--train-size 150" in page
    assert (finished / "docs" / "table3-digits-quick-n150-part.svg").exists()
    for path in (finished / "docs").iterdir():
        path.unlink()
    (finished / "docs").rmdir()


def test_killing_the_whole_group_and_starting_again_ends_with_the_same_bits(finished, tmp_path):
    process = subprocess.Popen(
        command(tmp_path, *TINY), start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while sum(len(path.read_text().splitlines()) for path in tmp_path.glob("runs/*/metrics.jsonl")) < 40:
        assert process.poll() is None, "the grid ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list(tmp_path.glob("runs/*/result.json"))) < 4
    reproduce(tmp_path, *TINY)
    assert recorded(tmp_path) == recorded(finished)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_gives_the_same_bits_as_processes(finished, tmp_path):
    in_a_process(tmp_path, *TINY, "--ray", "local")
    assert recorded(tmp_path) == recorded(finished)


def test_a_failing_run_is_named_with_its_reason_the_others_finish_and_the_status_is_1(
    tmp_path, blobs, capsys
):
    torn = tmp_path / "torn.npz"
    np.savez(torn, x=blobs.x, y=blobs.clean)
    torn.write_bytes(torn.read_bytes()[:300])
    arguments = ("table1", "--dataset", torn, "digits", "--methods", "forward", "--noise", "sym-20")
    arguments += ("--seeds", 1, "--train-size", 150, "--workers", 1)
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path / "results", *arguments)
    assert stopped.value.code == 1
    told = capsys.readouterr()
    assert f"failed: forward-A on {torn}, sym-20, seed 0: DamagedFile: {torn}" in told.err
    assert "corrupt" in told.err
    assert "1 failed" in told.out
    table = (tmp_path / "results" / "tables" / "table1-digits-quick-n150-part.csv").read_text()
    assert ",test_accuracy,1," in table
    assert len(list((tmp_path / "results").glob("runs/*/error.json"))) == 1


def test_a_dry_run_runs_nothing_and_tells_runs_number_and_time(finished, tmp_path, capsys):
    reproduce(tmp_path / "new", *TINY, "--dry-run")
    out = capsys.readouterr().out
    assert "reweight-r-N/A on digits, sym-20, seed 0" in out
    assert "4 of 4 runs to do" in out
    assert "no estimate" in out
    assert not (tmp_path / "new").exists()
    before = recorded(finished)
    reproduce(finished, *TINY, "--dry-run", "--seeds", 2)
    out = capsys.readouterr().out
    assert "4 of 8 runs to do" in out
    assert "from recorded runs" in out
    assert recorded(finished) == before


def test_figure_1_needs_no_runs_and_figure_3_shows_recorded_ones(finished, tmp_path, capsys):
    reproduce(tmp_path, "figure1")
    assert "0.2796" in capsys.readouterr().out
    assert (tmp_path / "tables" / "figure1.svg").exists()
    runs = len(list(finished.glob("runs/*/result.json")))
    arguments = [one for one in TINY[1:] if one != "reweight"]
    reproduce(finished, "figure3", *arguments, "--docs", tmp_path / "docs")
    assert len(list(finished.glob("runs/*/result.json"))) == runs
    assert "reweight-r-N/A (n = 1)" in (tmp_path / "docs" / "figure3-digits-quick-n150-part.svg").read_text()
    for path in (finished / "tables").glob("figure3*"):
        path.unlink()


FLOOR = ("floor", "--dataset", "digits", "--schedule", "quick", "--noise", "sym-20", "pair-45")
FLOOR += ("--methods", "anchor", "confident-joint", "forward", "--seeds", "1")
FLOOR += ("--seeds-without-anchors", "0", "--train-size", "150", "--workers", "1")


class InThisProcess:
    """A worker without a process of its own, for a command whose processes are tested elsewhere."""

    count = 1

    def __init__(self) -> None:
        self.ended: list[tuple[Job, Done]] = []

    @property
    def free(self) -> int:
        return 1 - len(self.ended)

    def start(self, job: Job) -> None:
        self.ended.append((job, work(job)))

    def wait(self, seconds: float) -> list[tuple[Job, Done]]:
        ended, self.ended = self.ended, []
        return ended

    def close(self) -> None: ...


def test_the_floor_table_is_run_shown_and_written_with_its_page_and_pictures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("trevision.cli.reproduce.make_workers", lambda *_, **__: InThisProcess())
    main(command(tmp_path / "results", *FLOOR, "--docs", tmp_path / "docs")[3:])
    done = capsys.readouterr()
    assert done.err.count(": finished (") == 4  # two noises; both estimators are one run
    assert "estimators-A on digits, pair-45, seed 0" in done.err
    assert "sym-20, with anchor points; sampling floor of T: 0." in done.out
    assert "without anchor points" not in done.out
    stem = "floor-digits-quick-n150-part"
    names = {path.name for path in (tmp_path / "results" / "tables").iterdir()}
    assert names == {f"{stem}{end}" for end in (".md", ".csv", ".tex", ".svg", "-accuracy.svg")}
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {
        f"{stem}{end}" for end in (".md", ".svg", "-accuracy.svg")
    }
    for name in ("anchor (T only)", "confident-joint (T only)", "forward"):
        assert name in (tmp_path / "docs" / f"{stem}.svg").read_text()
    page = (tmp_path / "docs" / f"{stem}.md").read_text()
    assert f"]({stem}-accuracy.svg)" in page
    (told,) = (line for line in page.splitlines() if line.startswith("trevision reproduce"))
    main([*shlex.split(told)[1:], "--results", str(tmp_path / "results"), "--dry-run"])
    assert "0 of 4 runs to do" in capsys.readouterr().out


def test_a_dry_run_of_the_floor_counts_the_runs_of_estimators_once(tmp_path, capsys):
    main(command(tmp_path / "new", *FLOOR, "--seeds-without-anchors", 1, "--dry-run")[3:])
    out = capsys.readouterr().out
    assert "8 of 8 runs to do" in out
    assert out.count("estimators-N/A on digits") == 2


MISTAKES = {
    "dataset": (("table1", "--dataset", "minst"), "did you mean mnist"),
    "schedule": (("table1", "--schedule", "slow"), "quick"),
    "noise": (("table1", "--noise", "sym-120"), "percentage"),
    "method": (("table1", "--methods", "reweigh"), "did you mean reweight"),
    "choice": (("table1", "--methods", "reweight-r:revision=loose"), "slack"),
    "rate": (
        ("table1", "--methods", "reweight-r:lr-revision=fast"),
        "lr_revision must be a number, got 'fast'",
    ),
    "no rate": (("table1", "--methods", "reweight-r:lr-revision"), "must be a number"),
    "share": (("table1", "--methods", "mentornet:noise-rate=abc"), "noise_rate must be a number"),
    "prior": (("table1", "--methods", "reweight-r:prior=5"), "got '5.0'"),
    "no T-hat": (("floor", "--methods", "tv:estimator=dual-t"), "estimator is a choice of"),
    "seeds": (("table1", "--seeds", "0"), "at least 1"),
    "workers": (("table1", "--workers", "0"), "at least 1"),
    "row": (("floor", "--schedule", "quick", "--methods", "anchr"), "did you mean anchor"),
    "no file": (("table1", "--dataset", "nowhere.npz"), "there is no file nowhere.npz"),
    "network": (("table1", "--network", "lenett"), "network must be one of lenet"),
    "train size": (("table1", "--train-size", "-4"), "train_size must be at least 1"),
    "pretrained": (("table1", "--pretrained", "none.pth"), "there is no file none.pth"),
    "truth as a rate": (("table1", "--methods", "reweight-r:lr-revision=true"), "a number, got 'true'"),
    "table": (("tabel1",), "did you mean table1"),
    "nothing to try": (("figure1", "--dry-run"), "figure1 needs no runs"),
    "nothing to refresh": (("figure1", "--refresh"), "figure1 needs no runs"),
    "no such rows": (("table1", "--seeds-without-anchors", "2"), "table1 has none"),
    "floor's seeds": (("floor", "--schedule", "quick", "--seeds-without-anchors", "-1"), "at least 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line_and_status_2_and_writes_nothing(tmp_path, capsys, name):
    arguments, says = MISTAKES[name]
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path / "new", *arguments)
    written = capsys.readouterr().err
    assert stopped.value.code == 2
    assert says in written
    assert len(written.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_ray_that_is_not_installed_is_said_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path / "new", *TINY, "--ray", "local")
    assert stopped.value.code == 2
    assert "pip install 'trevision[ray]'" in capsys.readouterr().err


def test_noise_may_be_a_file_for_any_number_of_classes_and_a_name_in_any_spelling(tmp_path, capsys):
    np.savez(tmp_path / "four.npz", x=np.eye(40, 3), y=np.arange(40) % 4)
    np.savetxt(tmp_path / "T.csv", 0.7 * np.eye(4) + 0.1 * (1 - np.eye(4)), delimiter=",")
    how = ("floor", "--dataset", tmp_path / "four.npz", "--methods", "forward", "--seeds", 1, "--dry-run")
    how += ("--seeds-without-anchors", 0)
    reproduce(tmp_path / "results", *how, "--noise", tmp_path / "T.csv")
    assert "1 of 1 runs to do" in capsys.readouterr().out
    named = []
    for name in ("sym-20", "SYM-20.0%"):
        reproduce(tmp_path / "results", *how, "--noise", name)
        named.append(capsys.readouterr().out)
    assert named[0] == named[1]
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path / "results", *how, "--noise", tmp_path / "none.csv")
    assert stopped.value.code == 2
    assert "none.csv" in capsys.readouterr().err


def test_a_column_may_be_a_set_of_labels_that_people_gave_but_only_for_its_own_data_set(tmp_path, capsys):
    how = ("cifar10n", "--methods", "forward", "--seeds", 1, "--dry-run", "--noise", "worse")
    reproduce(tmp_path, *how)
    assert "forward-A on cifar10n, worse, seed 0" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path, *how, "--dataset", "digits")
    assert stopped.value.code == 2
    assert "got 'worse'" in capsys.readouterr().err


def test_runs_of_a_file_that_has_changed_are_not_shown_and_its_stages_are_not_shared(tmp_path, capsys):
    np.savez(tmp_path / "four.npz", x=np.eye(40, 3), y=np.arange(40) % 4)
    how = ("floor", "--dataset", tmp_path / "four.npz", "--methods", "standard", "--seeds", 1)
    how += ("--seeds-without-anchors", 0, "--schedule", "quick", "--workers", 1)
    how += ("--noise", tmp_path / "T.csv")
    stages = []
    for kept in (0.7, 0.4):
        np.savetxt(tmp_path / "T.csv", kept * np.eye(4) + (1 - kept) / 3 * (1 - np.eye(4)), delimiter=",")
        settings = Settings(noise=str(tmp_path / "T.csv"), method="standard", schedule="quick")
        stages.append(shared_stages(str(tmp_path / "four.npz"), settings, Hardware(accelerator="cpu")))
        if kept == 0.7:
            reproduce(tmp_path / "results", *how)
            assert stage_folder(tmp_path / "results", stages[0]["noisy-posterior"]).is_dir()
    assert not set(stages[0].values()) & set(stages[1].values())
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path / "results", *how)
    assert stopped.value.code == 2
    assert "T.csv has changed since the run was begun" in capsys.readouterr().err


ONE = ("table1", "--dataset", "digits", "--methods", "standard", "forward", "--noise", "sym-20")
ONE += ("--seeds", "1", "--train-size", "150", "--workers", "1")


def lines(results: Path) -> dict[str, dict]:
    """The recorded runs, by method."""
    (path,) = results.glob("*.jsonl")
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    return {run["config"]["method"]: run for run in runs}


@pytest.fixture
def older(tmp_path, monkeypatch, capsys) -> Path:
    """Two recorded runs whose numbers the present code might not give."""
    monkeypatch.setattr("trevision.cli.reproduce.make_workers", lambda *_, **__: InThisProcess())
    reproduce(tmp_path, *ONE)
    assert "†" not in capsys.readouterr().out
    monkeypatch.setattr(provenance, "NUMERICS", provenance.NUMERICS + 1)
    return tmp_path


def test_a_fresh_clone_shows_a_recorded_table_without_training(finished, tmp_path, capsys, monkeypatch):
    shutil.copytree(finished, tmp_path / "clone", ignore=shutil.ignore_patterns("runs", ".stages", "tables"))
    monkeypatch.setattr("trevision.cli.reproduce.make_workers", lambda *_, **__: pytest.fail("it trains"))
    reproduce(finished, *TINY)
    before = capsys.readouterr().out
    reproduce(tmp_path / "clone", *TINY)
    assert capsys.readouterr().out.replace(str(tmp_path / "clone"), str(finished)) == before
    assert not {"runs", ".stages"} & {path.name for path in (tmp_path / "clone").iterdir()}


def test_a_run_is_recorded_as_soon_as_it_is_finished(tmp_path, monkeypatch):
    class StopsAtTheSecond(InThisProcess):
        started = 0

        def start(self, job):
            self.started += 1
            if self.started == 2:
                raise KeyboardInterrupt
            super().start(job)

    monkeypatch.setattr("trevision.cli.reproduce.make_workers", lambda *_, **__: StopsAtTheSecond())
    with pytest.raises(SystemExit) as stopped:
        reproduce(tmp_path, *ONE)
    assert stopped.value.code == 130
    assert list(lines(tmp_path)) == ["standard"]


def test_after_numerics_are_raised_a_dry_run_lists_the_rows_as_older(older, capsys):
    now = provenance.NUMERICS
    reproduce(older, *ONE, "--dry-run")
    out = capsys.readouterr().out
    for row in ("standard-A", "forward-A"):
        assert f"older: {row}: 1 run (numerics {now - 1}; now {now})" in out
    assert "0 of 2 runs to do" in out
    assert "2 runs were made by older code; --refresh runs them anew" in out
    reproduce(older, *ONE, "--dry-run", "--refresh")
    out = capsys.readouterr().out
    assert "2 of 2 runs to do" in out
    for method, run in lines(older).items():
        assert f"{run['name']}  {method}-A on digits, sym-20, seed 0" in out


def test_results_from_before_numerics_are_older_too(older, capsys, monkeypatch):
    monkeypatch.undo()
    for path in older.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        del result["numerics"]
        path.write_text(json.dumps(result))
    for path in older.glob("*.jsonl"):
        path.unlink()
    reproduce(older, *ONE, "--dry-run")
    assert f"older: forward-A: 1 run (numerics 0; now {provenance.NUMERICS})" in capsys.readouterr().out


def test_older_runs_are_marked_in_every_form_of_a_table(older, capsys):
    now = provenance.NUMERICS
    reproduce(older, *ONE, "--docs", older / "docs")
    note = f"2 runs were made by older code (numerics {now - 1}; now {now}); --refresh runs them anew"
    out = capsys.readouterr().out
    assert f"† {note}" in out
    assert out.count("(1)†") == 2
    stem = "table1-digits-quick-n150-part"
    for page in (older / "tables" / f"{stem}.md", older / "docs" / f"{stem}.md"):
        assert f"† {note}." in page.read_text()
        assert page.read_text().count("(1)†") == 2
    latex = (older / "tables" / f"{stem}.tex").read_text()
    assert r"(1)$\dagger$" in latex
    assert r"\footnotesize $\dagger$ 2 runs" in latex
    header, *cells = (older / "tables" / f"{stem}.csv").read_text().splitlines()
    assert header.endswith(",older")
    assert [cell.rsplit(",", 1)[1] for cell in cells] == ["1", "1"]


def test_the_floor_table_marks_older_runs_by_their_number(older, capsys):
    how = ("--methods", "forward", "--noise", "sym-20", "--seeds", "1", "--seeds-without-anchors", "0")
    reproduce(older, "floor", "--dataset", "digits", "--schedule", "quick", *how, "--train-size", "150")
    out = capsys.readouterr().out
    assert "1†" in out
    assert "† 1 run was made by older code" in out
    page = (older / "tables" / "floor-digits-quick-n150-part.md").read_text()
    assert "† 1 run was made by older code" in page
    assert "(1)†, x" in page


def test_refresh_runs_older_runs_anew_and_only_these(older, capsys):
    before = lines(older)
    reproduce(older, *ONE, "--refresh")
    shown = capsys.readouterr()
    assert shown.err.count(": finished (") == 2
    assert "†" not in shown.out
    after = lines(older)
    for method in ("standard", "forward"):
        assert after[method]["result"]["numerics"] == provenance.NUMERICS
        # The same code made both, so nothing else has changed.
        assert after[method]["transition"] == before[method]["transition"]
        assert after[method]["result"]["test_accuracy"] == before[method]["result"]["test_accuracy"]
    # Stages that older code trained were not taken over.
    assert len(list((older / ".stages").glob(f"numerics-{provenance.NUMERICS}/*/finished.pt"))) == 2
    reproduce(older, *ONE, "--refresh")
    assert ": finished (" not in capsys.readouterr().err


def test_until_a_refreshed_run_is_finished_the_recorded_one_stays(older, capsys, monkeypatch):
    before = lines(older)

    class Fails(InThisProcess):
        def start(self, job):
            job.folder.mkdir(parents=True)
            assert lines(older) == before
            self.ended.append((job, Done("CRASHED", "the power went")))

    monkeypatch.setattr("trevision.cli.reproduce.make_workers", lambda *_, **__: Fails())
    with pytest.raises(SystemExit) as stopped:
        reproduce(older, *ONE, "--refresh")
    assert stopped.value.code == 1
    told = capsys.readouterr()
    assert "failed: forward-A on digits, sym-20, seed 0: CRASHED: the power went" in told.err
    assert told.out.count("(1)†") == 2
    assert lines(older) == before
