"""Which lists of a group are judged where one call scores a list (F9), and the pairs that a list stands for.

A group that fits into one list is one. A larger one is shuffled, laid in a circle, and cut into windows of nearly equal
size, each of which shares its last `overlap` answers with the next: through these all scores can be set beside each
other, though one call may be more lenient than another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations, pairwise

from groupjudge.model import Listing, Pair, Slot


@dataclass(frozen=True, slots=True)
class ListRules:
    """The part of the configuration that says which lists are judged. A list has at most `size` answers (2 or more),
    and shares `overlap` with the next (1 <= overlap < size). The whole group is asked for `repetitions` times, each
    time in another order and cut in other places."""

    size: int = 8
    overlap: int = 2
    repetitions: int = 1


def planned_lists(slots: Sequence[Slot], rules: ListRules, key: bytes) -> list[Listing]:
    """The lists of a group whose distinct answers are in `slots`. The orders are drawn from `key` (at most 64 bytes)
    and nothing else. A group of one or none has nothing to compare."""
    if len(slots) < 2:
        return []
    shown = (window for n in range(rules.repetitions) for window in _windows(_shuffled(slots, n, key), rules))
    return [Listing(window, number) for number, window in enumerate(shown)]


def planned_list_calls(size: int, rules: ListRules) -> int:
    """How many calls a group of `size` distinct answers costs."""
    return rules.repetitions * _parts(size, rules) if size > 1 else 0


def pairs_of(listing: Listing) -> Iterator[Pair]:
    """Each two answers of a list, as they are shown: whoever comes earlier has the first seat. The judge index is the
    number of the call."""
    return (Pair(i, j, listing.judge) for i, j in combinations(listing.slots, 2))


def _shuffled(slots: Sequence[Slot], repetition: int, key: bytes) -> list[Slot]:
    def draw(slot: Slot) -> bytes:
        return blake2b(repetition.to_bytes(8, "big") + slot.to_bytes(8, "big"), key=key).digest()

    return sorted(slots, key=draw)


def _parts(size: int, rules: ListRules) -> int:
    return 1 if size <= rules.size else -(-size // (rules.size - rules.overlap))


def _windows(order: list[Slot], rules: ListRules) -> Iterator[tuple[Slot, ...]]:
    size, parts = len(order), _parts(len(order), rules)
    if parts == 1:
        yield tuple(order)
        return
    for start, end in pairwise(part * size // parts for part in range(parts + 1)):
        yield tuple(order[place % size] for place in range(start, end + rules.overlap))
