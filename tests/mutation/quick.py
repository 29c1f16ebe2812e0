"""The fast half of the core's proofs, in one process that ends at the first fault: stories, walks, small worlds."""

from __future__ import annotations

from tests.machine.walk import Walk
from tests.scenarios.language import play, stories
from tests.simulation.run import World

WALKS = 120
WORLDS = 8


def main() -> None:
    for path in stories():
        for line, expected, came in play(path.read_text()):
            assert came == expected, f"{path.name}: {line}"
    for seed in range(WALKS):
        Walk(seed).go(150)
    for seed in range(WORLDS):
        World(seed).run(5_000)


if __name__ == "__main__":
    main()
