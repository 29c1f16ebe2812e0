"""What must hold in a book after every step: all of it in one place, looked up the slow way.

For tests after each step, and for production after a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from groupjudge.core.census import Census
from groupjudge.core.deadlines import Deadlines
from groupjudge.core.group import Group
from groupjudge.core.memory import Memory
from groupjudge.core.phases import Phase
from groupjudge.core.retention import Records, Results
from groupjudge.model import GroupKey, Run, Ticket


class Inside(NamedTuple):
    """Everything that a book holds."""

    active: Mapping[GroupKey, Group]
    by_run: Mapping[Run, Group]
    held: Mapping[Run, Group]
    waiting: Mapping[Ticket, Group]
    deadlines: Deadlines
    memory: Memory
    census: Census
    now: float
    is_closed: bool
    is_holding: bool


def check_book(book: Inside) -> None:
    """Raise AssertionError where an invariant does not hold. Looks at everything."""
    for key, group in book.active.items():
        _check_group(book, key, group)
    _check_indexes(book)
    _check_memory(book.memory, lambda key: key not in book.active, book.now)
    _check_sessions(book)
    book.census.check({group.run: group.phase for group in book.active.values()})


def _check_group(book: Inside, key: GroupKey, group: Group) -> None:
    assert key == group.key, "a group is filed under another key"
    complete = group.seats.taken == group.seats.size
    assert group.seats.taken == len(group.seats.present()) > 0, "a group's members are miscounted"
    is_judged = group.phase is not Phase.COLLECTING
    assert is_judged == (complete or group.size_judged is not None), "a group is judged exactly once it is complete"
    assert group.size_judged in (None, group.seats.taken), "a member was added to those that are judged"
    assert not complete or group.size_judged is None, "a complete group passes for a part of one"
    assert book.by_run.get(group.run) is group, "the index by run differs from the active groups"
    assert (group.run in book.held) == (group.phase is Phase.HELD), "held index and phase differ"
    assert (group.run in book.deadlines) == (group.phase is not Phase.HELD), "a deadline is missing or left over"
    assert group.phase is not Phase.HELD or book.is_holding, "a group is held while nothing holds"
    for ticket, slot in group.callers.items():
        assert book.waiting.get(ticket) is group, "a caller is not known as waiting"
        if slot is None:
            assert complete, "a caller waits for all of an incomplete group"
        else:
            assert group.seats.answers[slot] is not None, "a caller waits for an empty slot"


def _check_indexes(book: Inside) -> None:
    active = len(book.active)
    assert not (book.is_closed and active), "a group is active after the shutdown"
    assert len(book.by_run) == active, "a finished group is left in the index by run"
    assert len(book.waiting) == sum(len(g.callers) for g in book.active.values()), "a stray caller is waiting"
    held = sum(group.phase is Phase.HELD for group in book.active.values())
    assert len(book.held) == held, "a finished group is still held"
    assert len(book.deadlines) == active - len(book.held), "a deadline of a finished group is left"
    due = book.deadlines.next()
    assert due is None or book.deadlines.quiet_until <= due, "the deadlines promise too long a quiet"


def _check_memory(memory: Memory, is_idle: Callable[[GroupKey], bool], now: float) -> None:
    _check_store(memory.results, is_idle, now)
    _check_store(memory.records, is_idle, now)
    for key, result in memory.results:
        assert key == result.key, "a result is filed under another key"
        assert len(result.outcomes) == result.seats.size, "a result has another number of outcomes than slots"
        assert result.seats.taken == len(result.seats.present()) > 0, "a result's members are miscounted"
        record = memory.records.get(key) if isinstance(key, str) else None
        assert record is None or record.question == result.question, "record and result name different questions"


def _check_store(store: Results | Records, is_idle: Callable[[GroupKey], bool], now: float) -> None:
    store.check(now)
    assert all(is_idle(key) for key, _ in store), "an active group has a finished one's entry"


def _check_sessions(book: Inside) -> None:
    """Every session is in the backing of a group that is active, or of a result that can be exported."""
    holders = [group.backing for group in book.active.values() if group.backing is not None]
    holders += [result.backing for _, result in book.memory.results if result.backing is not None]
    for backing in holders:
        for session in backing.sessions:
            assert book.memory.backings.get(session) is backing, "a session is not filed where it is backed"
    assert len(book.memory.backings) == sum(len(b.sessions) for b in holders), "a session backs a group that is gone"
    for _, result in book.memory.results:
        for slot in result.backing.unreplayed if result.backing is not None else ():
            assert result.seats.answers[slot] is not None, "a member that waits for its replay is gone"
            assert result.backing is not None
            assert result.backing.backs(slot), "nobody is left to replay a member"
