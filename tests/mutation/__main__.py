"""`python -m tests.mutation [MODULE ...]`: break the core on purpose, one fault at a time, and name what no test sees.

Each mutant lives in a copy of the sources. It is caught where the stories, the walks beside the model, or the small
simulated worlds fail on it (`tests.mutation.quick`), or take far longer than they should.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
CORE = Path("groupjudge") / "core"
TOO_LONG_S = 240


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="names of modules of the core, without .py; default: all")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if not _passes(ROOT / "src"):
        print("the tests fail without any fault: nothing to learn here", file=sys.stderr)
        return 2
    jobs = list(_jobs(options.modules))
    survivors = 0
    with ThreadPoolExecutor(options.processes) as pool:
        for (path, mutant), caught in zip(jobs, pool.map(_is_caught, jobs), strict=True):
            if not caught:
                survivors += 1
                print(f"SURVIVES {path.name}:{mutant.line}: {mutant.what}", flush=True)
    print(f"{len(jobs)} mutants, {survivors} survive")
    return 1 if survivors else 0


def _jobs(names: list[str]) -> Iterator[tuple[Path, Mutant]]:
    for path in sorted((ROOT / "src" / CORE).glob("*.py")):
        if not names or path.stem in names:
            for mutant in mutants(path.read_text()):
                yield path, mutant


def _is_caught(job: tuple[Path, Mutant]) -> bool:
    path, mutant = job
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / CORE / path.name).write_text(mutant.text)
        return not _passes(copy)


def _passes(sources: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.mutation.quick"]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=TOO_LONG_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
