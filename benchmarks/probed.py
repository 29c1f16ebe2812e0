"""The product's server with a probe in its event loop: how long was the loop busy with something else?

    python -m benchmarks.probed KEY=VALUE ...

Nothing of the product is changed; one more task wakes every millisecond. The command `stall` on standard input tells
the longest time between two wakings since the last `stall`, in milliseconds, without the time slept: by the clock, and
by the CPU time of the loop's thread (which other processes on the machine do not lengthen).
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from benchmarks.processes import take_commands
from groupjudge.configuration import load
from groupjudge.service.logs import configure_logs
from groupjudge.service.run import calm_allocator, calm_collector, raise_descriptor_limit, running

TICK_S = 0.001


class Probe:
    def __init__(self) -> None:
        self._clock_s = self._cpu_s = 0.0

    async def tick(self) -> None:
        clock, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(TICK_S)
            now_clock, now_cpu = time.perf_counter(), time.thread_time()
            self._clock_s = max(self._clock_s, now_clock - clock - TICK_S)
            self._cpu_s = max(self._cpu_s, now_cpu - cpu)
            clock, cpu = now_clock, now_cpu

    def stall(self) -> dict[str, float]:
        longest = {"clock_ms": 1e3 * self._clock_s, "cpu_ms": 1e3 * self._cpu_s}
        self._clock_s = self._cpu_s = 0.0
        return longest


async def main(sets: list[str]) -> None:
    settings = load(None, {}, sets)
    probe = Probe()
    async with running(settings) as address:
        ticking = asyncio.create_task(probe.tick())
        take_commands({"stall": probe.stall})
        print(address, flush=True)
        await ticking


if __name__ == "__main__":
    configure_logs()
    raise_descriptor_limit()
    calm_collector()
    calm_allocator()
    uvloop.run(main(sys.argv[1:]))
