"""What once escaped is read or refused now, and so are some new inputs of every reader that needs no run."""

from __future__ import annotations

import random
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.mutate import mutated
from fuzz.readers import READERS, escaped

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(path for path in CORPUS.rglob("*") if path.is_file())
INPUTS = 25
NEEDS_A_RUN = ("run", "skops")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The valid files of a reader, by their names; a run is made once for all that once escaped."""

    @cache
    def files(name: str) -> dict[str, Path]:
        return {path.name: path for path in READERS[name].make(tmp_path_factory.mktemp(name))}

    return files


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_escaped_does_so_no_more(path, tmp_path, made):
    name = path.parent.name
    if name not in NEEDS_A_RUN:
        shutil.copy(path, tmp_path / path.name)
        assert escaped(READERS[name], tmp_path / path.name) is None
        return
    pytest.importorskip("torch")
    target = made(name)[path.name.split("-", 1)[1]]
    whole = target.read_bytes()
    try:
        shutil.copy(path, target)
        assert escaped(READERS[name], target) is None
    finally:
        target.write_bytes(whole)


@pytest.mark.parametrize("name", [name for name in READERS if name not in NEEDS_A_RUN])
def test_every_reader_reads_or_refuses_what_it_is_given(name, tmp_path):
    if name == "picture":
        pytest.importorskip("PIL")
    reader = READERS[name]
    files = reader.make(tmp_path)
    assert [escaped(reader, path) for path in files] == [None] * len(files)
    for number in range(INPUTS):
        rng = random.Random(f"ordinary {name} {number}")
        path = rng.choice(files)
        whole = path.read_bytes()
        path.write_bytes(mutated(whole, path.name, rng))
        assert escaped(reader, path) is None, f"input {number}"
        path.write_bytes(whole)


def test_an_escape_is_one_that_is_no_refusal(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"")

    def broken(_: Path) -> None:
        raise KeyError("x")

    from fuzz.readers import Reader

    assert escaped(Reader(lambda _: [], broken), path) == "KeyError: 'x'"
