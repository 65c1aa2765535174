"""Tables are files: they are found, listed in the help and described in the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from trevision.cli import main
from trevision.declared import declared_in
from trevision.reproduce import tables
from trevision.reproduce.plans import make_plan
from trevision.reproduce.spec import Spec
from trevision.reproduce.tables import SPECS, find_spec

DOCS = Path(__file__).parents[2] / "docs"


def test_the_papers_tables_come_first_and_every_file_is_one():
    assert list(SPECS)[:6] == ["table1", "table2", "table3", "table4", "figure1", "figure3"]
    files = {path.stem for path in Path(tables.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(SPECS) == files
    assert [name for name, spec in SPECS.items() if not spec.in_paper] == [
        "cifar10n",
        "floor",
        "priors",
        "revisions",
    ]


def test_a_new_file_is_a_new_table(tmp_path, monkeypatch):
    lines = (
        "from trevision.reproduce.spec import Spec",
        "SPEC = Spec('table9', 'A new one', ('digits',), ('sym-20',), ('standard',))",
    )
    (tmp_path / "table9.py").write_text("\n".join(lines))
    monkeypatch.setattr(tables, "__path__", [*tables.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "trevision.reproduce.tables.table9", None)
    del sys.modules["trevision.reproduce.tables.table9"]
    found = declared_in("trevision.reproduce.tables", Spec, order=tables._order)
    assert list(found)[4] == "table9"  # after table4
    monkeypatch.setattr(tables, "SPECS", found)
    plan = make_plan("table9", "digits")
    assert [row.label for row in plan.rows] == ["standard-A"]
    assert plan.stem == "table9-digits-quick"


def test_two_tables_of_one_name_are_refused(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text("from trevision.reproduce.spec import Spec\nSPEC = Spec('table1', '')")
    monkeypatch.setattr(tables, "__path__", [*tables.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match="the name 'table1' is declared twice"):
        declared_in("trevision.reproduce.tables", Spec)
    del sys.modules["trevision.reproduce.tables.odd"]


def test_a_misspelt_table_gets_a_suggestion(capsys):
    with pytest.raises(ValueError, match="did you mean floor"):
        find_spec("flor")
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "tabel3"])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.endswith("got 'tabel3'; did you mean table3?")


def test_a_figure_without_runs_has_no_plan():
    with pytest.raises(ValueError, match="figure1 needs no runs"):
        make_plan("figure1", "mnist")


def test_the_help_lists_every_table_with_its_title(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--help"])
    assert stopped.value.code == 0
    shown = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    for spec in SPECS.values():
        assert f"{spec.name}: {spec.title}" in shown


def test_the_documentation_describes_every_table_and_no_other():
    page = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    (overview,) = re.findall(r"^\| \| what \| data \|\n.*?\n\n", page, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^\| `(\w+)` \|", overview, flags=re.MULTILINE) == list(SPECS)


PAGES = sorted((DOCS / "tables").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_clone_has_every_run_of_the_tables_in_its_documentation(page, capsys, monkeypatch):
    (command,) = re.findall(r"^trevision (reproduce .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    monkeypatch.chdir(DOCS.parent)
    main([*command.split(), "--dry-run"])
    assert re.search(r"^0 of \d+ runs to do$", capsys.readouterr().out, re.MULTILINE)
