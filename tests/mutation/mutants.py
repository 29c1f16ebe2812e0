"""Small faults, put into a module one at a time through its syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
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
_SKIPPED_NAMES = ("check", "_check", "diagram", "__main__", "TYPE_CHECKING")


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is, what it does, and the module's text with it."""

    line: int
    what: str
    text: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every fault that this room knows to make in `source`, in the order of its lines."""
    tree = ast.parse(source)
    paths = list(_nodes(tree, ()))
    for path in paths:
        for number, _ in enumerate(_faults(_at(tree, path))):
            changed = copy.deepcopy(tree)
            node = _at(changed, path)
            before = ast.unparse(node).splitlines()[0]
            what, new = list(_faults(node))[number]
            _put(changed, path, new)
            after = ast.unparse(new).splitlines()[0]
            yield Mutant(
                node.lineno, f"{what}: `{before}` -> `{after}`", ast.unparse(ast.fix_missing_locations(changed))
            )


Path = tuple[tuple[str, int | None], ...]


def _nodes(node: ast.AST, path: Path) -> Iterator[Path]:
    """The ways from the module to each statement and expression in its functions."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_skipped(child):
                continue
            here: Path = (*path, (name, index))
            if isinstance(child, ast.stmt | ast.expr):
                yield here
            yield from _nodes(child, here)


def _is_skipped(node: ast.AST) -> bool:
    """Invariants and what is only shown: a fault there is no fault of the product."""
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith(_SKIPPED_NAMES)
    if isinstance(node, ast.If):
        return any(name in ast.unparse(node.test) for name in _SKIPPED_NAMES)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.value, ast.Constant)  # a default of a setting, which every test sets itself
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Assert | ast.Import | ast.ImportFrom)


def _at(tree: ast.AST, path: Path) -> ast.AST:
    for name, index in path:
        value = getattr(tree, name)
        tree = value if index is None else value[index]
    return tree


def _put(tree: ast.AST, path: Path, new: ast.AST) -> None:
    parent, (name, index) = _at(tree, path[:-1]), path[-1]
    if index is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[index] = new


def _faults(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What can be wrong in place of `node` (which is not changed; its children may be shared)."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield "comparison", ast.Compare(node.left, [_COMPARISONS[type(op)]()], node.comparators)
        case ast.BoolOp(op=ast.And()):
            yield "and, or", ast.BoolOp(ast.Or(), node.values)
        case ast.BoolOp(op=ast.Or()):
            yield "and, or", ast.BoolOp(ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node.operand
        case ast.BinOp(op=ast.Add()):
            yield "sign", ast.BinOp(node.left, ast.Sub(), node.right)
        case ast.IfExp():
            yield "never", node.orelse
            yield "always", node.body
        case ast.Constant(value=bool()):
            yield "boolean", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield "number", ast.Constant(node.value + 1)
        case ast.Call(func=ast.Name(id="min")):
            yield "order", ast.Call(ast.Name("max"), node.args, node.keywords)
        case ast.Call(func=ast.Name(id="max")):
            yield "order", ast.Call(ast.Name("min"), node.args, node.keywords)
        case ast.Dict() if len(node.keys) > 4:
            for n in range(len(node.keys)):
                keys, values = list(node.keys), list(node.values)
                del keys[n], values[n]
                yield f"entry {n} dropped", ast.Dict(keys, values)
        case ast.If() | ast.While():
            yield "never", type(node)(ast.Constant(False), node.body, node.orelse)
            if isinstance(node, ast.If):
                yield "always", ast.If(ast.Constant(True), node.body, node.orelse)
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            yield "dropped", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "dropped", ast.Pass()
