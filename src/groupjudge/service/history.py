"""What happened in the last hour, minute by minute, in memory that does not grow.

Each minute has a place in a ring and is written over an hour later. Durations are counted in buckets whose bounds grow
by a fixed ratio, so that a quantile is right within that ratio; nothing is kept of a single request but the latest
errors.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from groupjudge.core.census import OUTCOMES

MINUTES = 60
RATIO = 1.25
BOUNDS = tuple(0.001 * RATIO**n for n in range(66))
"""Upper bounds in seconds, from a millisecond to half an hour."""
TRY_RESULTS = ("ok", "unreadable", "unfinished", "transport", "rejected", "deadline")
"""How a request to the judge can end (`JudgeEvents.tried`)."""
_REPLIED = frozenset(("ok", "unreadable", "unfinished"))
_LATEST = 20


class Minute:
    """What happened in one minute; `number` counts minutes of the clock."""

    __slots__ = ("ended", "high", "lag", "latencies", "low", "number", "rewards", "total", "tries")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = dict.fromkeys(OUTCOMES, 0)
        self.rewards, self.total, self.low, self.high = 0, 0.0, inf, -inf
        self.tries = dict.fromkeys(TRY_RESULTS, 0)
        self.latencies = [0] * (len(BOUNDS) + 1)
        self.lag = 0.0


class History:
    """The last hour. `clock` gives seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ring: list[Minute | None] = [None] * MINUTES
        self._ended: dict[str, int] = {}
        self._errors: deque[tuple[float, str, int | None]] = deque(maxlen=_LATEST)
        self._failures: deque[tuple[float, str, int, str]] = deque(maxlen=_LATEST)

    # -- what is told ----------------------------------------------------------------------------------------------

    def rewarded(self, rewards: Sequence[float]) -> None:
        """A group has its rewards."""
        if not rewards:
            return
        minute = self._minute()
        minute.rewards += len(rewards)
        minute.total += sum(rewards)
        minute.low = min(minute.low, *rewards)
        minute.high = max(minute.high, *rewards)

    def tried(self, result: str, status: int | None, seconds: float) -> None:
        """A request to the judge ended."""
        minute = self._minute()
        minute.tries[result] = minute.tries.get(result, 0) + 1
        if result in _REPLIED:
            minute.latencies[bisect_left(BOUNDS, seconds)] += 1
        if result != "ok":
            self._errors.append((self._clock(), result, status))

    def failed(self, group: str, attempt: int, why: str) -> None:
        """Judging a group failed."""
        self._failures.append((self._clock(), group, attempt, why))

    def looked(self, lag_s: float, ended: Mapping[str, int]) -> None:
        """The event loop was late by so much; so many groups have ended in all. Told several times a second."""
        minute = self._minute()
        minute.lag = max(minute.lag, lag_s)
        for outcome, count in ended.items():
            new = count - self._ended.get(outcome, 0)
            if new:
                minute.ended[outcome] = minute.ended.get(outcome, 0) + new
                self._ended[outcome] = count

    # -- what is shown ---------------------------------------------------------------------------------------------

    def hour(self) -> dict[str, list[Any]]:
        """A list of 60 for each thing, the oldest minute first, the last one still going on. Null: nothing to tell."""
        rows = [_shown(minute) for minute in self._minutes()]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def over_all(self) -> dict[str, Any]:
        """The whole hour in one."""
        whole = Minute(-1)
        for each in self._minutes():
            for mine, its in ((whole.ended, each.ended), (whole.tries, each.tries)):
                for name, count in its.items():
                    mine[name] = mine.get(name, 0) + count
            whole.latencies = [a + b for a, b in zip(whole.latencies, each.latencies, strict=True)]
            whole.rewards += each.rewards
            whole.total += each.total
            whole.low, whole.high = min(whole.low, each.low), max(whole.high, each.high)
            whole.lag = max(whole.lag, each.lag)
        return {**_shown(whole), "outcomes": whole.ended, "tries_by_result": whole.tries}

    def errors(self) -> list[dict[str, Any]]:
        """The judge's latest errors, the newest first: no text of it (L26)."""
        now = self._clock()
        shown = [{"ago_s": round(now - at, 1), "result": what, "status": code} for at, what, code in self._errors]
        return shown[::-1]

    def failures(self) -> list[dict[str, Any]]:
        """The groups whose judging failed last, the newest first."""
        now = self._clock()
        shown = [
            {"ago_s": round(now - at, 1), "group": g, "attempt": n, "why": why} for at, g, n, why in self._failures
        ]
        return shown[::-1]

    def _minute(self) -> Minute:
        number = int(self._clock() // 60)
        minute = self._ring[number % MINUTES]
        if minute is None or minute.number != number:
            minute = self._ring[number % MINUTES] = Minute(number)
        return minute

    def _minutes(self) -> Iterator[Minute]:
        """The last 60 minutes, the oldest first."""
        last = int(self._clock() // 60)
        for number in range(last - MINUTES + 1, last + 1):
            minute = self._ring[number % MINUTES]
            yield minute if minute is not None and minute.number == number else Minute(number)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """The duration in seconds below which that share of the counted ones lies; None where none was counted."""
    wanted = share * sum(counts)
    if wanted == 0:
        return None
    seen = 0
    for place, count in enumerate(counts):
        if count and seen + count >= wanted:
            high = BOUNDS[min(place, len(BOUNDS) - 1)]
            return high * float(RATIO ** ((wanted - seen) / count - 1))
        seen += count
    return BOUNDS[-1]


def _shown(minute: Minute) -> dict[str, Any]:
    has_rewards = minute.rewards > 0
    completed, judge_failed = minute.ended["completed"], minute.ended["judge_failed"]
    return {
        "completed": completed,
        "judge_failed": judge_failed,
        "group_failed": sum(minute.ended.values()) - completed - judge_failed,
        "rewards": minute.rewards,
        "reward_mean": round(minute.total / minute.rewards, 4) if has_rewards else None,
        "reward_min": minute.low if has_rewards else None,
        "reward_max": minute.high if has_rewards else None,
        "tries": sum(minute.tries.values()),
        "errors": sum(minute.tries.values()) - minute.tries["ok"],
        "latency_p50_s": _rounded(quantile(minute.latencies, 0.5)),
        "latency_p95_s": _rounded(quantile(minute.latencies, 0.95)),
        "lag_max_s": round(minute.lag, 4),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
