"""Code that the documentation shows: Python runs, commands are read by the real parser, quick starts run."""

from __future__ import annotations

import functools
import re
import shlex
import webbrowser
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
import tyro

from trevision.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
EXECUTED = ("README.md", "docs/quick-start.md", "docs/questions.md", "docs/from-cleanlab.md")
"""Pages whose Python blocks run, one after the other in one folder."""
PAGES = [
    path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.name != "log.md"
]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language; the empty one is the terminal's."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """The `trevision` commands in a page's terminal blocks, without what they print."""
    found = []
    for block in blocks(text, ""):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ")
            if line.startswith("trevision ") and not line.startswith("trevision: "):
                words = shlex.split(re.split(r"\s+\(|\s\|", line)[0], comments=True)[1:]
                found.append(words)
    return found


def parsed(words: list[str]) -> None:
    """Read a command's arguments as the command would, and do nothing; an error if they do not fit."""
    name, *arguments = words
    command = getattr(import_module(f"trevision.cli.{name}"), name)

    @functools.wraps(command)
    def nothing(*_: object, **__: object) -> None:
        pass

    tyro.cli(nothing, prog=f"trevision {name}", args=arguments)


@pytest.mark.parametrize("page", EXECUTED)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    if "cleanlab" in "".join(blocks(text, "python")):
        pytest.importorskip(
            "cleanlab", reason="the page shows cleanlab beside trevision: pip install cleanlab"
        )
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(text, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_is_one(page):
    wrong = []
    for words in commands(page.read_text(encoding="utf-8")):
        if words[0] in ("COMMAND", "--help", "--version") or "..." in words or words[0] in PENDING:
            continue
        try:
            parsed(words)
        except (SystemExit, ModuleNotFoundError):
            wrong.append(shlex.join(words))
    assert wrong == []


def test_the_quick_start_runs_from_files_to_a_second_classifier(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda *_, **__: True)
    text = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    if PENDING:
        pytest.skip(f"not there yet: {', '.join(PENDING)}")
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(text, "python"):
        exec(compile(block, "docs/quick-start.md", "exec"), names)
    for words in commands(text):
        if words[0] == "apply":
            _accept_two(Path(words[1]), Path(words[2]))
        main(words)
    assert Path("runs/customers/report.html").is_file()
    assert len(pd.read_csv("predictions.csv")) == 400


def _accept_two(run: Path, corrections: Path) -> None:
    """What the page downloads when the two most suspicious labels are corrected."""
    issues = pd.read_csv(run / "issues.csv").head(2)
    decided = issues[["row", "name", "given"]].assign(corrected=issues["suggested"], decision="accept")
    decided.to_csv(corrections, index=False)
