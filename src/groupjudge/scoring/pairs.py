"""Which pairs of a group are judged, and in which order (J1, J2).

A schedule lists the pairs of slots of one round, (first seat, second seat). To add one, write its function and name it
in `SCHEDULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from types import MappingProxyType
from typing import TypeAlias

from groupjudge.model import Pair, Slot

Schedule: TypeAlias = Callable[[int], Iterable[tuple[Slot, Slot]]]
"""The size of a group (>= 2) -> its pairs, in the order in which they are listed."""


def _circular(size: int) -> Iterable[tuple[Slot, Slot]]:
    return ((slot, (slot + 1) % size) for slot in range(size))


def _all_pairs(size: int) -> Iterable[tuple[Slot, Slot]]:
    return combinations(range(size), 2)


SCHEDULES: Mapping[str, Schedule] = MappingProxyType({"circular": _circular, "all_pairs": _all_pairs})


def planned_pairs(size: int, strategy: str, judges_per_pair: int) -> list[Pair]:
    """The comparisons of a group of `size` answers, `judges_per_pair` (>= 1) of each pair of the strategy.

    Ordered by judge index, then as the strategy lists the pairs. A group of one or none has nothing to compare. Raises
    ValueError for a strategy that is not in `SCHEDULES`.
    """
    try:
        schedule = SCHEDULES[strategy]
    except KeyError:
        raise ValueError(f"no strategy {strategy!r}; there are: {', '.join(sorted(SCHEDULES))}") from None
    if size < 2:
        return []
    return [Pair(i, j, judge) for judge in range(judges_per_pair) for i, j in schedule(size)]
