"""Small mistakes to make in a module: of comparison, arithmetic, constants and logic, and by omission."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake."""

    line: int
    text: str
    """That line."""
    before: str
    after: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.before} -> {self.after} in {self.text}"


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, from its first line to its last."""
    whole, lines = ast.parse(source), source.splitlines()
    nodes = list(_changeable(whole))
    for number, node in enumerate(nodes):
        for which in range(len(_changes(node))):
            tree = copy.deepcopy(whole)
            same = list(_changeable(tree))[number]
            new = _changes(same)[which]
            before, after = _said(node), _said(new)
            _replace(tree, same, new)
            line = getattr(node, "lineno", 0)
            text = lines[line - 1].strip()
            yield Mutant(line, text, before, after, ast.fix_missing_locations(tree))


def _said(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())


def _changeable(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may be changed: no types, no texts, no messages, nothing only for type checkers."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "ctx"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(
                child, (ast.JoinedStr, ast.Import, ast.ImportFrom)
            ):
                continue
            yield child
            if not isinstance(child, ast.Raise) and not _is_warning(child):
                yield from _changeable(child)


def _is_warning(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and _said(node).startswith("warnings.warn(")


def _changes(node: ast.AST) -> list[ast.AST]:
    """What a node may become."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        return [ast.Compare(node.left, [_COMPARED[type(node.ops[0])](), *node.ops[1:]], node.comparators)]
    if isinstance(node, ast.BinOp) and type(node.op) in _CALCULATED:
        return [ast.BinOp(node.left, _CALCULATED[type(node.op)](), node.right)]
    if isinstance(node, ast.BoolOp):
        return [ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        return [node.operand]
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return [ast.Constant(not node.value)]
        if isinstance(node.value, (int, float)):
            return [ast.Constant(node.value + 1 if node.value in (0, 1) else 2 * node.value)]
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return [ast.Pass()]
    return []


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return
            if isinstance(value, list) and any(each is old for each in value):
                value[:] = [new if each is old else each for each in value]
                return
