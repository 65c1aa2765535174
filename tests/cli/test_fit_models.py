"""`trevision fit --model`: from a table to cleaned labels with each model, and what flags may go together."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.neighbors import KNeighborsClassifier

from trevision.cli import main
from trevision.data.folds import fold_of
from trevision.models.candidates import CANDIDATES
from trevision.noise import corrupt

TRANSITION = np.array([[0.95, 0.05], [0.4, 0.6]])
KINDS = np.array(["gone", "here"])
REQUIRED = {
    "method", "seed", "noise", "test_accuracy", "initial_transition_error", "transition_error",
    "noisy_validation_accuracy", "seconds", "stopped_because", "versions", "warnings", "data_notes", "models",
}  # fmt: skip


def command(*words: object) -> None:
    main([str(word) for word in words])


def result_of(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def rows(count: int, seed: int, planted: np.ndarray | None = None) -> pd.DataFrame:
    """Two kinds that two numbers and a word tell apart; with T, their labels are noisy."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(2, size=count)
    labels = clean if planted is None else corrupt(clean, planted, rng)
    return pd.DataFrame(
        {
            "id": [f"r{number}" for number in range(count)],
            "size": rng.normal(2.5 * clean, 1).round(4),
            "weight": rng.normal(-2.0 * clean, 1).round(4),
            "colour": np.where(rng.random(count) < 0.25 + 0.5 * clean, "red", "green"),
            "label": KINDS[labels],
            "truth": KINDS[clean],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """noisy.csv (900 rows), test.csv (300 rows with right labels) and truth.csv."""
    folder = tmp_path_factory.mktemp("tables")
    noisy = rows(900, 0, TRANSITION)
    noisy.drop(columns="truth").to_csv(folder / "noisy.csv", index=False)
    noisy[["id", "truth"]].to_csv(folder / "truth.csv", index=False)
    rows(300, 1).drop(columns="truth").to_csv(folder / "test.csv", index=False)
    return folder


def accuracy(capsys, run: Path, source: Path) -> float:
    capsys.readouterr()
    command("predict", run, source, "--out", run / "p.csv")
    return float(capsys.readouterr().out.split("test.csv: ")[1].rstrip("%\n"))


@pytest.mark.parametrize("model", CANDIDATES)
def test_each_model_goes_from_a_table_to_cleaned_labels(folder, tmp_path, capsys, model):
    run, plain = tmp_path / "run", tmp_path / "plain"
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--model", model)
    command(*fit, "--out", run)
    told = capsys.readouterr().out
    assert model in told
    assert "; correction " in told
    result = result_of(run)
    assert result.keys() >= REQUIRED
    assert (result["model"], result["method"], result["epochs"]) == (model, model, 0)
    assert result["correction"] != "none"
    assert result["correction_reason"].startswith(result["correction"])
    (entry,) = result["models"]
    assert entry["chosen"]
    assert entry.keys() >= {"name", "log_likelihood", "accuracy", "seconds"}
    learnt = np.loadtxt(run / "transition.csv", delimiter=",")
    assert abs(learnt - TRANSITION).max() < 0.12

    command(*fit, "--correction", "none", "--out", plain)
    assert result_of(plain)["correction"] == "none"
    after, before = (accuracy(capsys, each, folder / "test.csv") for each in (run, plain))
    assert after > 90
    assert after > before + 3

    command("score", run, folder / "test.csv", "--transition", "sym-0")
    assert f"{after / 100:.4f}" in capsys.readouterr().out
    command("issues", run, "--bootstrap", 10)
    assert f"({model})" in json.loads((run / "noise.json").read_text(encoding="utf-8"))["scored_by"]
    truth = pd.read_csv(folder / "truth.csv")["truth"]
    found = pd.read_parquet(run / "issues.parquet")
    suspects = found[found["suspect"]]
    is_wrong = suspects["given"].to_numpy() != truth[suspects["row"]].to_numpy()
    assert is_wrong.mean() > 0.7
    assert found["name"].str.startswith("r").all()

    command("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Which model" in page
    assert result["correction_reason"].split(";")[0] in page
    corrections = suspects[["row", "name", "given"]].assign(
        corrected=suspects["suggested"], decision="accept"
    )
    corrections.to_csv(tmp_path / "corrections.csv", index=False)
    command("apply", run, tmp_path / "corrections.csv", "--out", tmp_path / "cleaned.csv")
    cleaned, noisy = (pd.read_csv(path)["label"] for path in (tmp_path / "cleaned.csv", folder / "noisy.csv"))
    assert (cleaned != truth).mean() < 0.6 * (noisy != truth).mean()


def test_auto_takes_the_likeliest_model_and_its_run_is_that_model_s_own(folder, tmp_path, capsys):
    pytest.importorskip("torch")
    command("fit", folder / "noisy.csv", "--name-column", "id", "--out", tmp_path / "auto")
    assert "could not be fitted" not in capsys.readouterr().out
    result = result_of(tmp_path / "auto")
    models = result["models"]
    assert {each["name"] for each in models} == {"network", *CANDIDATES}
    assert [each["chosen"] for each in models] == [True, False, False, False]
    assert result["model"] == max(models, key=lambda each: each["log_likelihood"])["name"]
    assert not (tmp_path / "auto" / "checkpoints").exists()
    # An independent loop over the folds that the seed gives.
    from trevision.data.load_arrays import load_arrays
    from trevision.runs.run_folder import RunFolder

    dataset = load_arrays(str(folder / "noisy.csv"), RunFolder(tmp_path / "auto").reading)
    folds = fold_of(dataset.train_y, 5, np.random.default_rng([0, 3]))
    for each in models:
        if each["name"] == "network":
            continue
        (value,) = each["settings"].values()
        model, right = CANDIDATES[each["name"]].model(value, 0, scaled=True), 0
        for fold in range(5):
            held_out = folds == fold
            model.fit(dataset.train_x[~held_out], dataset.train_y[~held_out])
            right += (model.predict(dataset.train_x[held_out]) == dataset.train_y[held_out]).sum()
        assert each["accuracy"] == right / len(dataset.train_y)
    # The same model by its name.
    own = tmp_path / "own"
    command("fit", folder / "noisy.csv", "--name-column", "id", "--model", result["model"], "--out", own)
    for name in ("transition.csv", "probabilities.npz"):
        assert (own / name).read_bytes() == (tmp_path / "auto" / name).read_bytes()


def test_if_the_network_is_likeliest_it_is_trained_as_ever(folder, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    for name, candidate in CANDIDATES.items():
        monkeypatch.setitem(CANDIDATES, name, replace(candidate, make=lambda *_: None))
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--train-size", 200)
    command(*fit, "--out", tmp_path / "auto")
    command(*fit, "--model", "network", "--out", tmp_path / "network")
    auto, network = (result_of(tmp_path / name) for name in ("auto", "network"))
    assert auto["model"] == "network"
    assert auto["method"] == "auto"
    assert [each["name"] for each in auto["models"] if "error" in each] == [*CANDIDATES]
    assert sum("could not be fitted" in warning for warning in auto["warnings"]) == 3
    assert "models" not in network
    for name in ("model.safetensors", "transition.csv", "probabilities.npz"):
        assert (tmp_path / "auto" / name).read_bytes() == (tmp_path / "network" / name).read_bytes()


FILES = ("model.skops", "transition.csv", "probabilities.npz", "labels.parquet")


def contents(path: Path) -> object:
    """The bytes of a file; of an archive, whose members carry the time, those of its members."""
    import zipfile

    if path.suffix == ".skops":
        with zipfile.ZipFile(path) as archive:
            return sorted(
                (info.CRC, archive.read(info)) for info in archive.infolist() if info.filename[-4:] == ".npy"
            )
    return path.read_bytes()


@pytest.mark.parametrize("model", CANDIDATES)
def test_the_same_seed_gives_the_same_bits_and_another_one_others(folder, tmp_path, model):
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--train-size", 300, "--model", model)
    fit += () if model == "linear" else ("--correction", "none")  # which spares time
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        command(*fit, "--seed", seed, "--out", tmp_path / name)
    a, b, c = ([contents(tmp_path / name / file) for file in FILES] for name in "abc")
    assert a == b
    assert a[2] != c[2]


def test_a_run_that_is_killed_continues_to_the_same_bits(folder, tmp_path):
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--model", "boosting", "--out")
    killed = tmp_path / "killed"
    words = [sys.executable, "-m", "trevision", *map(str, fit), str(killed)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not (killed / "checkpoints" / "compare-boosting.npz").exists():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "result.json").exists()
    command(*fit, killed)
    command(*fit, tmp_path / "whole")
    assert not (killed / "checkpoints").exists()
    for name in FILES:
        assert contents(killed / name) == contents(tmp_path / "whole" / name)


def test_texts_are_learnt_by_their_words(tmp_path, capsys):
    """Logistic regression gets every word; what was learnt is told to `predict` by the model's file."""
    rng = np.random.default_rng(0)
    common, own = [f"word{k}" for k in range(80)], [[f"{kind}{k}" for k in range(30)] for kind in KINDS]
    clean = rng.integers(2, size=800)
    texts = [" ".join([*rng.choice(common, 6), *rng.choice(own[k], 2)]) for k in clean]
    frame = pd.DataFrame({"text": texts, "label": KINDS[corrupt(clean, TRANSITION, rng)]})
    frame[:600].to_csv(tmp_path / "noisy.csv", index=False)
    frame[600:].assign(label=KINDS[clean[600:]]).to_csv(tmp_path / "test.csv", index=False)
    run = tmp_path / "run"
    command("fit", tmp_path / "noisy.csv", "--text-column", "text", "--model", "linear", "--out", run)
    words = {word for text in texts[:600] for word in text.split()}
    assert json.loads((run / "config.json").read_text())["model"]["shape"] == [len(words)]
    assert accuracy(capsys, run, tmp_path / "test.csv") > 85


def test_arrays_with_added_noise_tell_how_far_t_is_off(blobs, tmp_path):
    np.savez(
        tmp_path / "b.npz", x=1000 * blobs.x, y=blobs.clean, x_test=1000 * blobs.test_x, y_test=blobs.test_y
    )
    np.savetxt(tmp_path / "T.csv", blobs.transition, delimiter=",")
    fit = ("fit", tmp_path / "b.npz", "--noise", tmp_path / "T.csv", "--model", "linear")
    command(*fit, "--out", tmp_path / "run")
    result = result_of(tmp_path / "run")
    assert result["test_accuracy"] > 0.9
    assert result["transition_error"] < 0.25
    learnt = np.loadtxt(tmp_path / "run" / "transition.csv", delimiter=",")
    off = abs(learnt - blobs.transition).sum() / blobs.transition.sum()
    assert result["transition_error"] == pytest.approx(off, abs=1e-6)
    assert result["wrong_label_auc"] > 0.9
    command("predict", tmp_path / "run", tmp_path / "b.npz", "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        labels = [int(row["label"]) for row in csv.DictReader(file)]
    assert np.mean(labels == blobs.test_y) == result["test_accuracy"]


def test_with_many_rows_choices_are_made_by_a_part_of_them_and_told(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("trevision.runs.model_run.MOST_ROWS", 400)
    run = tmp_path / "run"
    command("fit", folder / "noisy.csv", "--name-column", "id", "--model", "linear", "--out", run)
    notes = result_of(run)["data_notes"]
    assert "Models were compared on 400 of the 900 rows, drawn at random." in notes
    assert any("chosen by 400 of the 900 rows" in note for note in notes)
    assert "400 of the 900" in " ".join(capsys.readouterr().err.split())
    assert len(np.load(run / "probabilities.npz")["labels"]) == 900
    assert accuracy(capsys, run, folder / "test.csv") > 90


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "linear", "--method", "forward"], "method is a choice of the network, got it with"),
        (["--model", "linear", "--method", "reweight-r"], "method is a choice of the network"),
        (["--model", "auto", "--schedule", "quick"], "schedule is a choice of the network, got it with"),
        (["--model", "forest", "--network", "mlp"], "network is a choice of the network"),
        (["--model", "forest", "--revision", "slack"], "revision is a choice of the network"),
        (["--model", "forest", "--prior", "dominant"], "prior is a choice of the network"),
        (["--model", "forest", "--devices", "2"], "devices is a choice of the network"),
        (["--model", "forest", "--accelerator", "cuda"], "accelerator is a choice of the network"),
        (["--model", "network", "--correction", "soft"], "correction is a choice of boosting, forest"),
        (["--method", "forward", "--correction", "soft"], "got soft for the network, which method asks for"),
        (["--model", "liner"], "did you mean linear?"),
        (["--correction", "sotf"], "did you mean soft?"),
        (["--model", "linear", "--seed", "-1"], "seed must be 0 or more"),
        (["--model", "linear", "--threads", "0"], "threads must be at least 1"),
        (["--model", "linear", "--train-size", "9999"], "train_size must lie in [1, 900]"),
        (["--model", "linear", "--label-column", "lable"], "has no column 'lable'"),
    ],
)  # fmt: skip
def test_flags_that_contradict_each_other_get_one_line(folder, tmp_path, capsys, words, says):
    with pytest.raises(SystemExit) as stopped:
        command("fit", folder / "noisy.csv", *words, "--out", tmp_path / "run")
    assert stopped.value.code == 2
    written = capsys.readouterr().err
    assert says in written
    assert len(written.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_images_are_for_the_network(blobs, tmp_path, capsys):
    np.savez(tmp_path / "images.npz", x=np.zeros((20, 5, 5)), y=np.arange(20) % 2)
    for source in (tmp_path / "images.npz", "digits"):
        with pytest.raises(SystemExit):
            command("fit", source, "--model", "linear", "--out", tmp_path / "run")
        assert "model must be network for images" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ([], "auto"),
        (["--seed", "3"], "auto"),
        (["--estimator", "confident-joint"], "auto"),
        (["--accelerator", "cpu"], "auto"),
        (["--correction", "prune"], "auto"),
        (["--method", "reweight-r"], "network"),
        (["--schedule", "quick"], "network"),
        (["--noise", "sym-20"], "network"),
        (["--lr-revision", "0.1"], "network"),
        (["--clean-column", "size"], "auto"),
        (["--model", "network"], "network"),
    ],
)
def test_a_flag_that_only_the_network_reads_asks_for_it(folder, tmp_path, monkeypatch, words, model):
    """Also one with its default's value, which the user wrote all the same."""
    settled = []

    def record(source, settings, *_):
        settled.append(settings)
        raise ValueError("enough")

    monkeypatch.setattr("trevision.cli.fit.fit_source", record)
    with pytest.raises(SystemExit):
        command("fit", folder / "noisy.csv", *words, "--out", tmp_path / "run")
    assert settled[0].models.model == model
    assert type(settled[0].method) is str


def test_a_chosen_estimator_of_t_is_used(folder, tmp_path):
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--model", "linear", "--correction", "none")
    for name in ("latent", "confident-joint"):
        command(*fit, "--estimator", name, "--out", tmp_path / name)
    latent, joint = (
        (tmp_path / name / "transition.csv").read_text() for name in ("latent", "confident-joint")
    )
    assert latent != joint


def test_without_torch_tables_are_learnt_and_predicted_and_one_line_says_what_is_missing(
    folder, tmp_path, without_torch
):
    program = textwrap.dedent(
        """
        from trevision.cli import main
        train, test, out = sys.argv[1:]
        main(["fit", train, "--name-column", "id", "--train-size", "300", "--out", out])
        main(["predict", out, test, "--out", out + "/p.csv"])
        main(["score", out, test, "--transition", "sym-0"])
        main(["issues", out, "--bootstrap", "10"])
        main(["report", out])
        assert not {"torch", "lightning_fabric"} & set(sys.modules)
        """
    )
    words = [
        sys.executable,
        "-c",
        without_torch + program,
        folder / "noisy.csv",
        folder / "test.csv",
        tmp_path / "run",
    ]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "torch" in line]
    assert notes == ["note: The network was not compared: it needs torch, which is not installed."]
    assert {each["name"] for each in result_of(tmp_path / "run")["models"]} == set(CANDIDATES)


