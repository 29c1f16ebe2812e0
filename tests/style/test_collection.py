"""How the tests themselves are collected."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from .source import ROOT

COLLECT = """
import json, sys, time

now, late = time.time, int(sys.argv[1])
time.time = lambda: now() + late

import pytest


class Names:
    def pytest_collection_finish(self, session):
        print("\\n" + json.dumps([item.nodeid for item in session.items]))


sys.exit(pytest.main(["--collect-only", "-qqq", "-p", "no:cacheprovider", "tests"], [Names()]))
"""


async def names(late: int) -> list[str]:
    """The names of all tests, in order, as a process collects them whose clock is `late` seconds ahead."""
    seeded = {**os.environ, "PYTHONHASHSEED": str(late % 1000), "PYTEST_ADDOPTS": ""}
    collecting = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COLLECT, str(late)), cwd=ROOT, env=seeded, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await collecting.communicate()
    return next(json.loads(line) for line in printed.decode().splitlines() if line.startswith("["))


async def test_each_process_finds_the_same_tests_whatever_its_clock_its_hashes_and_its_entropy() -> None:
    """Processes that share the tests refuse to run where one of them calls a test otherwise than another."""
    ours, theirs = await asyncio.gather(names(0), names(100_001))
    assert len(ours) > 1000
    assert ours == theirs
