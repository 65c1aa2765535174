"""scikit-learn objects in files that are not pickles: a file that names a type not listed is refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trevision.budgets import check_unpacked
from trevision.files import DataError, TooLarge, parse_json

_PLAIN = {"dict", "list", "tuple", "slice", "str"}
_ARRAYS = {"ndarray", "dtype", "float32", "float64", "int64", "uint64"}
_NODES = {"Dict", "List", "Tuple", "Slice", "Json", "Type", "DType", "NdArray", "Object"}


@dataclass(frozen=True)
class Trusted:
    """What a file may name besides plain values and arrays.

    Attributes
    ----------
    types : tuple of type
        The classes of objects.
    nodes : tuple of str
        Names of skops' loaders besides the usual ones, without "Node".
    """

    types: tuple[type, ...]
    nodes: tuple[str, ...] = ()


def write_skops(path: Path, held: Any, member: str, description: dict[str, Any]) -> None:
    """Write an object and, as the `member` of the archive, what else is to be known of it."""
    import skops.io  # here and below: slow to import, and needed only for tables

    skops.io.dump(held, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, json.dumps(description | {"scikit-learn": version("scikit-learn")}))


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, if what it holds is within its budget."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(info.file_size for info in archive.infolist()), path.stat().st_size)
        yield archive


def read_description(path: Path, member: str) -> dict[str, Any]:
    """The description in a file that `write_skops` wrote. No object is made."""
    try:
        with _opened(path) as archive:
            description = parse_json(archive.read(member).decode(), path, member)
    except (TooLarge, FileNotFoundError):
        raise
    # A damaged file may raise errors of many types, in zipfile and json.
    except Exception as error:
        raise _unreadable(path, error) from error
    if not isinstance(description, dict):
        raise _unreadable(path, TypeError(f"{member} must hold an object"))
    return description


def read_skops(path: Path, trusted: Trusted) -> Any:
    """The object in a file that `write_skops` wrote.

    Raises
    ------
    DataError
        If the file is damaged, or names a type that is not trusted. Nothing is loaded then.
    """
    import skops.io

    try:
        with _opened(path) as archive:
            _check_types(path, json.loads(archive.read("schema.json")), trusted)
        names = [f"{known.__module__}.{known.__name__}" for known in trusted.types]
        return skops.io.load(path, trusted=["numpy.dtype", *names])
    except (DataError, FileNotFoundError):
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path}: cannot be read (written with scikit-learn of another version than "
        f"{version('scikit-learn')}, or damaged): {error}"
    )


def _check_types(path: Path, node: Any, trusted: Trusted) -> None:
    """Raise a DataError for a description that names another type than the trusted ones."""
    if isinstance(node, list):
        for member in node:
            _check_types(path, member, trusted)
    elif isinstance(node, dict):
        if "__class__" in node:
            module, name = node.get("__module__"), node["__class__"]
            known = (
                (module == "builtins" and name in _PLAIN)
                or (module == "numpy" and name in _ARRAYS)
                or any((module, name) == (each.__module__, each.__name__) for each in trusted.types)
            )
            loader = node.get("__loader__", "JsonNode").removesuffix("Node")
            if not known or loader not in {*_NODES, *trusted.nodes}:
                raise DataError(f"{path}: names {module}.{name}, which is not trusted and is not loaded")
        for value in node.values():
            _check_types(path, value, trusted)
