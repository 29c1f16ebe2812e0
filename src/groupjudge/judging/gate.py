"""The places at a judge (J3): so many calls at once over the whole server, first come first served."""

from __future__ import annotations

import asyncio


class Gate:
    """`async with gate:` holds one of `places` (>= 1). Whoever is cancelled while it waits leaves the queue."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.in_flight = 0
        """How many places are held."""
        self.waiting = 0
        """How many callers wait for one."""
        self._free = asyncio.Semaphore(places)

    async def __aenter__(self) -> None:
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.in_flight += 1

    async def __aexit__(self, *_: object) -> None:
        self.in_flight -= 1
        self._free.release()
