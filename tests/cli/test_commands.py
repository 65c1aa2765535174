"""The command as a user meets it: in a process of its own where that matters, else in the tests' own."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from trevision import TRevisionClassifier
from trevision.cli import main
from trevision.estimation import transition_error
from trevision.noise import pair_flip

RUN_FILES = {
    "config.json", "issues.csv", "issues.parquet", "labels.parquet", "metrics.jsonl", "model.safetensors",
    "noise.json", "probabilities.npz", "result.json", "transition.csv",
}  # fmt: skip


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "trevision", *map(str, arguments)]


def trevision(*arguments: object, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, env=os.environ | environment, timeout=600
    )
    assert done.returncode == status, done.stderr + done.stdout
    return done


def here(*arguments: object) -> None:
    """The command in this process, which spares the seconds that a new one takes to load torch."""
    main([*map(str, arguments)])


def metrics(folder: Path) -> list[dict]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, blobs) -> Path:
    """A finished run on the blobs with noise added by the tool, and the data it was run on."""
    folder = tmp_path_factory.mktemp("runs")
    np.savez(folder / "blobs.npz", x=blobs.x, y=blobs.clean, x_test=blobs.test_x, y_test=blobs.test_y)
    trevision("fit", folder / "blobs.npz", "--noise", "pair-30", "--seed", 5, "--out", folder / "a")
    return folder


def test_a_run_folder_holds_what_it_promises(finished):
    folder = finished / "a"
    assert {path.name for path in folder.iterdir()} == RUN_FILES
    result = json.loads((folder / "result.json").read_text())
    assert {
        "method", "seed", "noise", "test_accuracy", "initial_transition_error", "transition_error",
        "noisy_validation_accuracy", "seconds", "stopped_because", "versions",
    } <= result.keys()  # fmt: skip
    assert (result["method"], result["seed"], result["noise"]) == ("auto", 5, "pair-30")
    learnt = np.loadtxt(folder / "transition.csv", delimiter=",")
    assert result["transition_error"] == pytest.approx(transition_error(learnt, pair_flip(4, 0.3)), abs=1e-5)
    assert result["test_accuracy"] > 0.9
    assert not result["transition_ran_away"]
    last = metrics(folder)[-1]
    assert {
        "stage",
        "epoch",
        "train_loss",
        "noisy_validation_error",
        "test_accuracy",
        "transition_error",
    } <= (last.keys())


def test_the_same_command_twice_gives_the_same_metrics(finished):
    """Also in a process that has computed other things before."""
    here("fit", finished / "blobs.npz", "--noise", "pair-30", "--seed", 5, "--out", finished / "b")
    assert metrics(finished / "b") == metrics(finished / "a")
    for name in ("transition.csv", "model.safetensors"):
        assert (finished / "a" / name).read_bytes() == (finished / "b" / name).read_bytes()


def test_a_run_that_is_killed_twice_continues_to_the_same_result(finished):
    """SIGKILL after some epochs: in the first stage, and when it was started again in a later one."""
    folder = finished / "killed"
    arguments = ("fit", finished / "blobs.npz", "--noise", "pair-30", "--seed", 5, "--out", folder)
    written = folder / "metrics.jsonl"
    for lines in (5, 60):
        process = subprocess.Popen(command(*arguments), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while not written.exists() or len(written.read_text().splitlines()) < lines:
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (folder / "result.json").exists()
    here(*arguments)
    assert {path.name for path in folder.iterdir()} == RUN_FILES
    assert metrics(folder) == metrics(finished / "a")
    for name in ("transition.csv", "model.safetensors"):
        assert (finished / "a" / name).read_bytes() == (folder / name).read_bytes()


def test_a_finished_run_is_not_run_again_and_another_one_is_refused(finished, capsys):
    before = (finished / "a" / "result.json").stat().st_mtime_ns
    here("fit", finished / "blobs.npz", "--noise", "pair-30", "--seed", 5, "--out", finished / "a")
    assert "test accuracy" in capsys.readouterr().out
    assert (finished / "a" / "result.json").stat().st_mtime_ns == before
    with pytest.raises(SystemExit) as stopped:
        here("fit", finished / "blobs.npz", "--seed", 6, "--out", finished / "a")
    assert stopped.value.code == 2
    assert "another noise, seed" in capsys.readouterr().err


def test_two_processes_share_the_work_and_agree_with_one(finished, tmp_path):
    run = ("fit", finished / "blobs.npz", "--noise", "pair-30", "--seed", 5, "--train-size", 300)
    run += ("--estimator", "anchor", "--accelerator", "cpu")
    here(*run, "--out", tmp_path / "one")
    trevision(*run, "--out", tmp_path / "two", "--devices", 2)
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert [(r["stage"], r["epoch"]) for r in one] == [(r["stage"], r["epoch"]) for r in two]
    # The first epoch's sums are added in another order; what follows drifts apart from there.
    assert two[0]["train_loss"] == pytest.approx(one[0]["train_loss"], rel=1e-3)
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two")]
    assert abs(results[0]["test_accuracy"] - results[1]["test_accuracy"]) < 0.03


def test_predictions_are_those_of_the_model(finished, blobs, tmp_path, capsys):
    out = tmp_path / "sub" / "predictions.csv"
    here("predict", finished / "a", finished / "blobs.npz", "--out", out)
    model = TRevisionClassifier.load(finished / "a")
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["label"]) for row in rows] == model.predict(blobs.test_x).tolist()
    assert [float(rows[3][f"P({k})"]) for k in range(4)] == pytest.approx(
        model.predict_proba(blobs.test_x)[3], abs=1e-5
    )
    accuracy = model.score(blobs.test_x, blobs.test_y)
    assert f"{100 * accuracy:.2f}%" in capsys.readouterr().out


def test_rows_without_labels_are_predicted(finished, blobs, tmp_path, capsys):
    np.savez(tmp_path / "new.npz", x=blobs.test_x[:7])
    here("predict", finished / "a", tmp_path / "new.npz", "--out", tmp_path / "p.csv")
    told = capsys.readouterr().out
    assert "7 predictions" in told
    assert "accuracy" not in told


def test_noise_may_come_from_a_file_and_labels_may_be_words(blobs, tmp_path, capsys):
    names = np.array(["ash", "birch", "cedar", "<b>oak</b>"])
    np.savez(
        tmp_path / "trees.npz",
        x=blobs.x,
        y=names[blobs.clean],
        x_test=blobs.test_x,
        y_test=names[blobs.test_y],
    )
    np.savetxt(tmp_path / "T.csv", blobs.transition, delimiter=",")
    run = ("fit", tmp_path / "trees.npz", "--noise", tmp_path / "T.csv", "--method", "forward")
    here(*run, "--out", tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_accuracy"] > 0.85
    capsys.readouterr()
    here("predict", tmp_path / "run", tmp_path / "trees.npz", "--out", tmp_path / "p.csv")
    assert "accuracy" in capsys.readouterr().out
    assert "<b>oak</b>" in (tmp_path / "p.csv").read_text()


def test_data_that_is_noisy_as_given_needs_neither_noise_nor_test_set(blobs, tmp_path, capsys):
    np.savez(tmp_path / "mine.npz", x=blobs.x[:300], y=blobs.noisy[:300])
    here("fit", tmp_path / "mine.npz", "--out", tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_accuracy"] is None
    assert result["transition_error"] is None
    assert "test accuracy" not in capsys.readouterr().out


def test_what_is_known_of_t_comes_from_words_and_files(blobs_file, tmp_path, capsys):
    pair = pair_flip(4, 0.3)
    np.savetxt(tmp_path / "mask.csv", pair > 0, delimiter=",", fmt="%d")
    (tmp_path / "known.csv").write_text(",,,\n0,0.7,0.3,0\n,,,\n\n")
    words = f"dominant+support={tmp_path / 'mask.csv'}+known={tmp_path / 'known.csv'}"
    run = ["fit", str(blobs_file), "--noise", "pair-30", "--method", "forward", "--estimator", "anchor"]
    run += ["--train-size", "300", "--out", str(tmp_path / "run")]
    main([*run, "--prior", words])
    learnt = np.loadtxt(tmp_path / "run" / "transition.csv", delimiter=",")
    assert np.array_equal(learnt > 0, pair > 0)
    assert learnt[1] == pytest.approx(pair[1], abs=1e-6)
    assert (learnt.diagonal() >= learnt.max(axis=1)).all()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["options"]["prior"] == words
    with pytest.raises(SystemExit):
        main(run)
    assert "holds a run with another options" in capsys.readouterr().err


def test_a_runaway_of_slack_is_told_on_the_terminal_and_in_the_result(finished, capsys):
    here(
        "fit", finished / "blobs.npz", "--noise", "pair-30", "--out", finished / "away",
        "--method", "reweight-r", "--revision", "slack", "--lr-transition", "1e-3",
    )  # fmt: skip
    assert "ran away" in capsys.readouterr().err
    result = json.loads((finished / "away" / "result.json").read_text())
    assert result["transition_ran_away"]
    assert "ran away" in result["warnings"][0]


def mistakes(folder: Path) -> dict[str, tuple[list[object], str]]:
    """Bad command lines and what the one line that answers them must say."""
    x, y = np.zeros((20, 3), np.float32), np.arange(20) % 2
    np.savez(folder / "good.npz", x=x, y=y)
    np.savez(folder / "nan.npz", x=x, y=np.where(y == 1, np.nan, 0.0))
    np.savez(folder / "one.npz", x=x, y=np.zeros(20, int))
    np.savez(folder / "empty.npz", x=x[:0], y=y[:0])
    np.savez(folder / "objects.npz", x=x, y=np.array(["a", 1] * 10, dtype=object))
    (folder / "torn.npz").write_bytes((folder / "good.npz").read_bytes()[:100])
    np.savetxt(folder / "bad.csv", [[0.5, 0.6], [0.5, 0.5]], delimiter=",")
    np.savetxt(folder / "turned.csv", [[0.9, 0.3], [0.1, 0.7]], delimiter=",")
    np.savetxt(folder / "mask.csv", [[1, 1, 0], [0, 1, 0], [0, 0, 1]], delimiter=",")
    (folder / "words.csv").write_text("a,b\nc,d\n")
    (folder / "blank.csv").write_text(",\n,\n")
    (folder / "empty.npy").write_bytes(b"")
    np.save(folder / "complex.npy", np.eye(2, dtype=complex))
    np.savez(folder / "k101.npz", x=np.eye(202, 3), y=np.arange(202) % 101)
    good = folder / "good.npz"
    return {
        "method": (["fit", good, "--method", "reweigh-r"], "did you mean reweight-r"),
        "noise": (["fit", good, "--noise", "sym-120"], "percentage in [0, 100]"),
        "noise name": (["fit", good, "--noise", "much"], "sym-50 or pair-45"),
        "nan label": (["fit", folder / "nan.npz"], "nan in row"),
        "one class": (["fit", folder / "one.npz"], "at least two classes"),
        "empty": (["fit", folder / "empty.npz"], "must not be empty"),
        "objects": (["fit", folder / "objects.npz"], "Python objects"),
        "torn": (["fit", folder / "torn.npz"], "corrupt"),
        "rows of T": (["fit", good, "--noise", folder / "bad.csv"], "rows that sum to 1, got 1.1"),
        "turned T": (["fit", good, "--noise", folder / "turned.csv"], "transpose"),
        "no file": (["fit", folder / "none.npz"], "no such file"),
        "source": (["fit", "minst"], "did you mean mnist"),
        "missing data": (["fit", "mnist", "--data-dir", folder], "train-images-idx3-ubyte"),
        "schedule": (["fit", good, "--schedule", "slow"], "quick"),
        "network": (["fit", good, "--network", "lenet"], "lenet"),
        "revision": (["fit", good, "--revision", "slak"], "slack, projected, simplex, frozen"),
        "train size": (["fit", good, "--train-size", 99], "got 99"),
        "accelerator": (["fit", good, "--accelerator", "tpu"], "accelerator must be one that is installed"),
        "devices": (["fit", good, "--devices", 0], "devices"),
        "precision": (["fit", good, "--precision", "12"], "precision"),
        "prior": (["fit", good, "--prior", "sparce=1"], "got 'sparce=1'"),
        "prior's file": (["fit", good, "--prior", "support=none.csv"], "there is none at none.csv"),
        "prior's noise": (["fit", good, "--prior", "known=pear-45"], "or the name of a noise"),
        "prior's words": (["fit", good, "--prior", f"support={folder}/words.csv"], "must hold numbers"),
        "prior's size": (
            ["fit", good, "--prior", f"support={folder}/mask.csv"],
            "for 2 classes, got shape (3, 3)",
        ),
        "nothing known": (["fit", good, "--prior", f"known={folder}/blank.csv"], "at least one row"),
        "prior and slack": (["fit", good, "--prior", "dominant", "--revision", "slack"], "simplex or frozen"),
        "prior's method": (
            ["fit", good, "--prior", "dominant", "--method", "standard"],
            "a choice of auto, backward, forward",
        ),
        "empty T": (["fit", good, "--noise", folder / "empty.npy"], "the file is empty"),
        "complex T": (["fit", good, "--noise", folder / "complex.npy"], "real numbers, got complex128"),
        "prior's empty file": (["fit", good, "--prior", f"known={folder}/empty.npy"], "the file is empty"),
        "estimator's classes": (
            ["fit", folder / "k101.npz", "--estimator", "latent"],
            "estimator latent is for up to 100 classes",
        ),
        "run folder": (["predict", folder / "nowhere", good], "config.json"),
    }


MISTAKES = [
    "method",
    "noise",
    "noise name",
    "nan label",
    "one class",
    "empty",
    "objects",
    "torn",
    "rows of T",
    "turned T",
    "no file",
    "source",
    "missing data",
    "schedule",
    "network",
    "revision",
    "train size",
    "accelerator",
    "devices",
    "precision",
    "prior",
    "prior's file",
    "prior's noise",
    "prior's words",
    "prior's size",
    "nothing known",
    "prior and slack",
    "prior's method",
    "empty T",
    "complex T",
    "prior's empty file",
    "estimator's classes",
    "run folder",
]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_clear_line_and_status_2_and_writes_nothing(tmp_path, name, monkeypatch, capsys):
    cases = mistakes(tmp_path)
    assert list(cases) == MISTAKES
    arguments, says = cases[name]
    out = tmp_path / "out"
    for variable in ("TREVISION_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments), "--out", str(out)])
    written = capsys.readouterr().err
    assert stopped.value.code == 2
    assert says in written
    assert len(written.strip().splitlines()) == 1
    assert written.startswith("trevision: ")
    assert not out.exists()


def test_a_mistake_ends_the_process_with_status_2(tmp_path):
    done = trevision("fit", "digits", "--method", "magic", "--out", tmp_path / "out", status=2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_who_leaves_ends_the_command_quietly():
    process = subprocess.Popen(
        command("fit", "--help"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()  # as `| head` does
    assert process.stderr.read() == ""
    assert process.wait(timeout=120) == 141


def test_help_shows_examples_and_misspelt_flags_get_a_suggestion(capsys):
    for arguments, status, says in (
        (("fit", "--help"), 0, "$ trevision fit digits --noise sym-50 --out runs/digits\n"),
        (("--help",), 0, "demo"),
        (("fit", "digits", "--out", "x", "--sede", "3"), 2, "--seed"),
    ):
        with pytest.raises(SystemExit) as stopped:
            here(*arguments)
        assert stopped.value.code == status
        told = capsys.readouterr()
        assert says in (told.err if status else told.out)


def test_data_lists_every_named_set_and_finds_digits(capsys):
    here("data")
    told = capsys.readouterr().out
    for name in ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100"):
        assert name in told
