"""`trevision score`: the corrected accuracy of a model beside the one against noisy labels."""

from __future__ import annotations

import re

import numpy as np
import pytest

from trevision import noise
from trevision.cli import main

PAIR = noise.pair_flip(4, 0.3)


@pytest.fixture(scope="module")
def run_folder(blobs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("score")
    np.savez(folder / "train.npz", x=blobs.x, y=blobs.noisy)
    main(["fit", str(folder / "train.npz"), "--method", "forward", "--out", str(folder / "run")])
    rng = np.random.default_rng(0)
    np.savez(folder / "test.npz", x=blobs.test_x, y=noise.corrupt(blobs.test_y, PAIR, rng))
    np.savez(folder / "clean.npz", x=blobs.test_x, y=blobs.test_y)
    np.savetxt(folder / "T.csv", PAIR, delimiter=",")
    return folder


def accuracy_line(text: str) -> list[float]:
    line = next(line for line in text.splitlines() if re.search(r"│ accuracy ", line))
    return [float(number) for number in re.findall(r"\d\.\d+", line)]


def test_the_corrected_accuracy_is_near_the_one_on_clean_labels(run_folder, capsys):
    main(["score", str(run_folder / "run"), str(run_folder / "clean.npz"), "--transition", "sym-0"])
    clean, *_ = accuracy_line(capsys.readouterr().out)
    main(
        [
            "score",
            str(run_folder / "run"),
            str(run_folder / "test.npz"),
            "--transition",
            str(run_folder / "T.csv"),
        ]
    )
    told = capsys.readouterr()
    noisy, corrected, low, high = accuracy_line(told.out)
    assert noisy < clean - 0.15
    assert low <= clean <= high
    assert abs(corrected - clean) < 0.08
    assert "400 rows" in told.out
    assert "T is taken as exact" in told.err


def test_the_models_own_transition_comes_with_a_warning(run_folder, capsys):
    main(["score", str(run_folder / "run"), str(run_folder / "test.npz"), "--transition-rows", "200"])
    told = capsys.readouterr().err
    assert "T was learnt with the model that is judged" in told
    assert "taken as exact" not in told


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--transition", "sym-75"], "far enough from singular"),
        (["--transition-rows", "0"], "transition_rows must be numbers above 0"),
        (["--level", "90"], "ninety per cent is written 0.9"),
    ],
)
def test_a_mistake_gets_one_clear_line(run_folder, capsys, arguments, says):
    with pytest.raises(SystemExit) as stopped:
        main(["score", str(run_folder / "run"), str(run_folder / "test.npz"), *arguments])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line
