"""The tables and figures, one file each.

A new table is a new file in this folder with a `Spec` at module level.
"""

from __future__ import annotations

from trevision.declared import declared_in
from trevision.files import did_you_mean
from trevision.reproduce.spec import Spec


def _order(spec: Spec) -> tuple[bool, bool, str]:
    """The paper's tables and figures first, tables before figures, then by name."""
    return not spec.in_paper, not spec.name.startswith("table"), spec.name


SPECS: dict[str, Spec] = declared_in(__name__, Spec, order=_order)


def find_spec(name: str) -> Spec:
    """The table of that name. The ValueError for an unknown name suggests a similar one."""
    if name not in SPECS:
        hint = did_you_mean(name, SPECS)
        raise ValueError(f"the table must be one of {', '.join(SPECS)}, got {name!r}{hint}")
    return SPECS[name]
