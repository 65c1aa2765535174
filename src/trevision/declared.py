"""Finding what the modules of a package declare: methods, estimators, data sets and tables.

Each of them is one file in its package's folder with a declaration at module level. Nothing else lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol, TypeVar


class Named(Protocol):
    """What can be declared: anything with a name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def declared_in(package: str, kind: type[T], order: Callable[[T], Any] | None = None) -> dict[str, T]:
    """All instances of `kind` at the top level of a package's modules, by their names.

    Parameters
    ----------
    package : str
        The package's name, as in `trevision.methods`.
    kind : type
        The class of what is declared.
    order : callable, optional
        A key to sort by. Without it, and among equals, they come by their modules' names and, within a
        module, in the order of their definition.

    Raises
    ------
    ValueError
        If two of them have one name.
    """
    declared: dict[str, T] = {}
    for module in sorted(info.name for info in iter_modules(import_module(package).__path__)):
        for value in vars(import_module(f"{package}.{module}")).values():
            # A module may import what another one declares.
            if isinstance(value, kind) and declared.setdefault(value.name, value) is not value:
                raise ValueError(f"{package}.{module}: the name {value.name!r} is declared twice")
    return dict(sorted(declared.items(), key=lambda item: 0 if order is None else order(item[1])))
