"""Knowledge of T by the name of a noise; files are read in tests/cli/test_commands.py."""

from pathlib import Path

import numpy as np

from trevision.noise import pair_flip
from trevision.runs.prior_files import read_prior


def test_the_name_of_a_noise_stands_for_its_support_and_for_its_rows():
    prior = read_prior("support=pair-30", 4)
    assert np.array_equal(prior.support, pair_flip(4, 0.3) > 0)
    assert prior.known_rows is None
    known = read_prior("known=pair-30", 4).known_rows
    assert np.array_equal([known[i] for i in range(4)], pair_flip(4, 0.3))


def test_a_file_of_known_rows_may_begin_with_a_blank_line(tmp_path: Path):
    file = tmp_path / "rows.csv"
    file.write_text("\n0.1,0.8,0.1\n\n")
    known = read_prior(f"known={file}", 3).known_rows
    assert list(known) == [1]
    assert known[1].tolist() == [0.1, 0.8, 0.1]
