"""The tables and figures, one file each, found by looking into this folder.

A new table is a new file here, with a `Spec` at module level.
"""

from __future__ import annotations

from trevision.declared import declared_in
from trevision.files import did_you_mean
from trevision.reproduce.spec import Spec


def _order(spec: Spec) -> tuple[bool, bool, str]:
    """The paper's first, tables before figures, then by name."""
    return not spec.in_paper, not spec.name.startswith("table"), spec.name


SPECS: dict[str, Spec] = declared_in(__name__, Spec, order=_order)


def find_spec(name: str) -> Spec:
    """The table of a name; an error that suggests one if there is none."""
    if name not in SPECS:
        hint = did_you_mean(name, SPECS)
        raise ValueError(f"the table must be one of {', '.join(SPECS)}, got {name!r}{hint}")
    return SPECS[name]
