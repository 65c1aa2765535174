"""From words of a command line to a call of a command: tyro, without the leaks of types in its help."""

from __future__ import annotations

import contextlib
import io
import types
from collections.abc import Callable
from typing import Any, Union, get_args

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

NOT_GIVEN = ["not", "given"]
"""What the help says is the default of a flag without one."""

_registry = ConstructorRegistry()


@_registry.primitive_rule
def _optional(type_info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """`int | None` is read as `int` is, or the word None, and the help speaks of an INT.

    tyro's own rule says {None}|INT, (default: None).
    """
    if type_info.type_origin not in (Union, types.UnionType):
        return None
    options = [option for option in get_args(type_info.type) if option is not type(None)]
    if len(options) != 1 or len(options) == len(get_args(type_info.type)):
        return None
    made = PrimitiveTypeInfo.make(raw_annotation=options[0], parent_markers=type_info.markers)
    inner = ConstructorRegistry.get_primitive_spec(made)
    if isinstance(inner, UnsupportedTypeAnnotationError) or inner.nargs != 1:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=inner.metavar,
        instance_from_str=lambda words: None if words == ["None"] else inner.instance_from_str(words),
        is_instance=lambda value: value is None or inner.is_instance(value),
        str_from_instance=lambda value: NOT_GIVEN if value is None else inner.str_from_instance(value),
        choices=inner.choices,
    )


def parse_and_run(command: Callable[..., Any], prog: str, words: list[str]) -> None:
    """Call a command with what the words of a command line say."""
    with _registry:
        tyro.cli(command, prog=prog, args=words)


def completion(commands: dict[str, Callable[..., Any]], shell: str) -> str:
    """tyro's script that completes all commands in a shell."""
    told = io.StringIO()
    with _registry, contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        tyro.extras.subcommand_cli_from_dict(
            commands, prog="trevision", args=["--tyro-print-completion", shell]
        )
    return told.getvalue()
