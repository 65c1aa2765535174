"""A disk without room: the message names it and says what is safe, and no file is left half written."""

from __future__ import annotations

import errno
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from trevision import cli
from trevision.files import DiskFull, TrevisionError, write_atomically, write_json, write_npy

pytestmark = pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on files")


def full(path: Path) -> None:
    path.write_text("half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_message_names_the_file_its_disk_and_what_is_safe(tmp_path):
    (tmp_path / "a").write_text("before")
    with pytest.raises(DiskFull, match=r"cannot be written: the disk at .* is full") as told:
        write_atomically(tmp_path / "a", full)
    assert isinstance(told.value, TrevisionError)
    assert isinstance(told.value, OSError)
    assert (told.value.code, told.value.path) == ("disk-full", tmp_path / "a")
    assert str(tmp_path / "a") in str(told.value)
    assert "what is finished is kept" in str(told.value)
    assert (tmp_path / "a").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    "error", [RuntimeError("No space left on device (os error 28)"), OSError(errno.EDQUOT, "")]
)
def test_the_words_of_other_libraries_are_understood(tmp_path, error):
    def write(_: Path) -> None:
        raise error

    with pytest.raises(DiskFull):
        write_atomically(tmp_path / "a", write)


def test_other_errors_stay_what_they_are(tmp_path):
    def write(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        write_atomically(tmp_path / "a", write)


def test_a_limit_on_the_size_of_files_is_told_alike_whatever_writes(tmp_path):
    pa = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    table = pyarrow.table({"x": np.random.default_rng(0).normal(size=10_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for write in (
            lambda: write_npy(tmp_path / "a.npy", np.zeros(1000)),
            lambda: write_json(tmp_path / "a.json", {"a": "x" * 5000}),
            lambda: write_atomically(tmp_path / "a.parquet", lambda path: pa.write_table(table, path)),
        ):
            with pytest.raises(DiskFull):
                write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []


def test_elsewhere_too_the_command_says_what_is_safe(monkeypatch, capsys):
    def broken(_: list[str]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    monkeypatch.setattr(cli, "run_command", broken)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["fit"])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "/tmp/x" in line
    assert "What is finished is kept" in line
