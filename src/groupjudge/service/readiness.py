"""Whether the judge can be reached (H8), asked at most every few seconds however often the probe comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

FRESH_S = 5.0
FRESH_NO_S = 1.0
"""A judge that loads its model is soon there: whoever waits for it is to be told soon."""
PATIENCE_S = 5.0


class Readiness:
    """Remembers the judge's last answer for `FRESH_S` seconds, a no for `FRESH_NO_S`. `ask` gives None where the judge
    can be asked, else why not."""

    def __init__(self, ask: Callable[[], Awaitable[str | None]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at = float("-inf")
        self._said: str | None = None
        self._turn = asyncio.Lock()
        self._asking: asyncio.Task[str | None] | None = None

    async def why_not(self) -> str | None:
        """None where the judge is reachable, else a short reason."""
        async with self._turn:
            if self._is_stale():
                self._said = await self._fresh()
                self._asked_at = self._clock()
            return self._said

    def glance(self) -> tuple[bool | None, str | None]:
        """What was known last, without waiting: whether the judge is reachable (None: not asked yet), and why not.
        Where that was long ago, it is asked again meanwhile."""
        if self._is_stale() and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self.why_not(), name="asking whether the judge is there")
        return (None if self._asked_at == float("-inf") else self._said is None), self._said

    def _is_stale(self) -> bool:
        return self._clock() - self._asked_at >= (FRESH_S if self._said is None else FRESH_NO_S)

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _fresh(self) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._ask()
        except TimeoutError:
            return f"the judge did not answer within {PATIENCE_S:g} s"
