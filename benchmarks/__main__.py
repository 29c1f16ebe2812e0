"""Measure everything, and print one table with ratios to baselines taken in the same run.

    python -m benchmarks [--only P1,P3] [--p8 ANSWERS]
    python -m benchmarks --list
    python -m benchmarks --compare OLD.json NEW.json

`ours` is the product's figure, `baseline` what was measured beside it: for P1-P5 an ASGI application that echoes the
body under the same HTTP server, for P10 and P11 orjson's parse and sorted dump with SHA-256, for P12 an empty book.
Compare ratios rather than figures: they depend less on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from benchmarks import checkpoints, fidelity, pure, table, workloads
from benchmarks.table import Row

Work = Callable[[], list[Row] | Awaitable[list[Row]]]
P8_SMALL, P8_FULL = 512, 8_192


def works(p8: int) -> dict[str, tuple[str, Work]]:
    """Every workload by its number: what it is, and what measures it."""
    return {
        "P1": ("small answers: CPU of a request", workloads.small),
        "P2": ("answers of 0.23 MB: CPU of a request", workloads.medium),
        "P3": ("answers of 1.85 MB: CPU of a request", workloads.large),
        "P4": ("answers with expert routing, 3.8 MB: CPU of a request", workloads.routed),
        "P5": ("P3 with return=minimal: CPU of a request", workloads.large_minimal),
        "P6": ("memory of an answer that waits", workloads.memory),
        "P7": ("memory of an answer that waits, return=minimal", workloads.memory_minimal),
        "P8": (f"{p8:,} large answers at the judge at once: memory, CPU", partial(workloads.many, p8)),
        "P9": ("stalls of the event loop", workloads.stalls),
        "P10": ("fingerprint of a P3 answer", partial(pure.fingerprints, "P10", "P3", {"P3": 5.0}, 10.0)),
        "P11": (
            "fingerprint of a P4 answer",
            partial(pure.fingerprints, "P11", "P4", {"P4": 15.0, "P4 ', '": 25.0}, 92.0),
        ),
        "P12": ("cost of an arrival beside many finished groups", pure.arrivals),
        "P13": ("last member to reward with 512 groups in flight", workloads.latency),
        "P14": ("events a second of the state machine", pure.events),
        "P17": ("stalls that unusual bodies bring to other callers", workloads.unusual),
        "F3": ("fidelity: how near the truth rewards come, per judge call", fidelity.targets),
        "F7": ("judging early: a straggler's arrival to its reward", workloads.stragglers),
        "C26": ("checkpoints: a request with them, a commit of 65,536 sessions", checkpoints.measure),
    }


def measure(chosen: dict[str, tuple[str, Work]]) -> list[Row]:
    """Run workloads one after the other and print each row as it comes."""
    rows = []
    print(table.HEADER)
    for _, work in chosen.values():
        found = work()
        found = asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found
        for row in found:
            print(table.line(row), flush=True)
        rows += found
    return rows


async def _awaited(rows: Awaitable[list[Row]]) -> list[Row]:
    return await rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name the workloads")
    parser.add_argument("--only", default="", metavar="P1,P3", help="measure these")
    parser.add_argument("--p8", type=int, default=P8_SMALL, metavar="ANSWERS", help=f"how many; in full: {P8_FULL}")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="FILE", help="set two results side by side")
    options = parser.parse_args()
    every = works(options.p8)
    if options.compare:
        print(table.compared(*options.compare))
    elif options.list:
        print("\n".join(f"{name:<5}{what}" for name, (what, _) in every.items()))
    else:
        names = [name.strip().upper() for name in options.only.split(",") if name.strip()] or list(every)
        unknown = [name for name in names if name not in every]
        if unknown:
            parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(every)}")
        before = table.machine()
        rows = measure({name: every[name] for name in names})
        print(f"\n{before['system']}, {before['cpus']} CPUs, load {before['load'][0]} before and", end=" ")
        print(f"{table.machine()['load'][0]} after; saved as {table.save(rows, before)}")
        print(f"a page of memory that was not touched for 0.1 s takes {before['cold_page_us']} us to read")


if __name__ == "__main__":
    main()
