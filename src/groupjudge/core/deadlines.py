"""The deadlines of all active groups: at most one a run, given out in order of time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

from groupjudge.model import Run

_SLACK = 64


class Deadlines:
    """A heap with lazy removal. Equal times come out in the order they were set. Before `quiet_until` nothing is due:
    the bound may be lower than the earliest deadline, never higher, and costs nothing to ask."""

    def __init__(self) -> None:
        self.quiet_until = inf
        self._current: dict[Run, int] = {}
        self._heap: list[tuple[float, int, Run]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, run: Run) -> bool:
        return run in self._current

    def set(self, run: Run, when: float) -> None:
        """Set the run's deadline, in place of an earlier one."""
        self._count += 1
        self._current[run] = self._count
        heappush(self._heap, (when, self._count, run))
        self.quiet_until = self._heap[0][0]
        self._tidy()

    def cancel(self, run: Run) -> None:
        """The run has no deadline any more."""
        self._current.pop(run, None)
        self._tidy()

    def next(self) -> float | None:
        """The earliest deadline, if any."""
        while self._heap and not self._is_current(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> tuple[float, Run] | None:
        """Take the earliest deadline that is not after `now`."""
        earliest = self.next()
        if earliest is None or earliest > now:
            self.quiet_until = inf if earliest is None else earliest
            return None
        when, _, run = heappop(self._heap)
        del self._current[run]
        return when, run

    def _is_current(self, entry: tuple[float, int, Run]) -> bool:
        _, count, run = entry
        return self._current.get(run) == count

    def _tidy(self) -> None:
        """Rebuild once removed entries outnumber the others, so that the heap stays in proportion."""
        if len(self._heap) > 2 * len(self._current) + _SLACK:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapify(self._heap)
