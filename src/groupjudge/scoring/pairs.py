"""Which pairs of a group are judged, and in which order (J1, J2, F1).

A schedule lists the pairs of slots that are asked of each judge, (first seat, second seat), none of them twice. To add
one, write its function and name it in `SCHEDULES`. `adaptive` begins with `circular` and goes on round by round
(`adaptive.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import TypeAlias

from groupjudge.model import Pair, Slot

Seats: TypeAlias = tuple[Slot, Slot]
"""Who sits in the first and who in the second seat."""


@dataclass(frozen=True, slots=True)
class PairRules:
    """The part of the configuration that says which pairs are judged (`comparison`, same names and defaults).

    `calls_per_answer` is for `circulant`, and for `adaptive` where `budget_calls` is None; a budget counts all calls of
    a group, `judges_per_pair` and `both_orders` included. `seed` (0 <= seed < 2**64) fixes the order within the rounds
    of `adaptive`.
    """

    strategy: str = "circular"
    judges_per_pair: int = 1
    calls_per_answer: int = 3
    both_orders: bool = False
    budget_calls: int | None = None
    seed: int = 0

    @property
    def calls_a_pair(self) -> int:
        """How many calls one pair of a schedule costs, as far as its swapped twin is not in the schedule itself."""
        return self.judges_per_pair * (2 if self.both_orders else 1)


Schedule: TypeAlias = Callable[[int, PairRules], Iterable[Seats]]
"""The size of a group (>= 2) and the rules -> its pairs, in the order in which they are listed."""


def _circular(size: int, _: PairRules) -> Iterable[Seats]:
    return ((slot, (slot + 1) % size) for slot in range(size))


def _all_pairs(size: int, _: PairRules) -> Iterable[Seats]:
    return combinations(range(size), 2)


def _circulant(size: int, rules: PairRules) -> Iterable[Seats]:
    steps = circulant_steps(size, rules.calls_per_answer)
    return ((slot, (slot + step) % size) for step in steps for slot in range(size))


SCHEDULES: Mapping[str, Schedule] = MappingProxyType(
    {"circular": _circular, "all_pairs": _all_pairs, "circulant": _circulant, "adaptive": _circular}
)


def circulant_steps(size: int, count: int) -> list[int]:
    """`count` steps s of the pairs (i, i + s mod size), at most size - 1 of them; 1 is always among them, so that the
    graph of pairs is connected.

    They lie near size**(t / count) for t = 0, 1, ..., as the digits of a number do: what one step leaves far apart the
    next one brings near. For groups of up to 32 the mean resistance between two answers, which is how uncertain their
    difference stays, is within 3 % of the best circulant's. Steps beyond half the size are earlier
    ones with the seats swapped, and come last.
    """
    half = (size - 1) // 2
    steps: list[int] = []
    for t in range(min(count, half)):
        wanted = round(size ** (t / count))
        wanted = min(wanted, size - wanted)
        free = (step for step in range(1, half + 1) if step not in steps)
        steps.append(min(free, key=lambda step: (abs(step - wanted), step)))
    swapped = [size // 2] if size % 2 == 0 else []
    swapped += [size - step for step in steps]
    return (steps + swapped)[:count]


def planned_pairs(
    size: int,
    strategy: str,
    judges_per_pair: int,
    *,
    calls_per_answer: int = 3,
    both_orders: bool = False,
) -> list[Pair]:
    """The comparisons of a group of `size` answers; of `adaptive` those of the first round. See `first_pairs`."""
    return first_pairs(
        size, PairRules(strategy, judges_per_pair, calls_per_answer=calls_per_answer, both_orders=both_orders)
    )


def first_pairs(size: int, rules: PairRules) -> list[Pair]:
    """The comparisons with which a group of `size` answers begins: all of them, unless its strategy is `adaptive`.

    Ordered by judge index, then as the strategy lists the pairs (those of `both_orders` after all others). A group of
    one or none has nothing to compare. Raises ValueError for a strategy that is not in `SCHEDULES`.
    """
    try:
        schedule = SCHEDULES[rules.strategy]
    except KeyError:
        raise ValueError(f"no strategy {rules.strategy!r}; there are: {', '.join(sorted(SCHEDULES))}") from None
    if size < 2:
        return []
    return for_each_judge(list(schedule(size, rules)), rules)


def for_each_judge(pairs: Sequence[Seats], rules: PairRules) -> list[Pair]:
    """These pairs, swapped too where the rules say so and they are not there already, for each judge index."""
    listed = list(pairs)
    if rules.both_orders:
        there = set(pairs)
        listed += [(j, i) for i, j in pairs if (j, i) not in there]
    return [Pair(i, j, judge) for judge in range(rules.judges_per_pair) for i, j in listed]


def planned_calls(size: int, rules: PairRules) -> int:
    """How many calls a group of `size` costs when every one brings a verdict at once."""
    first = len(first_pairs(size, rules))
    if rules.strategy != "adaptive" or size < 2:
        return first
    budget = size * rules.calls_per_answer if rules.budget_calls is None else rules.budget_calls
    all_orders = size * (size - 1) * rules.judges_per_pair
    return max(first, min(budget - budget % rules.calls_a_pair, all_orders))
