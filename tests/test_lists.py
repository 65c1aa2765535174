"""Lists of names in prose are compared with what the package declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trevision
from trevision.data.sources import SOURCES
from trevision.estimation import ESTIMATORS
from trevision.methods.registry import METHODS
from trevision.methods.schedules import SCHEDULES
from trevision.models.candidates import CANDIDATES
from trevision.models.names import MODELS
from trevision.networks.choose import NETWORKS
from trevision.refit.registry import AUTO, CORRECTIONS

ROOT = Path(__file__).parent.parent


def help_of(command: str, capsys, monkeypatch) -> str:
    """The help of a command as one line of words."""
    from trevision.cli import main

    monkeypatch.setenv("COLUMNS", "80")  # wider, and its panels stand side by side
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return " ".join(re.sub(r"[│╭╰─╮╯]", " ", capsys.readouterr().out).split())


def listed_after(text: str, start: str) -> list[str]:
    """The names of the first list `a, b, c or d` after `start`, with or without backquotes."""
    rest = " ".join(text[text.index(start) + len(start) :].split())
    name = r"`?[a-z][a-z0-9-]*`?"
    enumeration = re.search(rf"{name}(?:, {name})+ or {name}", rest)
    assert enumeration is not None, rest[:200]
    return [word.strip("`") for word in re.split(r", | or ", enumeration[0])]


def test_the_help_of_fit_lists_the_methods_and_networks(capsys, monkeypatch):
    text = help_of("fit", capsys, monkeypatch)
    assert sorted(listed_after(text, "--method STR")) == sorted(METHODS)
    assert sorted(listed_after(text, "--network STR")) == sorted(NETWORKS)


def test_the_help_of_fit_lists_the_models_and_corrections(capsys, monkeypatch):
    text = help_of("fit", capsys, monkeypatch)
    assert ["auto", *listed_after(text, "--model STR")] == list(MODELS) == ["auto", "network", *CANDIDATES]
    assert sorted(listed_after(text, "--correction STR")) == sorted([AUTO, *CORRECTIONS])


def test_the_help_of_fit_names_every_source_schedule_and_estimator(capsys, monkeypatch):
    text = help_of("fit", capsys, monkeypatch)
    for name in (*SOURCES, *SCHEDULES, *ESTIMATORS):
        assert re.search(rf"\b{name}\b", text), name


def test_the_classifiers_docstring_lists_the_methods_networks_and_estimators():
    text = trevision.TRevisionClassifier.__doc__
    assert sorted(listed_after(text, "The learning method:")) == sorted(METHODS)
    assert sorted(listed_after(text, "A str is a name:")) == sorted(NETWORKS)
    estimators = text[text.index("estimator : str") : text.index("prior : Prior")]
    assert {name for name in ESTIMATORS if f"`{name}`" in estimators} == set(ESTIMATORS)


def test_the_docstring_for_any_model_lists_the_corrections_and_estimators():
    text = trevision.NoisyLabelClassifier.__doc__
    corrections = text[text.index("correction : str") : text.index("transition_estimator : str")]
    assert set(re.findall(r"`([a-z]+)`", corrections)) == {AUTO, *CORRECTIONS}
    estimators = text[text.index("transition_estimator : str") : text.index("revise : bool")]
    assert set(re.findall(r"`([a-z-]+)`", estimators)) == set(ESTIMATORS)


SHARED_PAGES = {
    **{"forward-r": "t-revision", "reweight-r": "t-revision"},
    **{"forward-gce": "forward-robust", "forward-sce": "forward-robust"},
}


def test_every_method_has_a_page_and_the_list_of_methods_links_to_it():
    listed = (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    for name in METHODS:
        page = SHARED_PAGES.get(name, name)
        assert (ROOT / "docs" / "methods" / f"{page}.md").is_file(), name
        assert f"({page}.md)" in listed, name
        assert f"`{name}`" in listed, name


@pytest.mark.parametrize("page", sorted({SHARED_PAGES.get(name, name) for name in METHODS}))
def test_the_page_of_a_method_has_an_equation_a_command_and_what_was_measured(page):
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(r"^(?: {4}|maximise ).*=", text, re.MULTILINE), page
    assert re.search(r"^trevision fit .*--method|^trevision fit .*--out", text, re.MULTILINE)
    assert re.search(r"^## Measured", text, re.MULTILINE) or re.search(
        r"^Measured so far", text, re.MULTILINE
    )
