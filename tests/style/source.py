"""The project's own files, parsed: what the style tests look at."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "groupjudge"
SHARED = ROOT.parent / "shared"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name without "groupjudge." ("" is the package itself), parsed."""
    return {module_name(path): ast.parse(path.read_text("utf-8"), str(path)) for path in source_files()}


def source_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """`src/groupjudge/core/book.py` -> `core.book`; a package is named by its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function in `tree`, methods and nested ones included."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines of a function, its decorators and docstring aside."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 1
    signature = function.body[0].lineno - function.lineno
    return signature + (function.end_lineno or 0) - body[0].lineno + 1


def tracked_files() -> list[Path]:
    """Every file under version control, or none where this is no clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = listed.stdout.decode().split("\0") if listed.returncode == 0 else []
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]
