"""What a command must not write over: the files of a run, and what it reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trevision import cli
from trevision.files import TrevisionError, write_atomically, write_json
from trevision.runs.fit import held
from trevision.runs.outputs import RUN_FILES, check_output


@pytest.fixture
def folder(tmp_path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    write_json(run / "config.json", {"files": {}})
    return run


def said(capsys, *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("name", RUN_FILES)
def test_no_file_of_a_run_may_be_an_output_whether_it_is_there_or_not(folder, name):
    with pytest.raises(TrevisionError, match=f"must not be {name} of the run"):
        check_output(folder / name)


def test_the_pages_of_a_run_and_other_files_in_its_folder_may_be_written(folder):
    for name in ("report.html", "audit.html", "predictions.csv"):
        check_output(folder / name)
    check_output(folder.parent / "result.json")  # of no run


def test_another_name_for_a_file_of_a_run_does_not_help(folder):
    (folder / "result.json").write_text("{}")
    os.link(folder / "result.json", folder / "page.html")
    (folder.parent / "alias").symlink_to(folder)
    for out in (
        folder / "page.html",
        folder.parent / "alias" / "result.json",
        folder / "checkpoints" / "a.pt",
    ):
        with pytest.raises(TrevisionError, match="out must not"):
            check_output(out)


def test_what_is_read_is_not_written_over(folder, tmp_path):
    (tmp_path / "data.csv").write_text("x")
    os.link(tmp_path / "data.csv", tmp_path / "same.csv")
    with pytest.raises(TrevisionError, match="out must not be what is read"):
        check_output(tmp_path / "same.csv", tmp_path / "data.csv")
    (tmp_path / "photos").mkdir()
    for name in ("1.png", "labels.csv"):
        (tmp_path / "photos" / name).touch()
    with pytest.raises(TrevisionError, match="out must not be what is read"):
        check_output(tmp_path / "photos" / "1.png", tmp_path / "photos")
    check_output(tmp_path / "photos" / "labels.csv", tmp_path / "photos")


def test_an_estimate_does_not_write_its_matrix_over_that_of_a_run(folder, tmp_path, capsys):
    line = said(capsys, "estimate", tmp_path / "probs.npz", "--out", folder)
    assert "which holds a run" in line


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    for name in ("link", "nowhere"):
        write_atomically(tmp_path / name, lambda path: path.write_text("new"))
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "precious").read_text() == "old"
    assert not (tmp_path / "absent").exists()


def test_a_pipe_that_nobody_reads_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TrevisionError, match="is a pipe that nobody reads"):
        write_atomically(tmp_path / "pipe", lambda path: path.write_text("new"))


def test_a_pipe_in_place_of_a_file_of_a_run_does_not_hang(folder, capsys):
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    line = said(capsys, "fit", "digits", "--out", folder)
    assert "must be a file, but is a pipe or a device" in line


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
@pytest.mark.parametrize("to_file", [False, True])
def test_the_standard_output_is_written_to_as_it_is(tmp_path, to_file):
    script = (
        "from pathlib import Path; from trevision.files import write_atomically; "
        "write_atomically(Path('/dev/stdout'), lambda path: path.write_text('new'))"
    )
    with (tmp_path / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=log if to_file else subprocess.PIPE, text=True, check=True
        )
    assert (tmp_path / "log").read_text() == ("new" if to_file else "")
    assert to_file or done.stdout == "new"
    assert Path("/dev/stdout").is_symlink()


def test_a_folder_that_is_gone_is_named_in_one_line(tmp_path):
    (tmp_path / "run").mkdir()

    def removed_meanwhile(temporary: Path) -> None:
        temporary.unlink()
        temporary.parent.rmdir()
        temporary.write_text("new")

    for write in (removed_meanwhile, lambda path: path.write_text("new")):  # then it was never there
        with pytest.raises(
            TrevisionError, match=r"there is no folder .*run; was it removed meanwhile\?"
        ) as told:
            write_atomically(tmp_path / "run" / "a", write)
        assert told.value.path == tmp_path / "run" / "a"
        assert not (tmp_path / "run").exists()


def test_what_a_killed_run_had_begun_to_write_is_removed_at_the_next_start_and_nothing_else(folder):
    (folder / "checkpoints").mkdir()
    script = (
        "import os, sys; from pathlib import Path; from trevision.files import write_atomically; "
        "write_atomically(Path(sys.argv[1]), lambda path: os.kill(os.getpid(), 9))"
    )
    for each in (folder, folder / "checkpoints"):
        subprocess.run([sys.executable, "-c", script, str(each / "model.json")], check=False)
        assert len(list(each.glob(".model.json.*"))) == 1
        (each / ".mine").write_text("kept")
    with held(folder):
        pass
    for each in (folder, folder / "checkpoints"):
        assert [path.name for path in each.glob(".*")] == [".mine"]


def test_a_finished_run_is_left_as_it_is_since_others_may_be_writing_beside_it(folder):
    (folder / "result.json").write_text("{}")
    (folder / ".report.html.abc.unfinished").write_text("by another process")
    with held(folder):
        pass
    assert (folder / ".report.html.abc.unfinished").exists()
