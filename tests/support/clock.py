"""Time that passes only when a test says so, with timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count


@dataclass
class Timer:
    """One call that was put off."""

    do: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class Clock:
    """`read` and `later` are for a gate, `sleep` for a judge; `pauses` are for the test. Who sleeps makes time pass."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list)
    _timers: list[tuple[float, int, Timer]] = field(default_factory=list)
    _number: count[int] = field(default_factory=count)

    def read(self) -> float:
        return self.now

    def later(self, seconds: float, do: Callable[[], None]) -> Timer:
        timer = Timer(do)
        heappush(self._timers, (self.now + seconds, next(self._number), timer))
        return timer

    @property
    def next_timer(self) -> float | None:
        """When the next timer fires."""
        return next((due for due, _, timer in sorted(self._timers) if not timer.is_cancelled), None)

    def advance(self, seconds: float) -> None:
        """So much time passes; timers fire in order, each at its own time."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heappop(self._timers)
            self.now = max(self.now, due)
            if not timer.is_cancelled:
                timer.do()
        self.now = until

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)
