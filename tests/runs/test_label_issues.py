"""From doubtful labels to a better model: fit, issues, report, corrections, apply, fit again."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from trevision import TRevisionClassifier, find_label_issues, noise
from trevision.cli import main

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
COLUMNS = [f"p{place}" for place in range(64)]


def command(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) in (None, 0)


def accuracy(capsys, run, source) -> float:
    capsys.readouterr()
    command("predict", run, source, "--out", run / "predictions.csv")
    return float(capsys.readouterr().out.split(":")[-1].strip().rstrip("%"))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Digits as CSV with 40% of the labels wrong, the same rows with clean labels, and held-out rows."""
    folder = tmp_path_factory.mktemp("tables")
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1200], order[1200:]
    noisy = noise.corrupt(y[train], noise.symmetric(10, 0.4), random_state=1)
    for name, rows, labels in (("noisy", train, noisy), ("clean", train, y[train]), ("test", test, y[test])):
        frame = pd.DataFrame(x[rows], columns=COLUMNS)
        frame["id"] = [f"digit-{row}" for row in rows]
        frame["label"] = NAMES[labels]
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_reviewed_suspects_make_a_better_model(tables, tmp_path, capsys):
    first, second, cleaned = tmp_path / "first", tmp_path / "second", tmp_path / "cleaned.csv"
    command("fit", tables / "noisy.csv", "--name-column", "id", "--out", first)
    command("issues", first, "--bootstrap", 20)
    command("report", first)
    assert "digit-" in (first / "report.html").read_text(encoding="utf-8")

    # A person looks at every suspect, and sees what it is.
    truth = pd.read_csv(tables / "clean.csv")["label"]
    found = pd.read_parquet(first / "issues.parquet")
    reviewed = found[found["suspect"]]
    corrections = reviewed[["row", "name", "given"]].assign(corrected=truth[reviewed["row"]].to_numpy())
    corrections["decision"] = np.where(corrections["corrected"] == corrections["given"], "keep", "change")
    corrections.to_csv(tmp_path / "corrections.csv", index=False)
    command("apply", first, tmp_path / "corrections.csv", "--out", cleaned)
    command("fit", cleaned, "--name-column", "id", "--out", second)

    wrong = {path: (pd.read_csv(path)["label"] != truth).mean() for path in (tables / "noisy.csv", cleaned)}
    assert wrong[cleaned] < 0.25 * wrong[tables / "noisy.csv"]
    before, after = (accuracy(capsys, run, tables / "test.csv") for run in (first, second))
    assert after > before + 0.5, (before, after)

    # What was found about the first run's labels, against the truth that the tool never saw.
    by_row = found.sort_values("row").reset_index(drop=True)
    is_wrong = (pd.read_csv(tables / "noisy.csv")["label"] != truth).to_numpy()
    assert by_row["name"].tolist() == pd.read_csv(tables / "noisy.csv")["id"].tolist()
    assert roc_auc_score(is_wrong, -by_row["p_given"]) > 0.97
    noise_found = json.loads((first / "noise.json").read_text(encoding="utf-8"))
    assert noise_found["wrong"]["low"] < is_wrong.sum() < noise_found["wrong"]["high"]
    assert abs(noise_found["wrong"]["estimate"] - is_wrong.sum()) < 0.1 * is_wrong.sum()
    pd.testing.assert_frame_equal(
        found, pd.read_csv(first / "issues.csv", dtype={"name": str}), rtol=1e-4, check_dtype=False
    )


def test_a_run_without_out_of_sample_predictions_makes_them_and_may_do_without_intervals(tmp_path, capsys):
    run = tmp_path / "run"
    command("fit", "digits", "--noise", "sym-20", "--train-size", 500, "--out", run)
    assert not (run / "probabilities.npz").exists()  # named data sets have the paper's anchor points
    command("issues", run, "--bootstrap", 10, "--show", 3)
    found = pd.read_parquet(run / "issues.parquet")
    assert sorted(found["rank"]) == list(range(1, 501))
    assert found["row"].nunique() == 500
    assert found["row"].max() > 500  # numbered as in the whole data set
    assert not (run / "checkpoints").exists()

    before = json.loads((run / "noise.json").read_text(encoding="utf-8"))
    capsys.readouterr()
    command("issues", run, "--bootstrap", 0, "--show", 3)
    said = capsys.readouterr().out
    assert "interval " not in said.splitlines()[0]
    bare = json.loads((run / "noise.json").read_text(encoding="utf-8"))
    assert bare["wrong"] == {"estimate": before["wrong"]["estimate"], "low": None, "high": None}
    assert (bare["low"], bare["high"], bare["resampling"]) == (None, None, None)
    assert (bare["estimator"], bare["class_prior"]) == ("latent", before["class_prior"])
    command("report", run)


def test_probabilities_of_rights_and_wrongs_follow_bayes_rule():
    # Two certain classes: a label is right with the probability that T and the posterior give it.
    transition = np.array([[0.9, 0.1], [0.3, 0.7]])
    rng = np.random.default_rng(0)
    clean = np.repeat([0, 1], 2000)
    share = np.where(rng.random(4000) < 0.1, 0.5, 0.98)  # a tenth of the rows could be either
    posterior = np.stack(
        [np.where(clean == 0, share, 1 - share), np.where(clean == 0, 1 - share, share)], axis=1
    )
    actual = (rng.random(4000) > posterior[:, 0]).astype(int)
    labels = noise.corrupt(actual, transition, rng)
    found = find_label_issues(posterior @ transition, labels, "confident-joint", bootstrap=10)
    for row in range(0, 4000, 97):
        joint = [posterior[row, i] * transition[i, labels[row]] for i in range(2)]
        assert found.p_given[row] == pytest.approx(joint[labels[row]] / sum(joint), abs=0.15)
    assert found.suspect.sum() == round(found.wrong[0])
    assert (np.diff(found.score[found.order]) >= 0).all()
    assert (found.p_suggested >= found.p_given)[~found.suspect].all()
    assert (found.suggested != found.given)[found.suspect].all()


def test_the_estimator_tells_which_of_its_labels_are_wrong():
    x, y = load_digits(return_X_y=True)
    x, y = x[:900], y[:900]
    noisy = noise.corrupt(y, noise.symmetric(10, 0.3), random_state=0)
    names = np.array([f"digit {number}" for number in range(10)])
    model = TRevisionClassifier("forward", random_state=0).fit(x, names[noisy])
    found = model.find_label_issues(bootstrap=10)
    assert roc_auc_score(noisy != y, -found.p_given) > 0.97
    assert (found.given == noisy).all()  # in the order of the rows, codes of sorted names
    table = found.to_frame()
    assert (table["given"] == names[noisy][table["row"]]).all()

    anchored = TRevisionClassifier("forward", estimator="anchor", random_state=0).fit(x[:200], noisy[:200])
    with pytest.raises(ValueError, match="estimator='latent'"):
        anchored.find_label_issues()
