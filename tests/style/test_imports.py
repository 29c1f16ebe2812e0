"""Who may import whom. Each room has one job, and arrows point one way."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from .source import ROOT, modules

ANYTHING = None

# A room may import itself and these. "" is the package's public face.
MAY_IMPORT: dict[str, set[str] | None] = {
    "errors": set(),
    "model": {"errors"},
    "short_forms": set(),
    "settings": {"errors"},
    "configuration": {"settings", "errors"},
    "core": {"model", "errors"},
    "answers": {"short_forms", "model", "errors"},
    "scoring": {"model"},
    "judging": {"scoring", "model", "errors"},
    "checkpoints": {"core", "model", "errors"},
    "service": {"checkpoints", "judging", "scoring", "answers", "core", "settings", "model", "errors"},
    "offline": {"judging", "answers", "scoring", "settings", "model", "errors"},
    "client": {"short_forms", "errors"},
    "integrations": {""},
    "serving": {"service", "configuration", "settings"},  # the server as a library, for adapters
    "": {"client", "serving", "errors"},
    "cli": ANYTHING,
    "demo": ANYTHING,
    "__main__": ANYTHING,
}

# What a pure room decides depends on nothing but its arguments.
PURE_ROOMS = ("core", "scoring")
IMPURE = {"asyncio", "concurrent", "contextvars", "datetime", "io", "logging", "multiprocessing", "os", "pathlib"}
IMPURE |= {"random", "secrets", "select", "selectors", "signal", "socket", "subprocess", "sys", "tempfile", "threading"}
IMPURE |= {"time", "uuid"}
STANDARD_LIBRARY_ONLY = ("core", "scoring", "errors", "model", "short_forms")


def imports(tree: ast.AST) -> Iterator[str]:
    """The dotted names that `tree` imports anywhere in it, for type checkers only or late in a function included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    """The room of a module named without "groupjudge."."""
    return module.partition(".")[0]


def own_imports(module: str) -> Iterator[str]:
    """The modules of this package that `module` imports, named without "groupjudge."."""
    for name in imports(modules()[module]):
        top, _, rest = name.partition(".")
        if top == "groupjudge":
            while rest not in modules():  # `from groupjudge.model import GroupId` names a module and a thing in it
                rest = rest.rpartition(".")[0]
            yield rest


def foreign_imports(module: str) -> set[str]:
    """The top-level names of what `module` imports from elsewhere."""
    return {name.partition(".")[0] for name in imports(modules()[module])} - {"groupjudge"}


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_imports_only_the_rooms_that_its_room_may(module: str) -> None:
    """Where this fails, what was added usually belongs in another room."""
    assert room(module) in MAY_IMPORT, f"room {room(module)!r} is in no table: say whom it may import"
    allowed = MAY_IMPORT[room(module)]
    used = {room(name) for name in own_imports(module)} - {room(module)}
    if module.startswith(("cli", "service", "offline")):
        used -= {""}  # __version__
    assert allowed is ANYTHING or used <= allowed


@pytest.mark.parametrize("module", sorted(name for name in modules() if room(name) in STANDARD_LIBRARY_ONLY))
def test_the_heart_uses_only_the_standard_library(module: str) -> None:
    """L25: what a library does inside cannot be replayed."""
    assert foreign_imports(module) <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("module", sorted(name for name in modules() if room(name) in PURE_ROOMS))
def test_pure_rooms_have_no_clock_task_lock_or_input(module: str) -> None:
    """L25, J20: time, chance and the outside come in as arguments or not at all."""
    assert not foreign_imports(module) & IMPURE


def test_imports_within_the_package_have_no_circle() -> None:
    """Also within a room: a circle means that two modules are one."""
    graph = {module: set(own_imports(module)) - {module, ""} for module in modules()}
    for module, used in graph.items():  # a package's face gathers its modules; they may not look back at it
        used.difference_update({parent for parent in used if module.startswith(f"{parent}.")})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_every_package_that_is_imported_is_declared() -> None:
    """What another package happens to bring along may be gone with its next release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    declared = {name.split(">")[0].split("=")[0].split("[")[0].strip().lower() for name in listed}
    called = {"ruamel": "ruamel.yaml", "pydantic_core": "pydantic", "simdjson": "pysimdjson"}
    used = {name for module in modules() for name in foreign_imports(module)} - set(sys.stdlib_module_names)
    assert {called.get(name, name).replace("_", "-") for name in used} <= declared
