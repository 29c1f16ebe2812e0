"""`python -m tests.simulation [--seed N] [--events M] [--processes P]`: as many worlds as so many events take."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from .checker import Violation
from .run import Report, simulate_job

EVENTS_OF_A_JOB = 500_000
SEEDS_OF_A_JOB = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--job", type=int, default=EVENTS_OF_A_JOB, help="events that one process does at a stretch")
    options = parser.parse_args()
    began, total = time.perf_counter(), Report()
    try:
        for report in _reports(_jobs(options.seed, options.events, options.job), options.processes):
            total.add(report)
            if sys.stderr.isatty():
                print(f"\r{total.events:,} events, {total.worlds} worlds", end="", file=sys.stderr, flush=True)
    except Violation as violation:
        print(f"VIOLATION: {violation}", file=sys.stderr)
        if options.events == 1:
            raise
        return 1
    seconds = time.perf_counter() - began
    print(f"\nseed {options.seed}: {total.events:,} events in {total.worlds} worlds, {seconds:.1f} s, no violation")
    print(f"of these training runs: {total.lives} lives of servers, {total.restores} restored checkpoints")
    print(f"trace {total.trace:x}; told {dict(total.told)}; refused {dict(total.refused)}")
    return 0


def _jobs(seed: int, events: int, job: int) -> list[tuple[int, int]]:
    """One job is one stretch of seeds, so that the number of processes changes nothing."""
    starts = enumerate(range(0, events, job))
    return [(seed + n * SEEDS_OF_A_JOB, min(job, events - start)) for n, start in starts]


def _reports(jobs: list[tuple[int, int]], processes: int) -> Iterator[Report]:
    if min(processes, len(jobs)) == 1:
        yield from map(simulate_job, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(simulate_job, jobs)


if __name__ == "__main__":
    sys.exit(main())
