"""The forms that values of a JSON file must have. A wrong type is told with its place before it is used.

A form is a type, a union of types, `[form]` for a list of such values, or a dictionary of forms. A key that
ends in `?` may be missing, and other keys are let through.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from trevision.files import DamagedFile

Held = TypeVar("Held")

NUMBER = int | float


def check_form(value: Any, form: Any, path: Path, place: str = "") -> None:
    """Raise a `DamagedFile` unless the value, at `place` in the file, has the form."""
    if isinstance(form, dict):
        _require(isinstance(value, dict), value, "an object", path, place)
        for key, inner in form.items():
            name = key.removesuffix("?")
            if name in value:
                check_form(value[name], inner, path, f"{place}.{name}" if place else name)
            elif name == key:
                raise DamagedFile(f"{path} lacks {name}{_in(place)}; was it edited?", path=path, place=place)
    elif isinstance(form, list):
        _require(isinstance(value, list), value, "a list", path, place)
        for number, inner in enumerate(value):
            check_form(inner, form[0], path, f"{place}[{number}]")
    else:
        kinds = get_args(form) if isinstance(form, UnionType) else (form,)
        # To Python True is a whole number, and 1 is no fraction.
        admitted = {kind for one in kinds for kind in ((int, float) if one is float else (one,))}
        name = " or ".join(_name(kind) for kind in kinds)
        _require(type(value) in admitted, value, name, path, place)


def from_json(kind: type[Held], stored: Any, path: Path, place: str = "") -> Held:
    """A frozen dataclass from the object that `asdict` made of it; a key that it has not is an error."""
    _require(isinstance(stored, dict), stored, "an object", path, place)
    hints, values = get_type_hints(kind), {}
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for key, value in stored.items():
        where = f"{place}.{key}" if place else str(key)
        if key not in known:
            raise DamagedFile(
                f"{path} must be of this version, but has the unknown setting {where!r}",
                path=path,
                place=where,
            )
        values[key] = _converted(value, hints[key], path, where)
    return kind(**values)


def _converted(value: Any, hint: Any, path: Path, place: str) -> Any:
    if is_dataclass(hint):
        return from_json(hint, value, path, place)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        check_form(value, [get_args(hint)[0]], path, place)
        return tuple(value)
    check_form(value, hint, path, place)
    return value


def _require(holds: bool, value: Any, name: str, path: Path, place: str) -> None:
    if not holds:
        raise DamagedFile(
            f"{path} must have {name}{_in(place) or ' at its top'}, got {str(value)[:60]!r}; was it edited?",
            path=path,
            place=place,
        )


def _in(place: str) -> str:
    return f" in {place}" if place else ""


def _name(kind: Any) -> str:
    names = {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        dict: "an object",
    }
    return "null" if kind is type(None) else names.get(kind, "a list")
