"""How large bodies come in: whose connection is read next, and who writes to the disk (P6-P9).

A connection is read a piece at a time, as much as has arrived, and each piece is on disk before the next is asked for.
To ask costs nothing where nothing comes, so any number of connections may be asked; but those of which much has arrived
would all bring it at once. So a few are asked in each turn of the loop, and once more was brought than is good, every
other read is a small one.

Who came first is asked first. Asked in turn, thousands of bodies that come at once would all be half here for a long
time, each with all that the system lets its connection hold; of those that were not asked yet it holds less.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush

AT_ONCE = 8
"""So many connections are asked for their next piece in one turn of the loop."""
ROOM = 2 << 20
"""Of what was read but not yet written there may be about so many bytes."""
SLOW_S = 0.01
"""A write that waits longer than this kept all others waiting: the system makes writers wait for a busy disk."""
REST_S = 3.0
"""For so long the loop writes nothing itself after that."""
THREADS = 4
_WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def _waits() -> int:
    """How often this thread waited for something so far. To be kept from a processor by others is no waiting."""
    return resource.getrusage(_WHOSE).ru_nvcsw


class Pace:
    """Whether the disk is slow, as the writes of one thread tell. `waits` counts how often that thread had to wait: a
    busy machine makes a write long in which it never did."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, waits: Callable[[], int] = _waits) -> None:
        self._clock = clock
        self._waits = waits
        self._slow_until = float("-inf")

    @property
    def is_slow(self) -> bool:
        """Whether the loop had better not write itself."""
        return self._clock() < self._slow_until

    def write(self, work: Callable[[], None]) -> None:
        """Do it, and see how long it takes."""
        waits, began = self._waits(), self._clock()
        try:
            work()
        finally:
            ended = self._clock()
            if ended - began > SLOW_S and self._waits() > waits:
                self._slow_until = ended + REST_S


class Intake:
    """One for all connections of a server."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._loop = asyncio.get_running_loop()
        self._line: list[tuple[int, asyncio.Future[None]]] = []
        self._asked = 0
        self._came = 0
        self._to_write = 0
        self._turn_is_timed = False
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_crowded(self) -> bool:
        """Whether so much was read in this turn of the loop, or waits to be written, that reads must be small ones."""
        return self._came + self._to_write >= ROOM

    def came(self, size: int) -> None:
        """So much of a body was read from its connection."""
        self._came += size
        self._time_turn()

    async def pass_through(self, number: int) -> None:
        """Return when it is the turn of the body of this number to be asked for its next piece. Lower numbers go first,
        and one comes only once at a time."""
        if self._asked < AT_ONCE and not self._line and self._to_write < ROOM:
            self._asked += 1
            self._time_turn()
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        heappush(self._line, (number, turn))
        await turn

    async def write(self, work: Callable[[], None], size: int) -> None:
        """Do `work`, which writes `size` bytes: here while the disk is quick, since a thread costs more than most
        pieces, else in a thread, which holds nothing while the system makes it wait."""
        if not self._pace.is_slow:
            self._pace.write(work)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "spool")
        self._to_write += size
        writing = self._loop.run_in_executor(self._threads, work)
        writing.add_done_callback(lambda _: self._wrote(size))
        await writing

    def close(self) -> None:
        """End the threads, once they have written what they have."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def _wrote(self, size: int) -> None:
        self._to_write -= size
        self._time_turn()

    def _time_turn(self) -> None:
        if not self._turn_is_timed:
            self._turn_is_timed = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_is_timed = False
        self._came = self._asked = 0
        while self._line and self._asked < AT_ONCE and self._to_write < ROOM:
            _, turn = heappop(self._line)
            if not turn.done():
                turn.set_result(None)
                self._asked += 1
        if self._asked:
            self._time_turn()
