"""The fast proofs of the core, in one process that ends at the first fault: stories, walks, worlds, unit tests."""

from __future__ import annotations

import sys

import pytest
from tests.machine.walk import Walk
from tests.scenarios.language import play, stories
from tests.simulation.run import World

WALKS = 200
WORLDS = 8


def main() -> None:
    for path in stories():
        for line, expected, came in play(path.read_text()):
            assert came == expected, f"{path.name}: {line}"
    for seed in range(WALKS):
        Walk(seed).go(200)
    for seed in range(WORLDS):
        World(seed).run(5_000)
    # Tests that count looks fill a store with a million entries first: more than all others cost together. The sources
    # are found by PYTHONPATH alone.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=", "-k", "not looks"]
    options += ["--ignore", "tests/core/test_design_document.py"]  # it reads the sources, whatever they do
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins were imported above already
    sys.exit(pytest.main([*options, "tests/core"]))


if __name__ == "__main__":
    main()
