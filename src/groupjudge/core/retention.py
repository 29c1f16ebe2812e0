"""The two bounded stores of what is remembered of finished groups (L17, L18).

Both are kept in the order in which their entries will be evicted, so that eviction looks at what it evicts, and at one
entry more: its cost does not depend on how much is retained.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar

from groupjudge.core.backing import Backing
from groupjudge.core.group import Group
from groupjudge.core.phases import Phase
from groupjudge.core.seats import Seats
from groupjudge.model import Attempt, Fingerprint, GroupId, GroupKey, Judgement, Outcome, Run


class Result(NamedTuple):
    """A finished group: who sat where and what each got, without any answer. `judgement` is there where it
    completed, `backing` where it has an id; `since` is when it finished."""

    key: GroupKey
    attempt: Attempt
    run: Run
    phase: Phase
    question: Fingerprint
    seats: Seats
    outcomes: tuple[Outcome, ...]
    judgement: Judgement | None
    backing: Backing | None
    started: float
    complete_since: float | None
    since: float

    @classmethod
    def of(cls, group: Group, outcomes: tuple[Outcome, ...], judgement: Judgement | None, now: float) -> Result:
        """What is kept of a group that has finished."""
        named = (group.key, group.attempt, group.run, group.phase, group.question)
        times = (group.started, group.complete_since, now)
        return cls(*named, group.seats, outcomes, judgement, group.backing, *times)


class Record(NamedTuple):
    """The newest attempt of an idle group id. `since` is the later of its finish and its last replay (L18)."""

    attempt: Attempt
    question: Fingerprint
    since: float


class _Dated(Protocol):
    @property
    def since(self) -> float: ...


K = TypeVar("K")
V = TypeVar("V", bound=_Dated)


def _nobody(_: object) -> bool:
    return False


class Store(Generic[K, V]):
    """At most `limit` entries, each younger than `ttl_s` (None: of any age), the oldest first. Entries must be put in
    the order of their `since`. Before `quiet_until` nothing is over age: the bound may be lower than the next expiry,
    never higher, and costs nothing to ask.

    An entry that is up for eviction while `is_needed` says so is *spared* (C18): it steps out of the queue, which is
    always newer than it, and is tested again when `recheck` says that the need may be over. If it is not up for
    eviction then (entries newer than it were dropped meanwhile) it stays, *loose*, and is tested from then on.
    """

    def __init__(self, limit: int, ttl_s: float | None, is_needed: Callable[[K], bool] = _nobody) -> None:
        self.quiet_until = inf
        self._limit = limit
        self._ttl_s = inf if ttl_s is None else ttl_s
        self._is_needed = is_needed
        self._queue: OrderedDict[K, V] = OrderedDict()
        self._spared: dict[K, tuple[int, V]] = {}
        self._places: list[int] = []
        self._loose: list[tuple[int, K]] = []
        self._last_place = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._spared)

    def __iter__(self) -> Iterator[tuple[K, V]]:
        yield from ((key, entry) for key, (_, entry) in self._spared.items())
        yield from self._queue.items()

    def newest(self) -> Iterator[V]:
        """The entries, the last to be evicted first."""
        yield from reversed(self._queue.values())
        yield from (entry for _, entry in reversed(self._spared.values()))

    @property
    def spared(self) -> int:
        """How many entries are retained beyond their time or number."""
        return len(self._spared)

    def get(self, key: K) -> V | None:
        """The entry of `key`, where it is retained."""
        entry = self._queue.get(key)
        if entry is None and self._spared and key in self._spared:
            return self._spared[key][1]
        return entry

    def put(self, key: K, entry: V) -> None:
        """Enter or renew: the entry is the newest now."""
        if self._spared:
            self._unspare(key)
        self._queue[key] = entry
        self._queue.move_to_end(key)
        self.quiet_until = min(self.quiet_until, entry.since + self._ttl_s)

    def drop(self, key: K) -> None:
        """Forget the entry of `key`, if any."""
        if self._queue.pop(key, None) is None and self._spared:
            self._unspare(key)

    def next_expiry(self) -> float | None:
        """When the oldest entry that nobody needs, as far as was asked, reaches the age limit."""
        expiry = min(self._oldest_expires(), self._loose_expires())
        return None if expiry == inf else expiry

    def evict(self, now: float) -> None:
        """Drop what is too old (an age of exactly the limit is) and what is too many, the oldest first."""
        while len(self._queue) > self._limit:
            self._drop_or_spare()
        expiry = 0.0
        if is_due := now >= self.quiet_until:
            while (expiry := self._oldest_expires()) <= now:
                self._drop_or_spare()
        while self._loose and self._is_up(self._loose[0][1], now):
            _, key = heappop(self._loose)
            if not self._is_needed(key):
                self._unspare(key)
        if is_due:
            self.quiet_until = min(expiry, self._loose_expires())

    def recheck(self, key: K, now: float) -> None:
        """The need of `key` may be over: drop it where it is up for eviction, or test it from now on."""
        if key not in self._spared or self._is_needed(key):
            return
        if self._is_up(key, now):
            self._unspare(key)
        elif (place := self._spared[key][0], key) not in self._loose:
            heappush(self._loose, (place, key))
            self.quiet_until = min(self.quiet_until, self._spared[key][1].since + self._ttl_s)

    def check(self, now: float) -> None:
        """Raise AssertionError where an invariant of the store does not hold."""
        assert len(self._queue) <= self._limit, "a store holds more than its limit"
        dates = [entry.since for _, entry in self]
        assert dates == sorted(dates), "a store is out of order"
        expiry = self.next_expiry()
        assert expiry is None or expiry > now, "an entry of the age limit is retained"
        assert expiry is None or self.quiet_until <= expiry, "a store promises too long a quiet"
        assert self._places == [place for place, _ in self._spared.values()], "the places of spared entries differ"
        loose = {key for _, key in self._loose}
        assert loose <= self._spared.keys(), "an entry is loose that is not spared"
        for key in self._spared:
            assert key in loose or self._is_needed(key), "an entry is spared that nobody needs"

    def _drop_or_spare(self) -> None:
        key, entry = next(iter(self._queue.items()))
        is_needed = self._is_needed(key)  # asked while it is still there: its entry may be part of the answer
        del self._queue[key]
        if is_needed:
            self._last_place += 1
            self._spared[key] = (self._last_place, entry)
            self._places.append(self._last_place)

    def _unspare(self, key: K) -> None:
        spared = self._spared.pop(key, None)
        if spared is not None:
            del self._places[bisect_left(self._places, spared[0])]
            if (spared[0], key) in self._loose:
                self._loose.remove((spared[0], key))
                heapify(self._loose)

    def _is_up(self, key: K, now: float) -> bool:
        """Whether a spared entry is too old, or as many newer ones as the limit are retained."""
        place, entry = self._spared[key]
        newer = len(self._queue) + len(self._places) - bisect_right(self._places, place)
        return newer >= self._limit or entry.since + self._ttl_s <= now

    def _oldest_expires(self) -> float:
        return next(iter(self._queue.values())).since + self._ttl_s if self._queue else inf

    def _loose_expires(self) -> float:
        return self._spared[self._loose[0][1]][1].since + self._ttl_s if self._loose else inf


Results = Store[GroupKey, Result]
Records = Store[GroupId, Record]
