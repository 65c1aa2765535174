"""What is exported is documented in a form that renders, with an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import trevision.estimation
from trevision import issues, noise, prior

MODULES = [
    f"trevision.estimation.{info.name}" for info in pkgutil.iter_modules(trevision.estimation.__path__)
]


def exported() -> dict[str, object]:
    """The functions and classes that a user of these rooms meets."""
    rooms = [(trevision.estimation, trevision.estimation.__all__)]
    for module in (issues, noise, prior):
        own = [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        ]
        rooms.append((module, [name for name in own if not name.startswith("_")]))
    values = {f"{room.__name__}.{name}": getattr(room, name) for room, names in rooms for name in names}
    return {
        name: value for name, value in values.items() if inspect.isfunction(value) or inspect.isclass(value)
    }


INNER = ("trevision.prior.Entries", "trevision.prior.balanced")
"""What is for the package itself."""


@pytest.mark.parametrize("name", [name for name in exported() if name not in INNER])
def test_an_exported_name_has_sections_that_render_and_an_example(name: str) -> None:
    value = exported()[name]
    text = inspect.getdoc(value) or ""
    assert "Examples\n--------" in text
    if inspect.isfunction(value):
        assert "Parameters\n----------" in text
        for parameter in inspect.signature(value).parameters:
            assert parameter in text
        assert "Returns\n-------" in text or inspect.signature(value).return_annotation == "None"
    if "raise ValueError" in inspect.getsource(value) and inspect.isfunction(value):
        assert "Raises\n------" in text


@pytest.mark.parametrize("name", [*MODULES, "trevision.issues", "trevision.noise", "trevision.prior"])
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