def test_a_model_of_a_foreign_type_is_refused_in_one_line(folder, tmp_path, capsys):
    import zipfile

    run = tmp_path / "run"
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--model", "linear", "--correction", "none")
    command(*fit, "--out", run)
    with zipfile.ZipFile(run / "model.skops") as archive:
        described = archive.read("trevision.json")
    skops.io.dump(KNeighborsClassifier().fit([[0.0], [1.0]], [0, 1]), run / "model.skops")
    with zipfile.ZipFile(run / "model.skops", "a") as archive:
        archive.writestr("trevision.json", described)
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        command("predict", run, folder / "test.csv", "--out", tmp_path / "p.csv")
    written = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "KNeighborsClassifier, which is not trusted and is not loaded" in written
    assert len(written.strip().splitlines()) == 1
    assert not (tmp_path / "p.csv").exists()


def test_a_scikit_learn_model_is_not_taken_for_a_network(folder, tmp_path, capsys):
    pytest.importorskip("torch")
    run = tmp_path / "run"
    command("fit", folder / "noisy.csv", "--name-column", "id", "--model", "linear", "--out", run)
    with pytest.raises(SystemExit):
        command("bound", run)
    assert "must hold a network, got a run of --model linear" in capsys.readouterr().err
    (run / "probabilities.npz").unlink()
    with pytest.raises(SystemExit):
        command("issues", run)
    assert "has lost probabilities.npz; fit again" in capsys.readouterr().err


