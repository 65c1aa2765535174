"""A method, an estimator, a correction, a data set and a table: each is one new file, and all else follows.

The package is copied, one file of each kind is added, and the copy is used through Python and the command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trevision

PACKAGE = Path(trevision.__file__).parent

METHOD = '''
"""`toy-method`: stage 1 and no more."""

from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.stages import conclude, estimate_transition, fit_noisy_posterior


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    return conclude(problem, estimate_transition(problem, posterior), [posterior])


TOY = Method("toy-method", fit, options=("noise_rate",), most_classes=4)
'''

ESTIMATOR = '''
"""`toy-estimator`: half of the labels are right, whatever they are."""

import numpy as np

from trevision.estimation.estimator import Estimator, Solution


class Toy(Estimator):
    def _solve(self, rows, weights, start, knowledge):
        size = rows.num_classes
        matrix = np.full((size, size), 0.5 / (size - 1))
        np.fill_diagonal(matrix, 0.5)
        return Solution(matrix, np.full(size, 1 / size))


TOY = Toy(name="toy-estimator")
'''

CORRECTION = '''
"""`toy-correction`: half of the rows."""

import numpy as np

from trevision.refit.correction import Correction, Training


def apply(evidence):
    rows = np.arange(0, len(evidence.labels), 2)
    return Training(rows, evidence.labels[rows], np.ones(len(rows)))


TOY = Correction("toy-correction", apply)
'''

SOURCE = '''
"""`toy-source`: which of three corners is bright."""

from pathlib import Path

import numpy as np

from trevision.data.source import Source, SourceData


def read(data_dir, progress):
    rng = np.random.default_rng(0)

    def rows(count):
        labels = np.arange(count) % 3
        images = rng.integers(100, size=(count, 1, 2, 2))
        images.reshape(count, 4)[np.arange(count), labels] += 150
        return images.astype(np.uint8), labels

    return SourceData(*rows(240), *rows(60), class_names=("left", "right", "below"))


TOY = Source("toy-source", "300 toys, 2 x 2 grey, 3 classes", read, (1, 2, 2), folder=Path("."))
'''

TABLE = '''
"""A table of one method."""

from trevision.reproduce.spec import Spec

TOY = Spec(
    "toy-table",
    "Accuracy of a toy",
    datasets=("toy-source",),
    noises=("sym-20",),
    methods=("toy-method:estimator=toy-estimator",),
)
'''

FILES = {
    "methods/toy_method.py": METHOD,
    "estimation/toy_estimator.py": ESTIMATOR,
    "refit/corrections/toy_correction.py": CORRECTION,
    "data/named/toy_source.py": SOURCE,
    "reproduce/tables/toy_table.py": TABLE,
}


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Path:
    """A folder with a copy of the package that has five more files."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(PACKAGE, folder / "trevision", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (folder / "trevision" / name).write_text(text, encoding="utf-8")
    return folder


def run(extended: Path, *arguments: object, cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(extended), "COLUMNS": "200"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_finds_all_four(extended, tmp_path):
    code = """
        import trevision
        from trevision.data.sources import SOURCES
        from trevision.estimation import ESTIMATORS
        from trevision.methods.registry import METHODS
        from trevision.reproduce.tables import SPECS
        assert {"toy-method"} <= set(METHODS) and {"toy-estimator"} <= set(ESTIMATORS)
        assert {"toy-source"} <= set(SOURCES) and {"toy-table"} <= set(SPECS)
        data = SOURCES["toy-source"].load()
        model = trevision.TRevisionClassifier("toy-method", estimator="toy-estimator", random_state=0)
        model.fit(data.train_x.numpy().reshape(-1, 4), data.train_y.numpy())
        print(model.transition_matrix_[0, 0].round(2), trevision.__file__)
        try:
            trevision.TRevisionClassifier("toy-method", mentor="learned").fit([[0.0], [1.0]] * 9, [0, 1] * 9)
        except ValueError as error:
            print(error)
    """
    first, refused = run(extended, "-c", "if True:" + code, cwd=tmp_path).splitlines()
    assert first == f"0.5 {extended / 'trevision' / '__init__.py'}"
    assert refused == "mentor is a choice of mentornet, got method toy-method; leave it out"


def test_any_model_is_fitted_by_the_correction(extended, tmp_path):
    code = """
        import numpy as np, trevision
        from sklearn.neighbors import KNeighborsClassifier
        model = trevision.NoisyLabelClassifier(KNeighborsClassifier(1), correction="toy-correction")
        model.fit(np.arange(20.0)[:, None], np.repeat([0, 1], 10))
        print(model.correction_, model.estimator_.n_samples_fit_)
    """
    assert run(extended, "-c", "if True:" + code, cwd=tmp_path).split() == ["toy-correction", "10"]


def test_the_command_runs_all_four(extended, tmp_path):
    trevision_command = ("-m", "trevision")
    flags = ("--method", "toy-method", "--estimator", "toy-estimator", "--noise", "sym-20")
    run(extended, *trevision_command, "fit", "toy-source", *flags, "--out", "run", cwd=tmp_path)
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["test_accuracy"] > 0.9
    assert result["initial_transition_error"] == pytest.approx(0.6, abs=0.02)  # 0.3 of every row's 1, twice
    assert "toy-source" in run(extended, *trevision_command, "data", cwd=tmp_path)

    np.savez(tmp_path / "probs.npz", probs=np.full((60, 2), 0.5), labels=np.arange(60) % 2)
    estimated = run(
        extended, *trevision_command, "estimate", "probs.npz", "--estimator", "toy-estimator", cwd=tmp_path
    )
    assert "wrong labels: 50.0%" in estimated

    table = run(extended, *trevision_command, "reproduce", "toy-table", "--seeds", 1, cwd=tmp_path)
    assert "toy-method:estimator=toy-estimator" in table
    assert "toy-table" in run(extended, *trevision_command, "reproduce", "--help", cwd=tmp_path)
