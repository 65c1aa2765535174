"""The tables and figures, one file each, found by looking into this folder.

A new table is a new file here, with a SPEC whose name is the file's.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from trevision.files import did_you_mean
from trevision.reproduce.spec import Spec


def _order(spec: Spec) -> tuple[bool, bool, str]:
    """The paper's first, tables before figures, then by name."""
    return not spec.in_paper, not spec.name.startswith("table"), spec.name


def discover() -> dict[str, Spec]:
    """Every table and figure by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    specs = [import_module(f"{__name__}.{name}").SPEC for name in names]
    for name, spec in zip(names, specs, strict=True):
        if spec.name != name:
            raise ValueError(f"tables/{name}.py must declare a Spec of that name, got {spec.name!r}")
    return {spec.name: spec for spec in sorted(specs, key=_order)}


SPECS = discover()


def find_spec(name: str) -> Spec:
    """The table of a name; an error that suggests one if there is none."""
    if name not in SPECS:
        hint = did_you_mean(name, SPECS)
        raise ValueError(f"the table must be one of {', '.join(SPECS)}, got {name!r}{hint}")
    return SPECS[name]
