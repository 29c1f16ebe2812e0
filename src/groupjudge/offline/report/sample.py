"""The groups that a page shows with their texts: a few of each kind, texts cut, so that no file makes a huge page."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from groupjudge.model import Conversation
from groupjudge.offline.groups import FileGroup, written
from groupjudge.offline.report.sums import spread_of
from groupjudge.offline.report.verdicts import Said, at_odds, plain_errors

OF_EACH = 10
ANSWERS_AT_MOST = 24
TEXT_AT_MOST = 4000
QUESTION_AT_MOST = 4000

Row = dict[str, Any]
Verdicts = Sequence[Said | None]


class Found(NamedTuple):
    """A group as it came. `order` makes every one differ, so that no more than it is compared."""

    weight: float
    order: int
    group: FileGroup
    row: Row
    verdicts: Verdicts


class Sample:
    """The first groups, those with the widest spread of rewards, those whose verdicts disagree most with their rewards,
    some with all rewards equal, some with default scores, and some by chance (from a fixed seed)."""

    def __init__(self, of_each: int = OF_EACH) -> None:
        self._of_each = of_each
        self._chance = random.Random(0)
        self._heaps: dict[str, list[Found]] = {kind: [] for kind in _KINDS}

    def add(self, group: FileGroup, row: Row, verdicts: Verdicts) -> None:
        """One more group to choose from."""
        chance = self._chance.random()
        for kind, weigh in _KINDS.items():
            weight = weigh(group, row, verdicts, chance)
            if weight is not None:
                self._offer(kind, Found(weight, -group.line, group, row, verdicts))

    def _offer(self, kind: str, found: Found) -> None:
        heap = self._heaps[kind]
        if len(heap) < self._of_each:
            heapq.heappush(heap, found)
        elif heap[0][:2] < found[:2]:
            heapq.heapreplace(heap, found)

    def shown(self) -> list[Row]:
        """The chosen groups as the page has them, each once with all that it was chosen for."""
        kinds: dict[int, list[str]] = {}
        groups: dict[int, Found] = {}
        for kind, found in self._chosen():
            kinds.setdefault(found.group.line, []).append(kind)
            groups[found.group.line] = found
        return [_shown(groups[line], kinds[line]) for line in kinds]

    def _chosen(self) -> Iterator[tuple[str, Found]]:
        for kind, heap in self._heaps.items():
            for found in sorted(heap, reverse=True):
                yield kind, found


Weigh = Callable[[FileGroup, Row, Verdicts, float], float | None]
"""How much a group is of a kind; None where it is not at all."""


def _first(group: FileGroup, row: Row, verdicts: Verdicts, chance: float) -> float | None:
    return -group.line


def _wide(group: FileGroup, row: Row, verdicts: Verdicts, chance: float) -> float | None:
    return spread_of(row["rewards"]) or None


def _torn(group: FileGroup, row: Row, verdicts: Verdicts, chance: float) -> float | None:
    return at_odds(verdicts, row["rewards"]) or None


def _level(group: FileGroup, row: Row, verdicts: Verdicts, chance: float) -> float | None:
    return 0.0 if len(row["rewards"]) > 1 and spread_of(row["rewards"]) == 0 else None


def _defaulted(group: FileGroup, row: Row, verdicts: Verdicts, chance: float) -> float | None:
    return sum(verdict is None for verdict in verdicts) if row.get("failure_kind") is not None else None


def _chance(group: FileGroup, row: Row, verdicts: Verdicts, chance: float) -> float | None:
    return chance


_KINDS: dict[str, Weigh] = {
    "first in the file": _first,
    "widest spread of rewards": _wide,
    "verdicts at odds with the rewards": _torn,
    "all rewards equal": _level,
    "with default scores": _defaulted,
    "by chance": _chance,
}


def _shown(found: Found, kinds: list[str]) -> Row:
    group, row = found.group, found.row
    members = _members_shown(row["rewards"])
    errors = row.get("standard_errors") or plain_errors(found.verdicts, len(row["rewards"]))
    return {
        "line": group.line,
        "id": group.id,
        "kinds": kinds,
        "question": _question(group.topic.conversation),
        "size": len(row["rewards"]),
        "members": [_member(found, place, errors[place]) for place in members],
        "verdicts": _verdicts(found.verdicts, {place: index for index, place in enumerate(members)}),
        "note": row.get("failure_reason"),
    }


def _members_shown(rewards: Sequence[float]) -> list[int]:
    """The places of the members that are shown, the best first; of a large group the best and the worst."""
    order = sorted(range(len(rewards)), key=lambda place: (-rewards[place], place))
    if len(order) <= ANSWERS_AT_MOST:
        return order
    half = ANSWERS_AT_MOST // 2
    return order[:half] + order[-half:]


def _member(found: Found, place: int, error: float | None) -> Row:
    text = written(found.group.texts[place])
    return {
        "slot": found.group.slots[place],
        "reward": found.row["rewards"][place],
        "error": error,
        "length": len(text),
        "reasoning": len(found.group.texts[place].reasoning),
        "answer": text[:TEXT_AT_MOST],
    }


def _question(conversation: Conversation) -> list[Row]:
    """The end of a long conversation, which is what was asked."""
    turns: list[Row] = []
    left = QUESTION_AT_MOST
    for message in reversed(conversation):
        if left <= 0:
            turns.append({"role": "", "content": "earlier turns are not shown"})
            break
        text = message.content[:left]
        left -= len(text)
        turns.append({"role": message.role, "content": text + (" ..." if len(text) < len(message.content) else "")})
    return turns[::-1]


def _verdicts(verdicts: Verdicts, places: dict[int, int]) -> list[list[float]]:
    """`[first, second, score, score, ranking, lead]` of those between members that are shown, by their index there."""
    return [
        [places[v.i], places[v.j], v.score_1, v.score_2, v.ranking, v.lead]
        for v in verdicts
        if v and v.i in places and v.j in places
    ]
