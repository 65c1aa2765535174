"""`trevision fit --annotator-column who --model NAME`: several labels a row, learnt by each model."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression

from trevision import NoisyLabelClassifier
from trevision.cli import main
from trevision.models.candidates import CANDIDATES
from trevision.noise import corrupt
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Models, Settings, fit_command

ROWS, UNANSWERED = 240, (7, 90)
KINDS = np.array(["cat", "dog"])
PEOPLE = {  # who errs how: P(answer | clean), asymmetric
    "ann": [[0.95, 0.05], [0.15, 0.85]],
    "bob": [[0.9, 0.1], [0.3, 0.7]],
    "cleo": [[0.6, 0.4], [0.05, 0.95]],
    "dan": [[0.5, 0.5], [0.5, 0.5]],
}
ANSWERS = ("--label-column", "label", "--id-column", "id", "--annotator-column", "who")


def command(*words: object) -> None:
    main([str(word) for word in words])


def result_of(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """answers.csv, rows.csv with two rows that nobody answered, merged.csv of both, and truth.csv."""
    folder = tmp_path_factory.mktemp("crowd")
    rng = np.random.default_rng(0)
    clean = rng.integers(2, size=ROWS)
    names = [f"x{row}" for row in range(ROWS)]
    own = [[f"{kind}{k}" for k in range(20)] for kind in KINDS]
    texts = [" ".join(["it", "is", *rng.choice(own[kind], 3)]) for kind in clean]
    size = rng.normal(3 * clean, 1).round(3)
    rows = pd.DataFrame({"id": names, "size": size, "text": texts})
    rows.drop(columns="text").to_csv(folder / "rows.csv", index=False)
    rows.drop(columns="size").to_csv(folder / "texts.csv", index=False)
    lines = []
    for who, matrix in PEOPLE.items():
        said = corrupt(clean, np.array(matrix), rng)
        asked = np.flatnonzero((rng.random(ROWS) < 0.8) | (who == "ann"))
        lines += [(names[row], who, KINDS[said[row]]) for row in asked if row not in UNANSWERED]
    answers = pd.DataFrame(lines, columns=["id", "who", "label"])
    answers.to_csv(folder / "answers.csv", index=False)
    answers.merge(rows, on="id").to_csv(folder / "merged.csv", index=False)
    pd.DataFrame({"id": names, "size": size, "label": KINDS[clean]}).to_csv(folder / "truth.csv", index=False)
    return folder


def fit(folder: Path, out: Path, *more: object) -> dict:
    words = ("fit", folder / "answers.csv", *ANSWERS, "--rows-source", folder / "rows.csv")
    command(*words, *more, "--out", out)
    return result_of(out)


@pytest.mark.parametrize("model", CANDIDATES)
def test_each_model_gives_a_run_that_every_command_takes(folder, tmp_path, capsys, model):
    run = tmp_path / "run"
    result = fit(folder, run, "--model", model)
    told = capsys.readouterr()
    given, truth = pd.read_csv(folder / "answers.csv"), pd.read_csv(folder / "truth.csv").label
    assert (result["model"], result["method"], result["correction"]) == (model, model, "soft")
    (details,) = (line for line in told.out.splitlines() if line.startswith("details: "))
    assert f"model {model}" in details
    assert "4 annotators gave" in told.out
    assert "2 rows without a label left out (rows 7, 90)" in told.err
    crowd = result["annotators"]
    assert (crowd["annotators"], crowd["answers"], crowd["rows"]) == (4, len(given), ROWS - 2)
    assert 0.8 < result["noisy_validation_accuracy"] < 0.95
    stored = RunFolder(run)
    assert stored.annotators.names == tuple(PEOPLE)
    np.testing.assert_allclose(stored.annotators.transitions, list(PEOPLE.values()), atol=0.15)
    np.testing.assert_allclose(np.loadtxt(run / "transition.csv", delimiter=","), stored.annotators.crowd)
    assert [column.name for column in stored.preprocessing.columns] == ["size"]
    votes = (KINDS[stored.labels.codes] == truth[stored.labels.row_numbers]).mean()
    inferred = KINDS[stored.annotators.clean_posterior.argmax(axis=1)] == truth[stored.clean_rows]
    assert inferred.mean() > votes
    assert len(stored.answers) == len(given)

    command("predict", run, folder / "truth.csv", "--out", tmp_path / "p.csv")
    assert float(capsys.readouterr().out.split("truth.csv: ")[1].rstrip("%\n")) > 90
    assert pd.read_csv(tmp_path / "p.csv").name.tolist() == [f"x{row}" for row in range(ROWS)]
    command("score", run, folder / "truth.csv", "--transition", "sym-0")
    command("issues", run, "--bootstrap", 10)
    noise = json.loads((run / "noise.json").read_text(encoding="utf-8"))
    assert f"by models ({model}) that were not trained on the row" in noise["scored_by"]
    found = pd.read_parquet(run / "issues.parquet")
    assert set(found.name) == set(given.id)
    suspects = found[found.suspect]
    assert (suspects.given.to_numpy() != truth[suspects.row].to_numpy()).mean() > 0.6

    command("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "makes their answers, wrong ones included, likeliest" in page
    assert "Right on held-out rows, by their answers" in page
    assert "The rows on which they disagree most" in page
    reviewed = suspects[["row", "name", "given"]].assign(corrected=suspects.suggested, decision="accept")
    reviewed.to_csv(tmp_path / "corrections.csv", index=False)
    command("apply", run, tmp_path / "corrections.csv", "--out", tmp_path / "cleaned.csv")
    cleaned = pd.read_csv(tmp_path / "cleaned.csv").label
    assert cleaned.isna().sum() == 2
    assert (cleaned == truth).sum() > votes * (ROWS - 2)


def test_the_run_is_that_of_noisy_label_classifier_on_a_table_of_answers(folder, tmp_path):
    """An independent way to the same: a column for each annotator, and the folds as a list of splits."""
    from trevision.data.folds import fold_of
    from trevision.data.load_arrays import load_arrays

    result = fit(folder, tmp_path / "run", "--model", "linear")
    run = RunFolder(tmp_path / "run")
    dataset = load_arrays(run.source, run.reading)
    table = np.full((len(dataset.train_y), 4), -1)
    table[dataset.answers.row, dataset.answers.who] = dataset.answers.label
    folds = fold_of(dataset.train_y, 5, np.random.default_rng([0, 3]))
    splits = [(np.flatnonzero(folds != number), np.flatnonzero(folds == number)) for number in range(5)]
    (entry,) = result["models"]
    logistic = LogisticRegression(C=entry["settings"]["C"], max_iter=1000)
    expected = NoisyLabelClassifier(logistic, cv=splits, random_state=0).fit(dataset.train_x, table)
    np.testing.assert_allclose(run.annotators.transitions, expected.annotators_.transitions)
    np.testing.assert_allclose(run.annotators.clean_posterior, expected.annotators_.clean_posterior)
    np.testing.assert_allclose(run.transitions[1], expected.transition_matrix_)
    assert result["noise_rate"] == pytest.approx(expected.noise_rate_)
    assert result["correction_reason"] == expected.correction_reason_
    fitted = run.classifier.fitted.predict_proba(dataset.train_x)
    np.testing.assert_allclose(fitted, expected.predict_proba(dataset.train_x))


def test_auto_is_the_default_and_takes_the_model_that_makes_answers_likeliest(folder, tmp_path):
    pytest.importorskip("torch")
    result = fit(folder, tmp_path / "auto")
    models = result["models"]
    assert {each["name"] for each in models} == {"network", *CANDIDATES}
    assert not any("error" in each for each in models)
    assert result["model"] == max(models, key=lambda each: each["log_likelihood"])["name"]
    assert RunFolder(tmp_path / "auto").settings.models.model == "auto"
    for name in CANDIDATES:
        (alone,) = fit(folder, tmp_path / name, "--model", name)["models"]
        (entry,) = (each for each in models if each["name"] == name)
        for key in ("settings", "log_likelihood", "accuracy"):
            assert alone[key] == entry[key]
    if result["model"] != "network":
        for name in ("annotators.json", "answers.parquet", "transition.csv"):
            own = tmp_path / result["model"] / name
            assert own.read_bytes() == (tmp_path / "auto" / name).read_bytes()


def test_if_the_network_is_likeliest_it_learns_the_answers_as_ever(folder, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    for name, candidate in CANDIDATES.items():
        monkeypatch.setitem(CANDIDATES, name, replace(candidate, make=lambda *_: None))
    auto = fit(folder, tmp_path / "auto", "--train-size", 120)
    network = fit(folder, tmp_path / "network", "--train-size", 120, "--model", "network")
    assert auto["model"] == "network"
    assert [each["name"] for each in auto["models"] if "error" in each] == [*CANDIDATES]
    assert auto["annotators"] == network["annotators"]
    assert "models" not in network
    for name in ("model.safetensors", "annotators.json", "transition.csv"):
        assert (tmp_path / "auto" / name).read_bytes() == (tmp_path / "network" / name).read_bytes()


def test_rows_repeated_in_the_answers_are_the_same_run(folder, tmp_path):
    answered = pd.read_csv(folder / "rows.csv").drop(list(UNANSWERED))
    answered.to_csv(tmp_path / "rows.csv", index=False)
    apart = ("--rows-source", tmp_path / "rows.csv", "--model", "linear", "--out", tmp_path / "apart")
    command("fit", folder / "answers.csv", *ANSWERS, *apart)
    repeated = ("--ignore-column", "text", "--model", "linear", "--out", tmp_path / "repeated")
    command("fit", folder / "merged.csv", *ANSWERS, *repeated)
    for name in ("annotators.json", "clean.npz", "labels.parquet", "transition.csv"):
        assert (tmp_path / "apart" / name).read_bytes() == (tmp_path / "repeated" / name).read_bytes()


def test_texts_joined_by_id_are_learnt_by_their_words(folder, tmp_path, capsys):
    run = tmp_path / "run"
    texts = ("--rows-source", folder / "texts.csv", "--text-column", "text", "--model", "linear")
    command("fit", folder / "answers.csv", *ANSWERS, *texts, "--out", run)
    answered = pd.read_csv(folder / "texts.csv").text.drop(list(UNANSWERED))
    words = {word for text in answered for word in text.split()}
    assert json.loads((run / "config.json").read_text())["model"]["shape"][0] == pytest.approx(
        len(words), abs=1
    )
    command("predict", run, folder / "texts.csv", "--out", tmp_path / "p.csv")
    truth = pd.read_csv(folder / "truth.csv").label
    assert (pd.read_csv(tmp_path / "p.csv").label == truth).mean() > 0.9


def test_fewer_rows_take_their_answers_with_them_and_many_are_compared_by_a_part(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("trevision.runs.model_run.MOST_ROWS", 80)
    result = fit(folder, tmp_path / "run", "--model", "linear", "--train-size", 120)
    assert "Models were compared on 80 of the 120 rows, drawn at random." in result["data_notes"]
    rows = RunFolder(tmp_path / "run").clean_rows
    given = pd.read_csv(folder / "answers.csv")
    assert result["annotators"]["rows"] == len(rows) == 120
    assert result["annotators"]["answers"] == given.id.isin([f"x{row}" for row in rows]).sum()


def test_the_command_that_apply_tells_is_one_that_fit_takes(folder, tmp_path, capsys):
    pytest.importorskip("torch")
    fit(folder, tmp_path / "run", "--model", "linear", "--train-size", 120)
    command("issues", tmp_path / "run", "--bootstrap", 0)
    first = pd.read_csv(tmp_path / "run" / "issues.csv").head(3)
    reviewed = first[["row", "name", "given"]].assign(corrected=first.suggested, decision="accept")
    reviewed.to_csv(tmp_path / "corrections.csv", index=False)
    capsys.readouterr()
    cleaned = tmp_path / "cleaned.csv"
    command("apply", tmp_path / "run", tmp_path / "corrections.csv", "--out", cleaned)
    told = shlex.split(capsys.readouterr().out.split("next: trevision ")[1])
    assert "--clean-column" in told
    assert told[told.index("--model") + 1] == "linear"
    assert not {"--method", "--models"} & set(told)
    command(*told)
    assert RunFolder(told[-1]).card.network == "linear"


@pytest.mark.parametrize("model", ["network", "boosting"])
def test_a_command_names_the_model_of_its_settings(model):
    settings = Settings(method="auto", models=Models(model, "soft"))
    words = fit_command("a.csv", settings, Path("run")).split()
    assert words == ["trevision", "fit", "a.csv", "--model", model, "--correction", "soft", "--out", "run"]
    compared = replace(settings, models=Models("auto"))  # what the command does with a table
    assert fit_command("a.csv", compared, Path("run")) == "trevision fit a.csv --out run"


def test_a_finished_run_is_left_and_another_model_refused(folder, tmp_path, capsys):
    fit(folder, tmp_path / "run", "--model", "linear")
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    fit(folder, tmp_path / "run", "--model", "linear")
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before
    with pytest.raises(SystemExit):
        fit(folder, tmp_path / "run", "--model", "forest")
    assert "holds a run with another models" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "liner"], "did you mean linear?"),
        (["--model", "linear", "--method", "standard"], "method is a choice of the network, got it with"),
        (["--model", "forest", "--clean-source", "rows.csv"], "clean_source is a choice of the network"),
        (["--model", "linear", "--noise", "sym-20"], "noise must be left out with several labels a row"),
        (["--model", "linear", "--estimator", "hoc"], "estimator must be left out with several labels a row"),
        (["--estimator", "hoc"], "estimator must be left out with several labels a row"),
        (["--correction", "prune"], "correction must be left out with several labels a row, got prune"),
        (["--model", "linear", "--correction", "none"], "correction must be left out with several labels"),
        (["--model", "network", "--correction", "soft"], "correction is a choice of boosting, forest"),
        (
            ["--model", "linear", "--clean-column", "size"],
            "clean_column must be left out with annotator_column",
        ),
        (["--model", "linear", "--train-size", "999"], "train_size must lie in [1, 238]"),
        (["--model", "linear", "--seed", "-1"], "seed must be 0 or more"),
    ],
)
def test_choices_that_do_not_fit_get_one_line(folder, tmp_path, capsys, words, says):
    with pytest.raises(SystemExit) as stopped:
        fit(folder, tmp_path / "run", *words)
    assert stopped.value.code == 2
    written = capsys.readouterr().err
    assert says in written
    assert len(written.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_images_that_answers_name_are_for_the_network(tmp_path, capsys):
    lines = []
    for number in range(6):
        Image.new("RGB", (5, 5)).save(tmp_path / f"{number}.png")
        lines += [(f"{number}.png", who, KINDS[number % 2]) for who in "ab"]
    pd.DataFrame(lines, columns=["id", "who", "label"]).to_csv(tmp_path / "answers.csv", index=False)
    with pytest.raises(SystemExit):
        command("fit", tmp_path / "answers.csv", *ANSWERS, "--model", "linear", "--out", tmp_path / "run")
    assert "model must be network for images" in capsys.readouterr().err


def test_without_torch_answers_are_learnt_by_the_other_models(folder, tmp_path, without_torch):
    program = textwrap.dedent(
        """
        from trevision.cli import main
        folder, out = sys.argv[1:]
        words = "--label-column label --id-column id --annotator-column who --train-size 120".split()
        main(["fit", folder + "/answers.csv", *words, "--rows-source", folder + "/rows.csv", "--out", out])
        main(["predict", out, folder + "/rows.csv", "--out", out + "/p.csv"])
        main(["issues", out, "--bootstrap", "10"])
        main(["report", out])
        assert not {"torch", "lightning_fabric"} & set(sys.modules)
        """
    )
    words = [sys.executable, "-c", without_torch + program, folder, tmp_path / "run"]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "torch" in line]
    assert notes == ["note: The network was not compared: it needs torch, which is not installed."]
    assert {each["name"] for each in result_of(tmp_path / "run")["models"]} == set(CANDIDATES)
