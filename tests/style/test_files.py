"""What may stand in the project's files, and what its documents promise."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import groupjudge
from groupjudge.cli import cli
from groupjudge.settings import Settings

from .source import ROOT, SHARED, tracked_files

CASES = ROOT / "tests" / "cases"
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

# Put together from halves, so that this file holds none of them.
FORBIDDEN = {
    "a home directory": r"(?<![\w.~])/(?:ro" + r"ot|ho" + r"me/\w+)(?:/|\b)",
    "a path of one machine": r"(?<![\w./~-])/(?:wo" + r"rk|Us" + r"ers|tm" + r"p/[a-z]\w{2,})/",
    "a package registry's host": r"(?i)py" + r"pi\.org|pythonho" + r"sted|registry\.npm" + r"js|deb\.deb" + r"ian",
    "a word about how it was written": r"(?i)\b(?:cla"
    + r"ude|anthro"
    + r"pic|sub"
    + r"agent|chat"
    + r"gpt|code"
    + r"x)\b",
    "a mark of something unfinished": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
}

# The rules that tests and docstrings may cite, by page; H10a stands beside H10.
RULES = {"H": 14, "L": 26, "J": 22, "C": 26, "A": 13, "F": 13, "P": 17}
CITED = re.compile(r"\b([HLJCAFP])([1-9]\d?)(a?)\b")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    """Paths of a machine, hosts of a registry, and words that are nobody's business."""
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        for number, line in enumerate(_text(path).splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def _text(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a home directory", "see /ro" + "ot/x"),
        ("a home directory", '"/ho' + 'me/ada/file"'),
        ("a path of one machine", "in /wo" + "rk/main"),
        ("a path of one machine", "(/tm" + "p/fresh/x)"),
        ("a package registry's host", "https://py" + "pi.org/simple"),
        ("a word about how it was written", "asked Cla" + "ude"),
        ("a mark of something unfinished", "# TO" + "DO: later"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, text: str) -> None:
    """A pattern that matches nothing proves nothing."""
    assert re.search(FORBIDDEN[what], text)


# --- documents ---


def fenced(language: str) -> list[str]:
    """The README's fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_readme_shows_every_key_with_its_default() -> None:
    """H12: a key that is added without a line there fails here."""
    (text,) = fenced("yaml")
    shown = YAML(typ="safe", pure=True).load(text)
    assert Settings.model_validate(shown) == Settings()
    assert _keys(shown) == _keys(Settings().model_dump())


def _keys(value: Any) -> Any:
    return {key: _keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_targets_and_commands_that_are_shown_exist(document: str) -> None:
    """H13: `make x` is a target of the Makefile, `groupjudge x` a command."""
    text = (ROOT / document).read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    code = _code(text)
    shown = {name for line in re.findall(r"^make((?: [a-z]+)+)", code, re.MULTILINE) for name in line.split()}
    assert shown
    assert shown <= set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"^groupjudge ([a-z][a-z-]*)", code, re.MULTILINE)) <= set(cli.commands)


def _code(text: str) -> str:
    """What stands in a document as code, each piece on lines of its own."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


@pytest.mark.parametrize("document", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    """Links to other files of the project; those to the web are not followed."""
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", document.read_text("utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_the_changelog_starts_with_what_is_unreleased() -> None:
    """Then come releases, the newest of which is this version."""
    heads = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert heads[1:2] in ([], [groupjudge.__version__])


def test_the_version_is_said_once_in_two_places() -> None:
    """In the package and in its metadata."""
    assert PROJECT["project"]["version"] == groupjudge.__version__


# --- locks ---


def locked(path: Path) -> dict[str, str]:
    """Package -> version of a lock."""
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^\s;]+)", path.read_text("utf-8"), re.MULTILINE))


def test_there_are_locks() -> None:
    """One for the demo, one for everything, one for what makes them."""
    assert [path.stem for path in LOCKS] == ["demo", "dev", "lock"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_names_versions_and_hashes_and_no_place(path: Path) -> None:
    """So that it works behind any mirror, and nothing is fetched that it does not name."""
    text = path.read_text("utf-8")
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked(path)) > 0
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert not re.search(r"^\s*(-|--\w)", re.sub(r"^ +--hash.*$", "", text, flags=re.MULTILINE), re.MULTILINE)


@pytest.mark.parametrize(("lock", "groups"), [("dev", ["dev", "build"]), ("demo", ["build"])])
def test_everything_that_is_declared_is_locked(lock: str, groups: list[str]) -> None:
    """A dependency that is added needs `make lock`."""
    extras = PROJECT["project"]["optional-dependencies"]
    names = [*PROJECT["project"]["dependencies"], *extras["fast"], *extras["local"]]
    names += extras["report"] if "dev" in groups else []
    names += [name for group in groups for name in PROJECT["dependency-groups"][group]]
    wanted = {re.split(r"[^A-Za-z0-9._-]", name)[0].lower().replace("_", "-").replace(".", "-") for name in names}
    assert wanted <= set(locked(ROOT / "requirements" / f"{lock}.lock"))


def test_the_demo_and_the_tests_use_the_same_versions() -> None:
    """Both live in one environment."""
    assert locked(ROOT / "requirements" / "demo.lock").items() <= locked(ROOT / "requirements" / "dev.lock").items()


# --- cases and rules ---


def test_the_cases_are_those_that_are_shared() -> None:
    """A copy that was changed proves something else."""
    if not (SHARED / "cases").is_dir():
        pytest.skip("the shared cases are not beside this clone")
    for shared in sorted((SHARED / "cases").glob("*.json")):
        assert (CASES / shared.name).read_bytes() == shared.read_bytes(), shared.name


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.name)
def test_a_file_of_cases_holds_some(path: Path) -> None:
    """An empty one would let every test of it pass."""
    assert json.loads(path.read_text("utf-8"))


def docstrings(path: Path) -> Iterator[str]:
    """Every docstring in a Python file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_every_rule_that_is_cited_exists() -> None:
    """In the docstrings of the package and of the tests."""
    unknown = {
        f"{path.relative_to(ROOT)}: {page}{number}{letter}"
        for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
        for text in docstrings(path)
        for page, number, letter in CITED.findall(text)
        if int(number) > RULES[page] or (letter and (page, number) != ("H", "10"))
    }
    assert unknown == set()


def test_the_rules_are_those_of_the_specification() -> None:
    """Where it lies beside this clone."""
    if not (SHARED / "spec").is_dir():
        pytest.skip("the specification is not beside this clone")
    text = "\n".join(path.read_text("utf-8") for path in (SHARED / "spec").glob("*.md"))
    for page, last in RULES.items():
        numbers = {int(n) for n in re.findall(rf"^(?:\| )?{page}(\d+)(?:\.| \|)", text, re.MULTILINE)}
        assert numbers == set(range(1, last + 1)), page
