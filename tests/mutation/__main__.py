"""`python -m tests.mutation [MODULE ...]`: break the core on purpose, one fault at a time, and name what no test sees.

Sources and tests are copied when it begins, and each mutant lives in a copy of its own. It is caught where the stories,
the walks beside the model, the small simulated worlds or the core's own tests fail on it (`tests.mutation.quick`), or
take far longer than they should.
"""

from __future__ import annotations

import argparse
import ast
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
    with tempfile.TemporaryDirectory() as folder:
        return Trial(Path(folder)).run(options.modules, options.processes)


class Trial:
    """The mutants of what the tree held when it began, so that it may change meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"), dirs_exist_ok=True)

    def run(self, modules: list[str], processes: int) -> int:
        """Try all mutants of the modules (none named: of all), and print the survivors; the exit status."""
        jobs, survivors = list(self.jobs(modules)), 0
        for path in (self.folder / "src" / CORE).glob("*.py"):
            path.write_text(ast.unparse(ast.parse(path.read_text())))  # as in the mutants, so that only faults differ
        if not self.passes(self.folder / "src"):
            print("the tests fail without any fault: nothing to learn here", file=sys.stderr)
            return 2
        with ThreadPoolExecutor(processes) as pool:
            for (path, mutant), caught in zip(jobs, pool.map(self.is_caught, jobs), strict=True):
                if not caught:
                    survivors += 1
                    print(f"SURVIVES {path.name}:{mutant.line}: {mutant.what}", flush=True)
        print(f"{len(jobs)} mutants, {survivors} survive")
        return 1 if survivors else 0

    def jobs(self, names: list[str]) -> Iterator[tuple[Path, Mutant]]:
        for path in sorted((self.folder / "src" / CORE).glob("*.py")):
            if not names or path.stem in names:
                for mutant in mutants(path.read_text()):
                    yield path, mutant

    def is_caught(self, job: tuple[Path, Mutant]) -> bool:
        path, mutant = job
        with tempfile.TemporaryDirectory() as folder:
            sources = Path(folder) / "src"
            shutil.copytree(self.folder / "src", sources)
            (sources / CORE / path.name).write_text(mutant.text)
            return not self.passes(sources)

    def passes(self, sources: Path) -> bool:
        environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "tests.mutation.quick"]
        try:
            done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, timeout=TOO_LONG_S)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
