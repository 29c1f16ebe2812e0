"""How late the event loop is: what a request that comes at any moment waits before anybody looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.25


class LoopProbe:
    """A timer that tells how many seconds late it was, four times a second, until `close`."""

    def __init__(self, told: Callable[[float], None], every_s: float = EVERY_S) -> None:
        self._told = told
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer = self._set()

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _set(self) -> asyncio.TimerHandle:
        self._due = self._loop.time() + self._every_s
        return self._loop.call_later(self._every_s, self._look)

    def _look(self) -> None:
        late = max(0.0, self._loop.time() - self._due)
        self._timer = self._set()
        self._told(late)
