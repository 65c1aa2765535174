"""What the command says of a user's mistake, of the machine's limits, and of a mistake of its own."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import trevision
from trevision import cli
from trevision.files import (
    LONGEST_MESSAGE,
    Busy,
    DamagedFile,
    DataError,
    DiskFull,
    TooLarge,
    TrevisionError,
    locked,
)
from trevision.runs.fit import held
from trevision.runs.run_folder import LOCK_FILE


def say(monkeypatch, capsys, error: BaseException) -> tuple[int, list[str]]:
    """The exit status and the lines of a command in which an error is raised."""

    def broken(_: list[str]) -> None:
        raise error

    monkeypatch.setattr(cli, "run_command", broken)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["fit"])
    return stopped.value.code, capsys.readouterr().err.splitlines()


def test_every_error_of_a_user_is_one_type_with_a_code_of_its_own():
    kinds = (TrevisionError, DataError, DamagedFile, TooLarge, Busy, DiskFull)
    assert all(issubclass(kind, trevision.TrevisionError) and issubclass(kind, ValueError) for kind in kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)
    error = DamagedFile("a.npz: ends\nearly", path=Path("a.npz"), place="member x")
    assert (str(error), error.path, error.place) == ("a.npz: ends early", Path("a.npz"), "member x")


@pytest.mark.parametrize(
    "error", [DataError("x.csv: is empty"), OSError(13, "Permission denied"), RuntimeError("no GPU")]
)
def test_a_mistake_of_the_user_or_a_limit_of_the_machine_is_one_line_and_status_2(monkeypatch, capsys, error):
    status, lines = say(monkeypatch, capsys, error)
    assert status == 2
    assert lines == [f"trevision: {error}"]


@pytest.mark.parametrize(
    "error", [KeyError("x"), TypeError("a\nb"), ValueError("of a library"), RecursionError()]
)
def test_what_no_file_should_cause_is_called_a_bug_and_says_how_to_report_it(monkeypatch, capsys, error):
    status, lines = say(monkeypatch, capsys, error)
    assert status == 70
    (line,) = lines
    assert "this is a bug in trevision, not a mistake of yours" in line
    assert type(error).__name__ in line
    assert "TREVISION_TRACEBACK=1" in line
    assert f"{Path(__file__).name}, line " in line


def test_a_traceback_is_shown_to_those_who_ask_for_it(monkeypatch, capsys):
    monkeypatch.setenv("TREVISION_TRACEBACK", "1")
    with pytest.raises(KeyError):
        say(monkeypatch, capsys, KeyError("x"))


def test_a_refusal_by_the_package_itself_is_no_bug(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["fit", "digits", "--seed", "-1", "--out", str(tmp_path / "run")])
    assert stopped.value.code == 2
    assert "seed must be 0 or more" in capsys.readouterr().err


def test_too_little_memory_is_told_as_such(monkeypatch, capsys):
    status, (line,) = say(monkeypatch, capsys, MemoryError())
    assert (status, "more memory than there is" in line) == (2, True)


def test_a_library_s_refusal_that_no_reader_translated_is_a_bug(monkeypatch, capsys):
    monkeypatch.setattr(cli, "run_command", lambda _: json.loads("{"))
    with pytest.raises(SystemExit) as stopped:
        cli.main(["fit"])
    assert stopped.value.code == 70
    capsys.readouterr()


def test_a_message_shows_control_characters_as_escapes_and_is_never_long():
    assert str(DataError("label 'a\x1b[2J\x07\u202eb' é")) == "label 'a\\x1b[2J\\x07\\u202eb' é"
    told = str(DataError("begin " + "x" * 100_000 + " end"))
    assert len(told) <= LONGEST_MESSAGE + 10
    assert told.startswith("begin ")
    assert told.endswith(" end")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_a_command_with_a_message_and_the_status_of_shells(monkeypatch, capsys, number, status):
    monkeypatch.setattr(cli, "run_command", lambda _: os.kill(os.getpid(), number))
    # Where tests run in the background, signals may be ignored from the start.
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)
    try:
        with pytest.raises(SystemExit) as stopped:
            cli.main(["fit"])
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    assert stopped.value.code == status
    (line,) = capsys.readouterr().err.splitlines()
    assert "the same command continues a run that has a folder" in line
    assert (number.name in line) == (number != signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(cli, "run_command", lambda _: os.kill(os.getpid(), signal.SIGHUP))
        cli.main(["fit"])  # a signal that were obeyed would end it here
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_run_into_a_folder_is_refused_while_the_first_writes(tmp_path, capsys):
    folder = tmp_path / "run"
    with locked(folder / LOCK_FILE), pytest.raises(SystemExit) as stopped:
        cli.main(["fit", "digits", "--method", "standard", "--seed", "2", "--out", str(folder)])
    assert stopped.value.code == 2
    assert f"{folder} is being written by another run" in capsys.readouterr().err


def test_a_folder_that_is_held_is_free_and_as_it_was_afterwards(tmp_path):
    folder = tmp_path / "run"
    with held(folder), pytest.raises(Busy), held(folder):
        pass
    assert not folder.exists()
    folder.mkdir()
    (folder / "result.json").touch()
    with held(folder):
        assert (folder / LOCK_FILE).exists()
    assert [path.name for path in folder.iterdir()] == ["result.json"]


def test_predictions_are_not_replaced_unless_told(tmp_path, capsys):
    (tmp_path / "p.csv").write_text("precious")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["predict", str(tmp_path), "data.csv", "--out", str(tmp_path / "p.csv")])
    assert stopped.value.code == 2
    assert "exists; choose another --out, or replace it with --force" in capsys.readouterr().err
    assert (tmp_path / "p.csv").read_text() == "precious"
