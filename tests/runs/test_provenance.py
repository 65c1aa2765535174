"""Where a result says it comes from, against what git and the system say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import trevision
from trevision.reproduce.estimators import compare_estimators
from trevision.runs import provenance
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings
from trevision.training.processor import cpu_from

CPU = Hardware(accelerator="cpu", threads=1)
FIELDS = {"schema", "numerics", "date", "version", "cpu", "threads"}


def git(folder: Path, *arguments: str) -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    who |= {"GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=os.environ | who,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout of a small package, which is returned; its top is two folders above."""
    package = tmp_path / "top" / "src" / "trevision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(tmp_path, "init", "-q", str(tmp_path / "top"))
    git(tmp_path / "top", "add", ".")
    git(tmp_path / "top", "commit", "-qm", "first")
    return package


@pytest.mark.parametrize("make", [run, compare_estimators])
def test_every_result_tells_its_code_its_date_and_its_machine(tmp_path, make):
    method = "standard" if make is run else "estimators"
    began = datetime.now(UTC) - timedelta(seconds=1)
    result = make("digits", Settings(noise="sym-20", method=method, train_size=150), tmp_path / "run", CPU)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    assert set(result) >= FIELDS
    assert began <= datetime.fromisoformat(result["date"]) <= datetime.now(UTC)
    assert result["date"].endswith("+00:00")
    assert result["version"] == version("trevision")
    assert (result["schema"], result["numerics"]) == (provenance.SCHEMA, provenance.NUMERICS)
    assert result["threads"] == torch.get_num_threads()
    assert result["cpu"]["name"]
    assert set(result["cpu"]) == {"name", "avx2", "avx512f", "avx512_bf16", "amx_bf16"}


def test_the_commit_is_that_of_the_checkout_and_clean_is_about_its_code(checkout):
    top = checkout.parents[1]
    commit = git(top, "rev-parse", "HEAD")
    assert provenance.commit_of(checkout) == {"commit": commit, "clean": True}
    (top / "results.txt").write_text("a grid writes results where its code lies")
    assert provenance.commit_of(checkout) == {"commit": commit, "clean": True}
    (checkout / "__init__.py").write_text("changed = True")
    assert provenance.commit_of(checkout) == {"commit": commit, "clean": False}
    git(top, "checkout", "-q", ".")
    (checkout / "new.py").write_text("a module that was not committed")
    assert provenance.commit_of(checkout)["clean"] is False


def test_a_package_in_somebody_elses_checkout_or_in_none_has_no_commit(checkout, tmp_path):
    elsewhere = checkout.parents[1] / ".venv" / "site-packages" / "trevision"
    untracked = tmp_path / "plain" / "src" / "trevision"
    for folder in (elsewhere, untracked):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        assert provenance.commit_of(folder) == {}
    # A checkout that ignores the package, although it lies where its own would.
    git(tmp_path, "init", "-q", str(tmp_path / "plain"))
    assert provenance.commit_of(untracked) == {}


def test_the_variables_of_a_git_hook_do_not_mislead(checkout, tmp_path, monkeypatch):
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert provenance.commit_of(checkout)["commit"] == commit


def test_without_git_or_with_one_that_hangs_a_result_has_no_commit(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert provenance.commit_of(checkout) == {}
    (tmp_path / "slow").mkdir()
    slow = tmp_path / "slow" / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "slow"))
    monkeypatch.setattr(provenance, "GIT_SECONDS", 0.2)
    assert provenance.commit_of(checkout) == {}


def test_it_is_asked_for_once_in_a_process(monkeypatch):
    first = provenance.code()
    monkeypatch.setattr(provenance, "commit_of", lambda package: pytest.fail("git was asked again"))
    assert provenance.code() == first


def test_it_imports_nothing_heavy():
    environment = os.environ | {"PYTHONPATH": str(Path(trevision.__file__).parents[1])}
    code = "import sys, trevision.runs.provenance; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_the_processor_is_named_with_the_flags_that_matter():
    told = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f avx512_bf16x\n\n"
    told += "processor\t: 1\nmodel name\t: Another\nflags\t\t: amx_bf16\n"
    assert cpu_from(told) == {
        "name": "A CPU @ 2 GHz", "avx2": True, "avx512f": True, "avx512_bf16": False, "amx_bf16": False,
    }  # fmt: skip
    unknown = cpu_from("")
    assert unknown["name"]
    assert unknown["avx2"] is None


def test_a_result_that_does_not_say_its_numerics_counts_as_zero():
    assert provenance.numerics_of({"test_accuracy": 0.5}) == 0
    assert provenance.numerics_of({"numerics": 3}) == 3
