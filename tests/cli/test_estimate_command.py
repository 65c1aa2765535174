"""`trevision estimate` as a user meets it."""

from __future__ import annotations

import json
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from trevision import estimation
from trevision.cli import main
from trevision.estimation import diagnose, estimate
from trevision.noise import corrupt

TRUE = np.array([[0.7, 0.2, 0.1], [0.05, 0.8, 0.15], [0.2, 0.1, 0.7]])
NAMES = ["ant", "bee", "[red]cat"]
DRAWS = find_spec("matplotlib") is not None
FILES = {"transition.csv", "transition-low.csv", "transition-high.csv", "estimate.json"}
FILES |= {"transition.svg"} if DRAWS else set()


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    clean = np.random.default_rng(0).choice(3, size=2000, p=[0.5, 0.3, 0.2])
    return TRUE[clean].astype(np.float32), corrupt(clean, TRUE, random_state=1)


@pytest.fixture
def file(tmp_path: Path, rows) -> Path:
    np.savez(tmp_path / "probs.npz", probs=rows[0], labels=rows[1], classes=np.array(NAMES))
    return tmp_path / "probs.npz"


def test_the_command_writes_and_says_what_is_found(file: Path, rows, tmp_path: Path, capsys) -> None:
    main(["estimate", str(file), "--out", str(tmp_path / "noise"), "--bootstrap", "50", "--seed", "3"])
    expected = estimate(*rows, bootstrap=50, random_state=3)
    assert {path.name for path in (tmp_path / "noise").iterdir()} == FILES
    for name in ("transition", "transition-low", "transition-high"):
        written = np.loadtxt(tmp_path / "noise" / f"{name}.csv", delimiter=",")
        np.testing.assert_allclose(written, getattr(expected, name.replace("-", "_")), atol=1e-7)
    told = json.loads((tmp_path / "noise" / "estimate.json").read_text(encoding="utf-8"))
    assert told["classes"] == NAMES
    assert told["noise_rate"]["low"] == pytest.approx(expected.noise_rate_low)
    findings = diagnose(*rows, expected, NAMES, random_state=3)
    assert [one["sentence"] for one in told["diagnosis"]] == [finding.sentence for finding in findings]

    said = capsys.readouterr().out
    assert f"wrong labels: {100 * expected.noise_rate:.1f}%" in said
    assert "ant labelled bee" in said
    assert "[red]cat" in said
    for finding in findings:
        assert f"{finding.verdict}: {finding.sentence}" in said
    assert not DRAWS or "ant" in (tmp_path / "noise" / "transition.svg").read_text(encoding="utf-8")


def test_without_a_bootstrap_nothing_stands_in_brackets_and_no_ends_are_written(
    file: Path, rows, tmp_path: Path, capsys
) -> None:
    main(["estimate", str(file), "--out", str(tmp_path / "noise"), "--bootstrap", "20"])
    capsys.readouterr()
    main(["estimate", str(file), "--out", str(tmp_path / "noise"), "--bootstrap", "0"])
    expected = estimate(*rows, bootstrap=0)
    # The ends of the intervals of the estimate before are gone.
    ends = {"transition-low.csv", "transition-high.csv"}
    assert {path.name for path in (tmp_path / "noise").iterdir()} == FILES - ends
    told = json.loads((tmp_path / "noise" / "estimate.json").read_text(encoding="utf-8"))
    assert told["noise_rate"] == {"estimate": expected.noise_rate, "low": None, "high": None}
    assert (told["class_prior_low"], told["class_prior_high"], told["resampling"]) == (None, None, None)
    assert told["class_prior"] == pytest.approx(expected.class_prior.tolist())
    assert (told["estimator"], told["converged"]) == ("latent", True)
    said = capsys.readouterr().out
    assert f"wrong labels: {100 * expected.noise_rate:.1f}% of 2,000" in said
    assert "in brackets" not in said
    assert "was not checked" in said


def test_csv_and_npz_of_the_same_rows_give_the_same(file: Path, rows, tmp_path: Path, capsys) -> None:
    lines = [",".join(["id", *NAMES, "given"])]
    for number, (row, label) in enumerate(zip(*rows, strict=True)):
        lines.append(f"{number},{','.join(map(repr, row.tolist()))},{NAMES[label]}")
    (tmp_path / "probs.csv").write_text("\n".join(lines), encoding="utf-8")
    main(["estimate", str(file), "--bootstrap", "20"])
    from_npz = capsys.readouterr().out
    main(["estimate", str(tmp_path / "probs.csv"), "--ignore", "id", "--bootstrap", "20"])
    assert capsys.readouterr().out == from_npz


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npz"], "missing.npz: there is no such file"),
        (["logits.npz"], "logits.npz: noisy_probs must hold probabilities"),
        (["probs.npz", "--estimator", "magic"], "trevision: estimator must be one of"),
        (["probs.npz", "--bootstrap", "5"], "trevision: bootstrap must be at least 10 replicates, or 0"),
        (["probs.npz", "--level", "90"], "trevision: level must lie"),
    ],
)
def test_a_mistake_gets_one_line_and_status_two(
    file: Path, rows, tmp_path: Path, capsys, monkeypatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "logits.npz", probs=np.log(rows[0]) + 3, labels=rows[1])
    with pytest.raises(SystemExit) as caught:
        main(["estimate", *arguments, "--out", "noise"])
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not (tmp_path / "noise").exists()


def test_the_example_of_the_documentation_runs_and_the_command_reads_its_file(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "estimate.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict = {}
    # Only the intervals, of which nothing is said here, depend on how often rows are drawn again.
    monkeypatch.setattr(estimation, "estimate", partial(estimate, bootstrap=20))
    exec(compile(example, "estimate.md", "exec"), names)
    assert abs(names["estimate"].noise_rate - 0.2) < 0.06  # 20% of the digits' labels were moved
    capsys.readouterr()
    main(["estimate", "probs.npz", "--bootstrap", "20"])
    assert f"wrong labels: {100 * names['estimate'].noise_rate:.1f}%" in capsys.readouterr().out


def test_help_shows_examples(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["estimate", "--help"])
    assert stopped.value.code == 0
    assert "$ trevision estimate probs.npz\n" in capsys.readouterr().out
