"""docs/design.md says what the code does: its diagram, and where each rule is built and proven."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import groupjudge
from groupjudge.core.phases import diagram

TESTS = Path(__file__).parents[1]
DESIGN = TESTS.parent / "docs" / "design.md"
SOURCE = Path(groupjudge.__file__).parent
OTHERS = [f"A{number}" for number in range(1, 13)]
OTHERS += ["J22", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12", "F13", "H14", "J19"]
PROVEN = [f"{page}{number}" for page in "LC" for number in range(1, 26)] + OTHERS

pytestmark = pytest.mark.skipif(not DESIGN.exists(), reason="the documents are not in the source distribution")


def rows() -> dict[str, list[str]]:
    """The cells of the table of rules, by rule."""
    lines = re.findall(r"^\| ([LCAFHJ]\d+) \|(.*)\|$", DESIGN.read_text("utf-8"), re.MULTILINE)
    return {rule: [cell.strip() for cell in cells.split("|")] for rule, cells in lines}


def names_in(path: Path) -> dict[str, str]:
    """Every function and class of a file with its docstring, methods as `Class.method`."""
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = ast.get_docstring(node) or ""
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{node.name}.{inner.name}"] = ast.get_docstring(inner) or ""
    return found


def test_the_diagram_is_the_one_that_the_table_of_phases_makes() -> None:
    """Where this fails, paste the output of `python -m groupjudge.core.phases` into the document."""
    assert f"```mermaid\n{diagram()}\n```" in DESIGN.read_text("utf-8")


def test_every_rule_of_a_groups_life_and_of_checkpoints_has_a_row() -> None:
    """L1 to L26 and C1 to C26, in order, and what else the core proves."""
    every = [f"{page}{number}" for page in "LC" for number in range(1, 27)]
    assert list(rows()) == [*every, *OTHERS]


@pytest.mark.parametrize("rule", rows() if DESIGN.exists() else [])
def test_a_rule_is_built_where_its_row_says(rule: str) -> None:
    """The files exist, and somewhere in them or in their room the names."""
    words = re.findall(r"`([^`]+)`", rows()[rule][1])
    paths = [SOURCE / word for word in words if "/" in word]
    assert paths
    assert all(path.exists() for path in paths)
    rooms = {path.parent if path.suffix else path for path in paths}
    known = {name for room in rooms for path in room.glob("*.py") for name in names_in(path)}
    assert {word for word in words if "/" not in word} <= known


@pytest.mark.parametrize("rule", PROVEN)
def test_a_rule_is_proven_by_the_tests_that_its_row_names(rule: str) -> None:
    """Each of them exists, and says in its docstring that it proves the rule."""
    tests = re.findall(r"\[`([\w.]+)`\]\(\.\./tests/([\w/.]+)\)", rows()[rule][2])
    assert tests
    for name, path in tests:
        docstring = names_in(TESTS / path)[name]
        assert re.search(rf"\b{rule}\b", docstring), name