def test_the_page_escapes_what_a_result_says_of_models(folder, tmp_path):
    run = tmp_path / "run"
    command("fit", folder / "noisy.csv", "--name-column", "id", "--model", "linear", "--out", run)
    evil = {"name": "<script>alert(1)</script>", "error": "<img src=x>", "chosen": False}
    result = result_of(run)
    result["models"].append(evil)
    (run / "result.json").write_text(json.dumps(result))
    command("issues", run, "--bootstrap", 10)
    command("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x>" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_finished_run_is_left_and_another_model_refused(folder, tmp_path, capsys):
    fit = ("fit", folder / "noisy.csv", "--name-column", "id", "--out", tmp_path / "run")
    command(*fit, "--model", "linear")
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    command(*fit, "--model", "linear")
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before
    with pytest.raises(SystemExit):
        command(*fit, "--model", "forest")
    assert "holds a run with another models" in capsys.readouterr().err


def test_a_lead_within_its_error_is_told():
    from trevision.models.comparison import Compared
    from trevision.runs.model_run import _near_ones

    best, far = Compared("forest", rows=np.zeros(1)), Compared("linear", behind=0.2, behind_error=0.1)
    near, broken = Compared("boosting", behind=0.1, behind_error=0.2), Compared("network", error="no")
    (note,) = _near_ones([best, near, far, broken])
    assert "forest is hardly ahead of boosting" in note
    assert _near_ones([best, far, broken]) == []


@pytest.mark.parametrize("words", [{}, {"models": {"model": "network", "correction": "auto"}}])
def test_runs_recorded_before_there_were_models_keep_their_names(words):
    """A config without models is that of the network, and so is one that says the defaults."""
    from dataclasses import asdict

    from trevision.runs.settings import Settings, canonical, run_config, settings_of

    old = {"source": "mnist", **{k: v for k, v in asdict(Settings()).items() if k != "models"}} | words
    assert canonical(old) == canonical(run_config("mnist", Settings()))
    assert "models" not in canonical(old)
    assert settings_of(json.loads(json.dumps(old)))[1].models.model == "network"


def test_the_bar_counts_models_where_there_are_no_epochs():
    import io

    from rich.console import Console

    from trevision.cli.progress import RichProgress

    shown = io.StringIO()
    with RichProgress("auto on a.csv", Console(file=shown, force_terminal=True, width=100)) as progress:
        progress.stage("linear", 0, 3)
        progress.batch()
        progress.batch()
        progress.stage("network-1", 2, 4)
        progress.epoch({"epoch": 1, "noisy_validation_error": 0.25})
    assert "model 2/3" in shown.getvalue()
    assert "epoch 1/2" in shown.getvalue()
