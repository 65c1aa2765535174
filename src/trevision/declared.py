"""Finding what the modules of a package declare: methods, estimators, data sets and tables.

Each of them is one file in its package's folder with a declaration at module level. Nothing else lists them.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

T = TypeVar("T")


def declared_in(package: str, kind: type[T]) -> list[T]:
    """All instances of `kind` at the top level of a package's modules.

    They come in the order of the modules' names and, within a module, of their definition. One that several
    modules import from each other is listed once.
    """
    path = import_module(package).__path__
    modules = [import_module(f"{package}.{module.name}") for module in iter_modules(path)]
    values = (value for module in modules for value in vars(module).values())
    return list({id(value): value for value in values if isinstance(value, kind)}.values())
