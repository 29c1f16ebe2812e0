"""The size and the documentation of the code."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import groupjudge

from .source import Function, functions, length, module_name, modules, source_files

LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
MEDIAN_FUNCTION = 10

# Everything that `from groupjudge import ...` promises. A name that goes away is a breaking change.
PUBLIC_NAMES = ["__version__", "AsyncClient", "Client", "JudgeFailure", "Judged", "Outcome", "Rewarded", "Submission"]
PUBLIC_NAMES += ["DeadlinePassed", "GroupFailed", "GroupJudgeError", "InvalidRequest", "NotFound", "Overloaded"]
PUBLIC_NAMES += ["Refusal", "ShuttingDown", "Unauthorized", "UnexpectedReply"]
PUBLIC_NAMES += ["ConfigurationError", "ExtraRoute", "Given", "Settings", "serve", "settings_of"]


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_a_module_is_short_enough_to_be_read_at_once(path: Path) -> None:
    """Where this fails, there are two modules in it."""
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_function_fits_on_a_screen(module: str) -> None:
    """Its docstring aside."""
    assert {f.name: length(f) for f in functions(modules()[module]) if length(f) > LONGEST_FUNCTION} == {}


def test_most_functions_are_short(record_property: pytest.RecordProperty) -> None:
    """The median over the whole package; it may only sink."""
    median = statistics.median(length(f) for tree in modules().values() for f in functions(tree))
    record_property("median_function_lines", median)
    assert median <= MEDIAN_FUNCTION


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_public_name_says_what_it_is(module: str) -> None:
    """A module, class or function without a leading underscore has a docstring; see `undocumented`."""
    assert list(undocumented(modules()[module])) == []


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public names of a module without a docstring. None is needed by a class that the module's own header explains, by
    a method that a base class may explain, and by a method of a single statement."""
    header = ast.get_docstring(tree) or ""
    if not header:
        yield "the module"
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None and not (isinstance(node, ast.ClassDef) and node.name in header):
                yield node.name
            if isinstance(node, ast.ClassDef) and not node.bases:
                yield from _undocumented_methods(node)


def _undocumented_methods(node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        is_public = isinstance(method, Function) and not method.name.startswith("_")
        if is_public and ast.get_docstring(method) is None and len(method.body) > 1:
            yield f"{node.name}.{method.name}"


def test_the_public_names_are_these() -> None:
    """And all of them are there."""
    assert sorted(groupjudge.__all__) == sorted(PUBLIC_NAMES)
    for name in PUBLIC_NAMES:
        assert hasattr(groupjudge, name)
