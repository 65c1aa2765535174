"""`trevision doctor`: what it says of the machine, and that its self-test notices what is broken."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from trevision.cli import main, self_test


def test_it_says_what_a_report_of_a_bug_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TREVISION_DATA", str(tmp_path))
    main(["doctor", "--no-self-test"])
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    for name in ("trevision", "python", "processor", "threads", "devices", "bfloat16", "memory", "data sets"):
        assert lines[name].strip(), name
    assert f"numpy {version('numpy')}" in lines["packages"]
    assert "GB free at" in lines["disk (here)"]
    assert "digits in" in lines["data sets"]  # which the package brings
    assert str(Path.home()) not in "".join(lines.values())


def test_the_self_test_passes_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    main(["doctor"])
    out = capsys.readouterr().out
    assert out.count(": ok (") >= 2
    assert "Everything that is installed works." in out
    assert list(tmp_path.iterdir()) == []


def test_what_is_broken_is_told_and_ends_with_status_1(monkeypatch, capsys):
    monkeypatch.setattr("trevision.estimation.estimate", lambda *_, **__: None)
    monkeypatch.setattr(self_test, "_try_table", lambda _: self_test._expect(False, "something"))
    monkeypatch.setattr(self_test, "_try_network", lambda _: None)
    with pytest.raises(SystemExit) as stopped:
        main(["doctor"])
    assert stopped.value.code == 1
    out = capsys.readouterr().out
    assert "estimate how labels go wrong: FAILED: AttributeError" in out
    assert "apply corrections: FAILED: ArithmeticError: something: this installation computes" in out
    assert "Failed: 2. Please report it" in out


def test_it_works_without_torch_and_says_so(tmp_path):
    hide = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "lightning_fabric"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from trevision.cli import main
main(["doctor"])
"""
    done = subprocess.run(
        [sys.executable, "-c", hide], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "no torch (pip install 'trevision[torch]')" in done.stdout
    assert "Everything that is installed works." in done.stdout
    assert "train a network" not in done.stdout


def test_the_table_of_the_self_test_has_wrong_labels_to_find():
    size, labels, wrong = self_test._table()
    assert 0.05 < wrong.mean() < 0.15
    assert np.array_equal(labels[~wrong], (size > 4)[~wrong])
