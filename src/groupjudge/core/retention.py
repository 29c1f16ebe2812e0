"""The two bounded stores of what is remembered of finished groups (L17, L18).

Both are kept in the order in which their entries will be evicted, so that eviction looks at what it evicts, and at one
entry more: its cost does not depend on how much is retained.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar

from groupjudge.core.phases import Phase
from groupjudge.core.seats import Seats
from groupjudge.model import Attempt, Fingerprint, GroupId, GroupKey, Judgement, Outcome, Run


class Result(NamedTuple):
    """A finished group: who sat where and what each got, without any answer. `judgement` is there where it
    completed; `since` is when it finished."""

    key: GroupKey
    attempt: Attempt
    run: Run
    phase: Phase
    question: Fingerprint
    seats: Seats
    outcomes: tuple[Outcome, ...]
    judgement: Judgement | None
    started: float
    complete_since: float | None
    since: float


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


class Store(Generic[K, V]):
    """At most `limit` entries, each younger than `ttl_s` (None: of any age), the oldest first. Entries must be put in
    the order of their `since`. Before `quiet_until` nothing is over age: the bound may be lower than the next expiry,
    never higher, and costs nothing to ask."""

    def __init__(self, limit: int, ttl_s: float | None) -> None:
        self.quiet_until = inf
        self._limit = limit
        self._ttl_s = inf if ttl_s is None else ttl_s
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(self._entries.items())

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, entry: V) -> None:
        """Enter or renew: the entry is the newest now."""
        self._entries[key] = entry
        self._entries.move_to_end(key)
        self.quiet_until = min(self.quiet_until, entry.since + self._ttl_s)

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)

    def next_expiry(self) -> float | None:
        """When the oldest entry reaches the age limit."""
        expiry = self._oldest_expires()
        return None if expiry == inf else expiry

    def evict(self, now: float) -> None:
        """Drop what is too old (an age of exactly the limit is) and what is too many, the oldest first."""
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        if now >= self.quiet_until:
            while (expiry := self._oldest_expires()) <= now:
                self._entries.popitem(last=False)
            self.quiet_until = expiry

    def _oldest_expires(self) -> float:
        return next(iter(self._entries.values())).since + self._ttl_s if self._entries else inf


Results = Store[GroupKey, Result]
Records = Store[GroupId, Record]
