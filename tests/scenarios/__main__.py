"""`python -m tests.scenarios`: play the stories, name what differs; with `--update`, write down what came instead."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .language import play, stories


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios", description=__doc__)
    parser.add_argument(
        "--update", action="store_true", help="rewrite what is expected; read the difference afterwards"
    )
    options = parser.parse_args()
    differing = [path for path in stories() if replayed(path) != path.read_text()]
    for path in differing:
        if options.update:
            path.write_text(replayed(path))
        print(f"{path.name}: {'rewritten' if options.update else 'differs'}")
    return 0 if options.update or not differing else 1


def replayed(path: Path) -> str:
    """The story with what came after each arrow."""
    lines = list(play(path.read_text()))
    width = max(len(line) for line, _, _ in lines if line.startswith("at "))
    return "".join(
        f"{line:{width}} -> {came}".rstrip() + "\n" if line.startswith("at ") else f"{line}\n"
        for line, _, came in lines
    )


if __name__ == "__main__":
    sys.exit(main())
