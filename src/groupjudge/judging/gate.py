"""The places at a judge (J3, F11, F13): who may send a request next, and where to.

**The order.** Each group has a `Line` for its calls. The line that was made first is served first, until it has had
`TURN` calls; then it goes to the end, as if it had been made anew. So groups of up to `TURN` calls are judged in the
order in which they became complete, a call that comes back from a pause goes before later groups, and a larger group
keeps those behind it waiting for `TURN` calls and no more. Nobody starves, however many come.

**The place.** All desks share the one queue, so none is idle while another has calls waiting. A call goes to the living
desk with the least load. Where all desks are left out for their faults, they are all asked: what is wrong then shows.

Everything runs on one event loop and nothing here suspends but `enter`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from groupjudge.judging.desk import NEVER, Desk, Place

TURN = 128
"""In calls. All pairs of 16 answers are 120, of a circle far fewer: groups of the usual kinds are served whole."""
_FEWEST_TO_TIDY = 32
_EARLY = 1 << 62
"""Lines of groups that are not complete yet come behind all others (F7)."""


class Timer(Protocol):
    """What `later` gives back."""

    def cancel(self) -> None:
        """It must not fire."""
        ...


def _loop_timer(seconds: float, do: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, do)


class Line:
    """The calls of one group at a gate."""

    __slots__ = ("had", "is_queued", "stamp", "waiting")

    def __init__(self, stamp: int) -> None:
        self.stamp = stamp
        self.had = 0
        self.is_queued = False
        self.waiting: dict[asyncio.Future[Place], float] = {}
        """Each call that waits, in order, with the tokens it will take."""


class Gate:
    """The queue before one or several desks. `async with gate:` holds a place at the only one."""

    def __init__(
        self,
        desks: int | Sequence[Desk],
        *,
        now: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], Timer] = _loop_timer,
    ) -> None:
        """`desks` as a number: one desk with so many places (>= 1). `later` calls a function after some seconds."""
        self.desks = (Desk(desks),) if isinstance(desks, int) else tuple(desks)
        for index, desk in enumerate(self.desks):
            desk.index = index
        self.waiting = 0
        """How many calls wait for a place."""
        self._now, self._later = now, later
        self._stamp = 0
        self._seated = 0
        self._queue: list[tuple[int, Line]] = []
        self._empty = 0
        """How many lines stand in the queue though nobody waits in them any more."""
        self._timer: Timer | None = None
        self._held: list[Place] = []

    @property
    def in_flight(self) -> int:
        """How many places are held."""
        return sum(desk.in_flight for desk in self.desks)

    @property
    def places(self) -> int:
        """How many calls there may be at once."""
        return sum(desk.concurrency.limit for desk in self.desks)

    def line(self, *, early: bool = False) -> Line:
        """The line of a group that became complete now; `early`: that is not complete yet (F7)."""
        self._stamp += 1
        return Line(self._stamp + (_EARLY if early else 0))

    def complete(self, line: Line) -> None:
        """The group of an early line became complete now: it takes its turn like any other."""
        self._stamp += 1
        line.stamp, line.had = self._stamp, 0
        if line.is_queued:
            self._queue = [(each.stamp, each) for _, each in self._queue]
            heapify(self._queue)

    async def enter(self, line: Line, tokens: float = 0.0) -> Place:
        """A place, once it is this call's turn; the holder gives it back with `leave`. `tokens` is how many it is
        thought to take. Whoever is cancelled while it waits leaves the queue."""
        if not self._queue:
            now = self._now()
            desk = self._free_desk(now)
            if desk is not None:
                return self._seat(desk, line, tokens, now)
        place: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._queue_up(line, place, tokens)
        self._give()
        try:
            return await place
        except asyncio.CancelledError:
            self._gone(line, place)
            raise

    def leave(self, place: Place) -> None:
        """The request of `place` is over."""
        place.desk.leave(place)
        if self._queue:
            self._give()

    async def __aenter__(self) -> None:
        self._held.append(await self.enter(self.line()))

    async def __aexit__(self, *_: object) -> None:
        self.leave(self._held.pop())

    def rest(self, desk: Desk, seconds: float) -> None:
        """`desk` gets no call for so long (F11)."""
        desk.rest(seconds, self._now())

    def heard(self, place: Place, *, too_many: bool, fault: bool) -> None:
        """How the request of `place` went; see `Desk.heard`."""
        place.desk.heard(place, too_many=too_many, fault=fault, now=self._now())

    def has_another(self, desk: Desk) -> bool:
        """Whether a call that failed at `desk` can at once be made elsewhere."""
        if len(self.desks) == 1:
            return False
        now = self._now()
        return any(d is not desk and d.is_living(now) and not d.is_resting(now) for d in self.desks)

    # -- the queue -------------------------------------------------------------------------------------------------

    def _queue_up(self, line: Line, place: asyncio.Future[Place], tokens: float) -> None:
        if not line.is_queued:
            line.is_queued = True
            heappush(self._queue, (line.stamp, line))
        elif not line.waiting:
            self._empty -= 1
        line.waiting[place] = tokens
        self.waiting += 1

    def _gone(self, line: Line, place: asyncio.Future[Place]) -> None:
        """A call was cancelled, maybe just as it got its place: that is passed on."""
        if place.done() and not place.cancelled():
            given = place.result()
            given.desk.unsent(given)
            self.leave(given)
            return
        if line.waiting.pop(place, None) is None:
            return
        self.waiting -= 1
        if not line.waiting:
            self._empty += 1
            self._tidy()

    def _tidy(self) -> None:
        """Forget empty lines once they are the most: those of groups that are judged no more."""
        if self._empty > _FEWEST_TO_TIDY and self._empty * 2 > len(self._queue):
            kept = [entry for entry in self._queue if entry[1].waiting]
            for _, line in self._queue:
                line.is_queued = bool(line.waiting)
            heapify(kept)
            self._queue, self._empty = kept, 0

    def _head(self) -> Line | None:
        """The line whose turn it is."""
        while self._queue:
            line = self._queue[0][1]
            if line.waiting:
                return line
            heappop(self._queue)
            line.is_queued = False
            self._empty -= 1
        return None

    def _give(self) -> None:
        """Give every place that may be given now; where time stands in the way, come back then."""
        while (line := self._head()) is not None:
            now = self._now()
            desk = self._free_desk(now)
            if desk is None:
                self._come_back(now)
                return
            place = next(iter(line.waiting))
            tokens = line.waiting.pop(place)
            self.waiting -= 1
            if not place.done():  # else it was cancelled, and its caller is about to learn of it
                place.set_result(self._seat(desk, line, tokens, now))
            if not line.waiting or line.stamp != self._queue[0][0]:
                heappop(self._queue)
                line.is_queued = bool(line.waiting)
                if line.is_queued:
                    heappush(self._queue, (line.stamp, line))

    def _seat(self, desk: Desk, line: Line, tokens: float, now: float) -> Place:
        self._seated += 1
        desk.last = self._seated
        line.had += 1
        if line.had % TURN == 0:
            self._stamp += 1
            line.stamp = self._stamp + (_EARLY if line.stamp > _EARLY else 0)
        return desk.seat(tokens, now)

    # -- the desks -------------------------------------------------------------------------------------------------

    def _free_desk(self, now: float) -> Desk | None:
        if len(self.desks) == 1:
            desk = self.desks[0]
            return desk if desk.wait_s(now) <= 0 else None
        free = [desk for desk in self._candidates(now) if desk.wait_s(now) <= 0]
        return min(free, key=lambda desk: (desk.load, desk.last), default=None)

    def _candidates(self, now: float) -> Sequence[Desk]:
        """Who may be asked. Where nobody is living, the outcome of a trial is waited for, or else all are asked."""
        if len(self.desks) == 1:
            return self.desks
        unclosed = [desk for desk in self.desks if not desk.is_closed] or self.desks
        living = [desk for desk in unclosed if desk.is_living(now)]
        return living or ([] if any(desk.is_on_trial for desk in unclosed) else unclosed)

    def _come_back(self, now: float) -> None:
        waits = [desk.wait_s(now) for desk in self._candidates(now)]
        waits += [desk.living_in_s(now) for desk in self.desks if len(self.desks) > 1]  # the only one is never left out
        soonest = min((wait for wait in waits if 0 < wait < NEVER), default=NEVER)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if soonest < NEVER:
            self._timer = self._later(soonest, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._give()
