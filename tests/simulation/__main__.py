"""`python -m tests.simulation --seed N --events M [--processes P]`: as many worlds as so many events take."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

from .checker import Violation
from .run import Report, simulate

EVENTS_OF_A_JOB = 500_000
SEEDS_OF_A_JOB = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    began = time.perf_counter()
    try:
        total = _run(options.seed, options.events, options.processes)
    except Violation as violation:
        print(f"VIOLATION: {violation}", file=sys.stderr)
        if options.processes == 1:
            raise
        return 1
    seconds = time.perf_counter() - began
    print(f"seed {options.seed}: {total.events:,} events in {total.worlds} worlds, {seconds:.1f} s, no violation")
    print(f"trace {total.trace:x}; told {dict(total.told)}; refused {dict(total.refused)}")
    return 0


def _run(seed: int, events: int, processes: int) -> Report:
    """One job is one stretch of seeds, so that the number of processes changes nothing."""
    jobs = [
        (seed + n * SEEDS_OF_A_JOB, min(EVENTS_OF_A_JOB, events - at))
        for n, at in enumerate(range(0, events, EVENTS_OF_A_JOB))
    ]
    total = Report()
    if processes == 1:
        for job in jobs:
            total.add(simulate(*job))
        return total
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for report in pool.imap(_simulate, jobs):
            total.add(report)
    return total


def _simulate(job: tuple[int, int]) -> Report:
    return simulate(*job)


if __name__ == "__main__":
    sys.exit(main())
